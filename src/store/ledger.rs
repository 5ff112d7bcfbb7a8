//! What the finished files of a run hold: their digests, in one file that is written after them.
//!
//! The ledger may lack files that were finished since, but what it says is true: whoever replaces a listed file takes it
//! out of the ledger first, and lists it again afterwards. It ends in a digest of its own lines.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Entry, Store, StoreError};

/// The ledger's name in the folder of a run.
pub const LEDGER: &str = "digests.jsonl";

/// Files that are read at once to be looked at.
const AT_ONCE: usize = 32;

/// What is known of a finished file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of what is in it.
    pub sha256: String,
    /// When it was written, as [`Entry::modified`] has it; none if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<i64>,
    /// SHA-256 of what other files say of it, where its owner keeps that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<String>,
    /// What its owner wants to remember of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What is in it, of a file that nothing else could bring back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Listed {
    /// What is known of a file with these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.len() as u64,
            sha256: sha256(bytes),
            modified: None,
            lines: None,
            note: None,
            text: None,
        }
    }

    /// What has become of the file, as far as its size now tells.
    pub fn fault_of_size(&self, bytes: u64) -> Option<Fault> {
        match bytes.cmp(&self.bytes) {
            Ordering::Less if bytes == 0 => Some(Fault::Emptied),
            Ordering::Less => Some(Fault::Cut),
            Ordering::Greater => Some(Fault::Longer),
            Ordering::Equal => None,
        }
    }

    /// Whether these bytes are what was listed.
    pub fn is(&self, bytes: &[u8]) -> bool {
        self.bytes == bytes.len() as u64 && self.sha256 == sha256(bytes)
    }
}

/// SHA-256 in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// What has become of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It is not there.
    Deleted,
    /// It has nothing in it.
    Emptied,
    /// It has less in it.
    Cut,
    /// It has more in it.
    Longer,
    /// It has something else in it.
    Changed,
    /// A folder has its name.
    Folder,
    /// It is there, but its digest is not known.
    Unlisted,
}

impl Fault {
    /// In one or a few words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Emptied => "emptied",
            Self::Cut => "cut",
            Self::Longer => "longer",
            Self::Changed => "changed",
            Self::Folder => "replaced by a folder",
            Self::Unlisted => "not listed",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A file that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// Its name in the run's folder.
    pub name: String,
    /// What has become of it.
    pub fault: Fault,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.fault)
    }
}

/// The first few of several, for a message.
pub fn named(damage: &[Damage]) -> String {
    const SHOWN: usize = 5;
    let shown = damage.iter().take(SHOWN).map(Damage::to_string);
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if damage.len() > SHOWN {
        text += &format!(" and {} more", damage.len() - SHOWN);
    }
    text
}

/// How closely files are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// At size and time; what is in it, where the time is another.
    Quick,
    /// At what is in all of them.
    Whole,
}

/// The digests of a run's finished files, by their names in its folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    files: BTreeMap<String, Listed>,
    damaged: Option<Fault>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    name: String,
    #[serde(flatten)]
    listed: Listed,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    lines: usize,
    sha256: String,
}

impl Ledger {
    /// The ledger of the run in the folder `root` of a store (with a slash at its end; empty for the whole store). It is
    /// empty if there is none, and empty and [`damaged`](Self::damaged) if it is not what was written.
    ///
    /// # Errors
    /// The store's.
    pub fn read(store: &dyn Store, root: &str) -> Result<Self, StoreError> {
        let Some(bytes) = store.get(&format!("{root}{LEDGER}"))? else {
            return Ok(Self::default());
        };
        Ok(Self::parse(&bytes).unwrap_or_else(|| Self {
            files: BTreeMap::new(),
            damaged: Some(match bytes.is_empty() {
                true => Fault::Emptied,
                false => Fault::Changed,
            }),
        }))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
        let (lines, end) = text.rsplit_once('\n').unwrap_or(("", text));
        let end: End = serde_json::from_str(end).ok()?;
        let mut files = BTreeMap::new();
        for line in lines.lines() {
            let Line { name, listed } = serde_json::from_str(line).ok()?;
            files.insert(name, listed);
        }
        let whole = files.len() == end.lines && sha256(lines.as_bytes()) == end.sha256;
        whole.then_some(Self {
            files,
            damaged: None,
        })
    }

    /// Writes it in place of the one that is there.
    ///
    /// # Errors
    /// The store's.
    pub fn write(&self, store: &dyn Store) -> Result<(), StoreError> {
        let fail = |source: serde_json::Error| StoreError::File {
            action: "write",
            name: LEDGER.into(),
            location: store.location(),
            source: source.into(),
        };
        let mut lines = Vec::with_capacity(self.files.len());
        for (name, listed) in &self.files {
            let line = Line {
                name: name.clone(),
                listed: listed.clone(),
            };
            lines.push(serde_json::to_string(&line).map_err(fail)?);
        }
        let mut text = lines.join("\n");
        let end = End {
            lines: self.files.len(),
            sha256: sha256(text.as_bytes()),
        };
        if !text.is_empty() {
            text.push('\n');
        }
        text += &serde_json::to_string(&end).map_err(fail)?;
        text.push('\n');
        store.put(LEDGER, text.as_bytes())
    }

    /// What has become of the ledger itself, if it cannot be believed.
    pub fn damaged(&self) -> Option<Damage> {
        self.damaged.map(|fault| Damage {
            name: LEDGER.into(),
            fault,
        })
    }

    /// Whether it lists nothing.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// What is known of a file.
    pub fn get(&self, name: &str) -> Option<&Listed> {
        self.files.get(name)
    }

    /// All files and what is known of them, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Listed)> {
        self.files
            .iter()
            .map(|(name, listed)| (name.as_str(), listed))
    }

    /// The files whose names begin so.
    pub fn below<'a>(&'a self, start: &'a str) -> impl Iterator<Item = (&'a str, &'a Listed)> {
        self.files
            .range(start.to_string()..)
            .map(|(name, listed)| (name.as_str(), listed))
            .take_while(move |(name, _)| name.starts_with(start))
    }

    /// Lists a file; it is written already.
    pub fn insert(&mut self, name: impl Into<String>, listed: Listed) {
        self.files.insert(name.into(), listed);
    }

    /// Takes a file out, before it is replaced. False if it was not listed.
    pub fn remove(&mut self, name: &str) -> bool {
        self.files.remove(name).is_some()
    }

    /// Takes the times of files from a listing of the run's folder, where their sizes agree. False if all were known.
    pub fn take_times(&mut self, there: &[Entry]) -> bool {
        let mut new = false;
        for entry in there {
            if let Some(listed) = self.files.get_mut(&entry.name)
                && listed.bytes == entry.bytes
                && listed.modified != entry.modified
            {
                listed.modified = entry.modified;
                new = true;
            }
        }
        new
    }

    /// The listed files that `concerns` names and that are not as they were written. `there` is a listing of the store,
    /// of all files that concern; `root` is where in it the run's folder is (with a slash at its end; empty for the whole
    /// store).
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn faults(
        &self,
        store: &dyn Store,
        root: &str,
        there: &[Entry],
        look: Look,
        concerns: impl Fn(&str) -> bool,
    ) -> Result<Vec<Damage>, StoreError> {
        let there: HashMap<&str, &Entry> = (there.iter())
            .filter_map(|entry| Some((entry.name.strip_prefix(root)?, entry)))
            .collect();
        let mut found = Vec::new();
        let mut doubtful: Vec<(&str, &Listed)> = Vec::new();
        for (name, listed) in self.iter().filter(|(name, _)| concerns(name)) {
            let fault = match there.get(name) {
                None if is_folder(store, &format!("{root}{name}")) => Some(Fault::Folder),
                None => Some(Fault::Deleted),
                Some(entry) => {
                    let fault = listed.fault_of_size(entry.bytes);
                    let same_time = entry.modified.is_some() && entry.modified == listed.modified;
                    if fault.is_none() && (look == Look::Whole || !same_time) {
                        doubtful.push((name, listed));
                    }
                    fault
                }
            };
            found.extend(fault.map(|fault| Damage {
                name: name.into(),
                fault,
            }));
        }
        for some in doubtful.chunks(AT_ONCE) {
            let names: Vec<_> = some
                .iter()
                .map(|(name, _)| format!("{root}{name}"))
                .collect();
            for ((name, listed), bytes) in some.iter().zip(store.get_all(&names)?) {
                let fault = match bytes {
                    None => Fault::Deleted,
                    Some(bytes) if listed.is(&bytes) => continue,
                    Some(_) => Fault::Changed,
                };
                found.push(Damage {
                    name: (*name).into(),
                    fault,
                });
            }
        }
        found.sort();
        Ok(found)
    }
}

/// Whether a folder has this name; object stores have none.
pub fn is_folder(store: &dyn Store, name: &str) -> bool {
    store
        .folder()
        .is_some_and(|folder| folder.join(name).is_dir())
}

#[cfg(test)]
mod tests;
