//! `prepose scene attributes`

use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::ensure;
use prepose::judge::question::Question;
use prepose::judge::scene::graph::Graph;
use prepose::judge::scene::language;
use serde_json::{Value, json};

use super::{Asking, text};
use crate::cli::OK;

/// Categories that are asked about together.
const TOGETHER: usize = 25;

/// Let a language model give things of each category an attribute (table 8 of the paper); each becomes a graph of one object.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The output is graphs: prepose scene prompts makes prompts from them, and prepose judge --benchmark scene asks whether \
the things are there. prepose scene compare --with attributes shows both beside the paper's table 9."
)]
pub struct Attributes {
    /// The categories, one per line.
    #[arg(value_name = "FILE")]
    categories: PathBuf,
    /// Write graphs of the categories as they are, without asking a model.
    #[arg(long, conflicts_with = "judge")]
    plain: bool,
    #[command(flatten)]
    asking: Asking,
}

impl Attributes {
    pub fn run(&self, quiet: bool) -> anyhow::Result<u8> {
        let text = text(&self.categories)?;
        let mut seen = HashSet::new();
        let lines = text.lines().map(str::trim);
        let categories: Vec<&str> = lines
            .filter(|line| !line.is_empty() && seen.insert(*line))
            .collect();
        ensure!(
            !categories.is_empty(),
            "{}: there are no categories in it",
            self.categories.display()
        );
        let line = |graph: &Graph| json!({ "id": graph.id, "objects": graph.objects, "relationships": graph.relationships });
        if self.plain {
            let graphs = categories.iter().map(|name| language::single(name, name));
            let lines: Vec<Value> = graphs.map(|graph| line(&graph)).collect();
            self.asking.output.write(&lines)?;
            return Ok(OK);
        }
        let parts: Vec<&[&str]> = categories.chunks(TOGETHER).collect();
        let question = |(number, part): (usize, &&[&str])| {
            language::attributes(&format!("categories {number}"), part)
        };
        let questions: Vec<Question> = (1..).zip(&parts).map(question).collect();
        let read = |at: usize, answer: &str| {
            let graphs = language::attributed(parts[at], answer)?;
            Ok(graphs.iter().map(line).collect())
        };
        self.asking.ask(&[], &questions, read, quiet)
    }
}
