//! `prepose judge --benchmark scene`

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use prepose::judge::answers::{Beside, Rounds};
use prepose::judge::scene::Graph;
use prepose::judge::scene::compare::{Comparison, compare};
use prepose::judge::scene::graph::{Level, read};
use prepose::judge::scene::questions::{Part, Rules, questions, vocabulary};
use prepose::judge::scene::score::{Found, by_class, by_level, found};
use prepose_untrusted::read_text_or_stdin;
use serde_json::{Value, json};

use super::judging;
use super::results::Results;
use super::{Args, pictures};

/// What is asked for Scene-Bench.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Scene-Bench")]
pub struct Options {
    /// The scene graphs: a JSON list, or one per line (docs/judge.md).
    #[arg(long, value_name = "FILE")]
    graphs: Option<PathBuf>,
    #[command(flatten)]
    scoring: Scoring,
    /// Wrong options in a question about a relationship, besides "no visible relationship".
    #[arg(long, value_name = "N", default_value_t = Rules::default().distractors, hide_short_help = true,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=20))]
    distractors: usize,
    /// The seed for drawing the wrong options, and the right one's place among them.
    #[arg(long, value_name = "N", default_value_t = Rules::default().seed, hide_short_help = true)]
    question_seed: u64,
}

/// How much objects count, and what is told of a picture with that.
#[derive(Debug, clap::Args)]
pub struct Scoring {
    /// How much objects count in a scene's complexity; relationships count for the rest.
    #[arg(
        long,
        value_name = "0-1",
        default_value_t = 0.0,
        hide_short_help = true
    )]
    gamma: f64,
    /// How much objects count in SGScore; relationships count for the rest.
    #[arg(
        long,
        value_name = "0-1",
        default_value_t = 0.5,
        hide_short_help = true
    )]
    pub alpha: f64,
}

impl Scoring {
    /// # Errors
    /// A share that is none.
    pub fn check(&self) -> anyhow::Result<()> {
        for (name, value) in [("--gamma", self.gamma), ("--alpha", self.alpha)] {
            ensure!(
                (0.0..=1.0).contains(&value),
                "{name} is {value}, but must be from 0 to 1"
            );
        }
        Ok(())
    }

    /// A graph's line in `judged.jsonl`, by what was found in its picture.
    pub fn line(&self, graph: &Graph, found: &Found) -> Value {
        json!({
            "id": graph.id,
            "level": Level::of(graph.complexity(self.gamma)).as_str(),
            "object_recall": found.object_recall(),
            "relation_recall": found.relation_recall(),
            "sgscore": found.sgscore(self.alpha),
            "missing": found.missing(graph),
        })
    }
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let options = &args.scene;
    options.scoring.check()?;
    let Some(path) = &options.graphs else {
        bail!("--benchmark scene needs --graphs FILE: what should be in the pictures");
    };
    let text =
        read_text_or_stdin(path).with_context(|| format!("cannot read {}", path.display()))?;
    let graphs = read(&text).with_context(|| path.display().to_string())?;
    let wanted = graphs
        .iter()
        .map(|graph| (graph.id.clone(), graph.picture()));
    let (named, there) = pictures::named(&args.pictures, wanted, args.partial)?;
    // Options are drawn from all graphs, so that a picture that comes later changes no question.
    let words = vocabulary(&graphs);
    let graphs: Vec<_> = (graphs.into_iter().zip(there))
        .filter_map(|(graph, there)| there.then_some(graph))
        .collect();
    let rules = Rules {
        distractors: options.distractors,
        seed: options.question_seed,
    };
    let parts = questions(&graphs, &words, &rules);
    let all: Vec<_> = parts.iter().map(|part| part.question.clone()).collect();
    let (rounds, totals) = judging::judge(args, &named, &all, quiet)?;
    let first = rounds.first().map_or(&[][..], Vec::as_slice);
    let seen = found(&graphs, &parts, first);
    let kinds: Vec<&str> = parts
        .iter()
        .map(|part| match part.part {
            Part::Object(_) => "object",
            Part::Relationship(..) => "relation",
        })
        .collect();
    let answers = Rounds {
        kinds: &kinds,
        outcomes: &rounds,
        beside: match args.judge.model.is_oracle() {
            true => Beside::Geometry,
            false => Beside::Nothing,
        },
    };
    let table = by_level(
        &graphs,
        &seen,
        options.scoring.gamma,
        options.scoring.alpha,
        &args.bootstrap(),
    );
    let mut published = compare(&[], Comparison::Feedback, &args.bootstrap());
    published.name = "published";
    let results = Results {
        lines: (graphs.iter().zip(&seen))
            .map(|(graph, found)| options.scoring.line(graph, found))
            .collect(),
        notes: answers.notes(),
        tables: vec![table, answers.table(), published],
        more: by_class(&graphs, &seen).into(),
    };
    results.finish(&args.out, args.json, &args.judge.model, &totals)
}
