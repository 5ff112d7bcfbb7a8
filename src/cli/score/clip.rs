//! `prepose score clip-score`

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use prepose::check::manifest::Manifest;
use prepose::engine::final_prompt;
use prepose::eyes::{ClipScorer, PROMPT_OF_PAPER, clip_score};
use prepose::output::png;
use prepose::picture::Picture;
use prepose_untrusted::read_text_or_stdin;
use serde_json::json;

use super::eyes::read_picture;
use super::{Args, CLIP_SCORE, MOST_ERRORS, shown, table};
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

/// What was said of the pictures.
#[derive(Default)]
struct Scored {
    /// Each picture's place and file, and the cosine.
    pictures: Vec<(String, PathBuf, f64)>,
    errors: Vec<(String, String)>,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let scorer = args.eyes.clip()?;
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
        scored.add(
            &scorer,
            some,
            args.clip_prompt.as_deref().unwrap_or(PROMPT_OF_PAPER),
        )?;
    }
    if scored.pictures.is_empty() && scored.errors.is_empty() {
        bail!("there is no picture with a prompt in what was given");
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", scored.json(args, &scorer))?;
    } else {
        let figures = scored
            .figures()
            .map(|(name, value)| [name.to_owned(), shown(value)]);
        write!(out, "{}", table(&figures.collect::<Vec<_>>()))?;
    }
    for (place, error, more) in input::once(scored.errors.clone()).iter().take(MOST_ERRORS) {
        eprintln!("{}", input::line("error", place, error, *more));
    }
    Ok(if scored.errors.is_empty() { OK } else { ERROR })
}

/// A pair, or where and why there is none.
type Found = Result<Pair, (String, String)>;

/// The pictures of a manifest with their prompts, or a picture of prepose's with its own.
fn pairs_of(file: &Path) -> anyhow::Result<Vec<Found>> {
    if file
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("png"))
    {
        let place = file.display().to_string();
        let prompt = png::read_request(file)
            .map_err(anyhow::Error::from)
            .and_then(|request| Ok(final_prompt(&request)?));
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
        Ok(Pair { place, path, text })
    });
    Ok(broken.chain(entries).collect())
}

impl Scored {
    fn add(&mut self, scorer: &ClipScorer, pairs: &[Pair], prompt: &str) -> anyhow::Result<()> {
        let mut read: Vec<(&Pair, Picture, String)> = Vec::new();
        for pair in pairs {
            match read_picture(&pair.path) {
                Ok(picture) => read.push((pair, picture, format!("{prompt}{}", pair.text))),
                Err(error) => self.errors.push((pair.place.clone(), format!("{error:#}"))),
            }
        }
        let all: Vec<_> = read
            .iter()
            .map(|(_, picture, text)| (picture, text.as_str()))
            .collect();
        // One that cannot be looked at keeps nothing from the others.
        let cosines = match scorer.cosines(&all) {
            Ok(cosines) => cosines.into_iter().map(Ok).collect(),
            Err(_) => all
                .iter()
                .map(|one| scorer.cosines(&[*one]).map(|all| all[0]))
                .collect(),
        };
        let cosines: Vec<Result<f64, _>> = cosines;
        for ((pair, ..), cosine) in read.iter().zip(cosines) {
            match cosine {
                Ok(cosine) => {
                    let place = pair.place.clone();
                    self.pictures.push((place, pair.path.clone(), cosine));
                }
                Err(error) => self.errors.push((pair.place.clone(), error.to_string())),
            }
        }
        Ok(())
    }

    fn figures(&self) -> impl Iterator<Item = (&'static str, Value)> {
        let mean = |of: fn(f64) -> f64| {
            let sum: f64 = self.pictures.iter().map(|(.., cosine)| of(*cosine)).sum();
            let count = self.pictures.len();
            Value::Mean((count > 0).then(|| sum / count as f64))
        };
        let figures = [
            ("pictures", Value::Count(self.pictures.len())),
            ("CLIPScore", mean(clip_score)),
            ("cosine", mean(|cosine| cosine)),
        ];
        figures.into_iter()
    }

    fn json(&self, args: &Args, scorer: &ClipScorer) -> serde_json::Value {
        let figures: serde_json::Map<_, _> = self
            .figures()
            .map(|(name, value)| (name.to_owned(), json!(value)))
            .collect();
        let picture = |(place, path, cosine): &(String, PathBuf, f64)| {
            json!({
                "place": place, "image_path": path, "cosine": cosine,
                "score": clip_score(*cosine),
            })
        };
        let error = |(place, error): &(String, String)| json!({"place": place, "error": error});
        json!({
            "rule": CLIP_SCORE,
            "clip": scorer.name(),
            "clip_prompt": args.clip_prompt.as_deref().unwrap_or(PROMPT_OF_PAPER),
            "figures": figures,
            "pictures": self.pictures.iter().map(picture).collect::<Vec<_>>(),
            "unread": self.errors.iter().map(error).collect::<Vec<_>>(),
        })
    }
}
