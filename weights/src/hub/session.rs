//! One repository while files are pulled from it.

use std::fs;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use prepose_untrusted::{open_regular, printable};
use serde::Deserialize;

use super::cache::{Found, Part, RepoCache};
use super::client::{Client, Metadata, pause};
use super::error::TransferError;
use super::plan::{Wanted, folder_files, is_commit, is_inside};
use super::request::PullEvent;
use super::{HubError, HubSettings};
use crate::hash::Digest;

/// Connections that break off in a row, without a byte gained, before giving up.
const ATTEMPTS: usize = 5;

/// The most files that a repository may list.
const MAX_FILES: usize = 100_000;

/// What the hub says of a revision.
#[derive(Deserialize)]
struct Listing {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
}

/// One repository at one revision.
pub(super) struct Session<'a> {
    settings: &'a HubSettings,
    client: Client,
    pub cache: RepoCache,
    repo: String,
    /// As asked for.
    pub revision: String,
    /// The commit that it is: from the start if it is one, else once the hub has said so.
    pub commit: Option<String>,
}

impl<'a> Session<'a> {
    pub fn new(repo: &str, revision: String, settings: &'a HubSettings) -> Result<Self, HubError> {
        let cache = RepoCache::new(&settings.cache, repo);
        let commit = match is_commit(&revision) {
            true => Some(revision.clone()),
            // Without the network, a branch is what it was last time.
            false if settings.offline => cache.commit_of(&revision),
            false => None,
        };
        Ok(Self {
            client: Client::new(settings)?,
            repo: repo.into(),
            settings,
            cache,
            revision,
            commit,
        })
    }

    /// What to ask the hub for.
    fn at(&self) -> &str {
        self.commit.as_deref().unwrap_or(&self.revision)
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

    /// Takes the hub's word for what commit the revision is, once.
    fn settle(&mut self, commit: &str, what: &str) -> Result<(), HubError> {
        match &self.commit {
            Some(known) if known != commit => {
                Err(self.answer(what, format!("it is of commit {commit} and not of {known}")))
            }
            _ => {
                self.commit = Some(commit.into());
                Ok(())
            }
        }
    }

    /// The files of a whole checkpoint: configurations, tokenizers, and one set of weights.
    pub fn choose(&mut self) -> Result<Vec<Wanted>, HubError> {
        let repo = self.repo.clone();
        if self.settings.offline {
            return Err(self.offline("the list of files"));
        }
        let listing = self.client.listing(&repo, self.at());
        let listing = listing.map_err(|error| self.explain(error, &repo))?;
        let listing: Listing = serde_json::from_slice(&listing)
            .map_err(|error| self.answer(&repo, format!("its list of files: {error}")))?;
        if !is_commit(&listing.sha) {
            let commit = printable(&listing.sha);
            return Err(self.answer(&repo, format!("the commit {commit}")));
        }
        self.settle(&listing.sha, &repo)?;
        if listing.siblings.len() > MAX_FILES {
            let count = listing.siblings.len();
            return Err(self.answer(&repo, format!("a list of {count} files")));
        }
        let names: Vec<String> = listing
            .siblings
            .into_iter()
            .map(|file| file.rfilename)
            .collect();
        if let Some(bad) = names.iter().find(|name| !is_inside(name)) {
            return Err(self.answer(&repo, format!("the file name {}", printable(bad))));
        }
        let chosen = folder_files(&repo, &names)?;
        let wanted = |path| Wanted { path, sha256: None };
        Ok(chosen.into_iter().map(wanted).collect())
    }

    /// Makes sure that `wanted` is here and sound; where it is, and its SHA-256 if one is known.
    pub fn file(
        &mut self,
        wanted: &Wanted,
        progress: &mut dyn FnMut(PullEvent),
    ) -> Result<(PathBuf, Option<String>), HubError> {
        let name = wanted.path.as_str();
        if let Some(commit) = self.commit.clone()
            && let Some(found) = self.cache.find(&commit, name)
        {
            let pointer = self.cache.snapshot(&commit).join(name);
            match self.check(&found, wanted, progress)? {
                Check::Sound(sha256) => return Ok((pointer, sha256)),
                Check::Corrupt(found, expected) if self.settings.offline => {
                    return Err(HubError::Damaged {
                        path: pointer,
                        found,
                        expected,
                    });
                }
                Check::Corrupt(..) | Check::Foreign => {}
            }
        }
        if self.settings.offline {
            return Err(self.offline(name));
        }

        let what = self.what(name);
        let metadata = self.client.metadata(&self.repo, self.at(), name);
        let metadata = metadata.map_err(|error| self.explain(error, &what))?;
        if let (Some(expected), Some(Digest::Sha256(found))) =
            (wanted.sha256, Digest::of_etag(&metadata.etag))
            && found != expected
        {
            return Err(HubError::Other {
                what,
                endpoint: self.endpoint(),
                found,
                expected: expected.into(),
            });
        }
        self.settle(&metadata.commit, &what)?;
        let sha256 = self.fetch(wanted, &metadata, progress)?;
        let pointer = self.cache.point(&metadata.commit, name, &metadata.etag)?;
        Ok((pointer, sha256))
    }

    /// Checks a file of the cache by the hash that is known or by which it is stored.
    fn check(
        &self,
        found: &Found,
        wanted: &Wanted,
        progress: &mut dyn FnMut(PullEvent),
    ) -> Result<Check, HubError> {
        let name = wanted.path.as_str();
        let known = wanted.sha256.map(|sha256| Digest::Sha256(sha256.into()));
        let stored = found.etag.as_deref().and_then(Digest::of_etag);
        let Some(expected) = known.or(stored) else {
            // Nothing is known of it; then at least it must be the cache's own.
            if found.outside {
                return Ok(Check::Foreign);
            }
            progress(PullEvent::Done { file: name });
            return Ok(Check::Sound(None));
        };
        progress(PullEvent::Verify { file: name });
        let disk = |source| HubError::Disk {
            path: found.content.clone(),
            source,
        };
        let mut file = open_regular(&found.content).map_err(disk)?;
        Ok(match expected.compare(&mut file).map_err(disk)? {
            Ok(()) => {
                progress(PullEvent::Done { file: name });
                Check::Sound(expected.sha256())
            }
            Err(hash) => Check::Corrupt(hash, expected.to_string()),
        })
    }

    /// Puts the file's content into the cache's store, unless it is there; its SHA-256 if known.
    fn fetch(
        &self,
        wanted: &Wanted,
        metadata: &Metadata,
        progress: &mut dyn FnMut(PullEvent),
    ) -> Result<Option<String>, HubError> {
        if let Some(found) = self.cache.blob(&metadata.etag)
            && fs::metadata(&found.content).is_ok_and(|blob| blob.len() == metadata.size)
            && let Check::Sound(sha256) = self.check(&found, wanted, progress)?
        {
            return Ok(sha256);
        }
        let name = wanted.path.as_str();
        let what = self.what(name);
        let known = wanted.sha256.map(|sha256| Digest::Sha256(sha256.into()));
        let expected = known.or_else(|| Digest::of_etag(&metadata.etag));
        let mut part = self.cache.part(&metadata.etag, &what)?;
        let mut resumed = self.prepare(&part, metadata.size)?;
        loop {
            self.download(name, &mut part, metadata, progress)?;
            let Some(expected) = &expected else { break };
            progress(PullEvent::Verify { file: name });
            let path = part.path.clone();
            let disk = |source| HubError::Disk { path, source };
            let compare = part
                .file
                .rewind()
                .and_then(|()| expected.compare(&mut part.file));
            let Err(found) = compare.map_err(disk)? else {
                break;
            };
            let empty = part.file.set_len(0);
            empty.map_err(|source| self.disk(&part, source))?;
            // The fault may be in what an earlier run left; that is gone now.
            if !std::mem::take(&mut resumed) {
                let _ = fs::remove_file(&part.path);
                return Err(HubError::Corrupt {
                    what,
                    found,
                    expected: expected.to_string(),
                });
            }
        }
        self.cache.store(part, &metadata.etag)?;
        progress(PullEvent::Done { file: name });
        Ok(expected.and_then(|expected| expected.sha256()))
    }

    /// Empties a partial download that cannot belong to a file of `size` bytes; whether something is
    /// left.
    fn prepare(&self, part: &Part, size: u64) -> Result<bool, HubError> {
        let disk = |source| self.disk(part, source);
        let length = part.file.metadata().map_err(disk)?.len();
        if length > size {
            part.file.set_len(0).map_err(disk)?;
        }
        Ok((1..=size).contains(&length))
    }

    /// Fills `part` to its size.
    fn download(
        &self,
        name: &str,
        part: &mut Part,
        metadata: &Metadata,
        progress: &mut dyn FnMut(PullEvent),
    ) -> Result<(), HubError> {
        let size = metadata.size;
        let mut failures = 0;
        loop {
            let end = part.file.seek(SeekFrom::End(0));
            let before = end.map_err(|source| self.disk(part, source))?;
            progress(PullEvent::Start { file: name, size });
            if before == size {
                progress(PullEvent::Advance(size));
                return Ok(());
            }
            let error = match self.transfer(name, part, (before, size), progress)? {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let after = part.file.metadata().map_or(0, |part| part.len());
            let gained = after > before;
            failures = if gained { 1 } else { failures + 1 };
            let silent = matches!(error, TransferError::Silent(_));
            if !(error.may_pass() || silent && gained) || failures >= ATTEMPTS {
                return Err(self.explain(error, &self.what(name)));
            }
            tracing::debug!(%error, name, failures, "the download broke off, trying again");
            std::thread::sleep(pause(&self.settings.timeouts, failures));
        }
    }

    /// One try to append what is missing after `start` bytes of `size`.
    fn transfer(
        &self,
        name: &str,
        part: &mut Part,
        (start, size): (u64, u64),
        progress: &mut dyn FnMut(PullEvent),
    ) -> Result<Result<(), TransferError>, HubError> {
        let content = self
            .client
            .content(&self.repo, self.at(), name, (start, size));
        let mut content = match content {
            Ok(content) => content,
            Err(error) => return Ok(Err(error)),
        };
        let mut received = content.start;
        if received < start {
            let rewound = part.file.set_len(0).and_then(|()| part.file.rewind());
            rewound.map_err(|source| self.disk(part, source))?;
        }
        progress(PullEvent::Advance(received));
        let mut buffer = vec![0; 1 << 18];
        loop {
            let count = match content.reader.read(&mut buffer) {
                Ok(0) if received < size => {
                    return Ok(Err(TransferError::Short { received, size }));
                }
                Ok(0) => return Ok(Ok(())),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Err(self.client.broken(error))),
            };
            received += count as u64;
            if received > size {
                let more = format!("more than the {size} bytes announced");
                return Ok(Err(TransferError::Answer(more)));
            }
            let written = part.file.write_all(&buffer[..count]);
            written.map_err(|source| self.disk(part, source))?;
            progress(PullEvent::Advance(count as u64));
        }
    }

    fn disk(&self, part: &Part, source: std::io::Error) -> HubError {
        HubError::Disk {
            path: part.path.clone(),
            source,
        }
    }

    fn endpoint(&self) -> String {
        prepose_untrusted::redact_address(&self.settings.endpoint)
    }

    fn answer(&self, what: &str, reason: String) -> HubError {
        HubError::Answer {
            what: what.into(),
            endpoint: self.endpoint(),
            reason,
        }
    }

    fn explain(&self, error: TransferError, what: &str) -> HubError {
        match error {
            TransferError::Status(status @ (401 | 403)) => HubError::Refused {
                repo: self.repo.clone(),
                status,
                token: self.settings.token.is_some(),
            },
            TransferError::Status(404) => HubError::Missing {
                what: format!("{what} at revision {}", self.revision),
                endpoint: self.endpoint(),
            },
            TransferError::Answer(reason) => self.answer(what, reason),
            source => HubError::Network {
                what: what.into(),
                endpoint: self.endpoint(),
                source,
            },
        }
    }
}

enum Check {
    /// With the SHA-256, where it is known.
    Sound(Option<String>),
    /// With the hash found and the one expected.
    Corrupt(String, String),
    /// A link out of the cache, to something of which no hash is known.
    Foreign,
}
