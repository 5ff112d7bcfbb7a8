//! What is checked: pictures with their prompts, from the command line or from a manifest.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use prepose::check::spatialbench::Question;
use prepose::check::vocabulary::label;
use prepose::engine::final_prompt;
use prepose::output::files::parent;
use prepose::output::png;
use prepose::prompt::scene::{GivenRelation, Scene};
use prepose_weights::TOYBOX;
use serde::Deserialize;

/// A picture and what is asked of it.
pub(super) struct Sample {
    pub id: String,
    pub prompt_id: String,
    pub path: PathBuf,
    pub questions: Vec<Question>,
}

/// What cannot be checked, and why; the others are checked all the same.
pub(super) struct Problem {
    /// The picture, or the line of the manifest.
    pub what: String,
    pub why: anyhow::Error,
}

/// The labels of the detector that will look.
pub(super) type Vocabulary<'a> = Option<&'a [String]>;

/// Pictures named on the command line: all with `prompt`, or each with the one that it carries.
pub(super) fn from_pictures(
    paths: &[PathBuf],
    prompt: Option<&str>,
    relations: &[GivenRelation],
    vocabulary: Vocabulary,
) -> (Vec<Sample>, Vec<Problem>) {
    let (mut samples, mut problems) = (Vec::new(), Vec::new());
    let mut names: HashSet<String> = HashSet::new();
    for path in paths {
        match questions_of(path, prompt, relations, vocabulary) {
            Ok(questions) => {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                // Pictures of several folders may have the same name.
                let mut id = stem.to_string();
                let mut number = 1;
                while !names.insert(id.clone()) {
                    number += 1;
                    id = format!("{stem}-{number}");
                }
                samples.push(Sample {
                    prompt_id: id.clone(),
                    id,
                    path: path.clone(),
                    questions,
                });
            }
            Err(why) => problems.push(Problem {
                what: path.display().to_string(),
                why,
            }),
        }
    }
    (samples, problems)
}

/// The pictures that the toybox's detector may look at unasked: all but those that say that another checkpoint made them.
pub(super) fn of_the_toybox(samples: Vec<Sample>, problems: &mut Vec<Problem>) -> Vec<Sample> {
    let mut kept = Vec::with_capacity(samples.len());
    for sample in samples {
        let request = png::read_request(&sample.path).ok();
        match request.map(|request| request.model.checkpoint) {
            Some(other) if other != TOYBOX => problems.push(Problem {
                what: sample.path.display().to_string(),
                why: anyhow!(
                    "{other} made it, and the toybox's detector knows the toybox's pictures only; choose another with \
                     --checker (such as frcnn-v2), or use it all the same with --checker toybox"
                ),
            }),
            _ => kept.push(sample),
        }
    }
    kept
}

fn questions_of(
    path: &Path,
    prompt: Option<&str>,
    relations: &[GivenRelation],
    vocabulary: Vocabulary,
) -> anyhow::Result<Vec<Question>> {
    let (prompt, relations) = match prompt {
        Some(prompt) => (prompt.to_string(), relations.to_vec()),
        None => {
            let request = png::read_request(path).context(
                "no --prompt is given, and the picture does not say what it should show",
            )?;
            let relations = match relations {
                [] => request.relations.clone(),
                given => given.to_vec(),
            };
            (final_prompt(&request)?, relations)
        }
    };
    questions_in(&prompt, &relations, vocabulary)
}

/// What `prompt` states, or `relations` instead.
fn questions_in(
    prompt: &str,
    relations: &[GivenRelation],
    vocabulary: Vocabulary,
) -> anyhow::Result<Vec<Question>> {
    let scene = match relations {
        [] => Scene::parse(prompt),
        given => Scene::with_relations(prompt, given),
    };
    let scene = scene.with_context(|| format!("cannot read the prompt {prompt:?}"))?;
    Question::of_scene(&scene, vocabulary)
        .with_context(|| format!("cannot check the prompt {prompt:?}"))
}

/// What is read of a manifest's line; what else it says does not matter here.
#[derive(Deserialize)]
struct Line {
    sample_id: Option<String>,
    prompt_id: Option<String>,
    image_path: PathBuf,
    prompt: Option<String>,
    relation: Option<String>,
    object_a: Option<String>,
    object_b: Option<String>,
}

/// The pictures of a `manifest.jsonl`, in the schema of SpatialBench-UC and of `prepose generate`. Paths are relative to
/// the manifest, or else to the current folder.
///
/// # Errors
/// A manifest that cannot be read or has no line.
pub(super) fn from_manifest(
    file: &Path,
    vocabulary: Vocabulary,
) -> anyhow::Result<(Vec<Sample>, Vec<Problem>)> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the manifest {}", file.display()))?;
    let (mut samples, mut problems) = (Vec::new(), Vec::new());
    let mut seen: HashMap<String, usize> = HashMap::new();
    let lines = text.trim_start_matches('\u{feff}').lines().zip(1..);
    for (line, number) in lines.filter(|(line, _)| !line.trim().is_empty()) {
        let read = serde_json::from_str(line)
            .context("not a line of a manifest")
            .and_then(|line| sample(line, file, vocabulary));
        let problem = match read {
            Ok(sample) => match seen.insert(sample.id.clone(), number) {
                None => {
                    samples.push(sample);
                    continue;
                }
                Some(first) => {
                    seen.insert(sample.id.clone(), first);
                    anyhow!(
                        "{:?} is in line {first} already; only that one is checked",
                        sample.id
                    )
                }
            },
            Err(error) => error,
        };
        problems.push(Problem {
            what: format!("{}, line {number}", file.display()),
            why: problem,
        });
    }
    if samples.is_empty() && problems.is_empty() {
        bail!("the manifest {} has no line", file.display());
    }
    Ok((samples, problems))
}

fn sample(line: Line, manifest: &Path, vocabulary: Vocabulary) -> anyhow::Result<Sample> {
    let questions = match (&line.relation, &line.object_a, &line.object_b) {
        (Some(relation), Some(a), Some(b)) => {
            let known = |object: &str| match vocabulary {
                Some(vocabulary) => label(vocabulary, object, object).map(Into::into),
                None => Ok(object.to_lowercase()),
            };
            vec![Question::new(relation.parse()?, known(a)?, known(b)?)?]
        }
        (None, None, None) => {
            let prompt = line.prompt.as_deref().context(
                "neither a prompt, nor a relation with object_a and object_b: nothing to check",
            )?;
            questions_in(prompt, &[], vocabulary)?
        }
        _ => bail!("relation, object_a and object_b go together; one of them is missing"),
    };
    let beside = parent(manifest).join(&line.image_path);
    let path = match beside.exists() {
        false if line.image_path.exists() => line.image_path,
        _ => beside,
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let id = line.sample_id.unwrap_or_else(|| stem.into_owned());
    Ok(Sample {
        prompt_id: line.prompt_id.unwrap_or_else(|| id.clone()),
        id,
        path,
        questions,
    })
}
