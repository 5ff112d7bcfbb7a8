//! What every reader of foreign bytes shares, without any dependency on tensors or the network:
//! regular files only ([`open_regular`], [`read_text`]), text that is safe on a terminal ([`printable`], [`message`]), and
//! addresses without their secrets ([`redact`]).

#![warn(clippy::unwrap_used)]

mod file;
mod text;
mod url;

pub use file::{
    MAX_PICTURE, MAX_TEXT, open_regular, read_regular, read_text, read_text_or_stdin,
    refuse_special,
};
pub use text::{MAX_SHOWN, Printable, escaped, escaped_json, escaped_line, message, printable};
pub use url::{redact, redact_address};
