//! Downloads, with the `hf-hub` crate: it knows the hub's interface and the cache's layout, and
//! goes on where a download broke off. What is added here: every file's SHA-256 is checked, a broken
//! connection is tried again, and errors say what to do.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hf_hub::api::Progress;
use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};

use super::plan::{Plan, Wanted, folder_files, is_inside, is_name, plan};
use super::{HubError, HubSettings};
use crate::hash::sha256_file;

/// What to pull.
#[derive(Debug, Clone, Default)]
pub struct PullRequest {
    /// A name of [`CATALOG`](super::CATALOG), `OWNER/NAME` for a diffusers folder, or `OWNER/NAME/FILE`.
    pub name: String,
    /// A commit, branch or tag; known checkpoints have their own.
    pub revision: Option<String>,
}

/// How far a pull is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullEvent<'a> {
    /// A file's download starts, or starts again after a break.
    Start {
        /// Its path in the repository.
        file: &'a str,
        /// Its size in bytes.
        size: u64,
    },
    /// So many more bytes of it are here; what was here from an earlier run comes first, at once.
    Advance(u64),
    /// Its SHA-256 is being computed.
    Verify {
        /// Its path in the repository.
        file: &'a str,
    },
    /// It is here and sound.
    Done {
        /// Its path in the repository.
        file: &'a str,
    },
}

/// What was pulled.
#[derive(Debug, Clone)]
pub struct Pulled {
    /// What to give as the checkpoint: a file or a folder.
    pub path: PathBuf,
    /// Owner and name.
    pub repo: String,
    /// The commit.
    pub commit: String,
    /// Every file, with its SHA-256 where the hub states one.
    pub files: Vec<(PathBuf, Option<String>)>,
}

/// Connections that break off in a row, without a byte gained, before giving up.
const ATTEMPTS: usize = 5;

/// Downloads what `request` names into the cache, or finds it there and checks it.
///
/// # Errors
/// [`HubError`]. What has arrived of an interrupted download is kept and continued by the next call;
/// a file that fails its check is removed.
pub fn pull(
    request: &PullRequest,
    settings: &HubSettings,
    progress: &mut dyn FnMut(PullEvent),
) -> Result<Pulled, HubError> {
    let Plan {
        repo,
        revision,
        files,
    } = plan(request, settings)?;
    let mut session = Session::new(&repo, revision, settings)?;
    let folder = files.is_none();
    let files = match files {
        Some(files) => files,
        None => session.choose()?,
    };
    let mut paths = Vec::new();
    for file in &files {
        paths.push(session.file(file, progress)?);
    }
    let first = paths
        .first()
        .map(|(path, _)| path.clone())
        .unwrap_or_default();
    let path = if folder { session.snapshot() } else { first };
    Ok(Pulled {
        path,
        repo,
        commit: session.revision.clone(),
        files: paths,
    })
}

/// One repository at one revision.
struct Session<'a> {
    settings: &'a HubSettings,
    repo: String,
    /// As asked for, then the commit that the hub says it is.
    revision: String,
    api: Api,
}

impl<'a> Session<'a> {
    fn new(repo: &str, revision: String, settings: &'a HubSettings) -> Result<Self, HubError> {
        // The crate's own retries would take a file's length for its position, so there are none.
        let api = ApiBuilder::from_cache(Cache::new(settings.cache.clone()))
            .with_endpoint(settings.endpoint.clone())
            .with_token(settings.token.clone())
            .with_progress(false)
            .with_retries(0)
            .with_user_agent("prepose", env!("CARGO_PKG_VERSION"))
            .build();
        let session = |api| Self {
            settings,
            repo: repo.into(),
            revision: revision.clone(),
            api,
        };
        api.map(session).map_err(|source| HubError::Network {
            what: repo.into(),
            endpoint: settings.endpoint.clone(),
            source: Box::new(source),
        })
    }

    fn handle(&self) -> ApiRepo {
        self.api.repo(self.hub_repo())
    }

    fn hub_repo(&self) -> Repo {
        Repo::with_revision(self.repo.clone(), RepoType::Model, self.revision.clone())
    }

    fn snapshot(&self) -> PathBuf {
        self.settings.snapshot(&self.repo, &self.revision)
    }

    fn what(&self, file: &str) -> String {
        format!("{}/{file}", self.repo)
    }

    fn offline(&self, file: &str) -> HubError {
        HubError::Offline {
            repo: self.repo.clone(),
            file: file.into(),
            cache: self.settings.cache.clone(),
        }
    }

    /// The files of a diffusers folder: configurations, tokenizers, and one set of weights.
    fn choose(&mut self) -> Result<Vec<Wanted>, HubError> {
        if self.settings.offline {
            return Err(self.offline("the list of files"));
        }
        let info = self
            .handle()
            .info()
            .map_err(|error| self.explain(error, &self.repo))?;
        if !is_name(&info.sha) {
            return Err(self.answer(&self.repo, format!("the commit {:?}", info.sha)));
        }
        self.revision = info.sha;
        let names: Vec<String> = info
            .siblings
            .into_iter()
            .map(|file| file.rfilename)
            .collect();
        if let Some(bad) = names.iter().find(|name| !is_inside(name)) {
            return Err(self.answer(&self.repo, format!("the file name {bad:?}")));
        }
        let chosen = folder_files(&names);
        if chosen.is_empty() {
            let weights: Vec<String> = names
                .into_iter()
                .filter(|name| name.ends_with(".safetensors"))
                .collect();
            return Err(HubError::Choose {
                repo: self.repo.clone(),
                files: crate::error::list(&weights),
            });
        }
        Ok(chosen
            .into_iter()
            .map(|path| Wanted { path, sha256: None })
            .collect())
    }

    /// Makes sure that `wanted` is here and sound.
    fn file(
        &mut self,
        wanted: &Wanted,
        progress: &mut dyn FnMut(PullEvent),
    ) -> Result<(PathBuf, Option<String>), HubError> {
        let name = wanted.path.as_str();
        let pointer = self.snapshot().join(name);
        if pointer.exists() {
            match self.verify(&pointer, wanted, progress)? {
                Check::Sound(sha256) => return Ok((pointer, sha256)),
                Check::Corrupt(_) => {}
            }
        }
        if self.settings.offline {
            return Err(self.offline(name));
        }

        let url = self.handle().url(name);
        let metadata = self
            .api
            .metadata(&url)
            .map_err(|error| self.explain(error, &self.what(name)))?;
        if !is_name(metadata.etag()) || !is_name(metadata.commit_hash()) {
            return Err(self.answer(&self.what(name), "its etag or commit is no name".into()));
        }
        if let (Some(expected), true) = (wanted.sha256, is_sha256(metadata.etag()))
            && metadata.etag() != expected
        {
            return Err(HubError::Other {
                what: self.what(name),
                endpoint: self.settings.endpoint.clone(),
                found: metadata.etag().into(),
                expected: expected.into(),
            });
        }
        let blob = self.api_cache().blob_path(metadata.etag());
        let mut again = true;
        loop {
            let resumed = self.prepare(&blob, metadata.size() as u64)?;
            let pointer = self.download(name, &blob, progress)?;
            match self.verify(&pointer, wanted, progress)? {
                Check::Sound(sha256) => {
                    self.revision = metadata.commit_hash().into();
                    return Ok((pointer, sha256));
                }
                // The fault may be in what an earlier run left; that is gone now.
                Check::Corrupt(_) if resumed && again => again = false,
                Check::Corrupt(error) => return Err(error),
            }
        }
    }

    fn api_cache(&self) -> hf_hub::CacheRepo {
        Cache::new(self.settings.cache.clone()).repo(self.hub_repo())
    }

    /// Leaves a partial file that the crate can go on with; whether there is one.
    fn prepare(&self, blob: &Path, size: u64) -> Result<bool, HubError> {
        let part = blob.with_extension("part");
        let disk = |source| HubError::Disk {
            path: part.clone(),
            source,
        };
        let Ok(metadata) = fs::metadata(&part) else {
            return Ok(false);
        };
        if metadata.len() > size {
            fs::remove_file(&part).map_err(disk)?;
            return Ok(false);
        }
        if metadata.len() == size && size > 0 {
            // All here but not renamed: the crate would ask for nothing and be refused. Let it ask
            // for the last byte.
            let file = fs::OpenOptions::new()
                .write(true)
                .open(&part)
                .map_err(disk)?;
            file.set_len(size - 1).map_err(disk)?;
        }
        Ok(true)
    }

    fn download(
        &self,
        name: &str,
        blob: &Path,
        progress: &mut dyn FnMut(PullEvent),
    ) -> Result<PathBuf, HubError> {
        let part = blob.with_extension("part");
        let length = || fs::metadata(&part).map_or(0, |metadata| metadata.len());
        let mut failures = 0;
        loop {
            let before = length();
            let reporter = Reporter {
                file: name,
                progress: &mut *progress,
            };
            let error = match self.handle().download_with_progress(name, reporter) {
                Ok(pointer) => return Ok(pointer),
                Err(error) => error,
            };
            failures = if length() > before { 1 } else { failures + 1 };
            if !is_passing(&error) || failures >= ATTEMPTS {
                return Err(self.explain(error, &self.what(name)));
            }
            tracing::debug!(%error, name, failures, "the download broke off, trying again");
            std::thread::sleep(Duration::from_millis(100 << failures));
        }
    }

    /// Checks the file at `pointer` against the hash that is known, or by which it is stored. A
    /// corrupt one is removed.
    fn verify(
        &self,
        pointer: &Path,
        wanted: &Wanted,
        progress: &mut dyn FnMut(PullEvent),
    ) -> Result<Check, HubError> {
        let name = wanted.path.as_str();
        let blob = fs::canonicalize(pointer).unwrap_or_else(|_| pointer.to_path_buf());
        let stored_as = blob
            .file_name()
            .and_then(|name| name.to_str())
            .filter(|name| is_sha256(name));
        let Some(expected) = wanted.sha256.or(stored_as) else {
            progress(PullEvent::Done { file: name });
            return Ok(Check::Sound(None));
        };
        progress(PullEvent::Verify { file: name });
        let found = sha256_file(&blob).map_err(|error| match error {
            crate::error::WeightsError::Io { path, source } => HubError::Disk { path, source },
            other => self.answer(&self.what(name), other.to_string()),
        })?;
        if found == expected {
            progress(PullEvent::Done { file: name });
            return Ok(Check::Sound(Some(found)));
        }
        for path in [pointer, &blob] {
            if path.exists() || path.is_symlink() {
                fs::remove_file(path).map_err(|source| HubError::Disk {
                    path: path.into(),
                    source,
                })?;
            }
        }
        Ok(Check::Corrupt(HubError::Corrupt {
            what: self.what(name),
            found,
            expected: expected.to_string(),
        }))
    }

    fn answer(&self, what: &str, reason: String) -> HubError {
        HubError::Answer {
            what: what.into(),
            endpoint: self.settings.endpoint.clone(),
            reason,
        }
    }

    fn explain(&self, error: ApiError, what: &str) -> HubError {
        if let ApiError::RequestError(request) = &error
            && let ureq::Error::StatusCode(status) = **request
        {
            match status {
                401 | 403 => {
                    return HubError::Refused {
                        repo: self.repo.clone(),
                        status,
                        token: self.settings.token.is_some(),
                    };
                }
                404 => {
                    let what = format!("{what} at revision {}", self.revision);
                    return HubError::Missing {
                        what,
                        endpoint: self.settings.endpoint.clone(),
                    };
                }
                _ => {}
            }
        }
        match error {
            ApiError::IoError(source) if is_disk(&source) => HubError::Disk {
                path: self.settings.cache.clone(),
                source,
            },
            ApiError::LockAcquisition(_) => HubError::Locked { what: what.into() },
            ApiError::MissingHeader(header) | ApiError::InvalidHeader(header) => {
                self.answer(what, format!("the header {header} is missing or wrong"))
            }
            error => HubError::Network {
                what: what.into(),
                endpoint: self.settings.endpoint.clone(),
                source: Box::new(error),
            },
        }
    }
}

enum Check {
    /// With the hash, where one is known.
    Sound(Option<String>),
    Corrupt(HubError),
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_disk(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as K;
    matches!(
        error.kind(),
        K::StorageFull
            | K::QuotaExceeded
            | K::ReadOnlyFilesystem
            | K::PermissionDenied
            | K::FileTooLarge
            | K::NotADirectory
            | K::AlreadyExists
            | K::NotFound
    )
}

/// Whether trying again can help.
fn is_passing(error: &ApiError) -> bool {
    match error {
        ApiError::IoError(error) => !is_disk(error),
        ApiError::RequestError(error) => match **error {
            ureq::Error::StatusCode(status) => status == 408 || status == 429 || status >= 500,
            _ => true,
        },
        _ => false,
    }
}

struct Reporter<'a> {
    file: &'a str,
    progress: &'a mut dyn FnMut(PullEvent),
}

impl Progress for Reporter<'_> {
    fn init(&mut self, size: usize, _filename: &str) {
        (self.progress)(PullEvent::Start {
            file: self.file,
            size: size as u64,
        });
    }

    fn update(&mut self, size: usize) {
        (self.progress)(PullEvent::Advance(size as u64));
    }

    fn finish(&mut self) {}
}
