//! Servers that make pictures, or answer questions about them, over HTTP.
//!
//! * [`Client`]: one server; asks again when that can help ([`Retry`]), waits as long as the server says, reads no more
//!   than it was told to, and never shows or forwards its [`Key`];
//! * [`chat`]: `chat/completions`, with text and pictures;
//! * [`images`]: servers that make pictures;
//! * `stub`: for tests (feature `stub`), a server that fails in every way.
//!
//! What is paid for should not be paid for twice: a request is sent again only if no answer has come, and
//! [`Ask::once`] gives it a name by which a server can tell that it is the same one.

#![warn(clippy::unwrap_used)]

mod address;
mod ask;
pub mod chat;
mod client;
mod error;
pub mod images;
mod key;
mod meaning;
mod message;
pub mod multipart;
mod retry;
#[cfg(any(test, feature = "stub"))]
pub mod stub;
mod trouble;
mod turn;

pub use address::Address;
pub use ask::{Answer, Ask, Settings, Timeouts};
pub use client::Client;
pub use error::RemoteError;
pub use key::{Key, KeyError};
pub use retry::Retry;
pub use turn::Turn;

/// What an answer that is no success says, in words for people: of bounded length, and without control characters.
pub fn said_of_error(body: &[u8]) -> String {
    trouble::Trouble::read(body).message
}

#[cfg(test)]
mod tests;
