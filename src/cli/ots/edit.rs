//! `prepose ots edit`: seed pictures, and then the same pictures changed by instructions.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use prepose::report::experiments::Compared;
use prepose::report::experiments::ots::{self, Labels};
use prepose::suite::method::Method;
use prepose::suite::sets;
use prepose::suite::{Edit, Suite, SuitePrompt};
use prepose_untrusted::read_text_or_stdin;
use serde::Deserialize;

use crate::cli::run::{Settings, carry_out_suite, open_workflow, wishes};
use crate::cli::{OK, experiment};

/// Image to image: who in a picture of two does what an instruction asks for.
///
/// First the seed pictures, with a subject on each side, are made in the folder `seeds` inside the run's folder; then each is
/// changed by image to image.
///
/// Both are runs and can be killed at any time; the same command resumes where they stopped. The pictures are made
/// here, or by a server or a program that can change pictures (docs/sources.md). The detector says whether both
/// subjects are still there and on their sides; who acts is for a judge to say (--labels).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prepose ots edit --checkpoint sd15.safetensors --checker none --out runs/edit
  prepose ots edit --endpoint https://api.openai.com/v1 --endpoint-model gpt-image-2 --endpoint-key-env OPENAI_API_KEY --checker none --out runs/edit
  prepose ots edit --correctness --checkpoint sd15.safetensors --checker none --out runs/edit-correctness
  prepose ots edit --checkpoint sd15.safetensors --checker none --out runs/edit --labels labels.jsonl")]
pub struct Args {
    /// Use instructions that say who does what, aligned and reversed, instead of ones that leave it open.
    #[arg(long, conflicts_with = "suite")]
    correctness: bool,
    /// A set of edits [default: ots-edit, or ots-edit-correctness with --correctness].
    #[arg(long, value_name = "SUITE")]
    suite: Option<String>,
    /// How much of the seed picture is changed, above 0 and at most 1.
    #[arg(long, value_name = "SHARE", default_value_t = Edit::STRENGTH)]
    strength: f64,
    /// ComfyUI: the graph that changes a picture, with {image} in its LoadImage node; --workflow is the graph for the
    /// seed pictures.
    #[arg(long, value_name = "FILE.json", requires = "workflow")]
    edit_workflow: Option<PathBuf>,
    /// What a judge says of the pictures: lines such as {"sample_id": "…", "label": 1}, with the codes of OTS-Bench.
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

impl Args {
    fn suite(&self) -> &str {
        match (&self.suite, self.correctness) {
            (Some(suite), _) => suite,
            (None, false) => "ots-edit",
            (None, true) => "ots-edit-correctness",
        }
    }
}

/// The folder of the seed pictures within the run's.
const SEEDS: &str = "seeds";

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    ensure!(
        args.strength > 0.0 && args.strength <= 1.0,
        "--strength is {}, but must be above 0 and at most 1",
        args.strength
    );
    ensure!(
        args.settings.shard.is_none() && args.settings.shards.is_none(),
        "edits need their seed pictures in one place: give --every and --limit instead of --shard"
    );
    check_source(args)?;
    let labels = match &args.labels {
        Some(path) => read_labels(path)?,
        None => Labels::new(),
    };
    let methods = || vec![Method::prompt_only()];
    let mut edits = sets::open(args.suite())?;
    ensure!(
        edits.prompts.iter().all(|prompt| prompt.edit.is_some()),
        "{} does not change pictures; ots-edit and ots-edit-correctness do",
        args.suite()
    );
    edits.thin(args.settings.every, args.settings.limit);
    let mut settings = args.settings.clone();
    (settings.every, settings.limit) = (1, None);
    let out = settings.out.trim_end_matches('/').to_owned();
    settings.out = format!("{out}/{SEEDS}");
    let (seeds, ids) = seed_pictures(&edits);
    settings.source.edits_follow = settings.source.maker.is_some();
    carry_out_suite(seeds, methods(), &settings, quiet)?;
    settings.source.edits_follow = false;
    for prompt in &mut edits.prompts {
        if let Some(edit) = &mut prompt.edit {
            let seed = edit.seed.as_deref().unwrap_or_default();
            let id = ids.get(seed).map(String::as_str).unwrap_or_default();
            let plain = Compared::PROMPT_ONLY;
            edit.picture = Some(format!(
                "{out}/{SEEDS}/{plain}/images/{plain}_{id}_seed{{seed}}.png"
            ));
            edit.strength = Some(args.strength);
        }
    }
    settings.out = out;
    if args.edit_workflow.is_some() {
        settings.source.workflow.clone_from(&args.edit_workflow);
    }
    let folder = carry_out_suite(edits, methods(), &settings, quiet)?;
    experiment::show(&folder, &settings, quiet, |pictures| {
        Ok(ots::edit(pictures, &labels)?)
    })?;
    Ok(OK)
}

/// Refuses sources that make the seed pictures and then could not change them.
fn check_source(args: &Args) -> anyhow::Result<()> {
    let source = &args.settings.source;
    if let Some(pictures) = &source.pictures {
        bail!(
            "the pictures in {} are already there, but here seed pictures are made and then changed: give --endpoint or \
             --maker; pictures that were changed elsewhere are measured by `prepose run {} --pictures`",
            pictures.display(),
            args.suite()
        );
    }
    let Some(path) = &args.edit_workflow else {
        ensure!(
            source.workflow.is_none(),
            "--workflow makes the seed pictures, but what changes them? Give --edit-workflow too, with {{image}} in its LoadImage \
             node"
        );
        return Ok(());
    };
    let (_, graph) = open_workflow(path, &wishes(&args.settings)?)?;
    ensure!(
        graph.begins_with_picture(),
        "{} does not begin with a picture: write {{image}} in place of the picture's name into its LoadImage node",
        path.display()
    );
    Ok(())
}

/// The prompts of the seed pictures, each once, and what they are called.
fn seed_pictures(edits: &Suite) -> (Suite, HashMap<String, String>) {
    let mut ids = HashMap::new();
    let mut prompts = Vec::new();
    for prompt in &edits.prompts {
        let seed = prompt.edit.as_ref().and_then(|edit| edit.seed.as_ref());
        let Some(seed) = seed.filter(|seed| !ids.contains_key(*seed)) else {
            continue;
        };
        let id = format!("seed_{:04}", prompts.len());
        ids.insert(seed.clone(), id.clone());
        prompts.push(SuitePrompt {
            prompt_id: id,
            prompt: seed.clone(),
            objects: prompt.objects.clone(),
            ..SuitePrompt::default()
        });
    }
    let suite = Suite {
        name: format!("{}-seeds", edits.name),
        version: edits.version.clone(),
        prompts,
        pictures_per_prompt: edits.pictures_per_prompt,
    };
    (suite, ids)
}

/// A line of labels.
#[derive(Deserialize)]
struct Line {
    #[serde(alias = "id")]
    sample_id: String,
    label: u8,
}

fn read_labels(path: &Path) -> anyhow::Result<Labels> {
    let text = read_text_or_stdin(path)
        .with_context(|| format!("cannot read the labels {}", path.display()))?;
    let mut labels = Labels::new();
    for (line, number) in text
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty())
    {
        let Line { sample_id, label } = serde_json::from_str(line).with_context(|| {
            format!(
                "line {number} of {} is not a label, such as {{\"sample_id\": \"…\", \"label\": 1}}",
                path.display()
            )
        })?;
        ensure!(
            labels.insert(sample_id.clone(), label).is_none(),
            "line {number} of {} is about {sample_id:?}, which already has a label",
            path.display()
        );
    }
    Ok(labels)
}
