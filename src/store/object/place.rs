//! Which object store, and how to get in: a location and the store's usual environment variables.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::StoreError;

/// How long a file may take.
const PATIENCE: &str = "PREPOSE_STORE_PATIENCE";

/// What protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    S3,
    Google,
    Azure,
    Memory,
}

/// A folder of a bucket.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub kind: Kind,
    pub bucket: String,
    pub prefix: Path,
    /// Where the store answers, if it was said.
    pub endpoint: Option<String>,
    variables: HashMap<String, String>,
}

impl Place {
    /// Reads a location; `variables` are those of the environment.
    pub fn read(location: &str, variables: HashMap<String, String>) -> Result<Self, StoreError> {
        let refuse = |why: &str| StoreError::Location {
            location: location.into(),
            why: why.into(),
        };
        let (scheme, rest) = location
            .split_once("://")
            .ok_or_else(|| refuse("it is a path"))?;
        let kind = match scheme {
            "s3" => Kind::S3,
            "gs" => Kind::Google,
            "az" => Kind::Azure,
            "memory" => Kind::Memory,
            _ => {
                return Err(refuse(
                    "the stores are s3://, gs:// and az://; a folder is a path alone",
                ));
            }
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(refuse("it names no bucket; write s3://BUCKET/FOLDER"));
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !bucket.chars().all(fits) {
            return Err(refuse(
                "a bucket's name has only letters, digits, '-', '_' and '.'; credentials go into the store's usual variables",
            ));
        }
        let prefix = Path::parse(prefix.trim_end_matches('/'))
            .map_err(|error| refuse(&error.to_string()))?;
        let given = |names: &[&str]| {
            let found = names.iter().filter_map(|name| variables.get(*name));
            found.into_iter().find(|value| !value.is_empty()).cloned()
        };
        let endpoint = match kind {
            Kind::S3 => given(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]),
            Kind::Google => given(&["GOOGLE_BASE_URL"]),
            Kind::Azure => given(&["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"]),
            Kind::Memory => None,
        };
        Ok(Self {
            kind,
            bucket: bucket.into(),
            prefix,
            endpoint,
            variables,
        })
    }

    /// Why it cannot be used.
    pub fn refuse(&self, why: String) -> StoreError {
        StoreError::Location {
            location: self.to_string(),
            why,
        }
    }

    /// How long a file may take.
    pub fn patience(&self, usual: Duration) -> Result<Duration, StoreError> {
        match self.variables.get(PATIENCE) {
            None => Ok(usual),
            Some(text) => humantime::parse_duration(text).map_err(|_| {
                self.refuse(format!(
                    "{PATIENCE}={text:?} is not a time; write 30s or 3m"
                ))
            }),
        }
    }

    fn has(&self, names: &[&str]) -> bool {
        let given = |name: &&str| {
            self.variables
                .get(*name)
                .is_some_and(|value| !value.is_empty())
        };
        names.iter().any(given)
    }

    /// The client.
    pub fn connect(&self) -> Result<Arc<dyn ObjectStore>, StoreError> {
        if let Some(missing) = self.missing() {
            return Err(self.refuse(missing));
        }
        let fail = |error: object_store::Error| self.refuse(error.to_string());
        // Whether to try again is decided in one place, which is not here.
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: 0,
            retry_timeout: Duration::ZERO,
        };
        let store: Arc<dyn ObjectStore> = match self.kind {
            Kind::S3 => {
                let builder = AmazonS3Builder::new().with_client_options(options());
                // Bulk removal is not in every store that speaks S3.
                let builder = builder.with_disable_bulk_delete(true);
                let mut builder = self.configured(builder, "AWS_", AmazonS3Builder::with_config);
                if self.is_loopback() {
                    builder = builder.with_allow_http(true);
                }
                let builder = builder.with_bucket_name(&self.bucket).with_retry(retry);
                Arc::new(builder.build().map_err(fail)?)
            }
            Kind::Google => {
                let builder = GoogleCloudStorageBuilder::new().with_client_options(options());
                let with = GoogleCloudStorageBuilder::with_config;
                let builder = self.configured(builder, "GOOGLE_", with);
                let builder = builder.with_bucket_name(&self.bucket).with_retry(retry);
                Arc::new(builder.build().map_err(fail)?)
            }
            Kind::Azure => {
                let builder = MicrosoftAzureBuilder::new().with_client_options(options());
                let with = MicrosoftAzureBuilder::with_config;
                let mut builder = self.configured(builder, "AZURE_", with);
                if self.is_loopback() {
                    builder = builder.with_allow_http(true);
                }
                let builder = builder.with_container_name(&self.bucket).with_retry(retry);
                Arc::new(builder.build().map_err(fail)?)
            }
            Kind::Memory => in_memory(&self.bucket),
        };
        Ok(store)
    }

    /// A builder with all the variables that begin with `start` and that it knows.
    fn configured<B, K: FromStr>(&self, builder: B, start: &str, with: fn(B, K, String) -> B) -> B {
        let ours = self
            .variables
            .iter()
            .filter(|(name, value)| name.starts_with(start) && !value.is_empty());
        ours.fold(builder, |builder, (name, value)| {
            match name.to_ascii_lowercase().parse() {
                Ok(key) => with(builder, key, value.clone()),
                Err(_) => builder,
            }
        })
    }

    /// Whether the store is on this machine, where nobody listens in.
    fn is_loopback(&self) -> bool {
        let Some((_, rest)) = (self.endpoint.as_deref()).and_then(|url| url.split_once("://"))
        else {
            return false;
        };
        let host = rest.split('/').next().unwrap_or_default();
        let host = match host.strip_prefix('[') {
            Some(v6) => v6.split(']').next().unwrap_or_default(),
            None => host.rsplit_once(':').map_or(host, |(host, _)| host),
        };
        let is_loopback = |ip: std::net::IpAddr| ip.is_loopback();
        host == "localhost" || host.parse().is_ok_and(is_loopback)
    }

    /// What has to be said and was not.
    fn missing(&self) -> Option<String> {
        let both = |a: &str, b: &str| match (self.has(&[a]), self.has(&[b])) {
            (true, false) => Some(format!("{b} is not set, though {a} is")),
            (false, true) => Some(format!("{a} is not set, though {b} is")),
            _ => None,
        };
        let allow = match self.kind {
            Kind::S3 => "AWS_ALLOW_HTTP",
            Kind::Google => "GOOGLE_ALLOW_HTTP",
            Kind::Azure => "AZURE_ALLOW_HTTP",
            Kind::Memory => return None,
        };
        if let Some(endpoint) = &self.endpoint
            && let Err(error) = reqwest::Url::parse(endpoint)
        {
            return Some(format!(
                "the endpoint {endpoint:?} is not an address: {error}"
            ));
        }
        if let Some(endpoint) = &self.endpoint
            && endpoint.starts_with("http://")
            && !self.is_loopback()
            && !self.has(&[allow])
        {
            return Some(format!(
                "{endpoint} is not encrypted, so pictures and credentials could be read on the way; say {allow}=true if \
                 that is fine"
            ));
        }
        match self.kind {
            Kind::S3 => {
                let known = self.has(&[
                    "AWS_ACCESS_KEY_ID",
                    "AWS_SECRET_ACCESS_KEY",
                    "AWS_WEB_IDENTITY_TOKEN_FILE",
                    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                    "AWS_SKIP_SIGNATURE",
                ]);
                // Machines of Amazon's have credentials of their own; other stores' have not.
                let amazon =
                    (self.endpoint.as_ref()).is_none_or(|url| url.contains("amazonaws.com"));
                if self.has(&["AWS_PROFILE"]) && !known {
                    return Some(
                        "AWS_ACCESS_KEY_ID is not set, and profiles (AWS_PROFILE) are not read; this sets what is needed: \
                         eval \"$(aws configure export-credentials --format env)\""
                            .into(),
                    );
                }
                if !known && !amazon {
                    return Some("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set".into());
                }
                both("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
            }
            Kind::Azure => {
                let account = ["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_USE_EMULATOR"];
                (!self.has(&account)).then(|| "AZURE_STORAGE_ACCOUNT_NAME is not set".into())
            }
            Kind::Google | Kind::Memory => None,
        }
    }
}

/// As written on the command line.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            Kind::S3 => "s3",
            Kind::Google => "gs",
            Kind::Azure => "az",
            Kind::Memory => "memory",
        };
        write!(f, "{scheme}://{}", self.bucket)?;
        match self.prefix.as_ref() {
            "" => Ok(()),
            prefix => write!(f, "/{prefix}"),
        }
    }
}

/// Files that a browser opens by their kind.
fn options() -> ClientOptions {
    let kinds = [
        ("png", "image/png"),
        ("json", "application/json"),
        ("jsonl", "application/jsonl"),
        ("html", "text/html; charset=utf-8"),
        ("csv", "text/csv; charset=utf-8"),
        ("yaml", "application/yaml"),
    ];
    kinds
        .into_iter()
        .fold(ClientOptions::new(), |options, (suffix, kind)| {
            options.with_content_type_for_suffix(suffix, kind)
        })
}

/// The store of a name; it lives as long as the program.
fn in_memory(name: &str) -> Arc<dyn ObjectStore> {
    static STORES: Mutex<Option<HashMap<String, Arc<InMemory>>>> = Mutex::new(None);
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    let stores = stores.get_or_insert_default();
    stores.entry(name.into()).or_default().clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(location: &str, variables: &[(&str, &str)]) -> Result<Place, StoreError> {
        let variables = variables
            .iter()
            .map(|(k, v)| (k.to_string(), v.to_string()));
        Place::read(location, variables.collect())
    }

    #[test]
    fn locations_are_read() {
        for (location, shown) in [
            ("s3://bucket/a/b/", "s3://bucket/a/b"),
            ("gs://bucket", "gs://bucket"),
            ("az://box/run 1", "az://box/run 1"),
            ("memory://x/", "memory://x"),
        ] {
            assert_eq!(place(location, &[]).unwrap().to_string(), shown);
        }
        for (location, wanted) in [
            ("s3://", "it names no bucket"),
            ("s3:///a", "it names no bucket"),
            ("s3://a b/x", "only letters"),
            ("s3://a?\u{1b}[2J", "only letters"),
            ("s3://me:SECRET@b/x", "cannot use s3://***@b/x"),
            ("s3://me:12/SECRET@b/x", "cannot use s3://***@b/x"),
            ("s3://b/run@1:2//x", "cannot use s3://b/run@1:2//x"),
            ("file:///a", "a folder is a path alone"),
            ("s3://b/a//b", "empty path segment"),
            ("s3://b/../b", "illegal character"),
        ] {
            let error = place(location, &[]).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        const KEY: (&str, &str) = ("AWS_ACCESS_KEY_ID", "k");
        const SECRET: (&str, &str) = ("AWS_SECRET_ACCESS_KEY", "s");
        let far = ("AWS_ENDPOINT_URL", "http://store.example:9000");
        let near = ("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/x");
        for (location, variables, wanted) in [
            (
                "s3://b",
                &[KEY][..],
                Some("AWS_SECRET_ACCESS_KEY is not set, though"),
            ),
            (
                "s3://b",
                &[SECRET],
                Some("AWS_ACCESS_KEY_ID is not set, though"),
            ),
            (
                "s3://b",
                &[KEY, SECRET, ("AWS_ENDPOINT_URL", "http://a b")],
                Some("is not an address"),
            ),
            (
                "s3://b",
                &[near],
                Some("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"),
            ),
            (
                "s3://b",
                &[("AWS_PROFILE", "p")],
                Some("profiles (AWS_PROFILE) are not read"),
            ),
            (
                "s3://b",
                &[KEY, SECRET, far],
                Some("say AWS_ALLOW_HTTP=true"),
            ),
            ("s3://b", &[KEY, SECRET, near], None),
            (
                "s3://b",
                &[KEY, SECRET, ("AWS_ENDPOINT_URL", "http://[::1]:9/")],
                None,
            ),
            (
                "s3://b",
                &[KEY, SECRET, ("AWS_ENDPOINT_URL", "http://localhost")],
                None,
            ),
            ("s3://b", &[], None),
            ("az://b", &[], Some("AZURE_STORAGE_ACCOUNT_NAME is not set")),
        ] {
            let missing = place(location, variables).unwrap().missing();
            match (&missing, wanted) {
                (Some(missing), Some(wanted)) => assert!(missing.contains(wanted), "{missing}"),
                (None, None) => {}
                other => panic!("{location}: {other:?}"),
            }
        }
    }
}
