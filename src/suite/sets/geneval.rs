//! GenEval's prompts of the task "position" (arXiv 2310.11513, github.com/djghosh13/geneval).

use serde::Deserialize;

use crate::prompt::scene::StatedRelation;
use crate::suite::SuitePrompt;

/// The lines of `evaluation_metadata.jsonl` with the tag "position", as they are.
const METADATA: &str = include_str!("../data/geneval/position.jsonl");

/// The place of the first of them in the whole file, from 0: GenEval's folders of pictures are called by it.
const FIRST: usize = 353;

#[derive(Deserialize)]
struct Line {
    include: [Object; 2],
    prompt: String,
}

#[derive(Deserialize)]
struct Object {
    class: String,
    /// Its relation, and the place in `include` of what it is in relation to; only the second object has it.
    position: Option<(String, usize)>,
}

pub(super) fn original() -> String {
    METADATA.to_owned()
}

pub(super) fn prompts() -> Vec<SuitePrompt> {
    let prompt = |(number, line): (usize, &str)| {
        let line: Line = serde_json::from_str(line).ok()?;
        // The second is the subject, and is named first.
        let [other, subject] = line.include;
        let (name, _) = subject.position?;
        let relation = name.parse().ok()?;
        Some(SuitePrompt {
            prompt_id: format!("geneval_{:05}", FIRST + number),
            prompt: line.prompt,
            objects: vec![subject.class, other.class],
            relations: vec![StatedRelation::of_two(0, relation, 1)],
            counterpart: None,
            tags: Vec::new(),
            ..SuitePrompt::default()
        })
    };
    METADATA.lines().enumerate().filter_map(prompt).collect()
}
