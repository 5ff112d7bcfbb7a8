//! How far the checker can be trusted, by the word of people: SpatialBench-UC's audit.
//!
//! A [`draw`] of pictures goes into a [`table`]; people label them on a [`page`]; their [`labels`], [`join`]ed with the
//! checker's records, give [`agreement`], among [`annotators`] too, and risk–coverage [`curve`]s, a [`plot`] of them, and a
//! [`grid`] search for the thresholds that go best with what people say, from [`redecide`]d records. A [`study`] compares
//! people, judges and metrics of any kind.
//!
//! Pure functions on text and small host data; reading and writing files is the command line's.

pub mod agreement;
pub mod annotators;
pub mod curve;
pub mod draw;
pub mod grid;
pub mod join;
pub mod labels;
pub mod page;
pub mod plot;
pub mod redecide;
pub mod study;
pub mod table;

/// The text without the byte order mark that some programs put before it.
fn without_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
