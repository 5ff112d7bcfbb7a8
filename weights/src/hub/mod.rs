//! Known checkpoints, and where downloads of the Hugging Face hub lie on this machine.
//!
//! The cache is huggingface_hub's own (`models--OWNER--NAME/{blobs,snapshots,refs}`), so what one
//! program has downloaded the other finds. Nothing here touches the network except [`pull`].

mod error;
mod plan;
mod pull;

use std::path::{Path, PathBuf};

use hf_hub::{Cache, Repo, RepoType};

pub use error::HubError;
pub use pull::{PullEvent, PullRequest, Pulled, pull};

use crate::error::WeightsError;

/// A file of a known checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownFile {
    /// Its path in the repository.
    pub path: &'static str,
    /// Its SHA-256, for files stored by content (all large ones).
    pub sha256: Option<&'static str>,
}

/// A checkpoint or autoencoder that can be pulled by a short name, at a fixed revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The short name.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Owner and name on the hub.
    pub repo: &'static str,
    /// The commit.
    pub revision: &'static str,
    /// What to download; the first is what is opened.
    pub files: &'static [KnownFile],
    /// Bytes to download, about.
    pub size: u64,
}

/// Everything that can be pulled by a short name.
pub const CATALOG: &[Known] = &[
    Known {
        name: "sd15",
        about: "Stable Diffusion 1.5 (CreativeML Open RAIL-M)",
        repo: "stable-diffusion-v1-5/stable-diffusion-v1-5",
        revision: "451f4fe16113bff5a5d2269ed5ad43b0592e9a14",
        files: &[KnownFile {
            path: "v1-5-pruned-emaonly.safetensors",
            sha256: Some("6ce0161689b3853acaa03779ec93eafe75a02f4ced659bee03f50797806fa2fa"),
        }],
        size: 4_265_146_304,
    },
    Known {
        name: "sdxl-base",
        about: "Stable Diffusion XL 1.0, base (CreativeML Open RAIL++-M)",
        repo: "stabilityai/stable-diffusion-xl-base-1.0",
        revision: "462165984030d82259a11f4367a4eed129e94a7b",
        files: &[KnownFile {
            path: "sd_xl_base_1.0.safetensors",
            sha256: Some("31e35c80fc4829d14f90153f4c74cd59c90b779f6afe05a74cd6120b893f7e5b"),
        }],
        size: 6_938_078_334,
    },
    Known {
        name: "sd-vae-ft-mse",
        about: "autoencoder for SD 1.x with better faces, for --vae (MIT)",
        repo: "stabilityai/sd-vae-ft-mse",
        revision: "31f26fdeee1355a5c34592e401dd41e45d25a493",
        files: &[
            KnownFile {
                path: "diffusion_pytorch_model.safetensors",
                sha256: Some("a1d993488569e928462932c8c38a0760b874d166399b14414135bd9c42df5815"),
            },
            KnownFile {
                path: "config.json",
                sha256: None,
            },
        ],
        size: 334_643_276,
    },
    Known {
        name: "sdxl-vae-fp16-fix",
        about: "autoencoder for SDXL that does not overflow in f16, for --vae (MIT)",
        repo: "madebyollin/sdxl-vae-fp16-fix",
        revision: "207b116dae70ace3637169f1ddd2434b91b3a8cd",
        files: &[
            KnownFile {
                path: "diffusion_pytorch_model.safetensors",
                sha256: Some("1b909373b28f2137098b0fd9dbc6f97f8410854f31f84ddc9fa04b077b0ace2c"),
            },
            KnownFile {
                path: "config.json",
                sha256: None,
            },
        ],
        size: 334_643_238,
    },
    Known {
        name: "taesd",
        about: "tiny autoencoder for SD 1.x, for previews (MIT)",
        repo: "madebyollin/taesd",
        revision: "614f76814bbe30edbe2e627ace1c2234c81a2c0e",
        files: &[
            KnownFile {
                path: "diffusion_pytorch_model.safetensors",
                sha256: Some("db169d69145ec4ff064e49d99c95fa05d3eb04ee453de35824a6d0f325513549"),
            },
            KnownFile {
                path: "config.json",
                sha256: None,
            },
        ],
        size: 9_793_292,
    },
];

/// Where to download from and to.
#[derive(Debug, Clone)]
pub struct HubSettings {
    /// The folder that holds `models--…`.
    pub cache: PathBuf,
    /// The hub, without a slash at the end.
    pub endpoint: String,
    /// For gated and private repositories.
    pub token: Option<String>,
    /// Whether the network must not be touched.
    pub offline: bool,
}

impl HubSettings {
    /// From the variables that huggingface_hub reads: `HF_HUB_CACHE`, `HF_HOME`, `XDG_CACHE_HOME`,
    /// `HF_ENDPOINT`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_OFFLINE`.
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
        let token = get("HF_TOKEN").or_else(|| std::fs::read_to_string(token_file).ok());
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
        }
    }

    fn snapshot(&self, repo: &str, commit: &str) -> PathBuf {
        Cache::new(self.cache.clone())
            .repo(Repo::with_revision(
                repo.into(),
                RepoType::Model,
                commit.into(),
            ))
            .pointer_path(commit)
    }
}

/// The known checkpoint called `name`.
pub fn catalog(name: &str) -> Option<&'static Known> {
    CATALOG.iter().find(|known| known.name == name)
}

/// Where a known checkpoint lies on this machine, if all of it is there.
pub fn cached(known: &Known) -> Option<PathBuf> {
    cached_in(known, &HubSettings::from_env())
}

fn cached_in(known: &Known, settings: &HubSettings) -> Option<PathBuf> {
    let snapshot = settings.snapshot(known.repo, known.revision);
    known
        .files
        .iter()
        .all(|file| snapshot.join(file.path).exists())
        .then(|| snapshot.join(known.files[0].path))
}

/// `path`, or where the known checkpoint of that name lies.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, WeightsError> {
    match catalog(&path.to_string_lossy()) {
        Some(known) => cached(known).ok_or_else(|| WeightsError::NotPulled {
            name: known.name.into(),
        }),
        None => Ok(path.to_path_buf()),
    }
}

/// What to try when `given` is neither a path nor a known name.
pub(crate) fn not_found_hint(given: &str) -> String {
    let names: Vec<&str> = CATALOG.iter().map(|known| known.name).collect();
    let mut hint = String::new();
    if given.split('/').count() == 2 && !given.starts_with('.') && !given.starts_with('/') {
        hint = format!(
            "; if it is a repository on the hub, run `prepose pull {given}` and give the path it prints"
        );
    }
    format!("{hint}; the known names are toybox, {}", names.join(", "))
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
        ]);
        assert_eq!(set.cache, Path::new("/data/hf/hub"));
        assert_eq!(set.endpoint, "https://mirror.example");
        assert_eq!(set.token.as_deref(), Some("hf_x"));
        assert!(set.offline);
        assert_eq!(
            get(&[("HF_HUB_CACHE", "/c"), ("HF_HUB_OFFLINE", "0")]).cache,
            Path::new("/c")
        );
    }

    #[test]
    fn a_known_checkpoint_is_found_when_all_of_it_is_there() {
        let home = tempfile::tempdir().unwrap();
        let settings = HubSettings {
            cache: home.path().into(),
            endpoint: String::new(),
            token: None,
            offline: true,
        };
        let taesd = catalog("taesd").unwrap();
        assert_eq!(cached_in(taesd, &settings), None);
        let snapshot = format!("models--madebyollin--taesd/snapshots/{}", taesd.revision);
        let snapshot = home.path().join(snapshot);
        std::fs::create_dir_all(&snapshot).unwrap();
        std::fs::write(snapshot.join("config.json"), "{}").unwrap();
        assert_eq!(cached_in(taesd, &settings), None);
        let weights = snapshot.join("diffusion_pytorch_model.safetensors");
        std::fs::write(&weights, "").unwrap();
        assert_eq!(cached_in(taesd, &settings), Some(weights));
    }

    #[test]
    fn hashes_and_revisions_are_whole() {
        for known in CATALOG {
            assert_eq!(known.revision.len(), 40, "{}", known.name);
            for file in known.files {
                assert!(
                    file.sha256.is_none_or(|sha| sha.len() == 64),
                    "{}",
                    known.name
                );
            }
        }
    }
}
