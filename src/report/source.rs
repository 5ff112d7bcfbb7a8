//! Runs and single methods, read from where they are.

mod damage;
mod folder;
mod method;
mod shards;

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::error::{SourceError, broken};
use super::model::{Method, Place, Prompts, Report, RunInfo};
use super::people::{self, Export};
pub use damage::{changes_results, damage, undamaged};
use folder::Found;
use method::Reading;
use prepose_check::audit::labels::Label;
use prepose_store::{self as store, Store};
pub use shards::MissingShards;

/// Reads runs, folders of single methods, folders of methods as SpatialBench-UC released them, and shards, which are put
/// together. `labels` may be of pictures of all runs, and count before those in a run or beside it, which are of its pictures; a
/// label is left out if several pictures that it may be of have its name. `evaluation` names the folder of the checker's records
/// that counts, where methods have several; without it that is `eval`, or else the first.
///
/// # Errors
/// Something is not there, is broken, or is there twice.
pub fn read(
    locations: &[String],
    labels: Vec<Label>,
    evaluation: Option<&str>,
) -> Result<Report, SourceError> {
    let mut found: Vec<Found> = Vec::new();
    for location in locations {
        found.extend(folder::find(location)?);
    }
    let mut report = Report {
        runs: Vec::new(),
        places: Vec::new(),
        methods: Vec::new(),
        prompts: Prompts::default(),
        ambiguous_labels: 0,
    };
    let groups = joined(found);
    for group in &groups {
        read_group(&mut report, group, evaluation)?;
    }
    if report.pictures() == 0 {
        return Err(SourceError::Empty(locations.join(", ")));
    }
    name_apart(&mut report);
    let mut exports = vec![Export::given(labels, groups.len())];
    for (run, group) in groups.iter().enumerate() {
        let mut stores: Vec<&dyn Store> = group.iter().map(|found| found.store.as_ref()).collect();
        // Of shards in one folder.
        stores.dedup_by_key(|store| store.location());
        for store in stores {
            people::add_beside(store, run, &mut exports)?;
        }
    }
    people::attach(&mut report, &exports);
    Ok(report)
}

/// Shards of one run together; everything else alone.
fn joined(found: Vec<Found>) -> Vec<Vec<Found>> {
    let mut groups: Vec<Vec<Found>> = Vec::new();
    for one in found {
        let same = |group: &&mut Vec<Found>| {
            let first = &group[0];
            one.shard.is_some() && first.shard.is_some() && first.config == one.config
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

fn read_group(
    report: &mut Report,
    group: &[Found],
    evaluation: Option<&str>,
) -> Result<(), SourceError> {
    let run = report.runs.len();
    let first = report.methods.len();
    let (mut provenance, mut judged) = (Vec::new(), Vec::new());
    for found in group {
        let prompts = found.prompts()?;
        for prompt in &prompts {
            report
                .prompts
                .find(run, &prompt.prompt_id, || prompt.clone());
        }
        for (name, folder) in &found.methods {
            let place = report.places.len();
            report.places.push(Place {
                store: found.store.clone(),
                folder: folder.clone(),
            });
            let reading = Reading {
                found,
                folder,
                run,
                place,
                prompts: &prompts,
                evaluation,
            };
            let mut method = reading.method(name, &mut report.prompts)?;
            method.planned = found
                .planned(name, &prompts)
                .map(|all| all.saturating_sub(method.refused.len()));
            let there = report.methods[first..].iter_mut().find(|m| m.name == *name);
            match there {
                Some(there) => join(there, method, &report.places)?,
                None => report.methods.push(method),
            }
        }
        provenance.extend(found.provenance()?);
        judged.extend(found.judged()?);
    }
    let missing = shards::missing(group);
    // A shard that was asked for by itself is a run of its own; several are of the whole one.
    let is_alone = group.len() == 1 && group[0].is_given_shard();
    if missing.is_some() && !is_alone {
        for method in &mut report.methods[first..] {
            let all = group[0].planned_in_all();
            method.planned = all.map(|all| all.saturating_sub(method.refused.len()));
        }
    }
    if group.iter().any(|found| found.config.is_some()) {
        for method in &mut report.methods[first..] {
            in_order(method);
        }
    }
    report.runs.push(RunInfo {
        locations: group.iter().map(Found::location).collect(),
        config: group[0].config.clone(),
        missing,
        provenance,
        judged,
    });
    Ok(())
}

/// Adds what another shard has of the same method.
fn join(method: &mut Method, other: Method, places: &[Place]) -> Result<(), SourceError> {
    // Figures of a part say nothing of the whole.
    method.quality.clear();
    let known: std::collections::HashMap<&str, usize> = method
        .pictures
        .iter()
        .map(|picture| (picture.sample_id.as_str(), picture.place))
        .collect();
    let place_of = |place: usize| {
        let Place { store, folder } = &places[place];
        format!("{}/{}", store.location(), folder.trim_end_matches('/'))
    };
    for picture in &other.pictures {
        if let Some(&first) = known.get(picture.sample_id.as_str()) {
            return Err(SourceError::Twice {
                sample_id: picture.sample_id.clone(),
                first: place_of(first),
                second: place_of(picture.place),
            });
        }
    }
    method.refused.extend(other.refused);
    let offset = method.records.len();
    method.records.extend(other.records);
    method
        .pictures
        .extend(other.pictures.into_iter().map(|mut picture| {
            picture
                .records
                .iter_mut()
                .for_each(|index| *index += offset);
            picture
        }));
    for (name, records) in other.others {
        match method.others.iter_mut().find(|(there, _)| *there == name) {
            Some((_, there)) => there.extend(records),
            None => method.others.push((name, records)),
        }
    }
    method.planned = method.planned.zip(other.planned).map(|(a, b)| a + b);
    Ok(())
}

/// Pictures, and the records with them, in the order of the run's plan.
fn in_order(method: &mut Method) {
    let mut pictures = std::mem::take(&mut method.pictures);
    pictures.sort_by_key(|picture| (picture.prompt, picture.seed));
    let mut old: Vec<Option<_>> = std::mem::take(&mut method.records)
        .into_iter()
        .map(Some)
        .collect();
    for picture in &mut pictures {
        for index in &mut picture.records {
            if let Some(record) = old[*index].take() {
                method.records.push(record);
            }
            *index = method.records.len().saturating_sub(1);
        }
    }
    method.pictures = pictures;
}

/// Where several runs have a method of the same name, puts the run's name before the names of all methods.
fn name_apart(report: &mut Report) {
    let mut names = std::collections::HashSet::new();
    let same = !report
        .methods
        .iter()
        .all(|method| names.insert(method.name.clone()));
    let runs = run_names(&report.runs);
    let mut taken = std::collections::HashSet::new();
    for method in &mut report.methods {
        if same {
            let info = &report.runs[method.run];
            // The folder of a single method is its own run; what it lies in tells it apart.
            method.name = match info.config.is_none() && info.name() == method.name {
                true => info.name_with(2),
                false => format!("{}/{}", runs[method.run], method.name),
            };
        }
        let name = method.name.clone();
        let mut number = 2;
        while !taken.insert(method.name.clone()) {
            method.name = format!("{name} ({number})");
            number += 1;
        }
    }
}

/// The runs' names, with as many of the folders above as tell them apart.
fn run_names(runs: &[RunInfo]) -> Vec<String> {
    const MOST: usize = 4;
    let mut names = Vec::new();
    for depth in 1..=MOST {
        names = runs.iter().map(|run| run.name_with(depth)).collect();
        let different: std::collections::HashSet<&String> = names.iter().collect();
        if different.len() == runs.len() {
            break;
        }
    }
    names
}

/// A store, and what is known of it.
fn open(location: &str) -> Result<Arc<dyn Store>, SourceError> {
    if !location.contains("://") && Path::new(location).is_file() {
        return Err(SourceError::Nothing {
            location: location.into(),
            why: "it is a file; give the folder that it is in".into(),
        });
    }
    Ok(store::open(location)?)
}

/// A file's text.
fn text(store: &dyn Store, name: &str) -> Result<Option<String>, SourceError> {
    let Some(bytes) = store.get(name)? else {
        return Ok(None);
    };
    let text = String::from_utf8(bytes).map_err(|error| broken(store, name, error.to_string()))?;
    Ok(Some(
        text.strip_prefix('\u{feff}')
            .map(Into::into)
            .unwrap_or(text),
    ))
}

/// A file's JSON.
fn json(store: &dyn Store, name: &str) -> Result<Option<Value>, SourceError> {
    let Some(text) = text(store, name)? else {
        return Ok(None);
    };
    let value = serde_json::from_str(&text);
    value
        .map(Some)
        .map_err(|error| broken(store, name, error.to_string()))
}
