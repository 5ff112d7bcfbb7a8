//! `prepose opse`

use std::collections::{HashMap, HashSet};
use std::io::Write;

use anyhow::{Context, bail, ensure};
use clap::Parser;
use prepose::check::rules::opse::{Opse, SplitMix};
use prepose::device::OpenDevice;
use prepose::sources::Refusal;
use prepose::suite::elsewhere::SourceMaker;
use prepose::suite::examiner::Examiner;
use prepose::suite::folder::RunFolder;
use prepose::suite::method::Method;
use prepose::suite::plan::Job;
use prepose::suite::run::{Runner, Watcher};
use prepose::suite::sample::{Sample, Scores};
use prepose::suite::{SuitePrompt, sets};
use serde_json::json;

use super::input::count;
use super::interrupt::{self, Requested};
use super::run::{DetectorSpecs, Opened, Settings, claim_elsewhere};
use super::{OK, model};

/// Refusals in a row after which an arm is given up.
const MOST_REFUSED: usize = 100;

/// Find the best of several sources of pictures with as few pictures as possible (docs/sources.md).
///
/// The bandit of "Why Settle for Mid" (appendix A.6), while the pictures are made: each round asks the source that looks most
/// promising for a few pictures of prompts drawn at random. What is made is kept in a run for each source; the same command
/// resumes where it stopped.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:
  prepose opse visor-5000 --out runs/best \\
      --arm 'flux --endpoint http://localhost:8188 --workflow flux.json' \\
      --arm 'sdxl --pictures sdxl/ --layout visor' --common '--checker frcnn-v2 --seeds 0-3'")]
pub struct Args {
    /// A set that `prepose suites` lists, or a file of prompts.
    #[arg(value_name = "SUITE|FILE")]
    pub suite: String,
    /// A source: its name, and the options of `prepose run` that say where its pictures come from; may be repeated.
    #[arg(long = "arm", value_name = "'NAME OPTIONS'", required = true)]
    pub arms: Vec<String>,
    /// The folder for the sources' runs, each under its name, or s3://bucket/folder.
    #[arg(short, long, value_name = "FOLDER")]
    pub out: String,
    /// The score: pse, t2i, or 1 where one of these holds: centre (VISOR), geneval, hrs.
    #[arg(long, value_name = "RULE", default_value = "pse", value_parser = ["pse", "t2i", "centre", "geneval", "hrs"])]
    pub of: String,
    /// How many rounds.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub rounds: usize,
    /// How many pictures each round asks for.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub batch: usize,
    /// How much a source gains from having been asked seldom: the weight of exploration.
    #[arg(long, value_name = "NUMBER", default_value_t = 2.0)]
    pub alpha: f64,
    /// The seed that decides which prompts are drawn.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub draw_seed: u64,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub json: bool,
    /// Options of `prepose run` for all sources, such as '--checker frcnn-v2 --seeds 0-3'.
    #[arg(
        long,
        value_name = "'OPTIONS'",
        default_value = "",
        allow_hyphen_values = true
    )]
    pub common: String,
}

/// What an arm's options are read as.
#[derive(Debug, Parser)]
#[command(name = "--arm", no_binary_name = true, disable_help_flag = true)]
struct ArmArgs {
    #[command(flatten)]
    settings: Settings,
}

/// A source, its run, and what is known of its pictures.
struct Arm {
    name: String,
    settings: Settings,
    opened: Opened,
    folder: RunFolder,
    jobs: Vec<Job>,
    /// By the jobs' indices; none for those that were refused.
    known: HashMap<usize, Option<f64>>,
    made: usize,
}

/// Hears what a picture came to.
#[derive(Default)]
struct Heard {
    sample: Option<Sample>,
    refused: bool,
}

impl Watcher for Heard {
    fn finished(&mut self, sample: &Sample) {
        self.sample = Some(sample.clone());
    }

    fn refused(&mut self, _sample_id: &str, _refusal: &Refusal) {
        self.refused = true;
    }
}

/// What looks at pictures, and where.
struct Looking<'a> {
    examiner: Box<dyn Examiner>,
    device: &'a OpenDevice,
    stop: &'a Requested,
    of: &'a str,
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    let stop = interrupt::listen_twice()?;
    let settings = settings(args)?;
    let first = &settings[0].1;
    let detectors = DetectorSpecs::open(first)?;
    ensure!(
        detectors.labels().is_some(),
        "sources are compared by what the checker sees, but there is no checker (--checker none)"
    );
    let device = model::open(first.model.device)?;
    let mut arms = Vec::new();
    for (name, settings) in settings {
        arms.push(Arm::open(name, settings, args, &stop)?);
    }
    let checker = |arm: &Arm| arm.folder.plan().config.checker.clone();
    if let Some(other) = arms.iter().find(|arm| checker(arm) != checker(&arms[0])) {
        bail!(
            "{} and {} have different checkers; give --checker once, in --common",
            arms[0].name,
            other.name
        );
    }
    let mut looking = Looking {
        examiner: detectors.load(&device, args.batch.clamp(1, 16))?,
        device: &device,
        stop: &stop,
        of: &args.of,
    };
    let opse = Opse {
        alpha: args.alpha,
        batch: args.batch,
        rounds: args.rounds,
        seed: args.draw_seed,
        ..Opse::default()
    };
    let mut random = SplitMix(args.draw_seed);
    let comparison = opse.compare(arms.len(), |arm| arms[arm].draw(&mut random, &mut looking))?;
    if quiet && !args.json {
        return Ok(OK);
    }
    let mut out = anstream::stdout().lock();
    let best = &arms[comparison.best()].name;
    let each = arms.iter().zip(&comparison.standings);
    if args.json {
        let arms = each.map(|(arm, standing)| {
            json!({"name": arm.name, "rounds": standing.rounds, "mean": standing.mean, "pictures": arm.known.len(), "made": arm.made})
        });
        let line = json!({"of": args.of, "best": best, "arms": arms.collect::<Vec<_>>(), "chosen": comparison.chosen});
        writeln!(out, "{line}")?;
        return Ok(OK);
    }
    let width = arms.iter().map(|arm| arm.name.len()).max().unwrap_or(0);
    for (arm, standing) in each {
        writeln!(
            out,
            "{:<width$}  {}  mean {:.4}  {}, {} of them made now",
            arm.name,
            count(standing.rounds, "round"),
            standing.mean,
            count(arm.known.len(), "picture"),
            arm.made
        )?;
    }
    writeln!(out, "best: {best}")?;
    Ok(OK)
}

/// Each arm's name and settings.
fn settings(args: &Args) -> anyhow::Result<Vec<(String, Settings)>> {
    let mut names = HashSet::new();
    let mut all = Vec::new();
    for text in &args.arms {
        let own = words(text);
        let Some((name, options)) = own.split_first() else {
            bail!(
                "--arm is empty: give a name and options, such as --arm 'flux --pictures flux/ --layout visor'"
            );
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        ensure!(
            !name.starts_with(['-', '.']) && name.chars().all(plain),
            "--arm must begin with a name of letters, digits, '.', '_' and '-', which {name:?} is not"
        );
        ensure!(
            names.insert(name.to_lowercase()),
            "there are two arms called {name}"
        );
        let out = format!("{}/{name}", args.out.trim_end_matches('/'));
        let options = (words(&args.common).into_iter())
            .chain(options.iter().cloned())
            .chain(["--out".into(), out]);
        let parsed = ArmArgs::try_parse_from(options);
        let parsed = parsed.map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            anyhow::anyhow!("--arm {name}: {}", first.trim_start_matches("error: "))
        })?;
        ensure!(
            parsed.settings.source.is_given(),
            "--arm {name} does not say where its pictures come from: --pictures, --endpoint or --maker. For pictures that \
             are made here, make a run first, and then name it with --pictures RUN/prompt-only"
        );
        all.push((name.clone(), parsed.settings));
    }
    Ok(all)
}

/// A text's words; quotes keep one together.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The score of a picture of `prompt`; none if the rule does not score it.
fn score(prompt: &SuitePrompt, scores: &Scores, of: &str) -> Option<f64> {
    let truth = |value: Option<bool>| value.map(|value| f64::from(u8::from(value)));
    match of {
        "pse" => scores.pse,
        "t2i" => scores.t2i,
        // An object that is missing is not where it should be.
        "centre" => truth(scores.visor(prompt).map(|found| found.right)),
        "geneval" => truth(scores.geneval),
        _ => truth(scores.hrs),
    }
}

impl Arm {
    fn open(
        name: String,
        settings: Settings,
        args: &Args,
        stop: &Requested,
    ) -> anyhow::Result<Self> {
        let of_arm = || format!("--arm {name}");
        let detectors = DetectorSpecs::open(&settings).with_context(of_arm)?;
        let methods = vec![Method::prompt_only()];
        let (opened, folder) = claim_elsewhere(
            sets::open(&args.suite)?,
            methods,
            &settings,
            &detectors,
            stop,
        )
        .with_context(of_arm)?;
        let plan = folder.plan();
        let jobs: Vec<Job> = plan.jobs(0).collect();
        let place: HashMap<String, usize> = jobs
            .iter()
            .map(|job| (plan.sample_id(*job), job.index))
            .collect();
        let mut known = HashMap::new();
        folder.samples(0, |sample| {
            let prompt = &plan.prompts[plan.job(sample.index).prompt];
            known.insert(sample.index, score(prompt, &sample.scores, &args.of));
            Ok(())
        })?;
        known.extend(
            folder
                .refused(0)?
                .iter()
                .filter_map(|id| Some((*place.get(id)?, None))),
        );
        Ok(Self {
            name,
            settings,
            opened,
            jobs,
            known,
            made: 0,
            folder,
        })
    }

    /// The score of a picture of a prompt and a seed that are drawn at random; it is made if it is not there.
    fn draw(&mut self, random: &mut SplitMix, looking: &mut Looking) -> anyhow::Result<f64> {
        for _ in 0..MOST_REFUSED {
            let job = self.jobs[random.below(self.jobs.len())];
            let score = match self.known.get(&job.index) {
                Some(score) => *score,
                None => self.make(job, looking)?,
            };
            if let Some(score) = score {
                return Ok(score);
            }
        }
        bail!(
            "none of {MOST_REFUSED} pictures by {} has a score by {}: they were refused, or their prompts have no relation \
             that it scores",
            self.name,
            looking.of
        )
    }

    fn make(&mut self, job: Job, looking: &mut Looking) -> anyhow::Result<Option<f64>> {
        let mut heard = Heard::default();
        let mut maker = SourceMaker::new(&self.folder, self.opened.source(), None);
        let runner = Runner {
            folder: &self.folder,
            examiner: &mut *looking.examiner,
            watcher: &mut heard,
            device: looking.device.title(),
            stop: &looking.stop.soon,
        };
        runner
            .some(&mut maker, &[job])
            .with_context(|| format!("--arm {}", self.name))?;
        let sample = match heard.sample {
            Some(sample) => sample,
            None if heard.refused => {
                self.known.insert(job.index, None);
                return Ok(None);
            }
            None => bail!(
                "{} has no picture of {}; --seeds and --limit make the draw smaller",
                self.settings.out,
                self.folder.plan().sample_id(job)
            ),
        };
        self.made += 1;
        let prompt = &self.folder.plan().prompts[job.prompt];
        let score = score(prompt, &sample.scores, looking.of);
        self.known.insert(job.index, score);
        Ok(score)
    }
}

#[cfg(test)]
mod tests {
    use prepose::prompt::scene::{Relation, StatedRelation};

    use super::*;

    #[test]
    fn arms_are_words_with_quotes() {
        assert_eq!(
            words("flux --maker 'python x.py \"a b\"' -v"),
            ["flux", "--maker", "python x.py \"a b\"", "-v"]
        );
        assert_eq!(words("  a  \"\"  b "), ["a", "", "b"]);
        assert!(words(" ").is_empty());
    }

    #[test]
    fn visor_says_nothing_of_prompts_without_its_relations() {
        let prompt = |relation: Option<Relation>| SuitePrompt {
            relations: (relation.into_iter())
                .map(|relation| StatedRelation::of_two(0, relation, 1))
                .collect(),
            ..SuitePrompt::default()
        };
        let scores = |found, centre, pse| Scores {
            found: Some(found),
            objects: 2,
            centre,
            pse,
            ..Scores::default()
        };
        let missing = scores(1, None, Some(0.0));
        let left = prompt(Some(Relation::LeftOf));
        assert_eq!(score(&left, &missing, "centre"), Some(0.0));
        let there = scores(2, Some(true), Some(1.0));
        assert_eq!(score(&left, &there, "centre"), Some(1.0));
        for other in [None, Some(Relation::Near)] {
            assert_eq!(score(&prompt(other), &missing, "centre"), None);
        }
    }
}
