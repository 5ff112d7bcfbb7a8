//! What goes wrong in object stores, and the way out.

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};

use super::place::{Kind, Place};

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreFailure {
    /// There is no such file.
    Absent,
    /// There is such a file already.
    Exists,
    /// There is no such bucket.
    NoBucket,
    /// Nobody answers.
    Unreachable(String),
    /// An answer does not come, or not all of it.
    Silence,
    /// The store has too much to do or is broken: its status and code.
    Busy(String),
    /// The store does not let us: its status and code, and all it says.
    Denied(String, String),
    /// The store does not know how.
    Unsupported(String),
    /// Whoever answers cannot show that it is the store.
    Untrusted(String),
    /// There are no credentials, and the machine's own could not be had.
    NoCredentials(String),
    /// Anything else, for good.
    Other(String),
    /// What might have passed but did not, after so many tries, in that time.
    Lasting(Box<StoreFailure>, usize, Duration),
}

impl StoreFailure {
    pub fn of(error: &Error) -> Self {
        let text = error.to_string();
        let transport = transport(error);
        let code = between(&text, "<Code>", "</Code>").unwrap_or_default();
        let status = status(&text);
        let shown = match (status, code) {
            (Some(status), "") => status.to_string(),
            (Some(status), code) => format!("{status} {code}"),
            (None, code) => code.into(),
        };
        let no_bucket = matches!(code, "NoSuchBucket" | "ContainerNotFound")
            || text.contains("The specified bucket does not exist");
        // Asking the machine for credentials is not asking the store.
        let credentials = [
            "169.254.",
            "metadata.google",
            "oauth2.googleapis.com",
            "login.microsoftonline",
        ];
        if credentials.iter().any(|part| text.contains(part)) {
            return Self::NoCredentials(first_line(&text));
        }
        match (error, status) {
            _ if no_bucket => Self::NoBucket,
            // Two writers at once: not that it is there, but that it cannot be told yet.
            (Error::AlreadyExists { .. }, Some(409)) if is_conflict(code) => Self::Busy(shown),
            (Error::AlreadyExists { .. }, _) => Self::Exists,
            (Error::NotFound { .. }, _) => Self::Absent,
            (Error::NotImplemented { .. } | Error::NotSupported { .. }, _) => {
                Self::Unsupported(first_line(&text))
            }
            (_, Some(405 | 501)) => Self::Unsupported(shown),
            (_, Some(400)) if matches!(code, "InvalidArgument" | "InvalidRequest") => {
                Self::Unsupported(shown)
            }
            (_, Some(400)) if code == "RequestTimeout" => Self::Busy(shown),
            (_, Some(408 | 409 | 425 | 429 | 500..)) => Self::Busy(shown),
            (_, Some(401 | 403)) => Self::Denied(shown, text),
            (_, Some(400)) if !code.is_empty() => Self::Denied(shown, text),
            _ if root(error).contains("certificate") => Self::Untrusted(root(error)),
            _ => match transport {
                Some(HttpErrorKind::Connect) => Self::Unreachable(root(error)),
                Some(HttpErrorKind::Timeout | HttpErrorKind::Interrupted) => Self::Silence,
                Some(HttpErrorKind::Request | HttpErrorKind::Decode) => {
                    Self::Unreachable(root(error))
                }
                _ => Self::Other(first_line(&text)),
            },
        }
    }

    /// Whether another try may succeed.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Silence | Self::Busy(_))
    }

    pub fn after(self, tries: usize, waited: Duration) -> Self {
        Self::Lasting(self.into(), tries, waited)
    }

    /// What it means at `place`, and what to do.
    pub fn explain(&self, place: &Place) -> String {
        let [key, secret, endpoint] = match place.kind {
            Kind::S3 => [
                "AWS_ACCESS_KEY_ID",
                "AWS_SECRET_ACCESS_KEY",
                "AWS_ENDPOINT_URL",
            ],
            Kind::Google => [
                "GOOGLE_SERVICE_ACCOUNT",
                "GOOGLE_SERVICE_ACCOUNT",
                "GOOGLE_BASE_URL",
            ],
            Kind::Azure => [
                "AZURE_STORAGE_ACCOUNT_NAME",
                "AZURE_STORAGE_ACCOUNT_KEY",
                "AZURE_STORAGE_ENDPOINT",
            ],
            Kind::Memory => [""; 3],
        };
        let bucket = &place.bucket;
        match self {
            Self::NoBucket => {
                format!("there is no bucket {bucket}; make it first, or correct the location")
            }
            Self::Denied(shown, text) => {
                let code = shown.split(' ').next_back().unwrap_or_default();
                let why = why_denied(code, bucket, key, secret);
                match between(text, "<Message>", "</Message>") {
                    Some(said) if !said.is_empty() => format!("{shown}: {why} (it says: {said})"),
                    _ => format!("{shown}: {why}"),
                }
            }
            Self::NoCredentials(text) => format!(
                "no credentials: set {key}{}, as this machine has none of its own ({text})",
                if key == secret {
                    String::new()
                } else {
                    format!(" and {secret}")
                }
            ),
            Self::Untrusted(why) => format!(
                "the store's certificate is not trusted ({why}); if it is one of your own, name its root in SSL_CERT_FILE"
            ),
            Self::Lasting(failure, tries, waited) => {
                let way = match (&**failure, &place.endpoint) {
                    (Self::Busy(_), _) => "give the same command again later".into(),
                    (_, Some(_)) => format!("is {endpoint} right, and the store up?"),
                    (_, None) => {
                        format!("is there a network? A store of one's own is named in {endpoint}")
                    }
                };
                let seconds = waited.as_secs_f64();
                let at = match &place.endpoint {
                    Some(endpoint) => {
                        format!(" at {}", prepose_untrusted::redact_address(endpoint))
                    }
                    None => String::new(),
                };
                format!("{failure}{at}, {tries} tries in {seconds:.0} s; {way}")
            }
            Self::Other(text) if text.contains("redirect") => {
                format!("the bucket {bucket} is in another region; see AWS_REGION ({text})")
            }
            failure => failure.to_string(),
        }
    }
}

/// What a store's code for a denied request means, and what to do; `key` and `secret` are the variables that hold them.
fn why_denied(code: &str, bucket: &str, key: &str, secret: &str) -> String {
    match code {
        "InvalidAccessKeyId" => format!("the store does not know this key; see {key}"),
        "SignatureDoesNotMatch" | "AuthenticationFailed" => {
            format!("the secret is wrong; see {secret}")
        }
        "QuotaExceeded" => {
            "the quota is used up; make room or have it raised, and give the same command again"
                .into()
        }
        "AuthorizationHeaderMalformed" => "the bucket is in another region; see AWS_REGION".into(),
        "UserSuspended" => "the account is suspended".into(),
        "RequestTimeTooSkewed" => "the clock of this machine is wrong".into(),
        "ExpiredToken" | "TokenRefreshRequired" => {
            "the credentials have expired; renew them and give the same command again".into()
        }
        _ => format!(
            "these credentials may not do that in {bucket}; see {key} and the bucket's policy"
        ),
    }
}

impl fmt::Display for StoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("it is not there"),
            Self::Exists => f.write_str("it is there already"),
            Self::NoBucket => f.write_str("there is no such bucket"),
            Self::Unreachable(why) => write!(f, "the store cannot be reached ({why})"),
            Self::Silence => f.write_str("the store does not answer"),
            Self::Busy(shown) => write!(f, "the store answers {shown}"),
            Self::Denied(shown, _) => f.write_str(shown),
            Self::Unsupported(why) => write!(f, "the store cannot do that ({why})"),
            Self::Untrusted(why) | Self::NoCredentials(why) | Self::Other(why) => f.write_str(why),
            Self::Lasting(failure, ..) => failure.fmt(f),
        }
    }
}

/// Codes of answer 409 that mean "not now".
fn is_conflict(code: &str) -> bool {
    matches!(
        code,
        "ConditionalRequestConflict" | "OperationAborted" | "ConcurrentModification"
    )
}

/// How the connection failed, if it did.
fn transport(error: &Error) -> Option<HttpErrorKind> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(http) = error.downcast_ref::<HttpError>() {
            return Some(http.kind());
        }
        next = error.source();
    }
    None
}

/// The innermost reason.
fn root(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = error.to_string();
        next = error.source();
    }
    first_line(&text)
}

/// The status of an HTTP answer in an error's text: `object_store` keeps the type that has it (`RetryError`) to itself,
/// and there is no `reqwest::Error` below it, as an answer came.
fn status(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(from)?;
    rest.split_once(to).map(|(found, _)| found)
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(300).collect()
}
