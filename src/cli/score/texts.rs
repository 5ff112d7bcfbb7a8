//! `prepose score clip-score` and `image-reward`: networks that compare pictures with their prompts.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prepose::check::manifest::Manifest;
use prepose::eyes::{ClipScorer, EyeError, PROMPT_OF_PAPER, RewardScorer, clip_score};
use prepose::output::png::{self, Made};
use prepose::picture::Picture;
use prepose::prompt::compose::first_part;
use prepose::prompt::scene::weights::{self, Piece};
use prepose_untrusted::read_text_or_stdin;
use serde_json::json;

use super::eyes::read_picture;
use super::{Args, CLIP_SCORE, IMAGE_REWARD, MOST_ERRORS, shown, table};
use crate::cli::{ERROR, OK, input};
use prepose::check::rules::Value;

/// Pictures that are in memory at a time.
const TOGETHER: usize = 16;

/// A picture and what it should show.
struct Pair {
    place: String,
    path: PathBuf,
    text: String,
}

/// What compares a picture with its prompt.
enum Network<'a> {
    /// The cosine, with words before the prompt.
    Clip(Box<ClipScorer>, &'a str),
    /// The reward.
    ImageReward(Box<RewardScorer>),
}

impl<'a> Network<'a> {
    fn open(args: &'a Args) -> anyhow::Result<Self> {
        if args.rule == IMAGE_REWARD {
            return Ok(Self::ImageReward(Box::new(args.eyes.image_reward()?)));
        }
        let before = args.clip_prompt.as_deref().unwrap_or(PROMPT_OF_PAPER);
        Ok(Self::Clip(Box::new(args.eyes.clip()?), before))
    }

    /// The words of what it says, as they stand in JSON: the rule, the network's name, and the settings.
    fn about(&self) -> serde_json::Value {
        match self {
            Self::Clip(scorer, before) => {
                json!({"rule": CLIP_SCORE, "clip": scorer.name(), "clip_prompt": before})
            }
            Self::ImageReward(scorer) => {
                json!({"rule": IMAGE_REWARD, "network": scorer.name()})
            }
        }
    }

    /// A number for each pair.
    fn compare(&self, pairs: &[(&Picture, &str)]) -> Result<Vec<f64>, EyeError> {
        match self {
            Self::Clip(scorer, before) => {
                let texts = pairs.iter().map(|(_, text)| format!("{before}{text}"));
                let texts: Vec<String> = texts.collect();
                let pairs = pairs.iter().zip(&texts);
                let pairs: Vec<_> = pairs
                    .map(|((one, _), text)| (*one, text.as_str()))
                    .collect();
                scorer.cosines(&pairs)
            }
            Self::ImageReward(scorer) => scorer.rewards(pairs),
        }
    }

    /// What is told of one picture.
    fn picture(&self, number: f64) -> serde_json::Value {
        match self {
            Self::Clip(..) => json!({"cosine": number, "score": clip_score(number)}),
            Self::ImageReward(_) => json!({"score": number}),
        }
    }

    /// What is told of all of them.
    fn figures(&self, numbers: &[f64]) -> Vec<(&'static str, Value)> {
        let count = numbers.len();
        let mean = |of: &dyn Fn(f64) -> f64| {
            let sum: f64 = numbers.iter().map(|number| of(*number)).sum();
            (count > 0).then(|| sum / count as f64)
        };
        let mut figures = vec![("pictures", Value::Count(count))];
        match self {
            Self::Clip(..) => figures.extend([
                ("CLIPScore", Value::Mean(mean(&clip_score))),
                ("cosine", Value::Mean(mean(&|cosine| cosine))),
            ]),
            Self::ImageReward(_) => {
                let middle = mean(&|reward| reward);
                // Over all pictures, as the tables of papers have it.
                let deviation = middle
                    .and_then(|middle| mean(&|reward| (reward - middle).powi(2)).map(f64::sqrt));
                figures.extend([
                    ("ImageReward", Value::Mean(middle)),
                    ("deviation", Value::Mean(deviation)),
                ]);
            }
        }
        figures
    }
}

/// What was said of the pictures.
#[derive(Default)]
struct Scored {
    /// Each picture's place and file, and the number.
    pictures: Vec<(String, PathBuf, f64)>,
    errors: Vec<(String, String)>,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let network = Network::open(args)?;
    let mut scored = Scored::default();
    let mut pairs = Vec::new();
    for file in &args.files {
        for pair in pairs_of(file)? {
            match pair {
                Ok(pair) => pairs.push(pair),
                Err(error) => scored.errors.push(error),
            }
        }
    }
    for some in pairs.chunks(TOGETHER) {
        scored.add(&network, some);
    }
    if scored.pictures.is_empty() && scored.errors.is_empty() {
        bail!("there is no picture with a prompt in what was given");
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", scored.json(&network))?;
    } else {
        let figures = network.figures(&scored.numbers()).into_iter();
        let figures = figures.map(|(name, value)| [name.to_owned(), shown(value)]);
        write!(out, "{}", table(&figures.collect::<Vec<_>>()))?;
    }
    for (place, error, more) in input::once(scored.errors.clone()).iter().take(MOST_ERRORS) {
        eprintln!("{}", input::line("error", place, error, *more));
    }
    Ok(if scored.errors.is_empty() { OK } else { ERROR })
}

/// A pair, or where and why there is none.
type Found = Result<Pair, (String, String)>;

/// The words that a picture was last made for: those of the prompt that its run ended with, of several parts of the first, without
/// weights and `BREAK`.
fn words(made: &Made) -> anyhow::Result<String> {
    let last = made.final_prompt()?;
    let pieces = weights::parse(&first_part(&last)?)?;
    let text = |piece: Piece| match piece.begins_chunk {
        true => format!(" {}", piece.text),
        false => piece.text,
    };
    Ok(pieces.into_iter().map(text).collect())
}

/// What the picture at `path` should show by `prompt`, in words. A prompt that it was made from is read as the engine reads it;
/// another text is somebody's caption, in which nothing is notation.
///
/// # Errors
/// A prompt that cannot be read.
pub(super) fn caption(path: &Path, prompt: &str) -> anyhow::Result<String> {
    let made_from = |made: &Made| {
        made.request.prompt == prompt || made.final_prompt().is_ok_and(|last| last == prompt)
    };
    match png::read_made(path) {
        Ok(made) if made_from(&made) => words(&made),
        _ => Ok(prompt.to_owned()),
    }
}

/// The pictures of a manifest with their prompts, or a picture of prepose's with its own.
fn pairs_of(file: &Path) -> anyhow::Result<Vec<Found>> {
    if file
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("png"))
    {
        let place = file.display().to_string();
        let prompt = png::read_made(file)
            .map_err(anyhow::Error::from)
            .and_then(|made| words(&made));
        let pair = prompt.map(|text| Pair {
            place: place.clone(),
            path: file.to_path_buf(),
            text,
        });
        return Ok(vec![pair.map_err(|error| (place, format!("{error:#}")))]);
    }
    let text = read_text_or_stdin(file);
    let text = text.with_context(|| format!("cannot read {}", file.display()))?;
    let manifest = Manifest::read(&text);
    let place = |line: usize| format!("{}:{line}", file.display());
    let broken = manifest.broken.into_iter();
    let broken = broken.map(|(line, error)| Err((place(line), error.to_string())));
    let folder = file.parent().unwrap_or(Path::new(""));
    let entries = manifest.entries.into_iter().map(|entry| {
        let place = place(entry.line);
        let Some(text) = entry.prompt else {
            return Err((place, "the line has no \"prompt\"".to_string()));
        };
        let given = PathBuf::from(&entry.image_path);
        let beside = folder.join(&given);
        let path = match beside.exists() {
            false if given.exists() => given,
            _ => beside,
        };
        match caption(&path, &text) {
            Ok(text) => Ok(Pair { place, path, text }),
            Err(error) => Err((place, format!("{error:#}"))),
        }
    });
    Ok(broken.chain(entries).collect())
}

impl Scored {
    fn add(&mut self, network: &Network, pairs: &[Pair]) {
        let mut read: Vec<(&Pair, Picture)> = Vec::new();
        for pair in pairs {
            match read_picture(&pair.path) {
                Ok(picture) => read.push((pair, picture)),
                Err(error) => self.errors.push((pair.place.clone(), format!("{error:#}"))),
            }
        }
        let all = read.iter().map(|(pair, picture)| (picture, &*pair.text));
        let all: Vec<(&Picture, &str)> = all.collect();
        // One that cannot be looked at keeps nothing from the others.
        let numbers: Vec<Result<f64, EyeError>> = match network.compare(&all) {
            Ok(numbers) => numbers.into_iter().map(Ok).collect(),
            Err(_) => (all.iter())
                .map(|one| network.compare(&[*one]).map(|all| all[0]))
                .collect(),
        };
        for ((pair, _), number) in read.iter().zip(numbers) {
            match number {
                Ok(number) => {
                    let place = pair.place.clone();
                    self.pictures.push((place, pair.path.clone(), number));
                }
                Err(error) => self.errors.push((pair.place.clone(), error.to_string())),
            }
        }
    }

    fn numbers(&self) -> Vec<f64> {
        self.pictures.iter().map(|(.., number)| *number).collect()
    }

    fn json(&self, network: &Network) -> serde_json::Value {
        let figures: serde_json::Map<_, _> = (network.figures(&self.numbers()).into_iter())
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
        let picture = |(place, path, number): &(String, PathBuf, f64)| {
            let mut told = json!({"place": place, "image_path": path});
            if let (Some(told), Some(more)) =
                (told.as_object_mut(), network.picture(*number).as_object())
            {
                told.extend(more.clone());
            }
            told
        };
        let error = |(place, error): &(String, String)| json!({"place": place, "error": error});
        let mut told = network.about();
        told["figures"] = json!(figures);
        told["pictures"] = self.pictures.iter().map(picture).collect();
        told["unread"] = self.errors.iter().map(error).collect();
        told
    }
}
