//! Which shards of a run there are.

use std::collections::{BTreeMap, BTreeSet};

use super::folder::Found;

/// Shards of a run that a report lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingShards {
    /// The indices of the first few.
    pub first: Vec<usize>,
    /// How many are missing.
    pub missing: usize,
    /// Of how many.
    pub count: usize,
}

impl MissingShards {
    /// `1`, `1 and 3`, `1, 3, 5 and 20 others`.
    pub(crate) fn named(&self) -> String {
        let texts: Vec<String> = self.first.iter().map(usize::to_string).collect();
        let rest = self.missing.saturating_sub(texts.len());
        match (texts.as_slice(), rest) {
            ([one], 0) => one.clone(),
            ([first @ .., last], 0) => format!("{} and {last}", first.join(", ")),
            (all, 1) => format!("{} and another", all.join(", ")),
            (all, rest) => format!("{} and {rest} others", all.join(", ")),
        }
    }
}

/// So many missing shards are named.
const NAMED: usize = 8;

/// The shards that are not among those of one run; none if all are, or if it is not divided.
pub(super) fn missing(group: &[Found]) -> Option<MissingShards> {
    lacking(group.iter().filter_map(|found| found.shard))
}

/// Of shards by their index and of how many they are.
fn lacking(shards: impl Iterator<Item = (usize, usize)>) -> Option<MissingShards> {
    let mut there: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (index, count) in shards {
        there.entry(count).or_default().insert(index);
    }
    // What was begun with another number of shards may lie beside them.
    let missing = |(count, there): &(usize, BTreeSet<usize>)| count.saturating_sub(there.len());
    let (count, there) = there.into_iter().min_by_key(missing)?;
    let missing = count.saturating_sub(there.len());
    let absent = (0..count).filter(|index| !there.contains(index));
    (missing > 0).then(|| MissingShards {
        first: absent.take(NAMED).collect(),
        missing,
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Report, read};
    use prepose_check::shards;
    use prepose_store::{LocalStore, Store};
    use std::path::Path;

    /// A shard of a run of two prompts with three seeds, each shard with one picture of each prompt; that of `p1` with seed 0
    /// was refused.
    fn write(parts: &Path, index: usize) {
        let shard = LocalStore::new(&parts.join(format!("shard-00{index}-of-003")));
        let put = |name: &str, text: &str| shard.put(name, text.as_bytes()).unwrap();
        let config = serde_json::json!({
            "prompts": 2, "seeds": [0, 1, 2], "methods": [{"name": "m"}], "shard": format!("{index}/3"),
        });
        put("run.json", &config.to_string());
        let mut prompts = String::new();
        let mut manifest = String::new();
        for prompt in ["p0", "p1"] {
            prompts += &format!("{{\"prompt_id\": \"{prompt}\", \"prompt\": \"a dog\"}}\n");
            let turn = shards::turn("m", prompt);
            for seed in (0..3).filter(|&seed| shards::makes(index, 3, turn, seed)) {
                let id = format!("m_{prompt}_seed000{seed}");
                if (prompt, seed) == ("p1", 0) {
                    put(&format!("m/refused/{id}.json"), "{}");
                    continue;
                }
                let line = serde_json::json!({
                    "sample_id": id, "prompt_id": prompt, "image_path": format!("images/{id}.png"),
                });
                manifest += &format!("{line}\n");
            }
        }
        put("prompts.jsonl", &prompts);
        put("m/manifest.jsonl", &manifest);
    }

    /// Where a whole shard is missing, the run is not finished, and the report says which.
    #[test]
    fn a_run_without_some_of_its_shards_is_not_complete() {
        let folder = tempfile::tempdir().unwrap();
        let parts = folder.path().join("parts");
        let of = |below: &[&str]| -> Report {
            let locations = below
                .iter()
                .map(|name| parts.join(name).display().to_string());
            read(&locations.collect::<Vec<_>>(), Vec::new(), None).unwrap()
        };
        let told = |report: &Report| {
            let method = &report.methods[0];
            (method.planned, method.is_complete(), report.caveats())
        };
        let refused_in = (0..3).find(|&index| shards::makes(index, 3, shards::turn("m", "p1"), 0));
        let refused_in = refused_in.unwrap();
        for index in 0..2 {
            write(&parts, index);
        }
        let planned = if refused_in == 2 { 6 } else { 5 };
        let caveat = "parts has 3 shards, and this report lacks no. 2.".to_owned();
        let expected = (Some(planned), false, vec![caveat]);
        assert_eq!(told(&of(&[""])), expected);
        // Each given by itself: the same run.
        assert_eq!(
            told(&of(&["shard-001-of-003", "shard-000-of-003"])),
            expected
        );
        // One alone is a run of its own, of which the report says that it is a part.
        let (planned, complete, caveats) = told(&of(&["shard-000-of-003"]));
        let own = if refused_in == 0 { 1 } else { 2 };
        assert_eq!((planned, complete), (Some(own), true));
        assert_eq!(
            caveats,
            ["parts has 3 shards, and this report lacks no. 1 and 2."]
        );
        write(&parts, 2);
        assert_eq!(told(&of(&[""])), (Some(5), true, Vec::new()));
    }

    #[test]
    fn missing_shards_are_counted() {
        let found = |shards: &[(usize, usize)]| {
            let missing = lacking(shards.iter().copied())?;
            Some((missing.first, missing.missing, missing.count))
        };
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[(1, 2), (0, 2)]), None);
        assert_eq!(found(&[(2, 4), (0, 4), (2, 4)]), Some((vec![1, 3], 2, 4)));
        // A run that was first to have two shards, and then four.
        assert_eq!(found(&[(0, 2), (0, 4), (1, 4), (2, 4), (3, 4)]), None);
        // Whatever a file says.
        let first = (0..9).filter(|index| *index != 5).collect();
        let most = usize::MAX;
        assert_eq!(found(&[(5, most)]), Some((first, most - 1, most)));
    }
}
