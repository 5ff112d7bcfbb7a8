//! What can go wrong with a server. No message has a key in it.

use std::time::Duration;

use thiserror::Error;

/// Why there is no answer, or none that can be used.
#[derive(Debug, Error)]
pub enum RemoteError {
    /// Not an address.
    #[error("{address:?} is not the address of a server: {why}")]
    Address {
        /// Without secrets.
        address: String,
        /// What is wrong.
        why: String,
    },
    /// No connection, or one that broke off.
    #[error("no answer from {address}{}: {why}", tries(*attempts))]
    NoAnswer {
        /// Where.
        address: String,
        /// How often it was tried.
        attempts: u32,
        /// What the system says.
        why: String,
    },
    /// Silence for too long.
    #[error("{address} said nothing for {} s{}", seconds.as_secs_f64(), tries(*attempts))]
    Silent {
        /// Where.
        address: String,
        /// How often it was tried.
        attempts: u32,
        /// How long.
        seconds: Duration,
    },
    /// More than can be meant.
    #[error("the answer of {address} is longer than {limit} bytes")]
    TooLong {
        /// Where.
        address: String,
        /// What is read at most.
        limit: u64,
    },
    /// A redirect, which could carry a key or a bill elsewhere.
    #[error("{address} redirects to {target}; if that is the right address, give it instead")]
    Redirect {
        /// Where.
        address: String,
        /// Where to, without secrets.
        target: String,
    },
    /// Something else than JSON, or other JSON than expected.
    #[error("{address} does not answer as {expected} does: {found}; is the address right?")]
    Strange {
        /// Where.
        address: String,
        /// What was expected of it.
        expected: String,
        /// What came.
        found: String,
    },
    /// The key is missing, wrong, or not enough.
    #[error("{address} asks for a key ({status}): {message}; {}", key_hint(variable.as_deref()))]
    Key {
        /// Where.
        address: String,
        /// 401 or 403.
        status: u16,
        /// What the server says.
        message: String,
        /// The variable that the key came from, if one was sent.
        variable: Option<String>,
    },
    /// The account's money or quota is used up.
    #[error("{address} will not go on without payment ({code}): {message}")]
    Payment {
        /// Where.
        address: String,
        /// The server's word for it.
        code: String,
        /// What the server says.
        message: String,
    },
    /// What was asked for is against the server's rules about content.
    #[error("{address} refuses this under its content rules: {message}")]
    Refused {
        /// Where.
        address: String,
        /// The server's word for it.
        code: String,
        /// What the server says.
        message: String,
    },
    /// A language model's text that its server threw away: llama.cpp, if it does not fit the format asked for.
    #[error("{address} had an answer but could not use it: {message}")]
    Unusable {
        /// Where.
        address: String,
        /// What the server says.
        message: String,
    },
    /// The server asks for more patience than there is.
    #[error("{address} asks to wait for {} s ({status}), which is longer than the {} s that were allowed: {message}",
        wait.as_secs(), patience.as_secs())]
    Wait {
        /// Where.
        address: String,
        /// HTTP's.
        status: u16,
        /// How long it asks to wait.
        wait: Duration,
        /// How long would be waited.
        patience: Duration,
        /// What the server says.
        message: String,
    },
    /// Any other status than success.
    #[error("{address} answered {status}{}: {message}", tries(*attempts))]
    Status {
        /// Where.
        address: String,
        /// HTTP's.
        status: u16,
        /// How often it was tried.
        attempts: u32,
        /// What the server says.
        message: String,
        /// The server's word for it.
        code: Option<String>,
        /// The field of the request that it is about.
        param: Option<String>,
    },
    /// The program was asked to stop.
    #[error("interrupted")]
    Stopped,
}

impl RemoteError {
    /// Whether the same request to the same server can do better later: the connection, overload, a fault of the server.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::NoAnswer { .. } | Self::Silent { .. } | Self::Wait { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 409 | 429 | 500..),
            _ => false,
        }
    }

    /// Whether it concerns this request alone, so that others may still be answered.
    pub fn is_of_request(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::Unusable { .. } | Self::TooLong { .. } => true,
            Self::Status { status, .. } => matches!(status, 400 | 413 | 422),
            _ => false,
        }
    }
}

fn tries(attempts: u32) -> String {
    match attempts {
        0 | 1 => String::new(),
        many => format!(" after {many} tries"),
    }
}

fn key_hint(variable: Option<&str>) -> String {
    match variable {
        Some(variable) => format!("the one in {variable} was not accepted"),
        None => "put it into an environment variable and name that".into(),
    }
}
