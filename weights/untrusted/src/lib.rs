//! What every reader of foreign bytes shares, without any dependency on tensors or the network:
//! regular files only ([`open_regular`]), text that is safe on a terminal ([`printable`]), and
//! addresses without their secrets ([`redact`]).

#![warn(clippy::unwrap_used)]

mod file;
mod text;
mod url;

pub use file::{open_regular, read_regular, refuse_special};
pub use text::{MAX_SHOWN, Printable, escaped, escaped_json, printable};
pub use url::{redact, redact_address};
