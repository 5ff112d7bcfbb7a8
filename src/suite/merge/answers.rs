//! What a judge has answered about shards' pictures. Answers cost money, so that none may be lost: those that the joined
//! run has stay, and those of the shards come after them.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::MergeError;
use crate::judge::book::{Book, BookError, Entry, entries};
use crate::store::Store;
use crate::suite::folder::{FolderError, RunFolder};

/// Where a judge's answers and tables are, in a run's folder.
pub(super) const FOLDER: &str = "judged";
/// The book of answers.
pub(super) const BOOK: &str = "judged/answers.jsonl";

/// Refuses books that cannot be read, or that somebody writes into. Whether there is an answer in a shard.
pub(super) fn check(shards: &[RunFolder], out: &dyn Store) -> Result<bool, MergeError> {
    let mut any = false;
    for run in shards {
        any |= !of_shard(run)?.is_empty();
    }
    if any {
        out.check_place(BOOK)?;
    }
    if any
        && let Some(path) = out.folder().map(|folder| folder.join(BOOK))
        && path.is_file()
    {
        Book::open(&path)?;
    }
    Ok(any)
}

/// Adds the shards' answers to the joined run's, and returns how many it did not have.
pub(super) fn join(shards: &[RunFolder], out: &dyn Store) -> Result<usize, MergeError> {
    match out.folder() {
        Some(folder) => into_book(shards, &folder.join(BOOK)),
        None => into_store(shards, out),
    }
}

/// One by one, into a file that others may want to write into meanwhile.
fn into_book(shards: &[RunFolder], path: &Path) -> Result<usize, MergeError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| BookError::Io {
            path: path.to_owned(),
            error,
        })?;
    }
    let mut book = Book::open(path)?;
    let mut added = 0;
    for run in shards {
        for entry in of_shard(run)? {
            if book.get(&entry.key).is_none() {
                book.add(entry)?;
                added += 1;
            }
        }
    }
    Ok(added)
}

/// All at once: nobody is asked about the pictures of a run in an object store.
fn into_store(shards: &[RunFolder], out: &dyn Store) -> Result<usize, MergeError> {
    let mut text = out.get(BOOK)?.unwrap_or_default();
    let there = read(&text, out)?.into_iter().map(|entry| entry.key);
    let mut known: HashSet<String> = there.collect();
    // A last line without an end is none.
    let end = text.iter().rposition(|byte| *byte == b'\n');
    text.truncate(end.map_or(0, |end| end + 1));
    let mut added = 0;
    for run in shards {
        for entry in of_shard(run)? {
            if known.insert(entry.key.clone()) {
                serde_json::to_writer(&mut text, &entry).map_err(FolderError::from)?;
                text.push(b'\n');
                added += 1;
            }
        }
    }
    if added > 0 {
        out.put(BOOK, &text)?;
    }
    Ok(added)
}

/// A shard's answers; none if nobody was asked.
fn of_shard(run: &RunFolder) -> Result<Vec<Entry>, MergeError> {
    let text = run.store().get(BOOK)?.unwrap_or_default();
    read(&text, &**run.store())
}

fn read(text: &[u8], store: &dyn Store) -> Result<Vec<Entry>, MergeError> {
    entries(text).map_err(|source| MergeError::Answers {
        file: format!("{}/{BOOK}", store.location()),
        source,
    })
}
