//! Where to download from and to, and how long to wait.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prepose_untrusted::{read_regular, redact_address};

/// Where to download from and to.
#[derive(Clone)]
pub struct HubSettings {
    /// The folder that holds `models--…`.
    pub cache: PathBuf,
    /// The hub, without a slash at the end.
    pub endpoint: String,
    /// For gated and private repositories.
    pub token: Option<String>,
    /// Whether the network must not be touched.
    pub offline: bool,
    /// How long to wait for the hub.
    pub timeouts: Timeouts,
}

/// Limits for each wait. A download as a whole has none, as files are large and lines slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection, with finding the host.
    pub connect: Duration,
    /// For the head of an answer.
    pub answer: Duration,
    /// Between two pieces of a file.
    pub idle: Duration,
    /// Before the second try after a broken connection; each further pause is twice as long.
    pub pause: Duration,
}

impl Default for Timeouts {
    /// huggingface_hub's ten seconds.
    fn default() -> Self {
        Self::all(Duration::from_secs(10))
    }
}

impl Timeouts {
    /// The same limit for every wait.
    pub fn all(limit: Duration) -> Self {
        Self {
            connect: limit,
            answer: limit,
            idle: limit,
            pause: Duration::from_millis(200),
        }
    }
}

/// The longest token file that is read, in bytes.
const MAX_TOKEN: u64 = 4096;

impl HubSettings {
    /// From the variables that huggingface_hub reads: `HF_HUB_CACHE`, `HF_HOME`, `XDG_CACHE_HOME`,
    /// `HF_ENDPOINT`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_OFFLINE`, `HF_HUB_DOWNLOAD_TIMEOUT`
    /// (seconds).
    pub fn from_env() -> Self {
        Self::from_variables(&|name| {
            std::env::var(name)
                .ok()
                .filter(|value| !value.trim().is_empty())
        })
    }

    fn from_variables(get: &dyn Fn(&str) -> Option<String>) -> Self {
        let home = get("HF_HOME").map(PathBuf::from).unwrap_or_else(|| {
            let cache = get("XDG_CACHE_HOME").map(PathBuf::from).unwrap_or_else(|| {
                // A machine without a home folder keeps its downloads where it works.
                PathBuf::from(
                    get("HOME")
                        .or_else(|| get("USERPROFILE"))
                        .unwrap_or_default(),
                )
                .join(".cache")
            });
            cache.join("huggingface")
        });
        let token_file = get("HF_TOKEN_PATH").map_or_else(|| home.join("token"), PathBuf::from);
        let token = get("HF_TOKEN").or_else(|| read_token(&token_file));
        let seconds = get("HF_HUB_DOWNLOAD_TIMEOUT").and_then(|text| text.trim().parse().ok());
        let seconds = seconds.filter(|seconds| (1..=86_400).contains(seconds));
        let yes = |value: String| {
            ["1", "on", "yes", "true"].contains(&value.to_ascii_lowercase().as_str())
        };
        Self {
            cache: get("HF_HUB_CACHE").map_or_else(|| home.join("hub"), PathBuf::from),
            endpoint: get("HF_ENDPOINT").map_or_else(
                || "https://huggingface.co".into(),
                |url| url.trim_end_matches('/').to_string(),
            ),
            token: token
                .map(|token| token.trim().to_string())
                .filter(|token| !token.is_empty()),
            offline: get("HF_HUB_OFFLINE").is_some_and(yes),
            timeouts: seconds.map_or_else(Timeouts::default, |seconds| {
                Timeouts::all(Duration::from_secs(seconds))
            }),
        }
    }
}

/// Without what is secret.
impl fmt::Debug for HubSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubSettings")
            .field("cache", &self.cache)
            .field("endpoint", &redact_address(&self.endpoint))
            .field("token", &self.token.as_ref().map(|_| "***"))
            .field("offline", &self.offline)
            .field("timeouts", &self.timeouts)
            .finish()
    }
}

fn read_token(path: &Path) -> Option<String> {
    match read_regular(path, MAX_TOKEN) {
        Ok(bytes) => String::from_utf8(bytes).ok(),
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                tracing::warn!("{}: the token cannot be read: {error}", path.display());
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_follow_the_environment() {
        let get = |variables: &'static [(&str, &str)]| {
            HubSettings::from_variables(&move |name| {
                variables
                    .iter()
                    .find(|(n, _)| *n == name)
                    .map(|(_, value)| value.to_string())
            })
        };
        let plain = get(&[("HOME", "/home/me")]);
        assert_eq!(plain.cache, Path::new("/home/me/.cache/huggingface/hub"));
        assert_eq!(plain.endpoint, "https://huggingface.co");
        assert!(!plain.offline && plain.token.is_none());
        let set = get(&[
            ("HF_HOME", "/data/hf"),
            ("HF_ENDPOINT", "https://mirror.example/"),
            ("HF_TOKEN", " hf_x\n"),
            ("HF_HUB_OFFLINE", "True"),
            ("HF_HUB_DOWNLOAD_TIMEOUT", "60"),
        ]);
        assert_eq!(set.timeouts.idle, Duration::from_secs(60));
        assert_eq!(set.cache, Path::new("/data/hf/hub"));
        assert_eq!(set.endpoint, "https://mirror.example");
        assert_eq!(set.token.as_deref(), Some("hf_x"));
        assert!(set.offline);
        assert!(!format!("{set:?}").contains("hf_x"));
        assert_eq!(
            get(&[("HF_HUB_CACHE", "/c"), ("HF_HUB_OFFLINE", "0")]).cache,
            Path::new("/c")
        );
    }
}
