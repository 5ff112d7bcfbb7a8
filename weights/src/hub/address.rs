//! Where a request goes: the hub, or where it sends us.

use std::fmt;

use ureq::http::Uri;

/// An `http` or `https` address.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    https: bool,
    /// `user:password`, for requests to this very host only.
    credentials: Option<String>,
    host: String,
    port: u16,
    /// With the query.
    path: String,
}

impl Address {
    /// Reads a whole address. The reason of a failure does not repeat it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("{error}"))?;
        let https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("it does not begin with https:// or http://".into()),
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        if host.is_empty() {
            return Err("it names no host".into());
        }
        Ok(Self {
            https,
            credentials: authority.rsplit_once('@').map(|(user, _)| user.into()),
            host,
            port: uri.port_u16().unwrap_or(if https { 443 } else { 80 }),
            path: uri
                .path_and_query()
                .map_or("/", |path| path.as_str())
                .into(),
        })
    }

    /// Whether it is the same scheme, host and port: whether a secret for the one may be sent to the
    /// other.
    pub fn same_origin(&self, other: &Self) -> bool {
        (self.https, &self.host, self.port) == (other.https, &other.host, other.port)
    }

    /// The address of `path`, which begins with a slash, below this one.
    pub fn below(&self, path: &str) -> Self {
        let base = self.path.trim_end_matches('/');
        Self {
            path: format!("{base}{path}"),
            ..self.clone()
        }
    }

    /// Where a redirect from here leads. Credentials stay with their host, and encryption stays on.
    pub fn join(&self, location: &str) -> Result<Self, String> {
        let scheme = if self.https { "https" } else { "http" };
        let origin = format!("{scheme}://{}:{}", self.host, self.port);
        let path = self.path.split('?').next().unwrap_or_default();
        let folder = &path[..path.rfind('/').map_or(0, |at| at + 1)];
        let absolute = location.split(['/', '?', '#']).next().unwrap_or_default();
        let target = match location {
            _ if absolute.ends_with(':') => location.to_string(),
            _ if location.starts_with("//") => format!("{scheme}:{location}"),
            _ if location.starts_with('/') => format!("{origin}{location}"),
            _ if location.starts_with('?') => format!("{origin}{path}{location}"),
            _ => format!("{origin}{folder}{location}"),
        };
        let mut target = Self::parse(&target)?;
        if self.https && !target.https {
            return Err("it leads from https to http".into());
        }
        target.credentials = match self.same_origin(&target) {
            true => self.credentials.clone(),
            false => None,
        };
        Ok(target)
    }

    /// As a request needs it, with credentials.
    pub fn url(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        let user = match &self.credentials {
            Some(user) => format!("{user}@"),
            None => String::new(),
        };
        format!("{scheme}://{user}{}:{}{}", self.host, self.port, self.path)
    }
}

/// Without credentials.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&prepose_untrusted::redact_address(&self.url()))
    }
}

/// A path for an address: everything but letters, digits, `-_.~` and slashes is escaped.
pub(super) fn escape(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                escaped.push(byte.into());
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_resolved() {
        let hub = Address::parse("https://me:pw@Hub.example/base").unwrap();
        let file = hub.below("/a/b?x=1");
        assert_eq!(file.url(), "https://me:pw@hub.example:443/base/a/b?x=1");
        for (location, target) in [
            ("/c?y", "https://me:pw@hub.example:443/c?y"),
            ("c", "https://me:pw@hub.example:443/base/a/c"),
            ("?z", "https://me:pw@hub.example:443/base/a/b?z"),
            ("//cdn.example/c", "https://cdn.example:443/c"),
            ("https://cdn.example:8/c", "https://cdn.example:8/c"),
            ("https://you:pw@cdn.example/c", "https://cdn.example:443/c"),
            ("https://hub.example/c", "https://me:pw@hub.example:443/c"),
            ("https://hub.example:444/c", "https://hub.example:444/c"),
            (
                "https://hub.example.evil/c",
                "https://hub.example.evil:443/c",
            ),
        ] {
            assert_eq!(file.join(location).unwrap().url(), target, "{location}");
        }
        for bad in [
            "http://hub.example/c",
            "ftp://hub.example/c",
            "file:///etc/passwd",
            "https://",
            "https:///c",
            "/a b",
        ] {
            assert!(file.join(bad).is_err(), "{bad}");
        }
        assert!(!format!("{hub:?}").contains("pw"));
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escape("a/b c?#%ä"), "a/b%20c%3F%23%25%C3%A4");
    }
}
