//! What is there of a method, and which of it is as it was written.

use std::collections::{HashMap, HashSet};

use super::{FolderError, RunFolder};
use crate::output::manifest::ManifestLine;
use crate::store::Entry;
use crate::store::ledger::{Damage, Ledger, Listed, Look};
use crate::suite::plan::Job;
use crate::suite::sample::Sample;

/// Samples that are read at once.
const AT_ONCE: usize = 256;

/// What is there of a method.
pub(super) struct State {
    pub method: usize,
    pub look: Look,
    pub ledger: Ledger,
    /// The files in the method's folder, by their names in the run's.
    pub entries: HashMap<String, Entry>,
    /// Listed files that are not as they were written, in the order of their names.
    pub damage: Vec<Damage>,
    /// The ids of pictures with such files.
    bad: HashSet<String>,
}

/// Pictures of a method that are there.
pub(super) struct Done {
    /// The ids of those of which everything is as it was written.
    pub ids: HashSet<String>,
    /// The ids of those in the method's files whose lines are.
    pub lines: HashSet<String>,
}

/// What is known of a finished picture.
pub(in crate::suite) struct Finished {
    pub sample: Sample,
    /// The picture and what is drawn beside it, by their names in the run's folder; empty where it is not known.
    pub files: Vec<(String, Listed)>,
}

impl State {
    /// Whether a file is there and, if it is listed, as it was written.
    pub fn is_whole(&self, name: &str) -> bool {
        let there = self.entries.get(name).is_some_and(|entry| entry.bytes > 0);
        let damaged = |damage: &Damage| damage.name.as_str().cmp(name);
        there && self.damage.binary_search_by(damaged).is_err()
    }
}

impl RunFolder {
    pub(super) fn state(&self, method: usize, look: Look) -> Result<State, FolderError> {
        let folder = self.method_folder(method);
        let ledger = self.ledger()?;
        let entries = self.store.list(folder)?;
        let own = format!("{folder}/");
        let concerns = |name: &str| name.starts_with(&own);
        let damage = ledger.faults(&*self.store, "", &entries, look, concerns)?;
        Ok(State {
            method,
            look,
            ledger,
            bad: damage.iter().filter_map(|d| id_of(&own, &d.name)).collect(),
            damage,
            entries: entries
                .into_iter()
                .map(|entry| (entry.name.clone(), entry))
                .collect(),
        })
    }

    /// The files whose lines say what is known of a method's pictures.
    pub(super) fn line_files(&self, method: usize) -> Vec<String> {
        let mut files = vec![
            self.manifest_name(method),
            self.eval(method, "scores.jsonl"),
        ];
        if self.plan.config.checker.is_some() {
            files.push(self.eval(method, "per_sample.jsonl"));
        }
        files
    }

    pub(super) fn done(&self, state: &State) -> Result<Done, FolderError> {
        let listed = |name: &String| state.ledger.get(name).is_some() && state.is_whole(name);
        let lines: HashSet<String> = if self.line_files(state.method).iter().all(listed) {
            let manifest: Vec<ManifestLine> = self.lines(&self.manifest_name(state.method))?;
            manifest.into_iter().map(|line| line.sample_id).collect()
        } else {
            self.folded(state)?.into_keys().collect()
        };
        let mut ids: HashSet<String> = (lines.iter())
            .filter(|id| self.has_picture(state, id))
            .cloned()
            .collect();
        let jobs: Vec<Job> = self.plan.jobs(state.method).collect();
        for jobs in jobs.chunks(AT_ONCE) {
            let sealed = self.sealed(state, jobs)?;
            ids.extend(
                sealed
                    .into_values()
                    .map(|one| one.sample.manifest.sample_id),
            );
        }
        Ok(Done { ids, lines })
    }

    /// Whether a folded picture and what is beside it are as they were written.
    pub(super) fn has_picture(&self, state: &State, id: &str) -> bool {
        let name = format!("{}/images/{id}.png", self.method_folder(state.method));
        !state.bad.contains(id)
            && state
                .entries
                .get(&name)
                .is_some_and(|entry| entry.bytes > 0)
    }

    /// Listed pictures whose lines are as they were written but whose files are not: what is listed of the files.
    pub(super) fn broken_pictures(
        &self,
        state: &State,
        lines: &HashSet<String>,
    ) -> Vec<(String, Vec<(String, Listed)>)> {
        let broken = state.bad.iter().filter(|id| lines.contains(*id));
        let files = broken.map(|id| (id.clone(), self.listed_files(state, id)));
        files.filter(|(_, files)| !files.is_empty()).collect()
    }

    /// Listed pictures whose lines are not as they were written: what is listed of the pictures.
    pub(super) fn lost_lines(
        &self,
        state: &State,
        lines: &HashSet<String>,
    ) -> Vec<(String, Listed)> {
        let own = format!("{}/", self.method_folder(state.method));
        let pictures = format!("{own}images/");
        let listed = state.ledger.below(&pictures);
        let ids = listed.filter_map(|(name, listed)| Some((id_of(&own, name)?, listed.clone())));
        ids.filter(|(id, _)| !lines.contains(id)).collect()
    }

    /// What the ledger says of a picture and of what is beside it.
    pub(super) fn listed_files(&self, state: &State, id: &str) -> Vec<(String, Listed)> {
        self.listed_in(&state.ledger, state.method, id)
    }

    pub(super) fn listed_in(
        &self,
        ledger: &Ledger,
        method: usize,
        id: &str,
    ) -> Vec<(String, Listed)> {
        let folder = self.method_folder(method);
        let picture = format!("{folder}/images/{id}.png");
        let maps = format!("{folder}/maps/{id}-");
        let origin = format!("{folder}/origin/{id}.json");
        let one = |name: String| ledger.get(&name).cloned().map(|listed| (name, listed));
        let beside = [picture, origin].into_iter().filter_map(one);
        let maps = (ledger.below(&maps)).map(|(name, listed)| (name.to_string(), listed.clone()));
        beside.chain(maps).collect()
    }

    /// The ids of pictures that were finished once, whatever has become of them.
    pub(super) fn made_once(&self, state: &State) -> HashSet<String> {
        let own = format!("{}/", self.method_folder(state.method));
        let listed = state.ledger.below(&own).map(|(name, _)| name);
        let there = state.entries.keys().map(String::as_str);
        listed
            .chain(there)
            .filter_map(|name| id_of(&own, name))
            .collect()
    }

    /// Every finished picture of a method in the order of the plan, one at a time: from its file in `samples/`, else
    /// from the method's files.
    pub(in crate::suite) fn finished(
        &self,
        method: usize,
        mut each: impl FnMut(Job, Finished) -> Result<(), FolderError>,
    ) -> Result<(), FolderError> {
        let state = self.state(method, Look::Quick)?;
        let mut folded = self.folded(&state)?;
        let jobs: Vec<Job> = self.plan.jobs(method).collect();
        for jobs in jobs.chunks(AT_ONCE) {
            let mut sealed = self.sealed(&state, jobs)?;
            for &job in jobs {
                let id = self.plan.sample_id(job);
                let finished = match (sealed.remove(&job.index), folded.remove(&id)) {
                    (Some(finished), _) => finished,
                    (None, Some(sample)) if self.has_picture(&state, &id) => Finished {
                        sample,
                        files: self.listed_files(&state, &id),
                    },
                    _ => continue,
                };
                each(job, finished)?;
            }
        }
        Ok(())
    }
}

/// The id of the picture that a file in the folder `own` belongs to: `images/{id}.png`, `maps/{id}-{object}.png`,
/// `samples/{id}.json`, `origin/{id}.json`.
pub(super) fn id_of(own: &str, name: &str) -> Option<String> {
    let (kind, file) = name.strip_prefix(own)?.split_once('/')?;
    match kind {
        "images" => file.strip_suffix(".png").map(Into::into),
        "samples" | "origin" => file.strip_suffix(".json").map(Into::into),
        "maps" => {
            // Ids end in their seed.
            let seed = file.rfind("_seed")? + "_seed".len();
            let digits = file[seed..].bytes().take_while(u8::is_ascii_digit).count();
            Some(file[..seed + digits].into())
        }
        _ => None,
    }
}
