//! A judge of pictures of prompts: what `run`, `check` and `score judge` have in common.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use anyhow::{Context, bail, ensure};
use burn::tensor::Device;
use prepose::check::rules::Options as RuleOptions;
use prepose::detect::Detector;
use prepose::device::DeviceSpec;
use prepose::judge::book::Book;
use prepose::judge::chat::ChatJudge;
use prepose::judge::oracle::Oracle;
use prepose::judge::picture::Named;
use prepose::judge::prompted::{Asking, Checked, Shown, Which, told};
use prepose::judge::scene::questions::Rules;
use prepose::store;
use prepose::suite::folder::RunFolder;
use prepose::suite::judge::{Answering, JudgeReward, finished};
use prepose_statistics::bootstrap::Bootstrap;

use super::asking::{RoundArgs, Totals, Who, ask_all, open_book, outcomes};
use super::model::ModelArgs;
use super::pictures::{self, Eyes};
use super::results::Results;
pub use super::results::told as exit_code;

/// Where answers and tables go, in a run's folder.
pub const FOLDER: &str = "judged";

/// A judge of pictures of prompts.
#[derive(Clone, Debug, clap::Args)]
pub struct PromptedArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    rounds: RoundArgs,
    /// What the judge is asked: ots (where two things are, in both orders), scene (each object and relation), or all.
    #[arg(long, value_name = "WHAT", default_value = "all", value_parser = parse_which, help_heading = "Judge",
          hide_short_help = true)]
    judge_asks: Which,
}

fn parse_which(text: &str) -> Result<Which, String> {
    match text {
        "ots" => Ok(Which::Ots),
        "scene" => Ok(Which::Scene),
        "all" => Ok(Which::All),
        _ => Err("there are ots, scene and all".into()),
    }
}

/// An option of a command in which nobody judges unless `--judge` says who: how often and what to ask says nothing alone.
pub fn of_named_judge(option: clap::Arg) -> clap::Arg {
    match option.get_id().as_str() {
        "judge_rounds" | "judge_asks" => option.requires("judge"),
        _ => option,
    }
}

/// Pictures to be judged.
pub struct Pictures {
    pub shown: Vec<Shown>,
    /// In the same order.
    pub named: Vec<Named>,
    /// What a checker says of them, if one looked.
    pub checked: Option<Vec<Checked>>,
}

impl PromptedArgs {
    /// Refuses what cannot work, before anything takes time.
    pub fn check(&self, out: &str) -> anyhow::Result<()> {
        if !self.model.is_given() {
            return self.model.check();
        }
        ensure!(
            !out.contains("://"),
            "--judge keeps its book of answers in a folder on this machine, but {out} is an object store: judge a copy of \
             the run with prepose score judge"
        );
        self.model.check()?;
        if !self.model.is_oracle() {
            self.model.model_until(Arc::default(), 0)?;
        }
        Ok(())
    }

    /// Asks about pictures; what was answered is kept in the book of `folder`, and else for the moment alone.
    pub fn judge(
        &self,
        pictures: Pictures,
        folder: Option<&Path>,
        eyes: &Eyes,
        stop: &Arc<AtomicBool>,
        quiet: bool,
    ) -> anyhow::Result<(Results, Totals)> {
        let asking = Asking::new(pictures.shown, self.judge_asks, Rules::default());
        let questions = asking.questions();
        ensure!(
            questions.count > 0,
            "there is nothing to ask a judge about these pictures: their prompts name no objects"
        );
        let who = match self.model.is_oracle() {
            false => Who::Model(&self.model),
            true => {
                let wanted = pictures::wanted(pictures.named.len(), &questions);
                let cases = pictures::look(&pictures.named, &wanted, eyes, quiet)?;
                Who::Oracle(Box::new(Oracle::new(cases, RuleOptions::default())))
            }
        };
        let mut book = match folder {
            Some(folder) => open_book(folder)?,
            None => Book::unkept(),
        };
        let all = (pictures.named.as_slice(), &questions);
        let asked = ask_all(&who, self.rounds, stop, &mut book, all, quiet)?;
        let (rounds, totals) = outcomes(asked);
        let checked = pictures.checked.as_deref();
        let told = told(
            &asking,
            &rounds,
            checked,
            self.model.is_oracle(),
            &Bootstrap::default(),
        );
        let results = Results {
            tables: told.tables,
            more: Vec::new(),
            notes: told.notes,
            lines: told.lines,
        };
        if let Some(folder) = folder {
            results.write(folder, &self.model, &totals)?;
        }
        Ok((results, totals))
    }

    /// Judges the finished pictures of a run, and writes what comes of it into the run's folder.
    pub fn judge_run(
        &self,
        run: &RunFolder,
        eyes: &Eyes,
        stop: &Arc<AtomicBool>,
        quiet: bool,
    ) -> anyhow::Result<(Results, Totals)> {
        let location = run.store().location();
        self.check(&location)?;
        let root = PathBuf::from(&location);
        let (finished, has_checker) = finished(run)?;
        let mut pictures = Pictures {
            shown: Vec::new(),
            named: Vec::new(),
            checked: has_checker.then(Vec::new),
        };
        for one in finished {
            pictures.named.push(Named {
                id: one.shown.id.clone(),
                path: root.join(&one.file),
            });
            pictures.shown.push(one.shown);
            if let Some(checked) = &mut pictures.checked {
                checked.push(one.checked);
            }
        }
        if pictures.shown.is_empty() {
            bail!("{location} has no finished picture to judge");
        }
        self.judge(pictures, Some(&root.join(FOLDER)), eyes, stop, quiet)
    }
}

/// A model that scores candidates, and its book.
pub type OpenModel = Option<(ChatJudge, Mutex<Book>)>;

impl PromptedArgs {
    /// Opens the model that scores candidates, with the book in the run's folder; none if the oracle does, or nobody is asked.
    pub fn open_model(&self, run: &RunFolder, stop: &Arc<AtomicBool>) -> anyhow::Result<OpenModel> {
        if self.model.is_oracle() || !run.plan().config.asks_judge() {
            return Ok(None);
        }
        let model = self.model.model_until(Arc::clone(stop), 0)?;
        let book = open_book(&PathBuf::from(run.store().location()).join(FOLDER))?;
        Ok(Some((model, Mutex::new(book))))
    }

    /// What scores candidates: the model, or else the oracle with what this detector sees.
    pub fn reward<'a>(
        &self,
        model: &'a OpenModel,
        detector: Option<&'a dyn Detector>,
        device: &'a Device,
        stop: &'a AtomicBool,
    ) -> Option<JudgeReward<'a>> {
        let answering = match (model, detector) {
            (Some((judge, book)), _) => Answering::Model(judge, self.model.concurrency, book),
            (None, Some(detector)) if self.model.is_oracle() => Answering::Oracle(detector, device),
            (None, _) => return None,
        };
        Some(JudgeReward { answering, stop })
    }
}

/// Judges runs that are there: `prepose score judge`.
pub fn score(
    args: &PromptedArgs,
    runs: &[PathBuf],
    (checker, device): (Option<&str>, DeviceSpec),
    json: bool,
    quiet: bool,
) -> anyhow::Result<u8> {
    args.model.check()?;
    let stop = crate::cli::interrupt::listen()?;
    let mut code = 0;
    for run in runs {
        let named = || run.display().to_string();
        let folder = RunFolder::open(store::open(&run.to_string_lossy())?)
            .with_context(|| format!("{} is not a run's folder", named()))?;
        let eyes = Eyes { checker, device };
        let (results, totals) = args
            .judge_run(&folder, &eyes, &stop, quiet || json)
            .with_context(named)?;
        print(&results, args, &totals, json, &run.join(FOLDER))?;
        code = code.max(exit_code(&totals));
    }
    Ok(code)
}

/// Prints what came of a judging.
pub fn print(
    results: &Results,
    args: &PromptedArgs,
    totals: &Totals,
    json: bool,
    folder: &Path,
) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut stdout = std::io::stdout().lock();
    if json {
        writeln!(stdout, "{}", results.json(&args.model, totals))?;
        return Ok(());
    }
    let text = results.text(&args.model, totals);
    write!(stdout, "{}", prepose_untrusted::escaped(&text))?;
    let place = folder.display().to_string();
    writeln!(stdout, "written to {}", prepose_untrusted::escaped(&place))?;
    Ok(())
}
