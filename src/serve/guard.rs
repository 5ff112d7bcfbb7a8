//! Who may ask: tokens, the host's name that they use, and which sites' pages.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, Method, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::problem::Problem;
use crate::random;

/// The cookie that stands for a token once it was shown.
pub const COOKIE: &str = "prepose";
/// Cookies that are remembered; of more, the oldest are forgotten.
const SESSIONS: usize = 1000;

/// Somebody with a token of their own, by its number; all who need none are 0.
pub type Caller = usize;

/// Who may ask.
pub struct Guard {
    tokens: Vec<[u8; 32]>,
    hosts: Vec<String>,
    origins: Vec<String>,
    sessions: Mutex<VecDeque<([u8; 32], Caller)>>,
}

impl Guard {
    /// Lets those in who have one of `tokens` (none: everybody), ask for one of `hosts`, and come from no page, one of
    /// this server, or one of `origins`.
    pub fn new(tokens: &[String], hosts: Vec<String>, origins: Vec<String>) -> Self {
        let digest = |token: &String| Sha256::digest(token.as_bytes()).into();
        Self {
            tokens: tokens.iter().map(digest).collect(),
            hosts,
            origins,
            sessions: Mutex::default(),
        }
    }

    /// Whose token it is. Every token is compared, each in constant time.
    pub fn caller(&self, token: &str) -> Option<Caller> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let mut found = None;
        for (caller, known) in self.tokens.iter().enumerate() {
            if bool::from(known[..].ct_eq(&digest[..])) {
                found = Some(caller);
            }
        }
        found
    }

    /// A cookie's value for somebody whose token was right.
    pub fn open_session(&self, caller: Caller) -> String {
        let value = random::hex(16);
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() == SESSIONS {
            sessions.pop_front();
        }
        sessions.push_back((Sha256::digest(value.as_bytes()).into(), caller));
        value
    }

    /// Whether the names that a browser has for this server and for the page that asks are right.
    ///
    /// # Errors
    /// 421 for another host's name, 403 for another site's page.
    pub fn check_names(&self, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let host = text(header::HOST).unwrap_or_default();
        if !self
            .hosts
            .iter()
            .any(|known| known.eq_ignore_ascii_case(name_of(host)))
        {
            let message = format!(
                "this server is not called {:?}; start it with --host-name to let that name in",
                prepose_untrusted::printable(host).to_string()
            );
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, message));
        }
        if method.is_safe() {
            return Ok(());
        }
        let same = match (
            text(header::ORIGIN),
            text(header::HeaderName::from_static("sec-fetch-site")),
        ) {
            (Some(origin), _) => {
                let authority = origin.split_once("://").map(|(_, authority)| authority);
                authority.is_some_and(|name| name.eq_ignore_ascii_case(host)) || self.allows(origin)
            }
            (None, Some(site)) => matches!(site, "same-origin" | "none"),
            (None, None) => true,
        };
        match same {
            true => Ok(()),
            false => Err(Problem::new(
                StatusCode::FORBIDDEN,
                "pages of other sites may not use this server; --allow-origin names those that may",
            )),
        }
    }

    /// Whether pages of that origin may use the server.
    pub fn allows(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known == origin)
    }

    /// Who asks.
    ///
    /// # Errors
    /// 401.
    pub fn identify(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        if self.tokens.is_empty() {
            return Ok(0);
        }
        let given = headers.get(header::AUTHORIZATION);
        let given = given.and_then(|value| value.to_str().ok()).map(str::trim);
        let token = given.and_then(token_of);
        let by_token = token.as_deref().and_then(|token| self.caller(token));
        let caller = by_token.or_else(|| self.by_cookie(headers));
        caller.ok_or_else(|| {
            Problem::new(
                StatusCode::UNAUTHORIZED,
                "this server wants its token: Authorization: Bearer TOKEN; it was printed when the server was started",
            )
        })
    }

    fn by_cookie(&self, headers: &HeaderMap) -> Option<Caller> {
        let cookies = headers.get_all(header::COOKIE).iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|all| all.split(';'));
        let value = pairs.find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))?;
        let digest: [u8; 32] = Sha256::digest(value.as_bytes()).into();
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        for (known, caller) in sessions.iter() {
            if bool::from(known[..].ct_eq(&digest[..])) {
                found = Some(*caller);
            }
        }
        found
    }
}

/// A host's name without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            name
        }
        _ => host,
    }
}

/// The token in an `Authorization` header: of `Bearer` the whole, of `Basic` the password.
fn token_of(given: &str) -> Option<String> {
    let (scheme, rest) = given.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = STANDARD.decode(rest.trim()).ok()?;
    let pair = String::from_utf8(pair).ok()?;
    pair.split_once(':')
        .map(|(_, password)| password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        let tokens = ["one".to_owned(), "two".to_owned()];
        Guard::new(
            &tokens,
            vec!["localhost".into(), "[::1]".into()],
            vec!["https://a.example".into()],
        )
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = header::HeaderName::from_static(name);
            (name, header::HeaderValue::from_str(value).unwrap())
        });
        pairs.collect()
    }

    #[test]
    fn tokens_come_in_three_ways() {
        let guard = guard();
        let of = |value: &str| guard.identify(&headers(&[("authorization", value)])).ok();
        assert_eq!(of("Bearer two"), Some(1));
        assert_eq!(of("bearer  one "), Some(0));
        assert_eq!(
            of(&format!("Basic {}", STANDARD.encode("anybody:two"))),
            Some(1)
        );
        for wrong in ["", "Bearer", "Bearer three", "Bearer on", "Basic !", "two"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        let cookie = format!("a=b; {COOKIE}={}", guard.open_session(1));
        assert_eq!(
            guard.identify(&headers(&[("cookie", &cookie)])).ok(),
            Some(1)
        );
        assert!(
            guard
                .identify(&headers(&[("cookie", "prepose=two")]))
                .is_err()
        );
        assert_eq!(
            Guard::new(&[], vec![], vec![])
                .identify(&HeaderMap::new())
                .ok(),
            Some(0)
        );
    }

    #[test]
    fn other_names_and_sites_are_refused() {
        let guard = guard();
        let status = |method: Method, pairs: &[(&'static str, &str)]| {
            let checked = guard.check_names(&method, &headers(pairs));
            checked.map_or_else(|problem| problem.status.as_u16(), |()| 200)
        };
        for host in ["localhost", "LOCALHOST:8080", "[::1]:1", "[::1]"] {
            assert_eq!(status(Method::GET, &[("host", host)]), 200, "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "evil.example:8080",
            "localhost:x",
        ] {
            assert_eq!(status(Method::GET, &[("host", host)]), 421, "{host}");
        }
        let post = |name, value| status(Method::POST, &[("host", "localhost:1"), (name, value)]);
        assert_eq!(post("origin", "http://localhost:1"), 200);
        assert_eq!(post("origin", "https://a.example"), 200);
        assert_eq!(post("sec-fetch-site", "same-origin"), 200);
        for (name, value) in [
            ("origin", "http://localhost:2"),
            ("origin", "null"),
            ("origin", "https://evil.example"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert_eq!(post(name, value), 403, "{name}: {value}");
        }
        assert_eq!(status(Method::POST, &[("host", "localhost:1")]), 200);
    }
}
