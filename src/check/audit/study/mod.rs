//! Studies with people: what several of them, judges and metrics say of the same things, and how far they agree.
//!
//! A [`sheet`] is what one file says. [`raters`] are its columns, joined by the things that they are about. [`metrics`]
//! compares numbers with what people say (tables 1 and 2 of Why Settle for Mid), [`labels`] words with words (table 13 of
//! Order Is Not Layout, figure 9 of Scene-Bench), [`ratings`] are on scales (table 19 of Order Is Not Layout), and [`ots`]
//! is what each of several judges makes of OTS-Bench (its table 3). [`published`] has the printed figures, and what
//! follows from them.

pub mod labels;
pub mod metrics;
pub mod ots;
pub mod published;
pub mod raters;
pub mod ratings;
pub mod sheet;

#[cfg(test)]
mod tests;
