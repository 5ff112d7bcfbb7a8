//! What answers that are no success mean.

use std::time::Duration;

use prepose_untrusted::printable;
use ureq::http::HeaderMap;

use crate::retry::Asked;
use crate::trouble::Trouble;
use crate::{Address, Client, RemoteError};

/// How a try ended.
pub(super) enum Tried<T> {
    Done(T),
    /// To be tried again, after this time if the server named one.
    Again(RemoteError, Option<Duration>),
    Failed(RemoteError),
}

impl Client {
    pub(super) fn redirect(&self, address: &Address, headers: &HeaderMap) -> RemoteError {
        let target = text(headers, "location").unwrap_or("nowhere");
        let target = prepose_untrusted::redact_address(target);
        RemoteError::Redirect {
            address: address.to_string(),
            target: self.clean(&printable(&target).to_string()),
        }
    }

    /// What an answer with an error means: its status, what it asks for, and what it says.
    pub(super) fn refused<T>(
        &self,
        address: &Address,
        status: u16,
        asked: Asked,
        said: Trouble,
        attempts: u32,
    ) -> Tried<T> {
        let message = self.clean(&said.message);
        let address = address.to_string();
        if let Some(code) = said
            .payment()
            .or_else(|| (status == 402).then(|| "402".into()))
        {
            return Tried::Failed(RemoteError::Payment {
                address,
                code,
                message,
            });
        }
        if let Some(code) = said.refusal() {
            return Tried::Failed(RemoteError::Refused {
                address,
                code,
                message,
            });
        }
        if matches!(status, 401 | 403) {
            let variable = self.key.as_ref().map(|key| key.variable().to_owned());
            return Tried::Failed(RemoteError::Key {
                address,
                status,
                message,
                variable,
            });
        }
        if status == 500 && message.contains("does not match the expected") {
            return Tried::Failed(RemoteError::Unusable { address, message });
        }
        let after = asked.after.or(said.wait);
        let again = asked
            .again
            .unwrap_or(matches!(status, 408 | 409 | 425 | 429 | 500..));
        let patience = self.settings.retry.patience;
        if let Some(wait) = after.filter(|wait| again && *wait > patience) {
            return Tried::Failed(RemoteError::Wait {
                address,
                status,
                wait,
                patience,
                message,
            });
        }
        let error = RemoteError::Status {
            address,
            status,
            attempts,
            message,
            code: said.code.map(|code| self.clean(&code)),
            param: said.param.map(|param| self.clean(&param)),
        };
        match again {
            true => Tried::Again(error, after),
            false => Tried::Failed(error),
        }
    }
}

pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}
