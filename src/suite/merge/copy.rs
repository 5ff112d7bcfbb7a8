//! Putting pictures, and whatever is not joined line by line, in their place.

use std::collections::HashMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::MergeError;
use crate::store::ledger::Ledger;
use crate::store::{Entry, Store, StoreError};
use crate::suite::folder::RunFolder;
use crate::suite::plan::Plan;
use crate::suite::shard::Shard;

/// Files that are under way at once: an object store takes its time, but for many at once no more.
const AT_ONCE: usize = 16;

/// The folders of a method whose files belong to one picture each.
pub(super) const OF_PICTURES: [&str; 4] = ["images", "maps", "origin", "refused"];

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

impl Copy {
    /// A file of a shard that has the same name in the joined run.
    fn of(shard: usize, entry: Entry) -> Self {
        Self {
            shard,
            from: entry.name.clone(),
            to: entry.name,
            bytes: entry.bytes,
        }
    }
}

/// The pictures of a method, and what is drawn or noted beside each. What is of several pictures is joined line by
/// line, made anew from all of them, or left out.
pub(super) fn files(
    shards: &[RunFolder],
    plan: &Plan,
    method: usize,
) -> Result<Vec<Copy>, MergeError> {
    let folder = plan.config.methods[method].name.as_str();
    let own = format!("{folder}/");
    let is_of_picture = |name: &str| {
        let within = name
            .strip_prefix(&own)
            .and_then(|name| name.split_once('/'));
        within.is_some_and(|(part, _)| OF_PICTURES.contains(&part))
    };
    let mut copies = Vec::new();
    for (place, run) in shards.iter().enumerate() {
        let entries = run.store().list(folder)?.into_iter();
        let of_pictures = entries.filter(|entry| is_of_picture(&entry.name));
        copies.extend(of_pictures.map(|entry| Copy::of(place, entry)));
    }
    Ok(once(copies))
}

/// The files of one folder of some shards, by the places of these.
pub(super) fn folder(
    shards: &[RunFolder],
    places: &[usize],
    folder: &str,
) -> Result<Vec<Copy>, MergeError> {
    let mut copies = Vec::new();
    for &place in places {
        let entries = shards[place].store().list(folder)?.into_iter();
        copies.extend(entries.map(|entry| Copy::of(place, entry)));
    }
    Ok(once(copies))
}

/// Each file once, from the first shard that has it, in the order of their names.
fn once(mut copies: Vec<Copy>) -> Vec<Copy> {
    copies.sort_by(|a, b| (&a.to, a.shard).cmp(&(&b.to, b.shard)));
    copies.dedup_by(|later, first| later.to == first.to);
    copies
}

/// How each shard came about, under the shard's name.
pub(super) fn provenance(shards: &[RunFolder]) -> Result<Vec<Copy>, MergeError> {
    let mut copies: Vec<Copy> = Vec::new();
    for (place, run) in shards.iter().enumerate() {
        let shard = run
            .plan()
            .config
            .shard
            .map(Shard::folder)
            .unwrap_or_default();
        for entry in run.store().list("provenance")? {
            let file = entry.name.replacen("provenance/", "", 1).replace('/', "-");
            let to = format!("provenance/{shard}-{file}");
            if copies.iter().all(|copy| copy.to != to) {
                copies.push(Copy {
                    shard: place,
                    from: entry.name,
                    to,
                    bytes: entry.bytes,
                });
            }
        }
    }
    Ok(copies)
}

/// Puts all files in their place that are not there already, and says how many that were.
///
/// A file is taken to be there without being read if both ledgers list it with one digest and its time is the listed one.
pub(super) fn all(
    shards: &[RunFolder],
    copies: &[Copy],
    out: &dyn Store,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<usize, MergeError> {
    let there = there(copies, out)?;
    let mut ledger = Ledger::read(out, "")?;
    let ledgers = (shards.iter())
        .map(|shard| Ledger::read(&**shard.store(), ""))
        .collect::<Result<Vec<_>, _>>()?;
    let is_known = |copy: &Copy| {
        let listed = [ledger.get(&copy.to), ledgers[copy.shard].get(&copy.from)];
        let ([Some(here), Some(of_shard)], Some(entry)) = (listed, there.get(&copy.to)) else {
            return false;
        };
        let as_listed = entry.modified.is_some() && entry.modified == here.modified;
        as_listed && entry.bytes == copy.bytes && here.sha256 == of_shard.sha256
    };
    let left: Vec<&Copy> = copies.iter().filter(|copy| !is_known(copy)).collect();
    // What the ledger says stays true at any instant; what is joined is listed afterwards.
    let listed = left.iter().filter(|copy| ledger.remove(&copy.to)).count();
    if listed > 0 {
        ledger.write(out)?;
    }
    progress(0, left.len());
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let put = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let failure = Mutex::new(None);
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let Some(copy) = left.get(next.fetch_add(1, Ordering::Relaxed)) else {
                return;
            };
            let same_size = |entry: &Entry| entry.bytes == copy.bytes;
            let doubtful = there.get(&copy.to).is_some_and(same_size);
            match one(&**shards[copy.shard].store(), copy, out, doubtful) {
                Ok(new) => {
                    put.fetch_add(usize::from(new), Ordering::Relaxed);
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, left.len());
                }
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
        for _ in 0..AT_ONCE.min(left.len()) {
            scope.spawn(work);
        }
    });
    match failure.into_inner() {
        Ok(Some(error)) => Err(error),
        _ => Ok(put.into_inner()),
    }
}

/// What an earlier try has put in its place. Other files of `out`, such as shards in it, are not looked at.
fn there(copies: &[Copy], out: &dyn Store) -> Result<HashMap<String, Entry>, StoreError> {
    let folders = copies.iter().filter_map(|copy| copy.to.split_once('/'));
    let mut folders: Vec<_> = folders.map(|(folder, _)| folder).collect();
    folders.sort_unstable();
    folders.dedup();
    let mut there = HashMap::new();
    for folder in folders {
        let entries = out.list(folder)?.into_iter();
        there.extend(entries.map(|entry| (entry.name.clone(), entry)));
    }
    Ok(there)
}

/// Puts a file in its place. False if it is there already, which is looked at if it may be (`doubtful`).
fn one(
    shard: &dyn Store,
    copy: &Copy,
    out: &dyn Store,
    doubtful: bool,
) -> Result<bool, MergeError> {
    // Giving a file a second name does not go through the store, which would look.
    out.check_place(&copy.to)?;
    if is_linked(shard, copy, out) {
        return Ok(true);
    }
    let bytes = shard.get(&copy.from)?;
    let bytes = bytes.ok_or_else(|| MergeError::Vanished {
        location: shard.location(),
        name: copy.from.clone(),
    })?;
    if doubtful && out.get(&copy.to)?.as_ref() == Some(&bytes) {
        return Ok(false);
    }
    out.put(&copy.to, &bytes)?;
    Ok(true)
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
