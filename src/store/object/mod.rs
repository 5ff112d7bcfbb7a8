//! A run in an object store: S3 and what speaks its protocol, Google Cloud Storage, Azure Blob Storage; and in memory, for
//! tests.
//!
//! What can pass is tried again, with growing pauses: refused connections, silence, answers 429 and 5xx. What cannot is said
//! at once, with the way out: a wrong secret, a bucket that is not there, a quota. `PREPOSE_STORE_PATIENCE` (`3m`) is how
//! long one file may take.

mod failure;
mod place;

use std::collections::HashMap;
use std::ffi::OsString;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use backon::{ExponentialBuilder, Retryable};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore as Backend, ObjectStoreExt, PutMode, PutPayload};
use tokio::runtime::{Builder, Handle};

use super::{Entry, Store, StoreError, UNFINISHED, check_name};
use failure::StoreFailure;
use place::Place;

/// How long one file may take, with all tries.
const PATIENCE: Duration = Duration::from_secs(180);

/// How long the first look may take: a wrong location should not take minutes to be found out.
const FIRST_PATIENCE: Duration = Duration::from_secs(15);

/// Between tries: 0.1 s at first, twice as long each time, 5 s at most; and up to as much again, by chance, so that
/// many workers do not come back at once.
const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(100))
    .with_max_delay(Duration::from_secs(5))
    .without_max_times()
    .with_jitter();

/// Requests that are under way at once when many files are read or removed.
const AT_ONCE: usize = 32;

/// A folder of an object store.
pub struct ObjectStore {
    place: Place,
    backend: Arc<dyn Backend>,
    runtime: Handle,
    patience: Duration,
    /// Whether the store refuses to write what is there already, once that was tried.
    refuses_existing: Mutex<Option<bool>>,
}

impl ObjectStore {
    /// The folder at a location such as `s3://bucket/folder`, `gs://bucket/folder`, `az://container/folder` or
    /// `memory://name/folder`; credentials and the rest come from the store's usual environment variables.
    ///
    /// # Errors
    /// The location cannot be understood, a variable is missing, or the store does not answer or lets nobody in.
    pub fn open(location: &str) -> Result<Self, StoreError> {
        // Variables that are not UTF-8 are none of these.
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::open_with(location, std::env::vars_os().filter_map(text).collect())
    }

    /// As [`open`](Self::open), with these variables in place of the environment's.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(
        location: &str,
        variables: HashMap<String, String>,
    ) -> Result<Self, StoreError> {
        let place = Place::read(location, variables)?;
        let patience = place.patience(PATIENCE)?;
        let runtime = runtime().map_err(|error| place.refuse(error.to_string()))?;
        // The clients start their own tasks.
        let backend = {
            let _inside = runtime.enter();
            place.connect()?
        };
        let store = Self {
            place,
            backend,
            runtime,
            patience,
            refuses_existing: Mutex::new(None),
        };
        store.look()?;
        Ok(store)
    }

    /// Finds out whether the store answers and lets us in.
    fn look(&self) -> Result<(), StoreError> {
        let look = || async {
            self.backend
                .list(Some(&self.place.prefix))
                .next()
                .await
                .transpose()
        };
        let seen = self.wait(FIRST_PATIENCE.min(self.patience), look);
        match seen {
            Ok(_) | Err(StoreFailure::Absent) => Ok(()),
            Err(failure) => Err(self.place.refuse(failure.explain(&self.place))),
        }
    }

    fn path(&self, name: &str) -> Result<Path, StoreError> {
        check_name(name)?;
        let whole = match self.place.prefix.as_ref() {
            "" => name.into(),
            prefix => format!("{prefix}/{name}"),
        };
        Path::parse(whole).map_err(|_| StoreError::Name(name.into()))
    }

    /// Does `work` until it succeeds, fails for good, or `patience` is over.
    fn wait<T, F>(&self, patience: Duration, work: impl Fn() -> F) -> Result<T, StoreFailure>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        self.runtime.block_on(self.retry(patience, work))
    }

    async fn retry<T, F>(&self, patience: Duration, work: impl Fn() -> F) -> Result<T, StoreFailure>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        let start = Instant::now();
        let mut tries = 0;
        let once = || {
            tries += 1;
            let left = patience.saturating_sub(start.elapsed());
            let answer = tokio::time::timeout(left, work());
            async {
                match answer.await {
                    Ok(Ok(done)) => Ok(done),
                    Ok(Err(error)) => Err(StoreFailure::of(&error)),
                    Err(_) => Err(StoreFailure::Silence),
                }
            }
        };
        let done = once
            .retry(PAUSES)
            .when(StoreFailure::may_pass)
            .adjust(|_, pause| pause.filter(|pause| start.elapsed() + *pause < patience))
            .notify(|failure, pause| {
                tracing::info!("{}: {failure}; trying again in {pause:?}", self.place);
            })
            .await;
        done.map_err(|failure| match failure.may_pass() {
            true => failure.after(tries, start.elapsed()),
            false => failure,
        })
    }

    fn fail(&self, action: &'static str, name: &str, failure: StoreFailure) -> StoreError {
        StoreError::File {
            action,
            name: name.into(),
            location: self.location(),
            source: failure.explain(&self.place).into(),
        }
    }

    async fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, StoreFailure> {
        let read = || async { self.backend.get(path).await?.bytes().await };
        match self.retry(self.patience, read).await {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(StoreFailure::Absent) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    fn exists(&self, path: &Path) -> Result<bool, StoreFailure> {
        match self.wait(self.patience, || self.backend.head(path)) {
            Ok(_) => Ok(true),
            Err(StoreFailure::Absent) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Writes what must not be there yet; false if it is.
    fn create(&self, path: &Path, bytes: &[u8]) -> Result<bool, StoreFailure> {
        let payload = PutPayload::from(bytes.to_vec());
        // A try that was not answered may have arrived.
        let unsure = AtomicBool::new(false);
        let unsure = &unsure;
        let create = || {
            let payload = payload.clone();
            async move {
                let mode = PutMode::Create;
                let done = self.backend.put_opts(path, payload, mode.into()).await;
                if let Err(error) = &done
                    && StoreFailure::of(error).may_pass()
                {
                    unsure.store(true, Ordering::Relaxed);
                }
                done
            }
        };
        match self.wait(self.patience, create) {
            Ok(_) => Ok(true),
            Err(StoreFailure::Exists) if unsure.load(Ordering::Relaxed) => {
                let there = self.runtime.block_on(self.read(path))?;
                Ok(there.as_deref() == Some(bytes))
            }
            Err(StoreFailure::Exists) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Whether the store can write what is not there yet and nothing else. Tried out, once: some stores accept the request
    /// and overwrite.
    fn refuses_existing(&self) -> Result<bool, StoreError> {
        let mut known = (self.refuses_existing.lock()).unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = *known {
            return Ok(known);
        }
        let name = format!(
            "{UNFINISHED}probe-{:016x}",
            RandomState::new().hash_one(std::process::id())
        );
        let path = self.path(&name)?;
        let found = match self.create(&path, b"1") {
            Ok(true) => self.create(&path, b"2").map(|written| !written),
            Ok(false) => Ok(true),
            Err(failure) => Err(failure),
        };
        let found = match found {
            Err(StoreFailure::Unsupported(_)) => Ok(false),
            found => found,
        };
        let removed = self.remove(&name);
        let found = found.map_err(|failure| self.fail("write", &name, failure))?;
        removed?;
        if !found {
            tracing::warn!(
                "{} cannot refuse to write what is there already: if two copies of a shard run at once, the file of the \
                 slower one stays, which holds the same",
                self.place
            );
        }
        *known = Some(found);
        Ok(found)
    }

    fn names(&self, names: &[String]) -> Result<Vec<Path>, StoreError> {
        names.iter().map(|name| self.path(name)).collect()
    }
}

impl Store for ObjectStore {
    fn location(&self) -> String {
        self.place.to_string()
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.path(name)?;
        self.runtime
            .block_on(self.read(&path))
            .map_err(|failure| self.fail("read", name, failure))
    }

    fn get_all(&self, names: &[String]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let paths = self.names(names)?;
        let read = names.iter().zip(&paths).map(|(name, path)| async move {
            (self.read(path).await).map_err(|failure| self.fail("read", name, failure))
        });
        let all = stream::iter(read).buffered(AT_ONCE).try_collect();
        self.runtime.block_on(all)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.path(name)?;
        let payload = PutPayload::from(bytes.to_vec());
        self.wait(self.patience, || self.backend.put(&path, payload.clone()))
            .map(drop)
            .map_err(|failure| self.fail("write", name, failure))
    }

    /// As told by the trait where the store has conditional writes. Where it has not, two writers at the same moment may
    /// both be told that they won, and the later one's bytes stay.
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, StoreError> {
        let path = self.path(name)?;
        let fail = |failure| self.fail("write", name, failure);
        if self.refuses_existing()? {
            return self.create(&path, bytes).map_err(fail);
        }
        if self.exists(&path).map_err(fail)? {
            return Ok(false);
        }
        self.put(name, bytes)?;
        Ok(true)
    }

    fn list(&self, folder: &str) -> Result<Vec<Entry>, StoreError> {
        let path = match folder {
            "" => self.place.prefix.clone(),
            folder => self.path(folder)?,
        };
        let list = || async {
            let mut found = Vec::new();
            let mut objects = self.backend.list(Some(&path));
            while let Some(object) = objects.try_next().await? {
                let whole = object.location.as_ref();
                let name = match self.place.prefix.as_ref() {
                    "" => Some(whole),
                    prefix => whole
                        .strip_prefix(prefix)
                        .and_then(|name| name.strip_prefix('/')),
                };
                let Some(name) = name else { continue };
                let file = name.rsplit('/').next().unwrap_or(name);
                if !file.starts_with(UNFINISHED) {
                    found.push(Entry {
                        name: name.into(),
                        bytes: object.size,
                        modified: Some(object.last_modified.timestamp_micros()),
                    });
                }
            }
            Ok(found)
        };
        // A listing of many pages may take longer than a file.
        match self.wait(self.patience * 4, list) {
            Ok(mut found) => {
                found.sort();
                Ok(found)
            }
            Err(StoreFailure::Absent) => Ok(Vec::new()),
            Err(failure) => Err(self.fail("list", folder, failure)),
        }
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.remove_all(&[name.into()])
    }

    fn remove_all(&self, names: &[String]) -> Result<(), StoreError> {
        let paths = self.names(names)?;
        let remove = names.iter().zip(&paths).map(|(name, path)| async move {
            let removed = self.retry(self.patience, || self.backend.delete(path));
            match removed.await {
                Ok(()) | Err(StoreFailure::Absent) => Ok(()),
                Err(failure) => Err(self.fail("remove", name, failure)),
            }
        });
        let all = stream::iter(remove).buffer_unordered(AT_ONCE).try_collect();
        self.runtime.block_on(all)
    }
}

/// What drives the connections, on a thread of its own for as long as the program runs.
fn runtime() -> std::io::Result<Handle> {
    static RUNTIME: Mutex<Option<Handle>> = Mutex::new(None);
    let mut known = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = &*known {
        return Ok(runtime.clone());
    }
    // Someone else may have chosen one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("object-store".into())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    *known = Some(handle.clone());
    Ok(handle)
}
