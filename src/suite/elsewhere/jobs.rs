//! What a source is asked for, and the pictures that it is to change.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use prepose_store::reading;
use prepose_untrusted::MAX_PICTURE;
use sha2::{Digest, Sha256};

use crate::search::candidate_seed;
use crate::sources::{self, Refusal, Start, upright};
use crate::suite::Edit;
use crate::suite::plan::{Job, Plan, SourceId};
use crate::suite::run::RunError;

/// All that a run will ask of its source for some jobs, in their order, without the pictures that are to be changed.
pub fn wanted(plan: &Plan, source: &SourceId, jobs: &[Job]) -> Vec<Vec<sources::Job>> {
    let places: HashMap<u64, usize> = (plan.config.seeds.iter().enumerate())
        .map(|(place, seed)| (*seed, place))
        .collect();
    let of = |job: &Job| {
        let first = places.get(&job.seed).copied().unwrap_or_default();
        jobs_for(plan, source, *job, first)
    };
    jobs.iter().map(of).collect()
}

/// The jobs of a source for a picture of a run: one, or as many as a search has candidates. `first` is which of the
/// prompt's pictures the job is of.
fn jobs_for(plan: &Plan, source: &SourceId, job: Job, first: usize) -> Vec<sources::Job> {
    let prompt = &plan.prompts[job.prompt];
    let search = plan.config.methods[job.method].search.as_ref();
    let candidates = search.map_or(1, |search| search.best_of.max(1));
    let by_seed = matches!(source, SourceId::Pictures { layout, .. } if layout.is_by_seed());
    let one = |candidate: usize| {
        let number = first * candidates + candidate;
        let seed = match (by_seed && candidates > 1, plan.config.seeds.first()) {
            // Pictures that are there have seeds in a row.
            (true, Some(seed)) => seed.wrapping_add(number as u64),
            _ => candidate_seed(job.seed, candidate),
        };
        // Nothing that changes when the run grows, or what was received before would not be found.
        let told = (
            source,
            &prompt.prompt_id,
            &prompt.prompt,
            job.seed,
            candidate,
        );
        sources::Job {
            name: digest(&told),
            prompt_id: prompt.prompt_id.clone(),
            prompt: prompt.prompt.clone(),
            seed,
            number,
            start: None,
        }
    };
    (0..candidates).map(one).collect()
}

/// SHA-256 of settings and texts.
fn digest(told: &impl serde::Serialize) -> String {
    // Nothing in it that JSON could not hold.
    let told = serde_json::to_vec(told).unwrap_or_default();
    format!("{:x}", Sha256::digest(told))
}

/// The names of the jobs of a source for a picture of a run; none if they cannot be told, as the picture that is to be changed
/// cannot be read.
pub fn names(plan: &Plan, source: &SourceId, job: Job) -> Option<Vec<String>> {
    // What the number of a picture is matters to folders alone.
    let wanted = jobs_for(plan, source, job, 0);
    let begun = begun(plan, source, job, wanted).ok()?;
    let names = |jobs: Vec<sources::Job>| jobs.into_iter().map(|job| job.name).collect();
    Some(begun.map(names).unwrap_or_default())
}

/// The jobs of a source with the picture that they change, if they change one; or why there is none: its own source has refused
/// to make it.
pub(super) fn begun(
    plan: &Plan,
    source: &SourceId,
    job: Job,
    mut wanted: Vec<sources::Job>,
) -> Result<Result<Vec<sources::Job>, Refusal>, RunError> {
    let Some((path, edit)) = start(plan, source, job)? else {
        return Ok(Ok(wanted));
    };
    let bytes = match reading::read(&path, MAX_PICTURE) {
        Ok(bytes) => bytes,
        Err(error) => {
            return match (error.kind(), refused(&path)) {
                (ErrorKind::NotFound, Some(refusal)) => Ok(Err(refusal)),
                _ => Err(unreadable(plan, job, path, error)),
            };
        }
    };
    let read = upright::read(bytes).map_err(|source| RunError::Start {
        prompt_id: plan.prompts[job.prompt].prompt_id.clone(),
        path,
        source: source.into(),
    })?;
    let start = Start::new(read.png, edit.strength.unwrap_or(Edit::STRENGTH));
    for job in &mut wanted {
        // Another picture changed by the same words is another job.
        job.name = digest(&(&job.name, &start.sha256, start.strength));
        job.start = Some(start.clone());
    }
    Ok(Ok(wanted))
}

/// Whether the picture that a job changes is there, or was refused.
///
/// # Errors
/// Neither.
pub(super) fn check_start(plan: &Plan, source: &SourceId, job: Job) -> Result<(), RunError> {
    let Some((path, _)) = start(plan, source, job)? else {
        return Ok(());
    };
    let look = match reading::is_address(&path) {
        false => std::fs::metadata(&path).map(drop),
        true => reading::read(&path, MAX_PICTURE).map(drop),
    };
    match look {
        Err(error) if refused(&path).is_none() => Err(unreadable(plan, job, path, error)),
        _ => Ok(()),
    }
}

fn unreadable(plan: &Plan, job: Job, path: PathBuf, error: std::io::Error) -> RunError {
    RunError::Start {
        prompt_id: plan.prompts[job.prompt].prompt_id.clone(),
        path,
        source: error.into(),
    }
}

/// The file of the picture that a job changes; none if it changes none, or was changed already.
fn start<'a>(
    plan: &'a Plan,
    source: &SourceId,
    job: Job,
) -> Result<Option<(PathBuf, &'a Edit)>, RunError> {
    let prompt = &plan.prompts[job.prompt];
    let (true, Some(edit)) = (source.is_dear(), &prompt.edit) else {
        return Ok(None);
    };
    let path = edit.path(job.seed).ok_or_else(|| RunError::NoPicture {
        prompt_id: prompt.prompt_id.clone(),
    })?;
    Ok(Some((path.into(), edit)))
}

/// Why there is no picture `METHOD/images/ID.png` of a run, if its source refused to make it.
fn refused(picture: &Path) -> Option<Refusal> {
    let method = picture.parent()?.parent()?;
    let name = picture.with_extension("json");
    let text = reading::read(&method.join("refused").join(name.file_name()?), 1 << 20).ok()?;
    let refusal: Refusal = serde_json::from_slice(&text).ok()?;
    Some(Refusal {
        message: format!("of the picture that is changed: {}", refusal.message),
        ..refusal
    })
}
