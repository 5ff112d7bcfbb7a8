//! Files of runs that are not as they were written.

use super::open;
use crate::error::SourceError;
use prepose_store::ledger::{Damage, Fault, LEDGER, Ledger, Look};

/// What a run lists and what is not as it was written, with the run's location: the runs in `locations`, and shards in
/// them. Files are looked into where their time is another.
///
/// # Errors
/// A location cannot be read.
pub fn damage(locations: &[String]) -> Result<Vec<(String, Vec<Damage>)>, SourceError> {
    let mut found = Vec::new();
    for location in locations {
        let store = open(location)?;
        let entries = store.list("")?;
        let folders = entries
            .iter()
            .filter_map(|entry| entry.name.split_once('/'));
        let mut roots: Vec<String> = folders
            .filter(|(folder, _)| folder.starts_with("shard-"))
            .map(|(folder, _)| format!("{folder}/"))
            .collect();
        roots.dedup();
        roots.insert(0, String::new());
        for root in roots {
            let ledger = Ledger::read(&*store, &root)?;
            let mut damage = ledger.faults(&*store, &root, &entries, Look::Quick, |_| true)?;
            damage.extend(ledger.damaged());
            let is_run = entries
                .iter()
                .any(|entry| entry.name.strip_prefix(&root) == Some("run.json"));
            // A run has one from its first moment.
            if is_run && ledger.is_empty() && ledger.damaged().is_none() {
                damage.push(Damage {
                    name: LEDGER.into(),
                    fault: Fault::Deleted,
                });
            }
            if !damage.is_empty() {
                let folder = format!("{}/{root}", store.location());
                found.push((folder.trim_end_matches('/').to_owned(), damage));
            }
        }
    }
    Ok(found)
}

/// Whether a report would tell something else by it: pictures, maps and notes are only shown or counted, and without
/// digests nothing is known of the results.
pub fn changes_results(damage: &Damage) -> bool {
    if damage.name == LEDGER && damage.fault == Fault::Deleted {
        return false;
    }
    let shown = |part: &str| ["images", "maps", "provenance"].contains(&part);
    !damage.name.split('/').any(shown)
}
