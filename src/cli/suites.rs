//! `prepose suites`

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, bail};
use prepose::check::spatialbench::record::relation_name;
use prepose::suite::Suite;
use prepose::suite::sets::{self, SETS, Set};
use serde_json::json;

use super::OK;

/// List the sets of prompts, or show the prompts of one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose suites
  prepose suites spatialbench-uc | head -2
  prepose suites spatialbench-uc --original | sha256sum
  prepose suites my-prompts.csv")]
pub struct Args {
    /// Print the prompts of this set, file of prompts (.jsonl, .csv, .txt) or standard input (-) as they are run, one
    /// JSON object per line.
    #[arg(value_name = "SUITE")]
    suite: Option<String>,
    /// Print the set's file of prompts byte for byte as its authors released it.
    #[arg(long, requires = "suite")]
    original: bool,
    /// Print the list as one JSON object per line.
    #[arg(long, conflicts_with = "suite")]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    match &args.suite {
        Some(name) if args.original => out.write_all(original(name)?.as_bytes())?,
        Some(name) => {
            for prompt in sets::open(name)?.prompts {
                let line = serde_json::to_string(&prompt)?;
                writeln!(out, "{}", prepose_untrusted::escaped_json(&line))?;
            }
        }
        None => {
            for set in SETS {
                match args.json {
                    true => writeln!(out, "{}", as_json(set))?,
                    false => write!(out, "{}", as_text(set))?,
                }
            }
        }
    }
    out.flush()?;
    Ok(OK)
}

fn original(name: &str) -> anyhow::Result<String> {
    let Some(set) = sets::find(name) else {
        // The name may be wrong in another way.
        sets::open(name)?;
        bail!(
            "{name} is a file of your own; --original is for the sets that `prepose suites` lists"
        );
    };
    set.original().with_context(|| {
        let with: Vec<&str> = (SETS.iter())
            .filter(|set| set.original().is_some())
            .map(|set| set.name)
            .collect();
        format!(
            "{name} was not released as a file of its own; these were: {}",
            with.join(", ")
        )
    })
}

/// How many of its prompts state each relation.
fn relations(suite: &Suite) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for stated in suite.prompts.iter().flat_map(|prompt| &prompt.relations) {
        *counts.entry(relation_name(stated.relation)).or_default() += 1;
    }
    counts
}

/// A set of the list.
pub fn as_json(set: &Set) -> serde_json::Value {
    let suite = set.suite();
    json!({
        "name": set.name,
        "version": set.version,
        "about": set.about,
        "prompts": suite.prompts.len(),
        "pictures_per_prompt": set.pictures,
        "relations": relations(&suite),
        "source": set.source,
        "licence": set.licence,
        "original": set.original().is_some(),
    })
}

fn as_text(set: &Set) -> String {
    let suite = set.suite();
    let relations: Vec<String> = (relations(&suite).into_iter())
        .map(|(relation, count)| format!("{relation} {count}"))
        .collect();
    let relations = match relations.is_empty() {
        true => "none".to_owned(),
        false => relations.join(", "),
    };
    let pictures = match set.pictures {
        1 => "1 picture".to_owned(),
        pictures => format!("{pictures} pictures"),
    };
    format!(
        "{} ({}): {} prompts, {pictures} each\n  {}\n  relations: {relations}\n  from: {}; {}\n",
        set.name,
        set.version,
        suite.prompts.len(),
        set.about,
        set.source,
        set.licence,
    )
}
