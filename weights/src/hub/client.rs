//! The few requests that downloads need. Redirects are followed here and not by the HTTP library, so
//! that secrets stay with the host that they are for.

use std::io::Read;
use std::time::Duration;

use prepose_untrusted::printable;
use ureq::http::{HeaderMap, Response, header};
use ureq::{Agent, Body};

use super::address::{Address, escape};
use super::error::TransferError;
use super::plan::{is_commit, is_etag};
use super::{HubError, HubSettings, Timeouts};

/// The longest chain of redirects that is followed.
const MAX_REDIRECTS: usize = 10;
/// The longest list of files that is read, in bytes.
const MAX_LISTING: u64 = 16 << 20;
/// The largest file that is believed in, in bytes.
const MAX_FILE: u64 = 1 << 40;

/// A hub and how to talk to it.
pub(super) struct Client {
    agent: Agent,
    hub: Address,
    token: Option<String>,
    timeouts: Timeouts,
}

/// What the hub says of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Metadata {
    pub commit: String,
    pub etag: String,
    pub size: u64,
}

/// A file's bytes from `start` on.
pub(super) struct Content {
    pub start: u64,
    pub reader: Box<dyn Read>,
}

impl Client {
    pub fn new(settings: &HubSettings) -> Result<Self, HubError> {
        let hub = Address::parse(&settings.endpoint).map_err(|why| HubError::Endpoint { why })?;
        let is_visible = |token: &String| token.bytes().all(|byte| byte.is_ascii_graphic());
        if !settings.token.as_ref().is_none_or(is_visible) {
            return Err(HubError::Token);
        }
        let timeouts = settings.timeouts;
        let config = Agent::config_builder()
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_resolve(Some(timeouts.connect))
            .timeout_connect(Some(timeouts.connect))
            .timeout_send_request(Some(timeouts.answer))
            .timeout_recv_response(Some(timeouts.answer))
            .timeout_per_read(Some(timeouts.idle))
            .timeout_per_write(Some(timeouts.idle))
            .user_agent(concat!("prepose/", env!("CARGO_PKG_VERSION")));
        Ok(Self {
            agent: config.build().into(),
            hub,
            token: settings.token.clone(),
            timeouts,
        })
    }

    /// The JSON that lists a revision's files.
    pub fn listing(&self, repo: &str, revision: &str) -> Result<Vec<u8>, TransferError> {
        let revision = escape(revision).replace('/', "%2F");
        let address = self
            .hub
            .below(&format!("/api/models/{repo}/revision/{revision}"));
        let (_, response) = self.follow(address, None, |_| true)?;
        let mut bytes = Vec::new();
        let mut body = response.into_body().into_reader().take(MAX_LISTING + 1);
        body.read_to_end(&mut bytes)
            .map_err(|error| self.broken(error))?;
        if bytes.len() as u64 > MAX_LISTING {
            return Err(TransferError::Answer(
                "the list of files is too long".into(),
            ));
        }
        Ok(bytes)
    }

    /// What the hub itself says of a file: its own redirects are followed, and none to other hosts,
    /// whose word does not count but for the size.
    pub fn metadata(
        &self,
        repo: &str,
        revision: &str,
        file: &str,
    ) -> Result<Metadata, TransferError> {
        let address = self.file(repo, revision, file);
        let range = Some("bytes=0-0".to_string());
        let (address, response) =
            self.follow(address, range.clone(), |to| to.same_origin(&self.hub))?;
        let headers = response.headers();
        let etag = text(headers, "x-linked-etag").or_else(|| text(headers, "etag"));
        let etag = etag.ok_or_else(|| missing("etag"))?;
        let etag = etag.trim_start_matches("W/").replace('"', "");
        let commit = text(headers, "x-repo-commit").ok_or_else(|| missing("x-repo-commit"))?;
        if !is_etag(&etag) || !is_commit(commit) {
            let reason = format!(
                "the etag {} at the commit {}",
                printable(&etag),
                printable(commit)
            );
            return Err(TransferError::Answer(reason));
        }
        let stated = text(headers, "x-linked-size").map(|size| size.parse::<u64>());
        let size = match stated {
            Some(Ok(size)) => size,
            Some(Err(_)) => return Err(missing("x-linked-size")),
            None if response.status().is_redirection() => {
                let address = target(&address, &response)?;
                size_of(&self.follow(address, range, |_| true)?.1)?
            }
            None => size_of(&response)?,
        };
        if size > MAX_FILE {
            return Err(TransferError::Answer(format!("a file of {size} bytes")));
        }
        Ok(Metadata {
            commit: commit.into(),
            etag,
            size,
        })
    }

    /// The bytes of a file of `size` bytes from `start` on, or from its beginning if the server
    /// knows no ranges.
    pub fn content(
        &self,
        repo: &str,
        revision: &str,
        file: &str,
        (start, size): (u64, u64),
    ) -> Result<Content, TransferError> {
        let address = self.file(repo, revision, file);
        let (_, response) = self.follow(address, Some(format!("bytes={start}-")), |_| true)?;
        if response.headers().contains_key(header::CONTENT_ENCODING) {
            return Err(TransferError::Answer("the file is encoded".into()));
        }
        let found = size_of(&response)?;
        if found != size {
            let reason = format!("the file has {found} bytes here and {size} there");
            return Err(TransferError::Answer(reason));
        }
        let start = match response.status().as_u16() {
            206 => {
                let range = text(response.headers(), "content-range").unwrap_or_default();
                let range = range.trim_start_matches("bytes").trim_start();
                if range.split('-').next() != Some(&start.to_string()) {
                    return Err(missing("content-range"));
                }
                start
            }
            _ => 0,
        };
        let reader = response.into_body().into_reader();
        Ok(Content {
            start,
            reader: Box::new(reader),
        })
    }

    /// The reason why reading a body failed.
    pub fn broken(&self, error: std::io::Error) -> TransferError {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        let timeout = matches!(inner, Some(ureq::Error::Timeout(_)));
        match timeout || error.kind() == std::io::ErrorKind::TimedOut {
            true => TransferError::Silent(self.timeouts.idle),
            false => TransferError::Broken(error),
        }
    }

    fn file(&self, repo: &str, revision: &str, file: &str) -> Address {
        let revision = escape(revision).replace('/', "%2F");
        let file = escape(file);
        self.hub
            .below(&format!("/{repo}/resolve/{revision}/{file}"))
    }

    /// Asks at `address` and wherever it redirects to, as long as `goes_on` agrees; the last answer,
    /// a success or a redirect that was not followed, and where it came from.
    fn follow(
        &self,
        mut address: Address,
        range: Option<String>,
        goes_on: impl Fn(&Address) -> bool,
    ) -> Result<(Address, Response<Body>), TransferError> {
        for _ in 0..=MAX_REDIRECTS {
            let response = self.ask(&address, range.as_deref())?;
            let status = response.status().as_u16();
            match status {
                200 | 206 => return Ok((address, response)),
                301 | 302 | 303 | 307 | 308 => {
                    let next = target(&address, &response)?;
                    if !goes_on(&next) {
                        return Ok((address, response));
                    }
                    address = next;
                }
                _ => return Err(TransferError::Status(status)),
            }
        }
        let reason = format!("more than {MAX_REDIRECTS} redirects");
        Err(TransferError::Answer(reason))
    }

    /// One request. The token goes to the hub alone: the same scheme, host and port.
    fn ask(&self, address: &Address, range: Option<&str>) -> Result<Response<Body>, TransferError> {
        let mut request = self.agent.get(address.url());
        if let Some(range) = range {
            request = request.header(header::RANGE, range);
        } else {
            // What is read as a whole can have a limit as a whole.
            let limit = Some(6 * self.timeouts.idle);
            request = request.config().timeout_recv_body(limit).build();
        }
        if let Some(token) = &self.token
            && address.same_origin(&self.hub)
        {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        request.call().map_err(|error| match error {
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                TransferError::Silent(self.timeouts.connect)
            }
            ureq::Error::Timeout(_) => TransferError::Silent(self.timeouts.answer),
            error => TransferError::Http(error),
        })
    }
}

/// How long to wait before the try after so many failures.
pub(super) fn pause(timeouts: &Timeouts, failures: usize) -> Duration {
    timeouts.pause * (1 << failures.saturating_sub(1).min(6))
}

fn missing(header: &str) -> TransferError {
    TransferError::Answer(format!("the header {header} is missing or wrong"))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Where a redirect leads.
fn target(from: &Address, response: &Response<Body>) -> Result<Address, TransferError> {
    let location = text(response.headers(), "location")
        .ok_or_else(|| TransferError::Answer("a redirect without a target".into()))?;
    let refuse = |why| TransferError::Answer(format!("a redirect to an unusable address: {why}"));
    from.join(location).map_err(refuse)
}

/// The size of the whole file of which an answer holds all or a part.
fn size_of(response: &Response<Body>) -> Result<u64, TransferError> {
    let name = match response.status().as_u16() {
        206 => "content-range",
        _ => "content-length",
    };
    let value = text(response.headers(), name).unwrap_or_default();
    let size = value.rsplit('/').next().unwrap_or_default();
    size.parse().map_err(|_| missing(name))
}
