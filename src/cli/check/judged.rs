//! What a judge says of checked pictures, beside the checker.

use std::collections::HashMap;
use std::io::Write as _;

use prepose::check::prompt::SuitePrompt;
use prepose::check::sample::sample_of;
use prepose::check::spatialbench::Record;
use prepose::judge::picture::Named;
use prepose::judge::prompted::{Checked, Shown};
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
        let prompt = prompt_of(sample);
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

/// What a picture should show: what the checker was asked, whoever said it (the command line, the manifest's line, the
/// picture's request or its prompt), so that both decide the same.
fn prompt_of(sample: &Sample) -> SuitePrompt {
    let objects = sample.scene.objects.iter();
    SuitePrompt {
        prompt_id: sample.prompt_id.clone(),
        prompt: sample.prompt.clone(),
        objects: objects.map(|object| object.noun.clone()).collect(),
        relations: sample.scene.relations.clone(),
        ..SuitePrompt::default()
    }
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use prepose::output::png;
    use prepose::picture::Picture;
    use prepose::prompt::scene::GivenRelation;

    use super::*;
    use crate::cli::check::inputs::{Depths, Inputs, Wanted, from_pictures};
    use crate::cli::check::manifest::from_manifest;

    fn wanted<'a>(prompt: Option<&'a str>, relations: &'a [GivenRelation]) -> Wanted<'a> {
        Wanted {
            prompt,
            relations,
            vocabulary: None,
            depth: Depths::default(),
        }
    }

    /// What the judge is asked about each picture: the objects, and the relations between their places.
    fn asked(inputs: &Inputs) -> Vec<String> {
        assert!(inputs.problems.is_empty());
        let asked = inputs.samples.iter().map(|sample| {
            let prompt = prompt_of(sample);
            let mut text = prompt.objects.join(", ");
            for stated in &prompt.relations {
                let (a, b) = stated.two().unwrap();
                text += &format!("; {a} {} {b}", stated.relation);
            }
            text
        });
        asked.collect()
    }

    #[test]
    fn the_judge_is_asked_what_a_manifest_gives() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("manifest.jsonl");
        let line = |picture: &str, prompt: Option<&str>, [relation, a, b]: [&str; 3]| {
            let line = serde_json::json!({
                "image_path": picture, "prompt": prompt, "relation": relation, "object_a": a, "object_b": b,
            });
            format!("{line}\n")
        };
        let stated = Some("a cat to the left of a dog");
        let lines = [
            line("0.png", stated, ["above", "cat", "dog"]),
            line("1.png", Some("a cat and a dog"), ["near", "dog", "cat"]),
            // A prompt that does not name them, and none.
            line("2.png", stated, ["near", "bird", "red car"]),
            line("3.png", None, ["below", "bird", "car"]),
        ];
        std::fs::write(&file, lines.concat()).unwrap();
        let inputs = from_manifest(&file, None, Depths::default()).unwrap();
        let expected = [
            "cat, dog; 0 above 1",
            "cat, dog; 1 near 0",
            "bird, car; 0 near 1",
            "bird, car; 0 below 1",
        ];
        assert_eq!(asked(&inputs), expected);
    }

    #[test]
    fn the_judge_is_asked_what_the_command_line_or_the_picture_gives() {
        let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/dog-cat.png");
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own.png");
        let mut request = png::read_request(&picture).unwrap();
        request.relations = vec!["cat | above | dog".parse().unwrap()];
        let pixels = Picture::decode(&std::fs::read(&picture).unwrap()).unwrap();
        png::save(&own, &pixels, &request, "euler", "flex").unwrap();
        let given: [GivenRelation; 1] = ["cat | below | dog".parse().unwrap()];
        let pictures = [own];
        let all = asked(&from_pictures(&pictures, &wanted(None, &[])));
        assert_eq!(all, ["dog, cat; 1 above 0"]);
        let stated = Some("a cat to the left of a dog");
        let all = asked(&from_pictures(&pictures, &wanted(stated, &given)));
        assert_eq!(all, ["cat, dog; 0 below 1"]);
    }

    /// Nor do ids read as the records of one picture.
    #[test]
    fn pictures_called_relation_stay_several() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["x_relation1.png", "x_relation2.png", "spatial_relation.png"];
        let pictures = names.map(|name| folder.path().join(name));
        for picture in &pictures {
            std::fs::write(picture, "").unwrap();
        }
        let prompt = "a cat to the left of a dog";
        let named = from_pictures(&pictures, &wanted(Some(prompt), &[]));
        let ids = |inputs: &Inputs| -> Vec<String> {
            let ids = inputs.samples.iter().map(|sample| sample.id.clone());
            ids.collect()
        };
        let expected = ["x_relation1-1", "x_relation2-1", "spatial_relation"];
        assert_eq!(ids(&named), expected);

        let file = folder.path().join("manifest.jsonl");
        let lines = ["x_relation1", "x_relation1-1", "x"].map(|id| {
            let line = serde_json::json!({"sample_id": id, "image_path": format!("{id}.png"), "prompt": prompt});
            format!("{line}\n")
        });
        std::fs::write(&file, lines.concat()).unwrap();
        let listed = from_manifest(&file, None, Depths::default()).unwrap();
        assert_eq!(ids(&listed), ["x_relation1-1-2", "x_relation1-1", "x"]);
    }
}
