//! `prepose spatialgen propose`

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail, ensure};
use prepose::judge::ask::{Asked, Manner, Outcome, ask};
use prepose::judge::book::Book;
use prepose::judge::chat::ChatJudge;
use prepose::judge::question::{Answer, Invalid, Question};
use prepose::judge::spatialgen::propose::{proposed, question};
use prepose::judge::spatialgen::{Item, read_lines, to_line};
use prepose::output::files::{parent, prepare_folder};
use prepose_untrusted::{escaped, read_text_or_stdin};

use super::write;
use crate::cli::judge::asking::no_object;
use crate::cli::judge::model::{ModelArgs, of_a_server, of_a_writer, of_texts};
use crate::cli::progress::Progress;
use crate::cli::{ERROR, OK, interrupt};

/// Let a language model write prompts of about 60 words with ten questions each, for scenes of your own.
///
/// The model is asked in our own words, because we do not have the paper's. An answer is refused unless it has ten questions
/// with four different options each, and none of them gives an answer away (the rule is in docs/spatialgeneval.md); the model is
/// then told what is wrong and asked again. The right option's place is drawn at random. The same command resumes where it
/// stopped. People should read the result before it is used.
#[derive(Debug, clap::Args)]
#[command(mut_arg("judge", |judge| of_a_server(judge).required(true)), mut_args(|option| of_texts(of_a_writer(option))))]
#[command(after_help = "Examples:
  prepose spatialgen propose scenes.txt --judge http://localhost:8000/v1 --judge-model Qwen/Qwen3-32B -o mine.jsonl
  prepose spatialgen prompts mine.jsonl -o prompts.jsonl
  prepose run prompts.jsonl --checker none --out runs/mine
  prepose judge runs/mine --benchmark spatialgen --questions mine.jsonl --judge http://localhost:8000/v1 --judge-model Qwen/Qwen2.5-VL-7B-Instruct --out judged/mine")]
pub struct Args {
    /// The scenes, one per line: a library, a harbour at dawn.
    #[arg(value_name = "FILE")]
    scenes: PathBuf,
    /// Prompts for each scene.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    each: u32,
    /// How often to ask for a prompt at most, until it can be used.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: u32,
    /// The seed for the places of right options.
    #[arg(long, value_name = "N", default_value_t = 0, hide_short_help = true)]
    key_seed: u64,
    #[command(flatten)]
    model: ModelArgs,
    /// The file for prompts and questions; what is already in it is not asked for again.
    #[arg(short, long, value_name = "FILE.jsonl")]
    out: PathBuf,
    /// Where raw answers are kept [default: answers.jsonl beside --out].
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
}

/// Unless another is given: the likeliest answer would be the same in each try.
const TEMPERATURE: f64 = 1.0;

/// One that is to be written.
struct Wanted {
    id: String,
    scene: String,
    number: usize,
    /// What was wrong with the last answer that could be read, for the model.
    faults: Vec<String>,
    /// Why there is none yet, for people.
    why: String,
}

pub fn run(args: &Args, quiet: bool) -> anyhow::Result<u8> {
    ensure!(
        !args.model.is_oracle(),
        "spatialgen propose needs --judge with the address of a server, and --judge-model"
    );
    ensure!(
        args.out.extension().is_some_and(|ending| ending == "jsonl"),
        "{} must end in .jsonl",
        args.out.display()
    );
    let scenes = scenes(&args.scenes)?;
    let mut items = match args.out.exists() {
        true => known(&args.out)?,
        false => HashMap::new(),
    };
    let wanted: Vec<(String, String, usize)> = (scenes.iter())
        .flat_map(|(name, scene)| {
            (1..=args.each as usize)
                .map(move |number| (format!("{name}-{number:03}"), scene.clone(), number))
        })
        .collect();
    let mut open = open(&wanted, &items);
    let (_, stop) = args.model.model_at(TEMPERATURE)?;
    let folder = parent(&args.out);
    if !folder.as_os_str().is_empty() {
        prepare_folder(folder)?;
    }
    let book = args
        .answers
        .clone()
        .unwrap_or_else(|| folder.join("answers.jsonl"));
    let mut book = Book::open(&book)?;
    let mut tokens = (0, 0);
    for number in 1..=args.tries {
        if open.is_empty() || stop.load(Ordering::Relaxed) {
            break;
        }
        // The same may be asked again, which is a round of its own: the book has an answer to it.
        let round = u64::from(number - 1);
        let model = args.model.opened(stop.clone(), round, TEMPERATURE)?;
        let asked = ask_for(
            &open,
            args.model.concurrency,
            &model,
            (&mut book, &stop),
            quiet,
        )?;
        tokens = (
            tokens.0 + asked.prompt_tokens,
            tokens.1 + asked.answer_tokens,
        );
        open = take(open, asked, args.key_seed, &mut items);
        save(&args.out, &wanted, &items)?;
        if !quiet {
            let have = wanted.len() - open.len();
            eprintln!("try {number}: {have} of {} can be used", wanted.len());
        }
    }
    for one in open.iter().take(5) {
        eprintln!("{}", escaped(&format!("left out: {}: {}", one.id, one.why)));
    }
    if !quiet {
        writeln!(
            std::io::stdout().lock(),
            "{} prompts with ten questions each in {}; {} tokens of questions and {} of answers",
            wanted.len() - open.len(),
            escaped(&args.out.display().to_string()),
            tokens.0,
            tokens.1
        )?;
    }
    if let Some(code) = interrupt::exit_code() {
        return Ok(code);
    }
    Ok(if open.is_empty() { OK } else { ERROR })
}

/// Those of the `wanted` that are not there yet.
fn open(wanted: &[(String, String, usize)], there: &HashMap<String, Item>) -> Vec<Wanted> {
    let open = wanted.iter().filter(|(id, ..)| !there.contains_key(id));
    open.map(|(id, scene, number)| Wanted {
        id: id.clone(),
        scene: scene.clone(),
        number: *number,
        faults: Vec::new(),
        why: "it was not asked".into(),
    })
    .collect()
}

/// Asks for all that is open.
fn ask_for(
    open: &[Wanted],
    concurrency: usize,
    model: &ChatJudge,
    (book, stop): (&mut Book, &AtomicBool),
    quiet: bool,
) -> anyhow::Result<Asked> {
    let questions: Vec<Question> = (open.iter())
        .map(|one| question(&one.id, &one.scene, one.number, &one.faults))
        .collect();
    let bar = Mutex::new(Progress::new(questions.len() as u64, "prompts", quiet));
    let locked = || bar.lock().unwrap_or_else(PoisonError::into_inner);
    let manner = Manner {
        concurrency,
        progress: &|_| locked().advance(1),
        stop,
    };
    let asked = ask(model, &[], &questions, book, &manner);
    locked().finish();
    Ok(asked?)
}

/// Puts what can be used among the items; what is left is open, with what is wrong with it. What is no fault of the model's, as
/// that there was no room for the end of its answer, it is not told.
fn take(
    open: Vec<Wanted>,
    asked: Asked,
    key_seed: u64,
    items: &mut HashMap<String, Item>,
) -> Vec<Wanted> {
    let answers = asked.outcomes.into_iter().zip(asked.texts);
    let left = open.into_iter().zip(answers);
    left.filter_map(|(mut one, (outcome, text))| {
        one.why = match (outcome, text) {
            (_, Some(text)) => match proposed(&one.id, &one.scene, &text, key_seed) {
                Ok(item) => {
                    items.insert(item.id.clone(), item);
                    return None;
                }
                Err(faults) => {
                    one.faults = faults;
                    one.faults.join("; ")
                }
            },
            (Outcome::Answered(answer), None) => {
                if let Answer::Invalid(Invalid::Empty | Invalid::Other) = answer {
                    one.faults = vec!["it was not a JSON object".into()];
                }
                no_object(answer)
            }
            (Outcome::Failed(why), None) => why,
            (Outcome::Unasked, None) => "it was not asked".into(),
        };
        Some(one)
    })
    .collect()
}

/// The scenes with names for ids.
fn scenes(path: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let text =
        read_text_or_stdin(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut scenes: Vec<(String, String)> = Vec::new();
    for scene in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let letters = scene.chars().map(|c| match c.is_ascii_alphanumeric() {
            true => c.to_ascii_lowercase(),
            false => '-',
        });
        let name: String = letters.take(40).collect();
        let parts: Vec<&str> = name.split('-').filter(|part| !part.is_empty()).collect();
        let name = parts.join("-");
        if name.is_empty() {
            bail!(
                "{}: the scene {scene:?} has no letters that could name it",
                path.display()
            );
        }
        if let Some((_, other)) = scenes.iter().find(|(known, _)| *known == name) {
            bail!(
                "{}: the scenes {other:?} and {scene:?} would have the same name, {name}",
                path.display()
            );
        }
        scenes.push((name, scene.to_owned()));
    }
    ensure!(
        !scenes.is_empty(),
        "{}: there are no scenes in it",
        path.display()
    );
    Ok(scenes)
}

/// What an earlier call wrote.
fn known(path: &Path) -> anyhow::Result<HashMap<String, Item>> {
    let text =
        read_text_or_stdin(path).with_context(|| format!("cannot read {}", path.display()))?;
    let items = read_lines(&text).with_context(|| path.display().to_string())?;
    Ok(items
        .into_iter()
        .map(|item| (item.id.clone(), item))
        .collect())
}

/// Writes what there is: first what is wanted, in its order, then what else was in the file.
fn save(
    path: &Path,
    wanted: &[(String, String, usize)],
    items: &HashMap<String, Item>,
) -> anyhow::Result<()> {
    let mut text = String::new();
    let ids: Vec<&str> = wanted.iter().map(|(id, ..)| id.as_str()).collect();
    let mut others: Vec<&str> = items
        .keys()
        .map(String::as_str)
        .filter(|id| !ids.contains(id))
        .collect();
    others.sort_unstable();
    for id in ids.into_iter().chain(others) {
        if let Some(item) = items.get(id) {
            text += &to_line(item);
            text.push('\n');
        }
    }
    write(path, &text)
}
