//! Putting pictures, and whatever is not joined line by line, in their place.

use std::collections::HashMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::MergeError;
use crate::store::{Store, StoreError};
use crate::suite::folder::RunFolder;

/// Files that are under way at once: an object store takes its time, but for many at once no more.
const AT_ONCE: usize = 16;

/// A file to copy.
pub(super) struct Copy {
    /// Index of the shard's folder that it is in.
    pub shard: usize,
    /// Its name there.
    pub from: String,
    /// Its name in the joined run.
    pub to: String,
    /// Its size.
    pub bytes: u64,
}

/// Copies all files that are not there with the same size already, and says how many that were.
pub(super) fn all(
    shards: &[RunFolder],
    copies: &[Copy],
    out: &dyn Store,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<usize, MergeError> {
    let there = there(copies, out)?;
    let missing: Vec<_> = copies
        .iter()
        .filter(|copy| there.get(&copy.to) != Some(&copy.bytes))
        .collect();
    progress(0, missing.len());
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let stop = AtomicBool::new(false);
    let failure = Mutex::new(None);
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let Some(copy) = missing.get(next.fetch_add(1, Ordering::Relaxed)) else {
                return;
            };
            match one(&**shards[copy.shard].store(), copy, out) {
                Ok(()) => progress(done.fetch_add(1, Ordering::Relaxed) + 1, missing.len()),
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    if let Ok(mut failure) = failure.lock() {
                        failure.get_or_insert(error);
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(missing.len()) {
            scope.spawn(work);
        }
    });
    match failure.into_inner() {
        Ok(Some(error)) => Err(error),
        _ => Ok(missing.len()),
    }
}

/// What an earlier try has put in its place, with sizes. Other files of `out`, such as shards in it, are not looked at.
fn there(copies: &[Copy], out: &dyn Store) -> Result<HashMap<String, u64>, StoreError> {
    let folders = copies.iter().filter_map(|copy| copy.to.split_once('/'));
    let mut folders: Vec<_> = folders.map(|(folder, _)| folder).collect();
    folders.sort_unstable();
    folders.dedup();
    let mut there = HashMap::new();
    for folder in folders {
        let entries = out.list(folder)?.into_iter();
        there.extend(entries.map(|entry| (entry.name, entry.bytes)));
    }
    Ok(there)
}

fn one(shard: &dyn Store, copy: &Copy, out: &dyn Store) -> Result<(), MergeError> {
    if is_linked(shard, copy, out) {
        return Ok(());
    }
    match shard.get(&copy.from)? {
        Some(bytes) => Ok(out.put(&copy.to, &bytes)?),
        None => Err(MergeError::Vanished {
            location: shard.location(),
            name: copy.from.clone(),
        }),
    }
}

/// Gives a file of this machine a second name, which costs nothing. Files of a run are replaced, never changed in place, so
/// that neither name can spoil what the other stands for.
fn is_linked(shard: &dyn Store, copy: &Copy, out: &dyn Store) -> bool {
    let (Some(from), Some(to)) = (shard.folder(), out.folder()) else {
        return false;
    };
    let (from, to) = (from.join(&copy.from), to.join(&copy.to));
    // What cannot be linked, to another disk for instance, is copied.
    to.parent()
        .is_some_and(|folder| fs::create_dir_all(folder).is_ok())
        && fs::hard_link(from, to).is_ok()
}
