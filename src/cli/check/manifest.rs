//! What is checked: pictures with their prompts in a manifest.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prepose::check::ask::{AskError, Questions, RuleQuestion};
use prepose::check::manifest::{Entry, Manifest, free_id};
use prepose::check::sample::sample_of;
use prepose::check::spatialbench::Question;
use prepose::output::files::parent;
use prepose::output::png;
use prepose::prompt::scene::{
    GivenRelation, ObjectName, Relation, Scene, SceneObject, StatedRelation,
};
use prepose_untrusted::{printable, read_text_or_stdin};

use super::inputs::{Depths, Inputs, Sample, Told, Vocabulary, depth_map, questions_in};
use crate::cli::input::STDIN;

/// The pictures of a manifest: prepose's, a SpatialBench-UC run's, or any lines of JSON with a picture and its prompt. Paths
/// are relative to the manifest, or else to the current folder.
///
/// Ids are the lines', except those that would read as the records of another picture ([`free_id`]).
///
/// # Errors
/// A manifest that cannot be read or has no line.
pub(super) fn from_manifest(
    file: &Path,
    vocabulary: Vocabulary,
    depth: Depths,
) -> anyhow::Result<Inputs> {
    let text = read_text_or_stdin(file).with_context(|| match file == Path::new(STDIN) {
        true => "cannot read a manifest from standard input".to_owned(),
        false => format!("cannot read the manifest {}", file.display()),
    })?;
    let manifest = Manifest::read(&text);
    if manifest.is_empty() {
        bail!("the manifest {} has no lines", file.display());
    }
    let place = |line: usize| format!("{}, line {line}", file.display());
    let mut inputs = Inputs::default();
    for (line, later) in manifest.replaced {
        let why = format!("line {later} is about the same picture, and only the last one counts");
        inputs.skipped.push(Told::new(place(line), why));
    }
    for (line, error) in manifest.broken {
        inputs.problems.push(Told::new(place(line), error));
    }
    let mut names: HashMap<String, usize> = HashMap::new();
    let ids = manifest.entries.iter().map(|entry| &entry.sample_id);
    let mut taken: HashSet<String> = ids.cloned().collect();
    for mut entry in manifest.entries {
        let place = place(entry.line);
        let first = *names.entry(entry.sample_id.clone()).or_insert(entry.line);
        if first != entry.line {
            let why = format!(
                "\"{}\" is in line {first} already, of another picture; only that one is checked",
                printable(&entry.sample_id)
            );
            inputs.problems.push(Told::new(place, why));
            continue;
        }
        if sample_of(&entry.sample_id) != entry.sample_id {
            entry.sample_id = free_id(&entry.sample_id, &mut taken);
        }
        match sample(entry, file, vocabulary, depth) {
            Ok((sample, unasked)) => inputs.add(place, sample, &unasked, false),
            Err(error) => inputs.problems.push(Told::new(place, format!("{error:#}"))),
        }
    }
    Ok(inputs)
}

fn sample(
    entry: Entry,
    manifest: &Path,
    vocabulary: Vocabulary,
    depth: Depths,
) -> anyhow::Result<(Sample, Vec<AskError>)> {
    let given = PathBuf::from(&entry.image_path);
    let beside = parent(manifest).join(&given);
    let path = match beside.exists() {
        false if given.exists() => given,
        _ => beside,
    };
    let seen = depth.seen;
    let depth = depth_map(depth.maps, &path);
    let own = match &entry.prompt {
        Some(prompt) => own_words(&path, prompt)?,
        None => None,
    };
    // What a line itself says of the picture's relation counts before all else.
    let own = own.filter(|_| entry.relation.is_none());
    let (scene, asked) = asked(&entry, own.as_ref(), vocabulary, depth.is_some() || seen)?;
    let Questions {
        checker: questions,
        rules,
        unasked,
    } = asked;
    let prompt = own.map(|own| own.prompt).or(entry.prompt);
    let sample = Sample {
        prompt: prompt.unwrap_or_else(|| in_words(&questions, &rules)),
        id: entry.sample_id,
        prompt_id: entry.prompt_id,
        path,
        scene,
        seed: entry.seed,
        questions,
        rules,
        depth,
    };
    Ok((sample, unasked))
}

/// What a picture by prepose says that it should show.
struct Own {
    /// That of its last step.
    prompt: String,
    /// Given instead of what the prompt states.
    relations: Vec<GivenRelation>,
}

/// What a line asks, and about which scene: its relation, or else what the picture itself says, or else what its prompt
/// states.
fn asked(
    entry: &Entry,
    own: Option<&Own>,
    vocabulary: Vocabulary,
    depth: bool,
) -> anyhow::Result<(Scene, Questions)> {
    let (relation, a, b) = match (&entry.relation, &entry.object_a, &entry.object_b) {
        (Some(relation), Some(a), Some(b)) => (relation, a, b),
        (None, None, None) => {
            if let Some(own) = own {
                return questions_in(&own.prompt, &own.relations, vocabulary, depth);
            }
            let prompt = entry.prompt.as_deref().context(
                "neither a \"prompt\", nor a \"relation\" with \"object_a\" and \"object_b\": nothing to check",
            )?;
            return questions_in(prompt, &[], vocabulary, depth);
        }
        _ => bail!("relation, object_a and object_b go together; one of them is missing"),
    };
    let relation: Relation = relation.parse()?;
    // A run's lines name objects as their prompts do: "red dog", "dogs", "dog#2".
    let given = [GivenRelation::of_two(a, relation, b)];
    if let Some(prompt) = &entry.prompt
        && let Ok(asked) = questions_in(prompt, &given, vocabulary, depth)
    {
        return Ok(asked);
    }
    let scene = Scene {
        objects: vec![named(a), named(b)],
        relations: vec![StatedRelation::of_two(0, relation, 1)],
    };
    let questions = Questions::of_scene(&scene, vocabulary, depth);
    Ok((scene, questions))
}

/// The object of a name that stands in no prompt: the noun phrase that it is, or else a thing that is called just so.
fn named(name: &str) -> SceneObject {
    let phrase = ObjectName::read(name).phrase;
    let read = Scene::parse(phrase).map(|scene| scene.objects);
    match read.as_deref() {
        Ok([object]) => object.clone(),
        _ => SceneObject {
            phrase: phrase.to_owned(),
            noun: phrase.to_owned(),
            count: Some(1),
            bytes: 0..0,
        },
    }
}

fn in_words(questions: &[Question], rules: &[RuleQuestion]) -> String {
    let each = questions.iter().map(|question| {
        format!(
            "{} {} {}",
            question.object_a, question.relation, question.object_b
        )
    });
    let rules = rules.iter().map(|question| question.said.clone());
    each.chain(rules).collect::<Vec<_>>().join(", ")
}

/// What the picture itself says, if it was made from `prompt`. A picture by prepose carries its request: a line with another
/// prompt is of an earlier picture of that name, and would judge this one for what nobody asked of it.
fn own_words(path: &Path, prompt: &str) -> anyhow::Result<Option<Own>> {
    let Ok(made) = png::read_made(path) else {
        // Of another program, or not to be read, which is told when it is looked at.
        return Ok(None);
    };
    let (last, request) = (made.final_prompt().ok(), made.request);
    if request.prompt == prompt || last.as_deref() == Some(prompt) {
        let relations = request.relations;
        return Ok(last.map(|prompt| Own { prompt, relations }));
    }
    bail!(
        "it says \"{}\", but {} itself says that it was made from \"{}\": the line is for an earlier picture of this name; \
         remove the line, or check the picture by what it carries: prepose check PICTURE",
        printable(prompt),
        path.display(),
        printable(&request.prompt)
    )
}
