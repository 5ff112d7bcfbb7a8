//! Joining the shards of a run into the run that one machine would have made.
//!
//! What the shards hold is checked as a whole before anything is written: the same settings and prompts, every picture of the
//! plan there once. The joined run differs from an undivided one in times, machines and provenance only. Joining can be
//! killed and said again.

mod copy;
mod error;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::folder::RunFolder;
use super::plan::{Job, Plan, differences};
use super::sample::Sample;
use super::shard::Shard;
use crate::store::{self, Store};

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
    let methods = plan.config.methods.len();
    // All of it before anything is written, and not kept: the samples of one method are many already.
    let mut copies = Vec::new();
    for method in 0..methods {
        let samples = samples(&shards, &plan, method)?;
        same_number_of_records(&shards, &plan, &samples)?;
        copies.extend(files(&shards, &plan, method)?);
    }
    copies.extend(provenance(&shards)?);

    let pictures = plan.len();
    let out = RunFolder::claim(out, plan)?;
    let copied = copy::all(&shards, &copies, &**out.store(), progress)?;
    for method in 0..methods {
        let samples = samples(&shards, out.plan(), method)?;
        out.write(method, |each| {
            let mut samples = samples.into_iter().map(|(_, sample)| sample);
            Ok::<_, MergeError>(samples.try_for_each(each)?)
        })?;
    }
    Ok(Merged {
        shards: shards.len(),
        pictures,
        copied,
    })
}

/// The plan of the whole run, if the shards are all of it.
fn same_run(shards: &[RunFolder]) -> Result<Plan, MergeError> {
    let Some(first) = shards.first() else {
        return Err(MergeError::Nothing);
    };
    let whole = |run: &RunFolder| {
        let mut plan = run.plan().clone();
        match plan.config.shard.take() {
            Some(shard) => Ok((plan, shard)),
            None => Err(MergeError::NoShard(run.store().location())),
        }
    };
    let (plan, first_shard) = whole(first)?;
    let count = first_shard.count();
    let mut there = vec![false; count];
    for run in shards {
        let (a, b) = (first.store().location(), run.store().location());
        let (its_plan, shard) = whole(run)?;
        if shard.count() != count {
            return Err(MergeError::Count {
                a,
                a_shard: first_shard,
                b,
                b_shard: shard,
            });
        }
        if its_plan != plan {
            let value = |plan: &Plan| serde_json::to_value(&plan.config).unwrap_or(Value::Null);
            let differences = differences(&value(&plan), &value(&its_plan));
            return Err(MergeError::Settings { a, b, differences });
        }
        there[shard.index()] = true;
    }
    let missing: Vec<_> = (0..count).filter(|index| !there[*index]).collect();
    match missing.is_empty() {
        true => Ok(plan),
        false => Err(MergeError::Missing { missing, count }),
    }
}

/// All samples of a method in the order of the plan, each with the index of the shard's folder that it is from.
fn samples(
    shards: &[RunFolder],
    plan: &Plan,
    method: usize,
) -> Result<Vec<(usize, Sample)>, MergeError> {
    let mut found: HashMap<usize, (usize, Sample)> = HashMap::new();
    for (place, run) in shards.iter().enumerate() {
        let mut of_this = HashMap::new();
        run.samples(method, |sample| {
            of_this.insert(sample.index, sample);
            Ok(())
        })?;
        complete(run, method, &of_this)?;
        for (index, sample) in of_this {
            // The same shard twice, from two machines.
            if let Some((first, there)) = found.get(&index) {
                same_sample(&shards[*first], there, run, &sample, plan.job(index))?;
            } else {
                found.insert(index, (place, sample));
            }
        }
    }
    let mut samples: Vec<_> = found.into_values().collect();
    samples.sort_by_key(|(_, sample)| sample.index);
    Ok(samples)
}

/// Refuses a shard that lacks samples of a method.
fn complete(
    run: &RunFolder,
    method: usize,
    samples: &HashMap<usize, Sample>,
) -> Result<(), MergeError> {
    let plan = run.plan();
    let jobs = plan.jobs(method).count();
    let folder = run.method_folder(method);
    let lacks = |missing: &[Job], file: &str| MergeError::Gap {
        location: run.store().location(),
        file: format!("{folder}/{file}"),
        missing: missing.len(),
        jobs,
        sample_id: missing
            .first()
            .map(|job| plan.sample_id(*job))
            .unwrap_or_default(),
    };
    let missing: Vec<_> = (plan.jobs(method))
        .filter(|job| !samples.contains_key(&job.index))
        .collect();
    if !missing.is_empty() {
        return Err(match run.is_folded(method)? {
            true => lacks(&missing, "manifest.jsonl"),
            false => MergeError::Unfinished {
                location: run.store().location(),
                method: folder.into(),
                done: samples.len(),
                jobs,
            },
        });
    }
    // Folded files are read side by side, and what one of them lacks is empty.
    let unscored: Vec<_> = (plan.jobs(method))
        .filter(|job| samples[&job.index].scores.sample_id.is_empty())
        .collect();
    match unscored.is_empty() {
        true => Ok(()),
        false => Err(lacks(&unscored, "eval/scores.jsonl")),
    }
}

/// Refuses two samples of one job that are not of the same picture, or do not say the same of it.
fn same_sample(
    a_run: &RunFolder,
    a: &Sample,
    b_run: &RunFolder,
    b: &Sample,
    job: Job,
) -> Result<(), MergeError> {
    let name = a_run.picture_name(job);
    let picture = |run: &RunFolder| run.store().get(&name);
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

/// Refuses samples with fewer records than others of the same prompt have: a line was lost.
fn same_number_of_records(
    shards: &[RunFolder],
    plan: &Plan,
    samples: &[(usize, Sample)],
) -> Result<(), MergeError> {
    let mut most = vec![0; plan.prompts.len()];
    for (_, sample) in samples {
        let most = &mut most[plan.job(sample.index).prompt];
        *most = sample.records.len().max(*most);
    }
    let lacks =
        |(_, sample): &&(usize, Sample)| sample.records.len() < most[plan.job(sample.index).prompt];
    let missing = samples.iter().filter(lacks).count();
    match samples.iter().find(lacks) {
        None => Ok(()),
        Some((place, sample)) => {
            let run = &shards[*place];
            let method = plan.job(sample.index).method;
            Err(MergeError::Gap {
                location: run.store().location(),
                file: format!("{}/eval/per_sample.jsonl", run.method_folder(method)),
                missing,
                jobs: samples.len(),
                sample_id: sample.manifest.sample_id.clone(),
            })
        }
    }
}

/// The pictures of a method, and what else is beside them; not what is joined line by line.
fn files(shards: &[RunFolder], plan: &Plan, method: usize) -> Result<Vec<Copy>, MergeError> {
    let mut copies: HashMap<String, Copy> = HashMap::new();
    for (place, run) in shards.iter().enumerate() {
        let folder = run.method_folder(method);
        let joined = [
            format!("{folder}/manifest.jsonl"),
            format!("{folder}/samples/"),
            format!("{folder}/eval/"),
        ];
        let mut there = HashMap::new();
        for entry in run.store().list(folder)? {
            if joined.iter().any(|start| entry.name.starts_with(start)) {
                continue;
            }
            there.insert(entry.name.clone(), entry.bytes);
            copies.entry(entry.name.clone()).or_insert(Copy {
                shard: place,
                from: entry.name.clone(),
                to: entry.name,
                bytes: entry.bytes,
            });
        }
        let gone: Vec<_> = (run.plan().jobs(method))
            .filter(|job| {
                there
                    .get(&run.picture_name(*job))
                    .is_none_or(|bytes| *bytes == 0)
            })
            .collect();
        if let Some(job) = gone.first() {
            return Err(MergeError::Picture {
                location: run.store().location(),
                name: run.picture_name(*job),
                sample_id: plan.sample_id(*job),
                more: gone.len() - 1,
            });
        }
    }
    let mut copies: Vec<_> = copies.into_values().collect();
    copies.sort_by(|a, b| a.to.cmp(&b.to));
    Ok(copies)
}

/// How each shard came about, under the shard's name.
fn provenance(shards: &[RunFolder]) -> Result<Vec<Copy>, MergeError> {
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
