//! Which files of which repository a name stands for.

use prepose_untrusted::redact_address;

use super::{CATALOG, HubError, HubSettings, PullRequest, catalog};
use crate::files::{AUTHORS_WEIGHTS, TRANSFORMERS_WEIGHTS};

/// A file to download.
pub(super) struct Wanted {
    pub path: String,
    pub sha256: Option<&'static str>,
}

/// What a request stands for.
pub(super) struct Plan {
    pub repo: String,
    pub revision: String,
    /// What to download; none if the hub must be asked what the repository holds.
    pub files: Option<Vec<Wanted>>,
}

pub(super) fn plan(request: &PullRequest, settings: &HubSettings) -> Result<Plan, HubError> {
    let PullRequest { name, revision } = request;
    if let Some(revision) = revision
        && !is_revision(revision)
    {
        return Err(HubError::Revision {
            revision: revision.clone(),
        });
    }
    if let Some(known) = catalog(name) {
        let pinned = revision
            .as_deref()
            .is_none_or(|revision| revision == known.revision);
        let files = known
            .files
            .iter()
            // Another revision may hold another file.
            .map(|file| Wanted {
                path: file.path.into(),
                sha256: file.sha256.filter(|_| pinned),
            })
            .collect();
        let revision = revision.as_deref().unwrap_or(known.revision);
        return Ok(Plan {
            repo: known.repo.into(),
            revision: revision.into(),
            files: Some(files),
        });
    }
    let mut words = name.splitn(3, '/');
    let (Some(owner), Some(repo), file) = (words.next(), words.next(), words.next()) else {
        return Err(unknown(name));
    };
    if !is_name(owner) || !is_name(repo) || file.is_some_and(|file| !is_inside(file)) {
        return Err(unknown(name));
    }
    let repo = format!("{owner}/{repo}");
    let Some(revision) = revision.clone() else {
        let url = format!("{}/{repo}/commits/main", redact_address(&settings.endpoint));
        return Err(HubError::NoRevision { repo, url });
    };
    let files = file.map(|file| {
        vec![Wanted {
            path: file.into(),
            sha256: None,
        }]
    });
    Ok(Plan {
        repo,
        revision,
        files,
    })
}

fn unknown(name: &str) -> HubError {
    let known: Vec<&str> = CATALOG.iter().map(|known| known.name).collect();
    HubError::Unknown {
        name: name.into(),
        known: known.join(", "),
    }
}

/// The longest name of a file or folder on common file systems, in bytes.
const MAX_NAME: usize = 255;

/// Whether an owner or a repository can be called so: one part of a path.
fn is_name(word: &str) -> bool {
    is_part(word)
        && !word.starts_with('.')
        // The cache joins owner and name by two hyphens.
        && !word.contains("--")
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Whether the hub could call a version of a file so, and the cache can too.
pub(super) fn is_etag(word: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    (1..=128).contains(&word.len()) && word.chars().all(fits)
}

/// Whether it is the full hash of a commit.
pub(super) fn is_commit(word: &str) -> bool {
    matches!(word.len(), 40 | 64) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a commit, branch or tag can be called so (`git check-ref-format`, and less).
pub(super) fn is_revision(revision: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_./+".contains(c);
    is_inside(revision)
        && revision.chars().all(fits)
        && !revision.split('/').any(|part| part.starts_with('.'))
        && !revision.ends_with(".lock")
}

/// Whether a path of a repository stays inside of it, on any operating system.
pub(super) fn is_inside(path: &str) -> bool {
    path.len() <= 1024 && path.split('/').all(is_part)
}

fn is_part(word: &str) -> bool {
    (1..=MAX_NAME).contains(&word.len())
        && !matches!(word, "." | "..")
        && !word
            .chars()
            .any(|c| c.is_control() || "\\:*?\"<>|".contains(c))
}

/// What to take from a repository of these files: a diffusers folder, or a network of transformers, each with the first set
/// of weights that loading would take, and all that is small.
///
/// # Errors
/// [`HubError::Choose`] if it is neither, [`HubError::NoWeights`] if a part of a diffusers folder has none.
pub(super) fn folder_files(repo: &str, names: &[String]) -> Result<Vec<String>, HubError> {
    if names.iter().any(|name| name == "model_index.json") {
        return diffusers_files(repo, names);
    }
    network_files(names).ok_or_else(|| {
        const ENDS: [&str; 5] = [".safetensors", ".ckpt", ".bin", ".pt", ".pth"];
        let is_weights = |name: &&String| ENDS.iter().any(|end| name.ends_with(end));
        let weights: Vec<String> = names.iter().filter(is_weights).cloned().collect();
        HubError::Choose {
            repo: repo.into(),
            files: crate::error::list(&weights),
        }
    })
}

fn diffusers_files(repo: &str, names: &[String]) -> Result<Vec<String>, HubError> {
    const PARTS: [&str; 4] = ["unet", "vae", "text_encoder", "text_encoder_2"];
    const SMALL: [&str; 3] = ["scheduler", "tokenizer", "tokenizer_2"];
    let mut chosen = vec!["model_index.json".to_string()];
    for name in names {
        let Some((folder, file)) = name.split_once('/') else {
            continue;
        };
        let text = file.ends_with(".json") || file.ends_with(".txt");
        if SMALL.contains(&folder) && text || PARTS.contains(&folder) && file == "config.json" {
            chosen.push(name.clone());
        }
    }
    for part in PARTS {
        let weights = part_weights(names, part);
        if weights.is_empty() && names.contains(&format!("{part}/config.json")) {
            return Err(HubError::NoWeights {
                repo: repo.into(),
                part: part.into(),
            });
        }
        chosen.extend(weights);
    }
    Ok(chosen)
}

/// The files of a network that transformers or its authors have written, in one file of weights as it is opened; none if it is
/// something else.
fn network_files(names: &[String]) -> Option<Vec<String>> {
    const CONFIG: &str = "config.json";
    const BESIDE: [&str; 10] = [
        // Tensors alone do not say all of a CLIP by its authors' names.
        "open_clip_config.json",
        "preprocessor_config.json",
        "processor_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "merges.txt",
        "vocab.txt",
    ];
    let has = |file: &str| names.iter().any(|name| name == file);
    let first = |files: [&'static str; 3]| files.into_iter().find(|file| has(file));
    // Only an author's name for a file says without a configuration what is in it.
    let transformers = first(TRANSFORMERS_WEIGHTS).filter(|_| has(CONFIG));
    let weights = transformers.or_else(|| first(AUTHORS_WEIGHTS))?;
    let beside = names.iter().map(String::as_str);
    let beside = beside.filter(|name| *name == CONFIG || BESIDE.contains(name));
    Some(beside.chain([weights]).map(String::from).collect())
}

/// The weights that loading would take of the folder `part` of a checkpoint: one file, or shards with their index; none if
/// there are no such files.
fn part_weights(names: &[String], part: &str) -> Vec<String> {
    let is_text = part.starts_with("text");
    let stems = match is_text {
        true => ["model", "pytorch_model"],
        false => ["diffusion_pytorch_model"; 2],
    };
    for (stem, extension) in stems.into_iter().zip(["safetensors", "bin"]) {
        for variant in ["", ".fp16"] {
            let whole = format!("{part}/{stem}{variant}.{extension}");
            let index = format!("{part}/{stem}.{extension}.index{variant}.json");
            let is_split = names.contains(&index);
            if names.contains(&whole) && (is_text || !is_split) {
                return vec![whole];
            }
            if is_split {
                let start = format!("{part}/{stem}{variant}-");
                let is_shard =
                    |name: &&String| name.starts_with(&start) && name.ends_with(extension);
                let shards = names.iter().filter(is_shard).cloned();
                return shards.chain([index]).collect();
            }
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let settings = HubSettings {
            cache: "/c".into(),
            endpoint: "http://hub".into(),
            token: None,
            offline: false,
            timeouts: Default::default(),
        };
        let plan = |name: &str, revision: Option<&str>| {
            plan(
                &PullRequest {
                    name: name.into(),
                    revision: revision.map(str::to_string),
                },
                &settings,
            )
        };
        let known = plan("sd15", None).unwrap();
        assert_eq!(known.repo, "stable-diffusion-v1-5/stable-diffusion-v1-5");
        assert!(known.revision.starts_with("451f4fe"));
        assert!(known.files.unwrap()[0].sha256.is_some());
        let other = plan("sd15", Some("main")).unwrap();
        assert!(other.revision == "main" && other.files.unwrap()[0].sha256.is_none());
        let folder = plan("a/b", Some("main")).unwrap();
        assert!(folder.repo == "a/b" && folder.files.is_none());
        let file = plan("a/b/c/d.safetensors", Some("main")).unwrap();
        assert_eq!(file.files.unwrap()[0].path, "c/d.safetensors");
        assert!(matches!(
            plan("a/b", None),
            Err(HubError::NoRevision { .. })
        ));
        for bad in [
            "sd16",
            "a/../b",
            "../b",
            "a/b/../c",
            "a/b//c",
            "/etc/passwd",
            "a/b/c\u{1b}[2J",
            "a--b/c",
        ] {
            assert!(
                matches!(plan(bad, Some("main")), Err(HubError::Unknown { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn revisions() {
        for good in ["main", "refs/pr/3", "v1.0", "fp16", &"0a".repeat(20)] {
            assert!(is_revision(good), "{good}");
        }
        for bad in [
            "",
            "/",
            "/etc",
            "..",
            "a/../../b",
            "a//b",
            "a/",
            ".git",
            "a b",
            "a?b",
            "a\\b",
            "x.lock",
            &"a".repeat(300),
        ] {
            assert!(!is_revision(bad), "{bad}");
        }
    }

    #[test]
    fn one_set_of_weights_per_part() {
        let names = [
            "README.md",
            "model_index.json",
            "sd_xl_base_1.0.safetensors",
            "scheduler/scheduler_config.json",
            "text_encoder/config.json",
            "text_encoder/model.fp16.safetensors",
            "text_encoder/model.safetensors",
            "text_encoder/flax_model.msgpack",
            "tokenizer/added_tokens.json",
            "tokenizer/merges.txt",
            "tokenizer/special_tokens_map.json",
            "unet/config.json",
            "unet/diffusion_pytorch_model.safetensors.index.json",
            "unet/diffusion_pytorch_model-00001-of-00002.safetensors",
            "unet/diffusion_pytorch_model-00002-of-00002.safetensors",
            // What was there before the shards: diffusers passes over it, and transformers would not.
            "unet/diffusion_pytorch_model.safetensors",
            "text_encoder/model.safetensors.index.json",
            "text_encoder/model-00001-of-00001.safetensors",
            "vae/config.json",
            "vae/diffusion_pytorch_model.fp16.safetensors",
            "vae_1_0/config.json",
        ]
        .map(String::from);
        let mut chosen = folder_files("a/b", &names).unwrap();
        chosen.sort();
        assert_eq!(
            chosen,
            [
                "model_index.json",
                "scheduler/scheduler_config.json",
                "text_encoder/config.json",
                "text_encoder/model.safetensors",
                "tokenizer/added_tokens.json",
                "tokenizer/merges.txt",
                "tokenizer/special_tokens_map.json",
                "unet/config.json",
                "unet/diffusion_pytorch_model-00001-of-00002.safetensors",
                "unet/diffusion_pytorch_model-00002-of-00002.safetensors",
                "unet/diffusion_pytorch_model.safetensors.index.json",
                "vae/config.json",
                "vae/diffusion_pytorch_model.fp16.safetensors",
            ]
        );
        let neither = folder_files("a/b", &names[..1]).unwrap_err();
        assert!(matches!(neither, HubError::Choose { .. }), "{neither:?}");
    }

    /// As `weight_files` looks for them.
    #[test]
    fn pickles_are_taken_where_there_is_nothing_else() {
        let names = [
            "model_index.json",
            "text_encoder/config.json",
            "text_encoder/pytorch_model.bin",
            "text_encoder/pytorch_model.fp16.bin",
            "unet/config.json",
            "unet/diffusion_pytorch_model-00001-of-00002.bin",
            "unet/diffusion_pytorch_model-00002-of-00002.bin",
            "unet/diffusion_pytorch_model.bin.index.json",
            "vae/config.json",
            "vae/diffusion_pytorch_model.bin",
            "vae/diffusion_pytorch_model.fp16.safetensors",
        ]
        .map(String::from);
        let mut chosen = folder_files("a/b", &names).unwrap();
        chosen.sort();
        let left = ["pytorch_model.fp16.bin", "vae/diffusion_pytorch_model.bin"];
        let mut expected = names.to_vec();
        expected.retain(|name| !left.iter().any(|end| name.ends_with(end)));
        assert_eq!(chosen, expected);

        let bare: Vec<String> = (names.into_iter())
            .filter(|name| !name.starts_with("text_encoder/pytorch_model"))
            .collect();
        let error = folder_files("a/b", &bare).unwrap_err().to_string();
        assert!(error.contains("no weights of its text_encoder"), "{error}");
    }

    #[test]
    fn networks_of_transformers() {
        let names = [
            "README.md",
            "config.json",
            "flax_model.msgpack",
            "model.safetensors",
            "onnx/model.onnx",
            "preprocessor_config.json",
            "pytorch_model.bin",
            "tokenizer_config.json",
            "vocab.txt",
        ]
        .map(String::from);
        let mut chosen = folder_files("a/b", &names).unwrap();
        chosen.sort();
        assert_eq!(
            chosen,
            [
                "config.json",
                "model.safetensors",
                "preprocessor_config.json",
                "tokenizer_config.json",
                "vocab.txt",
            ]
        );
        // A part of a diffusers folder, a tokenizer alone, or what nothing here opens.
        for other in [
            "diffusion_pytorch_model.safetensors",
            "vocab.txt",
            "model.fp16.safetensors",
            "model.safetensors.index.json",
            "model-00001-of-00002.safetensors",
        ] {
            let error = folder_files("a/b", &["config.json", other].map(String::from));
            assert!(matches!(error, Err(HubError::Choose { .. })), "{error:?}");
        }
        // Without a configuration, too.
        let names = [
            "README.md",
            "open_clip_config.json",
            "open_clip_model.safetensors",
            "vocab.json",
        ]
        .map(String::from);
        assert_eq!(
            folder_files("a/b", &names).unwrap(),
            [
                "open_clip_config.json",
                "vocab.json",
                "open_clip_model.safetensors",
            ]
        );
        let error = folder_files("a/b", &["model.safetensors".to_string()]);
        assert!(matches!(error, Err(HubError::Choose { .. })), "{error:?}");
    }
}
