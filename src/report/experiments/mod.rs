//! The papers' experiments: a set of prompts, some methods, and what their run comes to, beside what the papers say.
//!
//! * [`ots`]: does the order of mention decide where things stand, and until which step;
//! * [`psg`]: what guidance and search make of relations, and what they cost.
//!
//! Everything is computed from the samples of a run, finished or not.

pub mod ots;
pub mod psg;

use std::fmt::Write as _;

use prepose_check::prompt::SuitePrompt;
use prepose_check::sample::Scores;
use prepose_draw::plot::{Drawing, svg};
use prepose_draw::table::{Cell, Table};
use prepose_scene::neutral::Opening;

/// What an experiment goes by in a method.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The method's name.
    pub name: String,
    /// Whether guidance acts in the loop.
    pub guided: bool,
    /// Whether the best of several noises is kept.
    pub searched: bool,
    /// The prompt of the first steps, and until when it is, if it is another one.
    pub opening: Option<(Opening, Moment)>,
}

/// When a prompt gives way to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// As it was asked for: `2` steps, `0.1` of them, `sigma5.5`.
    pub text: String,
    /// The share of the steps before it; none where it depends on the scheduler.
    pub share: Option<f64>,
}

impl Moment {
    /// The prompt is the final one from the start.
    pub fn start() -> Self {
        Self {
            text: "0".into(),
            share: Some(0.0),
        }
    }

    /// After so many steps of `of`.
    pub fn steps(steps: usize, of: usize) -> Self {
        Self {
            text: steps.to_string(),
            share: Some(steps as f64 / of.max(1) as f64),
        }
    }
}

impl Compared {
    /// The name of the checkpoint without anything added.
    pub const PROMPT_ONLY: &str = "prompt-only";

    /// Whether it is the checkpoint without anything added.
    fn is_plain(&self) -> bool {
        !self.guided && !self.searched && self.opening.is_none()
    }
}

/// The pictures of a run, with what the rules say of them.
#[derive(Clone, Debug)]
pub struct Pictures {
    /// Denoising steps.
    pub steps: usize,
    /// The prompts.
    pub prompts: Vec<SuitePrompt>,
    /// The methods, each with its pictures in the order of the plan: the prompt's index, and the scores.
    pub methods: Vec<(Compared, Vec<(usize, Scores)>)>,
}

impl Pictures {
    /// For each prompt, the index of its counterpart.
    fn counterparts(&self) -> Vec<Option<usize>> {
        let place: std::collections::HashMap<&str, usize> = (self.prompts.iter().enumerate())
            .map(|(place, prompt)| (prompt.prompt_id.as_str(), place))
            .collect();
        let of = |prompt: &SuitePrompt| place.get(prompt.counterpart.as_deref()?).copied();
        self.prompts.iter().map(of).collect()
    }
}

/// What an experiment came to.
#[derive(Clone, Debug)]
pub struct Results {
    /// What it is; files begin with it.
    pub name: &'static str,
    /// How the numbers are to be read.
    pub note: String,
    /// The numbers.
    pub tables: Vec<Table>,
    /// The plots, by what their files' names end with.
    pub plots: Vec<(&'static str, Drawing)>,
}

impl Results {
    /// For documents.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}\n", self.name, self.note);
        for table in &self.tables {
            // Writing into a string cannot fail.
            let _ = write!(text, "\n{}", table.to_markdown());
        }
        text
    }

    /// For terminals with lines of this many characters.
    pub fn text(&self, width: usize) -> String {
        let mut text = format!("{}\n", self.note);
        for table in &self.tables {
            // Writing into a string cannot fail.
            let _ = write!(text, "\n{}", table.to_text(width));
        }
        text
    }

    /// All of it as files: names, and texts.
    pub fn files(&self) -> Vec<(String, String)> {
        let mut files = vec![(format!("{}.md", self.name), self.markdown())];
        for table in &self.tables {
            files.push((format!("{}.csv", table.name), table.to_csv()));
        }
        for (name, drawing) in &self.plots {
            files.push((format!("{}-{name}.svg", self.name), svg::file(drawing)));
        }
        files
    }
}

/// What is published, as the name of a row.
fn published(name: &str) -> Cell {
    Cell::Name(format!("published: {name}"))
}

fn percent(value: Option<f64>) -> Cell {
    value.map_or(Cell::Empty, Cell::Percent)
}

/// `part` of `whole` in percent; none of nothing.
fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}
