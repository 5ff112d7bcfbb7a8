//! Known checkpoints, and where downloads of the Hugging Face hub lie on this machine.
//!
//! The cache is huggingface_hub's own (`models--OWNER--NAME/{blobs,snapshots,refs}`), so what one
//! program has downloaded the other finds. Nothing here touches the network except [`pull`].
//!
//! Neither the server nor what lies in the cache is trusted: `client` sends the token to the named
//! host only and waits for nothing without a limit; `cache` writes to real folders and new files
//! below the cache only, and gives a file its name when its size and hash are right.

mod address;
mod cache;
mod catalog;
mod client;
pub(crate) mod error;
mod plan;
mod pull;
mod request;
mod session;
mod settings;

use std::path::{Path, PathBuf};

pub use catalog::{CATALOG, Known, KnownFile, catalog};
pub use error::{HubError, TransferError};
pub use pull::pull;
pub use request::{PullEvent, PullRequest, Pulled};
pub use settings::{HubSettings, Timeouts};

use crate::error::WeightsError;
use crate::{TOYBOX, TOYBOX_CLIP};

/// Where a known checkpoint lies on this machine, if all of it is there.
pub fn cached(known: &Known) -> Option<PathBuf> {
    cached_in(known, &HubSettings::from_env())
}

fn cached_in(known: &Known, settings: &HubSettings) -> Option<PathBuf> {
    let snapshot = cache::snapshot(&settings.cache, known.repo, known.revision);
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

/// The folder of the repository `OWNER/NAME` on this machine, as its branch `main` was when this or another program last
/// downloaded it; where it never was, of the only commit that was.
pub fn downloaded(name: &str) -> Option<PathBuf> {
    downloaded_in(name, &HubSettings::from_env())
}

fn downloaded_in(name: &str, settings: &HubSettings) -> Option<PathBuf> {
    let (owner, repo) = name.split_once('/')?;
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let plain = |part: &str| !part.is_empty() && !part.starts_with('.') && part.bytes().all(letter);
    if !plain(owner) || !plain(repo) {
        return None;
    }
    let repo = cache::RepoCache::new(&settings.cache, name);
    repo.main().or_else(|| repo.only())
}

/// What the repository is called, without its owner, whose folder in the cache this is: the folder's own name is a commit.
pub fn repository_of(folder: &Path) -> Option<&str> {
    let snapshots = folder.parent().filter(|above| above.ends_with("snapshots"));
    let repo = snapshots?.parent()?.file_name()?.to_str()?;
    let repo = repo.strip_prefix("models--")?;
    Some(repo.split_once("--").map_or(repo, |(_, name)| name))
}

/// What to try when `given` is neither a path nor a known name.
pub(crate) fn not_found_hint(given: &str) -> String {
    let names: Vec<&str> = CATALOG.iter().map(|known| known.name).collect();
    let mut hint = built_without(given);
    if given.split('/').count() == 2 && !given.starts_with('.') && !given.starts_with('/') {
        hint = format!(
            "; if it is a repository on the hub, run `prepose pull {given}` and give the path it prints"
        );
    }
    let near = names
        .iter()
        .find(|name| !given.is_empty() && name.starts_with(given));
    if let Some(near) = near {
        hint += &format!("; did you mean {near}?");
    }
    let toybox = if cfg!(feature = "toybox") {
        "toybox, "
    } else {
        ""
    };
    format!("{hint}; the known names are {toybox}{}", names.join(", "))
}

/// What to add where `given` is what only a program with the toybox has.
pub(crate) fn built_without(given: &str) -> String {
    let has_toybox = cfg!(feature = "toybox");
    match [TOYBOX, TOYBOX_CLIP].contains(&given) && !has_toybox {
        true => "; this program was built without the toybox".into(),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_checkpoint_is_found_when_all_of_it_is_there() {
        let home = tempfile::tempdir().unwrap();
        let settings = HubSettings {
            cache: home.path().into(),
            endpoint: String::new(),
            token: None,
            offline: true,
            timeouts: Timeouts::default(),
        };
        let known = catalog("sd-vae-ft-mse").unwrap();
        assert_eq!(cached_in(known, &settings), None);
        let snapshot = format!(
            "models--stabilityai--sd-vae-ft-mse/snapshots/{}",
            known.revision
        );
        let snapshot = home.path().join(snapshot);
        std::fs::create_dir_all(&snapshot).unwrap();
        std::fs::write(snapshot.join("config.json"), "{}").unwrap();
        assert_eq!(cached_in(known, &settings), None);
        let weights = snapshot.join("diffusion_pytorch_model.safetensors");
        std::fs::write(&weights, "").unwrap();
        assert_eq!(cached_in(known, &settings), Some(weights));
    }

    #[test]
    fn folders_of_the_cache_are_called_by_their_repositories() {
        for (folder, name) in [
            (
                "/c/hub/models--me--my-model/snapshots/0a0b",
                Some("my-model"),
            ),
            ("hub/models--bert/snapshots/0a0b/", Some("bert")),
            ("/c/hub/models--me--my-model/blobs/0a0b", None),
            ("/c/hub/models--me--my-model/snapshots/0a0b/unet", None),
            ("/c/runs/snapshots/0a0b", None),
            ("snapshots/0a0b", None),
            ("my-model", None),
        ] {
            assert_eq!(repository_of(Path::new(folder)), name, "{folder}");
        }
    }

    #[test]
    fn a_repository_is_found_by_its_branch_or_its_only_commit() {
        let home = tempfile::tempdir().unwrap();
        let settings = HubSettings {
            cache: home.path().into(),
            endpoint: String::new(),
            token: None,
            offline: true,
            timeouts: Timeouts::default(),
        };
        let found = || downloaded_in("me/model", &settings);
        let repo = home.path().join("models--me--model");
        let [first, second] = ["0a", "0b"].map(|byte| byte.repeat(20));
        let snapshots = repo.join("snapshots");
        std::fs::create_dir_all(snapshots.join("no commit")).unwrap();
        assert_eq!(found(), None);
        std::fs::create_dir(snapshots.join(&first)).unwrap();
        assert_eq!(found(), Some(snapshots.join(&first)));
        std::fs::create_dir(snapshots.join(&second)).unwrap();
        assert_eq!(found(), None);
        std::fs::create_dir(repo.join("refs")).unwrap();
        std::fs::write(repo.join("refs/main"), &second).unwrap();
        assert_eq!(found(), Some(snapshots.join(&second)));
        assert_eq!(downloaded_in("me/../model", &settings), None);
    }
}
