//! Files of runs that are not as they were written.

use super::open;
use crate::error::SourceError;
use prepose_store::ledger::{Damage, Fault, LEDGER, Ledger, Look, named};

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

/// Refuses the runs in `locations` if results are not as they were written. What is to be told of other damage, a line for
/// each run.
///
/// # Errors
/// Such damage; a location cannot be read.
pub fn undamaged(locations: &[String]) -> Result<Vec<String>, SourceError> {
    let mut told = Vec::new();
    for (run, damage) in damage(locations)? {
        let (results, shown): (Vec<_>, Vec<_>) = damage.into_iter().partition(changes_results);
        if !results.is_empty() {
            let files = named(&results);
            return Err(SourceError::Damaged { run, files });
        }
        told.push(format!(
            "not as they were written in {run}: {}; `prepose verify --mend` remakes what it can",
            named(&shown)
        ));
    }
    Ok(told)
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

#[cfg(test)]
mod tests {
    use super::*;
    use prepose_store::ledger::Listed;
    use prepose_store::{LocalStore, Store};

    #[test]
    fn damaged_results_are_refused_and_other_damage_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let location = [folder.path().display().to_string()];
        let store = LocalStore::new(folder.path());
        let mut ledger = Ledger::default();
        for name in ["run.json", "m/manifest.jsonl", "m/images/a.png"] {
            store.put(name, b"{}").unwrap();
            ledger.insert(name, Listed::of(b"{}"));
        }
        ledger.write(&store).unwrap();
        assert_eq!(undamaged(&location).unwrap(), Vec::<String>::new());
        store.put("m/images/a.png", b"{").unwrap();
        let told = undamaged(&location).unwrap().join(" ");
        assert!(told.contains("m/images/a.png (cut)"), "{told}");
        store.put("m/manifest.jsonl", b"").unwrap();
        let error = undamaged(&location).unwrap_err().to_string();
        assert!(
            error.contains("is damaged: m/manifest.jsonl (emptied); `prepose verify"),
            "{error}"
        );
    }
}
