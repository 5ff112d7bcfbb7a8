//! What a judge says of checked pictures, beside the checker.

use std::collections::HashMap;
use std::io::Write as _;

use prepose::check::prompt::SuitePrompt;
use prepose::check::sample::sample_of;
use prepose::check::spatialbench::Record;
use prepose::judge::picture::Named;
use prepose::judge::prompted::{Checked, Shown};
use prepose::prompt::compose::scene_of;
use prepose::prompt::scene::StatedRelation;
use prepose_untrusted::escaped;
use serde_json::Value;

use super::Args;
use super::inputs::Sample;
use crate::cli::interrupt;
use crate::cli::judge::pictures::Eyes;
use crate::cli::judge::prompted::{FOLDER, Pictures, exit_code};

/// What the pictures were of, for the tables.
const METHOD: &str = "pictures";

/// Asks about all pictures, and tells of each.
pub fn run(args: &Args, samples: &[Sample], records: &[Record], quiet: bool) -> anyhow::Result<u8> {
    let stop = interrupt::listen()?;
    let mut of_picture: HashMap<&str, Vec<&Record>> = HashMap::new();
    for record in records {
        of_picture
            .entry(sample_of(&record.sample_id))
            .or_default()
            .push(record);
    }
    let mut pictures = Pictures {
        shown: Vec::new(),
        named: Vec::new(),
        checked: Some(Vec::new()),
    };
    for sample in samples {
        let prompt = prompt_of(args, sample);
        let own = of_picture
            .get(sample.id.as_str())
            .map_or(&[][..], Vec::as_slice);
        pictures
            .checked
            .get_or_insert_default()
            .push(Checked::of_records(&prompt, own.iter().copied()));
        pictures.named.push(Named {
            id: sample.id.clone(),
            path: sample.path.clone(),
        });
        pictures.shown.push(Shown {
            id: sample.id.clone(),
            method: METHOD.into(),
            prompt,
        });
    }
    let eyes = Eyes {
        checker: args.checker.as_deref(),
        device: args.detecting.device,
    };
    let folder = args.out.as_ref().map(|out| out.join(FOLDER));
    let judge = &args.judge;
    let (results, totals) = judge.judge(
        pictures,
        folder.as_deref(),
        &eyes,
        &stop,
        quiet || args.json,
    )?;
    let mut stdout = std::io::stdout().lock();
    for (line, sample) in results.lines.iter().zip(samples) {
        let text = match args.json {
            true => with_path(line, sample).to_string(),
            false => escaped(&format!(
                "judge        {}: {}",
                sample.path.display(),
                in_words(line)
            )),
        };
        writeln!(stdout, "{text}")?;
    }
    drop(stdout);
    for note in &results.notes {
        eprintln!("note: {}", escaped(note));
    }
    Ok(exit_code(&totals))
}

/// What a picture should show.
fn prompt_of(args: &Args, sample: &Sample) -> SuitePrompt {
    let scene = scene_of(&sample.prompt, &args.relation).unwrap_or_default();
    let mut prompt = SuitePrompt {
        prompt_id: sample.prompt_id.clone(),
        prompt: sample.prompt.clone(),
        objects: scene
            .objects
            .iter()
            .map(|object| object.noun.clone())
            .collect(),
        relations: scene.relations,
        ..SuitePrompt::default()
    };
    // A manifest may say it where the prompt does not.
    if prompt.relations.is_empty() && !sample.questions.is_empty() {
        prompt.objects.clear();
        for question in &sample.questions {
            let mut place = |name: &String| {
                let known = prompt.objects.iter().position(|one| one == name);
                known.unwrap_or_else(|| {
                    prompt.objects.push(name.clone());
                    prompt.objects.len() - 1
                })
            };
            let (a, b) = (place(&question.object_a), place(&question.object_b));
            let stated = StatedRelation::of_two(a, question.relation, b);
            prompt.relations.push(stated);
        }
    }
    prompt
}

fn with_path(line: &Value, sample: &Sample) -> Value {
    let mut line = line.clone();
    line["path"] = sample.path.display().to_string().into();
    line["prompt"] = sample.prompt.clone().into();
    line["rule"] = "judge".into();
    line
}

/// How many objects and relations were seen, and what of two things is first.
fn in_words(line: &Value) -> String {
    let mut parts = Vec::new();
    for name in ["objects", "relations"] {
        let found = line[name].as_array().map_or(&[][..], Vec::as_slice);
        if found.is_empty() {
            continue;
        }
        let seen = found
            .iter()
            .filter(|one| **one == Value::Bool(true))
            .count();
        let invalid = found.iter().filter(|one| one.is_null()).count();
        let invalid = match invalid {
            0 => String::new(),
            count => format!(" ({count} without a valid answer)"),
        };
        parts.push(format!("{seen} of {} {name}{invalid}", found.len()));
    }
    if let Some(score) = line["sgscore"].as_f64() {
        parts.push(format!("SGScore {score:.2}"));
    }
    let figure = line["figure"].as_str();
    if let (Some(figure), Some(code)) = (figure, line["code"].as_u64()) {
        parts.push(format!("{figure} {code}"));
    }
    parts.join(", ")
}
