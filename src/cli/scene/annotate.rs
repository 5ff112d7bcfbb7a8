//! `prepose scene annotate`

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use prepose::judge::picture::{Named, read as read_picture};
use prepose::judge::scene::graph::{self, Graph};
use prepose::judge::scene::language::{self, Placed};
use prepose::output::files::parent;
use prepose::picture::Picture;
use serde::Deserialize;

use super::{Asking, text};

/// Let a vision-language model extract the graph of each picture whose objects and boxes are known (algorithm 1 of the paper).
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The paper asks with --temperature 0.7 --max-tokens 8192 --judge-extra '{\"top_p\": 0.95, \"top_k\": 64}', and leaves out \
pictures with fewer than three objects."
)]
pub struct Annotate {
    /// A line for each picture: {"id": "1", "picture": "1.jpg", "objects": [{"object": "person.2", "bbox": [left, top, right, bottom]}, …]}.
    #[arg(value_name = "FILE")]
    objects: PathBuf,
    /// Where the pictures are [default: beside the file].
    #[arg(long, value_name = "FOLDER")]
    pictures: Option<PathBuf>,
    #[command(flatten)]
    asking: Asking,
}

/// A picture with its objects.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    id: String,
    picture: String,
    objects: Vec<Placed>,
}

impl Annotate {
    pub fn run(&self, quiet: bool) -> anyhow::Result<u8> {
        let text = text(&self.objects)?;
        let place = |number: usize| format!("{}: line {number}", self.objects.display());
        let folder = self
            .pictures
            .as_deref()
            .unwrap_or_else(|| parent(&self.objects));
        let (mut shown, mut named, mut questions) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen: HashMap<String, usize> = HashMap::new();
        let lines = (1..)
            .zip(text.lines())
            .filter(|(_, line)| !line.trim().is_empty());
        for (number, line) in lines {
            let one: Shown = serde_json::from_str(line).with_context(|| place(number))?;
            let first = seen.insert(one.id.clone(), number);
            ensure!(
                first.is_none(),
                "{}: there is already a picture {}",
                place(number),
                one.id
            );
            let alone = Graph {
                id: one.id.clone(),
                picture: None,
                objects: one
                    .objects
                    .iter()
                    .map(|placed| placed.object.clone())
                    .collect(),
                relationships: Vec::new(),
            };
            graph::check(alone)
                .map_err(anyhow::Error::msg)
                .with_context(|| place(number))?;
            let path = folder.join(&one.picture);
            let file = read_picture(&path)?;
            let picture =
                Picture::decode_upright(&file.bytes).with_context(|| path.display().to_string())?;
            let size =
                [picture.width, picture.height].map(|side| u32::try_from(side).unwrap_or(u32::MAX));
            questions.push(language::annotate(&one.id, named.len(), &one.objects, size));
            named.push(Named {
                id: one.id.clone(),
                path,
            });
            shown.push(one);
        }
        ensure!(
            !shown.is_empty(),
            "{}: there are no pictures in it",
            self.objects.display()
        );
        let read = |at: usize, answer: &str| {
            let mut graph = language::annotated(&shown[at].id, &shown[at].objects, answer)?;
            graph.picture = Some(shown[at].picture.clone());
            let line = serde_json::to_value(graph).map_err(|error| error.to_string())?;
            Ok(vec![line])
        };
        self.asking.ask(&named, &questions, read, quiet)
    }
}
