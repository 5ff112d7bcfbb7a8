//! Addresses of servers.

use std::fmt;

use prepose_untrusted::redact_address;
use ureq::http::Uri;

use crate::RemoteError;

/// An `http` or `https` address; [`Display`](fmt::Display) shows it without secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// `scheme://host:port`, the port only if it was given.
    origin: String,
    /// `user:password`, with its escapes.
    credentials: Option<String>,
    /// Beginning with a slash, or empty; without a slash at its end.
    path: String,
    /// Beginning with a question mark, or empty.
    query: String,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// [`RemoteError::Address`], which does not repeat what could be secret in it.
    pub fn parse(text: &str) -> Result<Self, RemoteError> {
        let wrong = |why: &str| RemoteError::Address {
            address: redact_address(text.trim()),
            why: why.into(),
        };
        let form = "it should look like http://localhost:8080/v1";
        let uri: Uri = text.trim().parse().map_err(|_| wrong(form))?;
        let scheme = uri.scheme_str().unwrap_or_default();
        if !matches!(scheme, "http" | "https") {
            return Err(wrong(form));
        }
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let (credentials, place) = match authority.rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials.to_owned()), place),
            None => (None, authority),
        };
        if uri.host().is_none_or(str::is_empty) {
            return Err(wrong("it names no host"));
        }
        Ok(Self {
            origin: format!("{scheme}://{}", place.to_ascii_lowercase()),
            credentials,
            path: uri.path().trim_end_matches('/').into(),
            query: uri
                .query()
                .map(|query| format!("?{query}"))
                .unwrap_or_default(),
        })
    }

    /// The address of `path` below this one, with this one's query. A path that this one ends in already is not added again.
    pub fn below(&self, path: &str) -> Self {
        let path = path.trim_matches('/');
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let there = self
            .path
            .strip_suffix(path)
            .is_some_and(|before| before.ends_with('/'));
        let query = match (self.query.as_str(), query) {
            (own, "") => own.to_owned(),
            ("", more) => format!("?{more}"),
            (own, more) => format!("{own}&{more}"),
        };
        Self {
            path: match there || path.is_empty() {
                true => self.path.clone(),
                false => format!("{}/{path}", self.path),
            },
            query,
            ..self.clone()
        }
    }

    /// Whether it is the same scheme, host and port: whether a secret for the one may be sent to the other.
    pub fn same_origin(&self, other: &Self) -> bool {
        let whole = |address: &Self| {
            let default = match address.origin.starts_with("https") {
                true => ":443",
                false => ":80",
            };
            let origin = &address.origin;
            origin.strip_suffix(default).unwrap_or(origin).to_owned()
        };
        whole(self) == whole(other)
    }

    /// As a request needs it; credentials go into a header.
    pub(crate) fn url(&self) -> String {
        let path = if self.path.is_empty() {
            "/"
        } else {
            &self.path
        };
        format!("{}{path}{}", self.origin, self.query)
    }

    /// The header for `user:password` in the address.
    pub(crate) fn authorization(&self) -> Option<String> {
        use base64::Engine as _;
        let credentials = unescape(self.credentials.as_ref()?);
        let encoded = base64::engine::general_purpose::STANDARD.encode(credentials);
        Some(format!("Basic {encoded}"))
    }

    /// Whether its host is a number, or this machine.
    pub(crate) fn is_number(&self) -> bool {
        let host = self.origin.split_once("://").map_or("", |(_, host)| host);
        let without_port = host.rsplit_once(':').map_or(host, |(host, _)| host);
        let parses = |text: &str| text.parse::<std::net::Ipv4Addr>().is_ok();
        host.starts_with('[') || parses(host) || parses(without_port) || without_port == "localhost"
    }

    /// Whether it names a user or a password.
    pub fn has_credentials(&self) -> bool {
        self.credentials.is_some()
    }
}

/// Without credentials, and without a query's values.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = if self.credentials.is_some() {
            "***@"
        } else {
            ""
        };
        let (scheme, place) = self.origin.split_once("://").unwrap_or_default();
        let query = if self.query.is_empty() { "" } else { "?***" };
        write!(f, "{scheme}://{user}{place}{}{query}", self.path)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Bytes with `%41` read as `A`.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.filter(|_| *first == b'%');
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_below() {
        for (base, path, whole) in [
            (
                "http://Host:8080/v1/",
                "chat/completions",
                "http://host:8080/v1/chat/completions",
            ),
            (
                "http://h/v1/chat/completions",
                "chat/completions",
                "http://h/v1/chat/completions",
            ),
            ("https://h", "/prompt", "https://h/prompt"),
            (
                "https://h/a?api-version=2",
                "images/edits",
                "https://h/a/images/edits?api-version=2",
            ),
            ("https://h/?k=1", "view?name=a", "https://h/view?k=1&name=a"),
            ("http://h/xprompt", "prompt", "http://h/xprompt/prompt"),
        ] {
            assert_eq!(Address::parse(base).unwrap().below(path).url(), whole);
        }
    }

    #[test]
    fn secrets_are_in_headers_only() {
        let address = Address::parse("https://me:p%40SECRET@host/v1?key=SECRET").unwrap();
        assert_eq!(address.to_string(), "https://***@host/v1?***");
        assert_eq!(format!("{address:?}"), address.to_string());
        assert_eq!(address.url(), "https://host/v1?key=SECRET");
        // me:p@SECRET
        assert_eq!(address.authorization().unwrap(), "Basic bWU6cEBTRUNSRVQ=");
        for (a, b, same) in [
            ("https://h/a", "https://H:443/b", true),
            ("https://h", "http://h", false),
            ("http://h:80", "http://h", true),
            ("http://h", "http://h.evil", false),
        ] {
            let parse = |text| Address::parse(text).unwrap();
            assert_eq!(parse(a).same_origin(&parse(b)), same, "{a} {b}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_secrets() {
        for text in [
            "localhost:8080/v1",
            "ftp://me:SECRET@h",
            "",
            "http://",
            "http://me:SECRET@",
            "h i",
        ] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(!error.contains("SECRET"), "{error}");
            assert!(error.contains("http"), "{error}");
        }
    }
}
