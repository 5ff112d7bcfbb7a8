//! `prepose scene refine`

mod page;
mod scenes;
mod settings;
mod stages;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use prepose::engine::Blueprint;
use prepose::guidance::{GuidanceConfig, Method};
use prepose::judge::scene::compare::{Comparison, Line, compare};
use prepose::judge::scene::graph::Graph;
use prepose::judge::scene::score::Found;
use prepose::make::BatchSize;
use prepose::make::feedback::Feedback;
use prepose::output::files::{prepare_folder, write_atomically};
use prepose::request::Request;
use prepose_statistics::bootstrap::Bootstrap;
use serde_json::{Value, json};

use super::super::judge::asking::Totals;
use super::super::judge::model::ModelArgs as JudgeArgs;
use super::super::judge::results::{Results, told};
use super::super::judge::scene::Scoring;
use crate::cli::interrupt;
use crate::cli::model::{self, ModelArgs};
use crate::cli::sampling::SamplingArgs;
use scenes::Scene;
use stages::Work;

/// Look at a picture, draw what is missing, and draw again with both in view (Scene-Bench's feedback; docs/judge.md).
///
/// Each graph's picture is made and judged. What is missing becomes a graph, from which a reference picture is made; the last
/// picture is made like the first, but with both of them shown through an IP-Adapter. All pictures are kept; the same command
/// resumes where it stopped.
#[derive(Debug, clap::Args)]
pub struct Refine {
    /// Scene graphs (a JSON list, or one per line), a set of `prepose suites`, or a prompt.
    #[arg(value_name = "GRAPHS|SUITE|PROMPT")]
    scenes: String,
    /// Where pictures, answers and tables go.
    #[arg(short, long, value_name = "FOLDER")]
    out: PathBuf,
    /// Texts to draw the graphs from, in place of their triples, as `scene compose` writes them.
    #[arg(long, value_name = "FILE")]
    texts: Option<PathBuf>,
    /// How strongly the first picture and the one of what is missing are shown; 0.5,0 is the paper's control.
    #[arg(long, value_name = "A,B", default_value = "0.5,0.5", value_parser = parse_scales)]
    scales: [f64; 2],
    /// Guide the pictures of what was missing and the last pictures by attention, as `generate` does.
    ///
    /// They are guided by the graph's relations; graphs without a relation that attention shows are drawn unguided. This is
    /// not in the paper.
    #[arg(long, value_name = "METHOD", help_heading = "Guidance")]
    guide: Option<Method>,
    /// The seed of the noise of all pictures; references take the next one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Pictures at a time: auto, or a number.
    #[arg(long, value_name = "N", default_value = "auto")]
    batch: BatchSize,
    #[command(flatten)]
    networks: ModelArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    judge: JudgeArgs,
    /// The detector that the oracle uses, as for `check` [default: toybox].
    #[arg(long, value_name = "NAME|FILE", help_heading = "Judge")]
    checker: Option<String>,
    #[command(flatten)]
    scoring: Scoring,
    /// How often graphs are resampled for the 95 % intervals.
    #[arg(long, value_name = "N", default_value_t = Bootstrap::default().draws, hide_short_help = true,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    bootstrap: usize,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

fn parse_scales(text: &str) -> Result<[f64; 2], String> {
    let scales: Option<Vec<f64>> = text
        .split(',')
        .map(|part| part.trim().parse().ok())
        .collect();
    let scales: Option<[f64; 2]> = scales.and_then(|scales| scales.try_into().ok());
    let good = scales.filter(|all| all.iter().all(|scale| (0.0..=10.0).contains(scale)));
    good.ok_or_else(|| "give two numbers from 0 to 10, as 0.5,0.5".into())
}

/// What was made of one scene.
struct Refined {
    first: Found,
    missing: Graph,
    /// The picture of what is missing, and the last one; none where nothing was.
    made: Option<[PathBuf; 2]>,
    last: Found,
}

impl Refine {
    pub fn run(&self, quiet: bool) -> anyhow::Result<u8> {
        self.check()?;
        let scenes = scenes::read(&self.scenes, self.texts.as_deref())?;
        let device = model::open(self.networks.device)?;
        let mut networks = self.networks.request();
        networks.show_toybox();
        ensure!(
            !networks.adapters.is_empty(),
            "feedback shows pictures to the network: give --ip-adapter FILE (docs/guidance/ip-adapter.md)"
        );
        networks.dtype = self
            .networks
            .dtype
            .unwrap_or_else(|| device.default_dtype());
        device.check_dtype(networks.dtype)?;
        let blueprint = Blueprint::open(&networks)?;
        let mut base = blueprint.request("", &networks);
        self.sampling.apply(&mut base);
        base.seed = self.seed;
        prepare_folder(&self.out)?;
        let checker = self.checker.as_deref().unwrap_or_default();
        let again = self.feedback();
        let judge = self.judge.id()?;
        settings::keep(&self.out, &scenes, &base, &again, (&judge, checker))?;

        let stop = interrupt::listen()?;
        let engine = blueprint.load(&networks, &device)?;
        let quiet = quiet || self.json;
        let work = Work {
            args: self,
            engine: &engine,
            device: device.title(),
            again,
            stop: &stop,
            quiet,
        };
        let firsts = scenes.iter().map(|scene| Request {
            prompt: scene.text.clone(),
            ..base.clone()
        });
        let firsts: Vec<Request> = firsts.collect();
        let places: Vec<PathBuf> = (0..scenes.len())
            .map(|number| self.place("first", number))
            .collect();
        work.make(firsts.iter().cloned().zip(places.iter().cloned()).collect())?;
        let graphs: Vec<Graph> = scenes.iter().map(|scene| scene.graph.clone()).collect();
        let (seen, mut totals) = work.look(&graphs, &places)?;
        if let Some(code) = self.stopped(&totals) {
            return Ok(code);
        }

        let missing: Vec<Graph> = (graphs.iter().zip(&seen))
            .map(|(graph, seen)| seen.missing(graph))
            .collect();
        let ends = work.draw_again(&firsts, &places, [&graphs, &missing])?;
        let (last, after) = work.look(&graphs, &ends)?;
        totals.add(&after);
        if let Some(code) = self.stopped(&totals) {
            return Ok(code);
        }
        let all = seen.into_iter().zip(missing).zip(last).enumerate();
        let all = all.map(|(i, ((first, missing), last))| Refined {
            made: (!missing.objects.is_empty())
                .then(|| ["missing", "last"].map(|folder| self.place(folder, i))),
            first,
            missing,
            last,
        });
        self.finish(&scenes, &all.collect::<Vec<_>>(), &totals)
    }

    /// Where the picture of a scene goes, by the scene's number from 0.
    fn place(&self, folder: &str, number: usize) -> PathBuf {
        self.out.join(folder).join(format!("{:05}.png", number + 1))
    }

    fn feedback(&self) -> Feedback {
        Feedback {
            scales: self.scales,
            guide: self.guide.map(GuidanceConfig::new),
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        self.scoring.check()?;
        ensure!(
            self.sampling.ip_picture.is_empty(),
            "--ip-picture cannot be used with scene refine, which shows the pictures that it has made"
        );
        self.judge.check()?;
        if !self.judge.is_oracle() {
            self.judge.model_until(Arc::default(), 0)?;
        }
        Ok(())
    }

    /// The exit code where it cannot go on: a question without an answer would be taken for something that is there.
    fn stopped(&self, totals: &Totals) -> Option<u8> {
        let halted = interrupt::exit_code().is_some();
        (halted || (totals.unanswered > 0 && !self.judge.is_oracle())).then(|| told(totals))
    }

    fn finish(&self, scenes: &[Scene], refined: &[Refined], totals: &Totals) -> anyhow::Result<u8> {
        let bootstrap = Bootstrap {
            draws: self.bootstrap,
            ..Bootstrap::default()
        };
        let pairs = || scenes.iter().zip(refined);
        let of = |name: &str, found: fn(&Refined) -> &Found| -> anyhow::Result<_> {
            let lines = pairs().map(|(scene, one)| self.scoring.line(&scene.graph, found(one)));
            let lines: Vec<Value> = lines.collect();
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let folder = self.out.join("judged").join(name);
            prepare_folder(&folder)?;
            // What `scene compare` reads.
            write_atomically(&folder.join("judged.jsonl"), text.as_bytes())?;
            let lines = lines.into_iter().map(serde_json::from_value::<Line>);
            Ok((name.to_owned(), lines.collect::<Result<Vec<Line>, _>>()?))
        };
        let models = [
            of("first", |one| &one.first)?,
            of("feedback", |one| &one.last)?,
        ];
        let mut table = compare(&models, Comparison::Feedback, &bootstrap);
        table.name = "feedback";
        let changes = pairs().filter_map(|(_, one)| {
            let [before, after] =
                [&one.first, &one.last].map(|found| found.sgscore(self.scoring.alpha));
            Some(vec![after? - before?])
        });
        let changes: Vec<Vec<f64>> = changes.collect();
        let mut notes = Vec::new();
        if !changes.is_empty() {
            let change = bootstrap.mean(&changes);
            let [mean, low, high] =
                [change.value, change.low, change.high].map(|share| 100.0 * share);
            notes.push(format!(
                "feedback changes SGScore by {mean:+.1} [{low:+.1}, {high:+.1}] over {} graphs, of which {} were drawn again",
                changes.len(),
                refined.iter().filter(|one| one.made.is_some()).count()
            ));
        }
        let again = self.feedback();
        let unguided = pairs().filter(|(scene, one)| {
            one.made.is_some() && again.left_out(&scene.text, &scene.graph) > 0
        });
        match unguided.count() {
            0 => {}
            count => notes.push(format!(
                "{count} of the pictures drawn again were not guided by all relations of their graphs: their texts say the things in other words"
            )),
        }
        let results = Results {
            lines: pairs().map(|(scene, one)| self.told(scene, one)).collect(),
            notes,
            tables: vec![table],
            more: Vec::new(),
        };
        let html = page::page(&self.out, scenes, refined, self.scoring.alpha);
        let path = self.out.join("index.html");
        write_atomically(&path, html.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
        results.finish(&self.out, self.json, &self.judge, totals)
    }

    fn told(&self, scene: &Scene, one: &Refined) -> Value {
        let mut line = self.scoring.line(&scene.graph, &one.last);
        line["prompt"] = json!(scene.text);
        line["first"] = self.scoring.line(&scene.graph, &one.first);
        line["reference_prompt"] = json!(one.made.as_ref().map(|_| one.missing.prompt()));
        line
    }
}

/// A path as the page beside it names it.
fn beside<'a>(folder: &Path, path: &'a Path) -> std::borrow::Cow<'a, str> {
    path.strip_prefix(folder).unwrap_or(path).to_string_lossy()
}
