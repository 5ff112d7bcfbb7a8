//! Joining the shards of a run into the run that one machine would have made.
//!
//! What the shards hold is checked as a whole before anything is written: the same settings and prompts, every picture of the
//! plan there once. The joined run differs from an undivided one in times, machines and provenance only. What was made
//! of a shard's pictures afterwards is joined where that can be, and else named. Joining can be killed and said again.

mod answers;
mod beside;
mod checks;
mod copy;
mod error;
mod evaluations;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::folder::{CONFIG, Finished, RunFolder};
use super::plan::{Job, Plan};
use super::sample::Sample;
use super::shard::Shard;
use crate::check::spatialbench::results::TABLES;
use crate::store::ledger::LEDGER;
use crate::store::{self, Store};

use beside::{Beside, Evaluation};
pub use beside::{LeftOut, Why};
use checks::{has_no_links, has_no_more, same_run, undamaged};
use copy::Copy;
pub use error::MergeError;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Of how many shards.
    pub shards: usize,
    /// Pictures by all methods.
    pub pictures: usize,
    /// Pictures and other files that were put in their place; the others were there already.
    pub copied: usize,
    /// Answers of a judge that the joined run did not have.
    pub answers: usize,
    /// What the joined run does not get.
    pub left: Vec<LeftOut>,
}

/// The shards at `locations`, where a folder that holds shards stands for all of them.
///
/// # Errors
/// A location that cannot be read, or has no shard.
pub fn find(locations: &[String]) -> Result<Vec<RunFolder>, MergeError> {
    let mut shards = Vec::new();
    for location in locations {
        let store = store::open(location)?;
        if let Ok(run) = RunFolder::open(store.clone())
            && run.plan().config.shard.is_some()
        {
            shards.push(run);
            continue;
        }
        let folders = folders_of_shards(&*store)?;
        if folders.is_empty() {
            // What is wrong with it, if it is a run.
            RunFolder::open(store.clone())?;
            return Err(MergeError::NoShard(store.location()));
        }
        for folder in folders {
            let location = format!("{}/{folder}", store.location());
            shards.push(RunFolder::open(store::open(&location)?)?);
        }
    }
    Ok(shards)
}

/// The runs in a location: the one that it is, and the shards in it.
///
/// # Errors
/// The location cannot be read, or there is no run in it.
pub fn runs_in(location: &str) -> Result<Vec<Arc<dyn Store>>, MergeError> {
    let store = store::open(location)?;
    let mut runs = Vec::new();
    for folder in folders_of_shards(&*store)? {
        runs.push(store::open(&format!("{}/{folder}", store.location()))?);
    }
    let begun = |name| Ok::<_, MergeError>(store.get(name)?.is_some());
    if runs.is_empty() || begun(CONFIG)? || begun(LEDGER)? {
        runs.insert(0, store);
    }
    Ok(runs)
}

/// The folders in a run that are called like shards.
fn folders_of_shards(store: &dyn Store) -> Result<Vec<String>, MergeError> {
    let files = store.list("")?;
    let folders = files.iter().filter_map(|file| {
        let (folder, _) = file.name.split_once('/')?;
        Shard::of_folder(folder).map(Shard::folder)
    });
    let mut folders: Vec<_> = folders.collect();
    folders.dedup();
    Ok(folders)
}

/// Joins `shards` into the run folder `out`. `progress` is told how many files are in their place, and how many will be.
///
/// # Errors
/// The shards do not make one whole run, or a store fails.
pub fn merge(
    mut shards: Vec<RunFolder>,
    out: Arc<dyn Store>,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Merged, MergeError> {
    let taken = |run: &RunFolder| run.store().location() == out.location();
    if shards.iter().any(taken) {
        return Err(MergeError::Itself(out.location()));
    }
    shards.sort_by_key(|run| run.plan().config.shard);
    let plan = same_run(&shards)?;
    undamaged(&shards)?;
    let mut joining = Joining::of(&shards, &plan)?;
    let is_judged = answers::check(&shards, &*out)?;

    let pictures = plan.len();
    has_no_more(&out, &plan)?;
    let tables = joining.tables(&plan);
    let book = is_judged.then_some(answers::BOOK);
    let names = (joining.copies.iter().map(|copy| copy.to.as_str()))
        .chain(tables.iter().map(String::as_str))
        .chain(book);
    has_no_links(&*out, names)?;
    let out = RunFolder::claim(out, plan)?;
    beside::look_in_joined(&mut joining.left, &**out.store())?;
    let answers = match is_judged {
        true => answers::join(&shards, &**out.store())?,
        false => 0,
    };
    let copied = copy::all(&shards, &joining.copies, &**out.store(), progress)?;
    for method in 0..out.plan().config.methods.len() {
        let samples = samples(&shards, out.plan(), method)?;
        joining.write_evaluations(&shards, &out, method, &samples)?;
        let all = samples.len();
        out.write(method, all, |each| {
            let mut samples = samples.into_iter();
            Ok::<_, MergeError>(samples.try_for_each(|(_, job, finished)| each(job, finished))?)
        })?;
    }
    Ok(Merged {
        shards: shards.len(),
        pictures,
        copied,
        answers,
        left: joining.left,
    })
}

/// What becomes of the files of shards whose pictures are all there; not the text of any, which may be much.
struct Joining {
    copies: Vec<Copy>,
    evaluations: Vec<Evaluation>,
    left: Vec<LeftOut>,
}

impl Joining {
    /// Looks at all of it before anything is written, and keeps none: the samples of one method are many already.
    fn of(shards: &[RunFolder], plan: &Plan) -> Result<Self, MergeError> {
        let Beside { evaluations, left } = Beside::of(shards, plan)?;
        let mut joining = Self {
            copies: Vec::new(),
            evaluations: Vec::new(),
            left,
        };
        let mut rest = evaluations.into_iter().peekable();
        for method in 0..plan.config.methods.len() {
            let samples = samples(shards, plan, method)?;
            same_number_of_records(shards, plan, &samples)?;
            joining.copies.extend(copy::files(shards, plan, method)?);
            while let Some(evaluation) = rest.next_if(|one| one.method == method) {
                match evaluations::joined(shards, plan, &samples, &evaluation)? {
                    Ok(_) => {
                        let overlays = evaluation.overlays();
                        let drawn = copy::folder(shards, &evaluation.places, &overlays)?;
                        joining.copies.extend(drawn);
                        joining.evaluations.push(evaluation);
                    }
                    Err(why) => joining.left.push(evaluation.left_out(shards, why)),
                }
            }
        }
        joining.copies.extend(copy::provenance(shards)?);
        Ok(joining)
    }

    /// Names of files that are written anew, one in each of the folders of tables.
    fn tables(&self, plan: &Plan) -> Vec<String> {
        let methods = plan.config.methods.iter();
        let own = methods.map(|method| format!("{}/eval", method.name));
        let others = self.evaluations.iter().map(|one| one.folder.clone());
        own.chain(others)
            .map(|folder| format!("{folder}/{TABLES}/main_results.csv"))
            .collect()
    }

    /// Writes the records that a checker left of a method's pictures when it looked at them again, and what follows from
    /// them.
    fn write_evaluations(
        &mut self,
        shards: &[RunFolder],
        out: &RunFolder,
        method: usize,
        samples: &[Found],
    ) -> Result<(), MergeError> {
        for evaluation in self.evaluations.iter().filter(|one| one.method == method) {
            match evaluations::joined(shards, out.plan(), samples, evaluation)? {
                Ok(joined) => joined.write(&**out.store(), &evaluation.folder, samples)?,
                // Somebody has changed it since it was looked at.
                Err(why) => self.left.push(evaluation.left_out(shards, why)),
            }
        }
        Ok(())
    }
}

/// A finished picture, the index of the shard's folder that it is from, and its job in the whole run.
type Found = (usize, Job, Finished);

/// All pictures of a method in the order of the plan.
fn samples(shards: &[RunFolder], plan: &Plan, method: usize) -> Result<Vec<Found>, MergeError> {
    let name = &plan.config.methods[method].name;
    let mut found: HashMap<String, (usize, Finished)> = HashMap::new();
    let mut refused = HashSet::new();
    for (place, run) in shards.iter().enumerate() {
        let own = |run: &RunFolder| {
            let mut methods = run.plan().config.methods.iter();
            methods.position(|method| method.name == *name)
        };
        // One that has not grown yet may lack the method.
        let Some(own) = own(run) else { continue };
        let mut of_this = HashMap::new();
        run.finished(own, |_, finished| {
            of_this.insert(finished.sample.manifest.sample_id.clone(), finished);
            Ok(())
        })?;
        complete(run, own, &of_this)?;
        refused.extend(run.refused(own)?);
        for (id, finished) in of_this {
            // The same shard twice, from two machines.
            if let Some((first, there)) = found.get(&id) {
                let name = format!("{name}/images/{id}.png");
                same_sample(&shards[*first], &there.sample, run, &finished.sample, &name)?;
            } else {
                found.insert(id, (place, finished));
            }
        }
    }
    let mut samples = Vec::with_capacity(found.len());
    let mut missing = Vec::new();
    for job in plan.jobs(method) {
        match found.remove(&plan.sample_id(job)) {
            Some((place, finished)) => samples.push((place, job, finished)),
            None if refused.contains(&plan.sample_id(job)) => {}
            None => missing.push(job),
        }
    }
    if let Some(job) = missing.first() {
        let turn = Shard::turn(name, &plan.prompts[job.prompt].prompt_id);
        let shard = shards.iter().find(|run| {
            let shard = run.plan().config.shard;
            shard.is_some_and(|shard| shard.has(turn, job.seed))
        });
        return Err(MergeError::Unfinished {
            location: shard.map(|run| run.store().location()).unwrap_or_default(),
            method: name.clone(),
            done: samples.len(),
            jobs: samples.len() + missing.len(),
        });
    }
    Ok(samples)
}

/// Refuses a shard that lacks pictures of a method.
fn complete(
    run: &RunFolder,
    method: usize,
    finished: &HashMap<String, Finished>,
) -> Result<(), MergeError> {
    let jobs = run.possible(method)?;
    match finished.len() >= jobs {
        true => Ok(()),
        false => Err(MergeError::Unfinished {
            location: run.store().location(),
            method: run.method_folder(method).into(),
            done: finished.len(),
            jobs,
        }),
    }
}

/// Refuses two samples of one job that are not of the same picture, or do not say the same of it.
fn same_sample(
    a_run: &RunFolder,
    a: &Sample,
    b_run: &RunFolder,
    b: &Sample,
    name: &str,
) -> Result<(), MergeError> {
    let picture = |run: &RunFolder| run.store().get(name);
    let mut again = b.clone();
    // When, where and how fast it was made is not what it is.
    again.manifest.timestamp_utc = a.manifest.timestamp_utc.clone();
    again.manifest.code_version = a.manifest.code_version.clone();
    again.scores.seconds = a.scores.seconds;
    let what = if again.manifest != a.manifest {
        "manifest lines"
    } else if again.records != a.records {
        "records"
    } else if again.scores != a.scores {
        "scores"
    } else if picture(a_run)? != picture(b_run)? {
        "pictures"
    } else {
        return Ok(());
    };
    Err(MergeError::Overlap {
        a: a_run.store().location(),
        b: b_run.store().location(),
        sample_id: a.manifest.sample_id.clone(),
        what,
    })
}

/// Refuses pictures with fewer records than others of the same prompt have: a line was lost.
fn same_number_of_records(
    shards: &[RunFolder],
    plan: &Plan,
    samples: &[Found],
) -> Result<(), MergeError> {
    let mut most = vec![0; plan.prompts.len()];
    for (_, job, finished) in samples {
        let most = &mut most[job.prompt];
        *most = finished.sample.records.len().max(*most);
    }
    let lacks = |(_, job, finished): &&Found| finished.sample.records.len() < most[job.prompt];
    let missing = samples.iter().filter(lacks).count();
    match samples.iter().find(lacks) {
        None => Ok(()),
        Some((place, job, finished)) => Err(MergeError::Gap {
            location: shards[*place].store().location(),
            file: format!(
                "{}/eval/per_sample.jsonl",
                plan.config.methods[job.method].name
            ),
            missing,
            jobs: samples.len(),
            sample_id: finished.sample.manifest.sample_id.clone(),
        }),
    }
}
