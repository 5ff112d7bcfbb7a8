//! Finished pictures in a folder: `ID.png`, and `ID.json` with what is known of it. The picture is written first and both
//! whole, so what has no `.json` was not finished and is not listed.

mod owners;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use prepose_store::files::{
    FolderLock, WriteError, lock, prepare_folder, remove_unfinished, write_atomically,
};
use prepose_untrusted::read_regular;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::guard::Caller;
use crate::random;
pub use owners::OpenError;
use owners::Owners;

/// The most bytes of a `.json`.
const MOST_FACTS: u64 = 1 << 20;
/// The most bytes of a picture.
const MOST_PICTURE: u64 = 1 << 30;

/// What is known of a picture.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// The request in the words of the wire.
    pub request: Value,
    /// What the checker says; null where nothing was asked.
    pub verdict: Value,
    /// What it took.
    pub cost: Value,
    /// Seconds since 1970.
    pub made: u64,
    /// `plain`, `guided` or `candidate`.
    pub kind: String,
    /// The job it was made in.
    pub job: String,
}

/// What `ID.json` holds.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// The owner's mark; none of a server without tokens of its own.
    owner: Option<String>,
    #[serde(flatten)]
    facts: Facts,
}

/// A part of the history.
pub struct Page {
    /// Newest first.
    pub pictures: Vec<Value>,
    /// How many there are in all that fit.
    pub total: usize,
    /// What the next part is before.
    pub next: Option<String>,
}

/// What the history is searched by. The rest is read from the disk when it is asked for, so that memory does not grow with
/// boxes, masks and verdicts of all that was ever made.
struct Known {
    caller: Caller,
    /// In small letters.
    prompt: String,
    /// In small letters; empty where nothing was asked.
    status: String,
}

impl Known {
    fn new(caller: Caller, facts: &Facts) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_lowercase();
        Self {
            caller,
            prompt: text(&facts.request["prompt"]),
            status: text(&facts.verdict["status"]),
        }
    }
}

/// The folder.
pub struct Gallery {
    folder: PathBuf,
    /// By identifier, which begins with the time.
    known: Mutex<BTreeMap<String, Known>>,
    owners: Owners,
    /// None if another server has the folder.
    _alone: Option<FolderLock>,
}

impl Gallery {
    /// Opens the folder, or makes it, and reads what is known of the callers' pictures. `tokens` are the callers', in the order of
    /// their numbers; none for a single caller, whose pictures are those that were made without tokens.
    ///
    /// # Errors
    /// It cannot be made or written to, or its key cannot be read.
    pub fn open(folder: &Path, tokens: &[String]) -> Result<Self, OpenError> {
        prepare_folder(folder)?;
        let alone = lock(folder)?;
        let owners = Owners::of(tokens, folder)?;
        if alone.is_some() {
            // Nobody else writes here, so what is unfinished was left by a server that was killed.
            remove_unfinished(folder);
        }
        let mut known = BTreeMap::new();
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".json")) else {
                continue;
            };
            if !is_id(id) || !folder.join(format!("{id}.png")).is_file() {
                continue;
            }
            let Some(Stored { owner, facts }) = read_stored(&entry.path()) else {
                continue;
            };
            // What is nobody's is seen by nobody.
            if let Some(caller) = owners.caller(owner.as_deref()) {
                known.insert(id.to_owned(), Known::new(caller, &facts));
            }
        }
        Ok(Self {
            folder: folder.to_path_buf(),
            known: Mutex::new(known),
            owners,
            _alone: alone,
        })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a picture of the caller's and returns its identifier.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&self, caller: Caller, png: &[u8], facts: Facts) -> Result<String, WriteError> {
        let id = format!("{:012x}-{}", now_ms(), random::hex(8));
        write_atomically(&self.folder.join(format!("{id}.png")), png)?;
        let known = Known::new(caller, &facts);
        let owner = self.owners.mark(caller).map(str::to_owned);
        let text = json!(Stored { owner, facts }).to_string();
        write_atomically(&self.folder.join(format!("{id}.json")), text.as_bytes())?;
        self.known().insert(id.clone(), known);
        Ok(id)
    }

    fn is_of(&self, caller: Caller, id: &str) -> bool {
        let known = self.known();
        known
            .get(id)
            .is_some_and(|picture| picture.caller == caller)
    }

    /// What is known of the caller's picture. Reads the disk.
    pub fn facts(&self, caller: Caller, id: &str) -> Option<Facts> {
        // Of those that are known: made here, not by the client.
        self.is_of(caller, id).then(|| self.stored(id)).flatten()
    }

    fn stored(&self, id: &str) -> Option<Facts> {
        let stored = read_stored(&self.folder.join(format!("{id}.json")));
        stored.map(|stored| stored.facts)
    }

    /// The bytes of the caller's picture.
    pub fn read(&self, caller: Caller, id: &str) -> Option<Vec<u8>> {
        if !self.is_of(caller, id) {
            return None;
        }
        read_regular(&self.folder.join(format!("{id}.png")), MOST_PICTURE).ok()
    }

    /// Removes the caller's picture; false if there is none.
    pub fn remove(&self, caller: Caller, id: &str) -> bool {
        if !self.is_of(caller, id) {
            return false;
        }
        self.known().remove(id);
        for ending in ["json", "png"] {
            let path = self.folder.join(format!("{id}.{ending}"));
            if let Err(error) = std::fs::remove_file(path) {
                tracing::warn!("a picture that was to be removed stays: {error}");
            }
        }
        true
    }

    /// Up to `limit` of the caller's pictures that are older than `before` and fit. Reads the disk.
    pub fn page(
        &self,
        caller: Caller,
        before: Option<&str>,
        limit: usize,
        text: &str,
        verdict: &str,
    ) -> Page {
        let (text, verdict) = (text.to_lowercase(), verdict.to_lowercase());
        let (total, mut ids) = {
            let known = self.known();
            let fits = |picture: &Known| {
                picture.caller == caller
                    && picture.prompt.contains(&text)
                    && (verdict.is_empty() || picture.status == verdict)
            };
            let older = known.iter().rev().filter(|(id, picture)| {
                before.is_none_or(|before| id.as_str() < before) && fits(picture)
            });
            let ids: Vec<String> = older.take(limit + 1).map(|(id, _)| id.clone()).collect();
            (known.values().filter(|picture| fits(picture)).count(), ids)
        };
        let more = ids.len() > limit;
        ids.truncate(limit);
        Page {
            next: ids.last().filter(|_| more).cloned(),
            // One that was removed meanwhile has no facts any more.
            pictures: (ids.iter())
                .filter_map(|id| Some(summary(id, &self.stored(id)?)))
                .collect(),
            total,
        }
    }
}

fn read_stored(path: &Path) -> Option<Stored> {
    let bytes = read_regular(path, MOST_FACTS).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn summary(id: &str, facts: &Facts) -> Value {
    let Facts { request, .. } = facts;
    json!({
        "id": id, "prompt": request["prompt"], "seed": request["seed"], "width": request["width"],
        "height": request["height"], "method": request["guide"]["method"], "kind": facts.kind, "made": facts.made,
        "verdict": facts.verdict, "job": facts.job,
    })
}

/// Whether it looks like an identifier that was made here.
fn is_id(id: &str) -> bool {
    id.len() <= 64
        && id
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Milliseconds since 1970, never the same twice, so that pictures stay in the order in which they were made.
fn now_ms() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |passed| passed.as_millis() as u64);
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
        Some(now.max(last + 1))
    });
    now.max(last.unwrap_or(0) + 1)
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    fn tokens(tokens: &[&str]) -> Vec<String> {
        tokens.iter().map(|token| (*token).to_owned()).collect()
    }

    fn facts(prompt: &str, status: &str) -> Facts {
        Facts {
            request: json!({"prompt": prompt, "seed": 1}),
            verdict: json!({"status": status}),
            cost: Value::Null,
            made: 1,
            kind: "plain".into(),
            job: "j".into(),
        }
    }

    #[test]
    fn pictures_stay() {
        let folder = tempfile::tempdir().unwrap();
        let callers = tokens(&["first-token", "second-token"]);
        let open = || Gallery::open(folder.path(), &callers).unwrap();
        let gallery = open();
        let mut ids: Vec<String> = ["a dog", "a cat", "a Dog and a cup"]
            .iter()
            .map(|prompt| gallery.keep(0, b"png", facts(prompt, "PASS")).unwrap())
            .collect();
        gallery.keep(1, b"other", facts("a dog", "FAIL")).unwrap();
        // Left by a server that was killed: a picture without what is known of it, and the reverse.
        std::fs::write(folder.path().join("00-aa.png"), "half").unwrap();
        std::fs::write(folder.path().join(".prepose-x1"), "half").unwrap();
        std::fs::write(
            folder.path().join("00-bb.json"),
            json!(facts("x", "")).to_string(),
        )
        .unwrap();

        // While another server has the folder, it may be writing that.
        let _other = open();
        assert!(folder.path().join(".prepose-x1").exists());
        drop((gallery, _other));
        let again = open();
        assert!(!folder.path().join(".prepose-x1").exists());
        ids.reverse();
        let listed = |page: &Page| -> Vec<String> {
            page.pictures
                .iter()
                .map(|one| one["id"].as_str().unwrap().to_owned())
                .collect()
        };
        let page = again.page(0, None, 2, "", "");
        assert_eq!((listed(&page), page.total), (ids[..2].to_vec(), 3));
        let page = again.page(0, page.next.as_deref(), 2, "", "");
        assert_eq!((listed(&page), page.next), (ids[2..].to_vec(), None));
        assert_eq!(again.page(0, None, 9, "dog", "pass").total, 2);
        assert_eq!(again.page(0, None, 9, "", "fail").total, 0);

        assert_eq!(again.read(0, &ids[0]).unwrap(), b"png");
        for (caller, id) in [(1, ids[0].as_str()), (0, "../x"), (0, "")] {
            assert!(again.read(caller, id).is_none() && !again.remove(caller, id));
        }
        assert!(again.remove(0, &ids[0]) && !again.remove(0, &ids[0]));
        assert_eq!(open().page(0, None, 9, "", "").total, 2);
    }

    #[test]
    fn pictures_stay_their_tokens_when_others_come_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let open = |callers: &[&str]| Gallery::open(folder.path(), &tokens(callers)).unwrap();
        let gallery = open(&["first-token", "second-token"]);
        let keep = |caller| gallery.keep(caller, b"png", facts("a dog", "")).unwrap();
        let [first, second] = [0, 1].map(keep);
        drop(gallery);
        let gallery = open(&["a-new-token", "second-token"]);
        assert!(gallery.facts(1, &second).is_some());
        for (caller, id) in [(0, &first), (1, &first), (0, &second)] {
            assert!(gallery.read(caller, id).is_none() && !gallery.remove(caller, id));
        }
        drop(gallery);
        let gallery = open(&["second-token", "first-token"]);
        assert!(gallery.read(0, &second).is_some() && gallery.read(1, &first).is_some());
        let text = std::fs::read_to_string(folder.path().join(format!("{first}.json"))).unwrap();
        // A digest without the key could be found by guessing.
        let plain = Sha256::digest("first-token");
        assert!(!text.contains("first-token") && !text.contains(&format!("{plain:x}")[..32]));
    }

    #[test]
    fn pictures_of_servers_without_tokens_are_of_such_servers() {
        let folder = tempfile::tempdir().unwrap();
        let open = |callers: &[&str]| Gallery::open(folder.path(), &tokens(callers)).unwrap();
        let gallery = open(&[]);
        let id = gallery.keep(0, b"png", facts("a dog", "")).unwrap();
        drop(gallery);
        let gallery = open(&["first-token"]);
        assert!(gallery.read(0, &id).is_none());
        let other = gallery.keep(0, b"png", facts("a dog", "")).unwrap();
        drop(gallery);
        let gallery = open(&[]);
        assert!(gallery.read(0, &id).is_some() && gallery.read(0, &other).is_none());
    }

    #[test]
    fn a_broken_key_is_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("callers.key"), "half").unwrap();
        let opened = Gallery::open(folder.path(), &tokens(&["first-token"]));
        let message = opened.err().unwrap().to_string();
        assert!(message.contains("callers.key"), "{message}");
        assert!(Gallery::open(folder.path(), &[]).is_ok());
    }
}
