//! What is checked: pictures with their prompts, as the command line names them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use prepose::check::ask::{AskError, Questions, RuleQuestion};
use prepose::check::manifest::free_id;
use prepose::check::spatialbench::Question;
use prepose::output::png;
use prepose::prompt::compose::scene_of;
use prepose::prompt::scene::{GivenRelation, Scene};
use prepose_untrusted::printable;
use prepose_weights::TOYBOX;

/// A picture and what is asked of it.
pub(super) struct Sample {
    /// Never ends in `_relation` and a number, as its records do where there are several: by [`free_id`].
    pub id: String,
    pub prompt_id: String,
    pub path: PathBuf,
    /// What it should show, in words.
    pub prompt: String,
    /// What all questions are about: the prompt's objects, and its relations or those that were given instead. Who else is
    /// asked about the picture must be asked about the same.
    pub scene: Scene,
    pub seed: u64,
    pub questions: Vec<Question>,
    /// What is asked of the published rules.
    pub rules: Vec<RuleQuestion>,
    /// Its depth map, if there is one.
    pub depth: Option<PathBuf>,
}

impl Sample {
    fn asks(&self) -> bool {
        !self.questions.is_empty() || !self.rules.is_empty()
    }
}

/// Something that is not checked, and why; the rest is checked all the same.
pub(super) struct Told {
    /// The picture, or the manifest's line.
    pub place: String,
    pub why: String,
    /// Told by itself, though others have the same reason.
    pub alone: bool,
}

impl Told {
    pub fn new(place: impl ToString, why: impl ToString) -> Self {
        Self {
            place: place.to_string(),
            why: why.to_string(),
            alone: false,
        }
    }

    /// Of a picture that cannot be looked at.
    pub fn unreadable(path: &Path, why: &anyhow::Error) -> Self {
        Self {
            alone: true,
            ..Self::new(path.display(), format!("{why:#}"))
        }
    }
}

/// All that is to be checked, and what is not.
#[derive(Default)]
pub(super) struct Inputs {
    pub samples: Vec<Sample>,
    /// Pictures whose prompts ask nothing that this checker could answer, which is no mistake.
    pub skipped: Vec<Told>,
    /// Relations that are stated and that this checker cannot decide, of pictures of which it decides others or none.
    pub undecided: usize,
    /// Wrong.
    pub problems: Vec<Told>,
}

impl Inputs {
    /// Takes up a picture with what is asked of it. Where nothing can be asked that is wrong if the user said what should be
    /// seen, and otherwise the picture is skipped.
    pub fn add(&mut self, place: impl ToString, sample: Sample, unasked: &[AskError], said: bool) {
        let why = unasked
            .iter()
            .map(|error| Told::new(place.to_string(), error));
        match said && !sample.asks() {
            true => self.problems.extend(why),
            false => self.skipped.extend(why),
        }
        let stated = unasked
            .iter()
            .filter(|error| **error != AskError::NoRelation);
        self.undecided += stated.count();
        if sample.asks() {
            self.samples.push(sample);
        }
    }
}

/// The labels of the detector that will look.
pub(super) type Vocabulary<'a> = Option<&'a [String]>;

/// What the command line says of its pictures.
pub(super) struct Wanted<'a> {
    /// Of all of them; none: each has its own.
    pub prompt: Option<&'a str>,
    /// Instead of what the prompt states.
    pub relations: &'a [GivenRelation],
    pub vocabulary: Vocabulary<'a>,
    /// Where depths come from.
    pub depth: Depths<'a>,
}

/// Where depths come from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Depths<'a> {
    /// The folder with maps.
    pub maps: Option<&'a Path>,
    /// Whether a network looks at each picture that has no map there.
    pub seen: bool,
}

/// The depth map of a picture: of the same name, a PNG or numpy's .npy.
pub fn depth_map(folder: Option<&Path>, picture: &Path) -> Option<PathBuf> {
    let stem = picture.file_stem()?;
    let map = |ending: &str| {
        let mut name = stem.to_owned();
        name.push(ending);
        folder.map(|folder| folder.join(name))
    };
    [".npy", ".png"]
        .into_iter()
        .filter_map(map)
        .find(|path| path.is_file())
}

/// What a picture should show, in words and as it is asked, of which seed it is if it says so, and the questions.
struct Shown {
    prompt: String,
    scene: Scene,
    seed: Option<u64>,
    asked: Questions,
    depth: Option<PathBuf>,
}

/// Pictures, and folders of them, that are named on the command line.
pub(super) fn from_pictures(paths: &[PathBuf], wanted: &Wanted) -> Inputs {
    let mut inputs = Inputs::default();
    let mut names: HashSet<String> = HashSet::new();
    // How many pictures there are of each prompt.
    let mut counts: HashMap<String, u64> = HashMap::new();
    for given in paths {
        let pictures = match pictures_in(given) {
            Ok(pictures) => pictures,
            Err(why) => {
                inputs.problems.push(Told::unreadable(given, &why));
                continue;
            }
        };
        for path in pictures {
            match wanted.of(&path) {
                Ok(Shown {
                    prompt,
                    scene,
                    seed,
                    asked,
                    depth,
                }) => {
                    let count = counts.entry(prompt.clone()).or_default();
                    let seed = seed.unwrap_or(*count);
                    *count += 1;
                    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                    let id = free_id(&stem, &mut names);
                    let place = path.display().to_string();
                    let sample = Sample {
                        prompt_id: prompt.clone(),
                        id,
                        prompt,
                        scene,
                        seed,
                        path,
                        questions: asked.checker,
                        rules: asked.rules,
                        depth,
                    };
                    inputs.add(place, sample, &asked.unasked, wanted.is_explicit());
                }
                Err(why) => inputs.problems.push(Told::unreadable(&path, &why)),
            }
        }
    }
    inputs
}

/// What pictures are called.
const ENDINGS: [&str; 4] = ["png", "jpg", "jpeg", "webp"];

/// The picture itself, or those in the folder, by their names.
pub fn pictures_in(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let name = path.to_string_lossy();
            match name.contains(['*', '?', '[']) {
                true => bail!("no file has this name, and as a pattern it matches none"),
                false => bail!("there is no such file"),
            }
        }
        Err(error) => return Err(error).context("cannot be read"),
    };
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).context("cannot be read")?;
    let mut pictures = Vec::new();
    for entry in entries {
        let path = entry.context("cannot be read")?.path();
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        let ending = ending.to_ascii_lowercase();
        if ENDINGS.contains(&ending.as_str()) && !path.is_dir() {
            pictures.push(path);
        }
    }
    pictures.sort();
    if pictures.is_empty() {
        let endings = ENDINGS.join(", .");
        bail!("the folder has no picture in it (.{endings}); folders in it are not searched");
    }
    Ok(pictures)
}

impl Wanted<'_> {
    /// Whether the command line says what should be seen.
    fn is_explicit(&self) -> bool {
        self.prompt.is_some() || !self.relations.is_empty()
    }

    /// What a picture should show.
    fn of(&self, path: &Path) -> anyhow::Result<Shown> {
        let made = png::read_made(path);
        let seed = made.as_ref().ok().map(|made| made.request.seed);
        let shown = |prompt: String, relations: &[GivenRelation]| {
            let depth = depth_map(self.depth.maps, path);
            let known = depth.is_some() || self.depth.seen;
            let (scene, asked) = questions_in(&prompt, relations, self.vocabulary, known)?;
            anyhow::Ok(Shown {
                prompt,
                scene,
                seed,
                asked,
                depth,
            })
        };
        if let Some(prompt) = self.prompt {
            return shown(prompt.to_owned(), self.relations);
        }
        if self.relations.is_empty() {
            let made = made.map_err(|error| no_prompt(path, error))?;
            return shown(made.final_prompt()?, &made.request.relations);
        }
        // The picture's own words may have "dog#2" of them; the relations alone are enough.
        let own = made.ok().and_then(|made| made.final_prompt().ok());
        match own.map(|prompt| shown(prompt, self.relations)) {
            Some(Ok(shown)) => Ok(shown),
            _ => shown(in_words(self.relations), self.relations),
        }
    }
}

/// Relations without a prompt as one.
fn in_words(relations: &[GivenRelation]) -> String {
    let each = relations.iter().map(|given| {
        let objects = given.objects.join(" and ");
        format!("{} {} {objects}", given.subject, given.relation)
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Why there is nothing to check a picture for, and what to do.
fn no_prompt(path: &Path, error: png::PngError) -> anyhow::Error {
    let beside = prepose::output::files::parent(path).join("manifest.jsonl");
    let hint = match beside.is_file() {
        true => format!(
            "{} may say it (give that with --manifest), or say it",
            beside.display()
        ),
        false => "say it".to_owned(),
    };
    match error {
        png::PngError::NoRequest { .. } | png::PngError::Decode { .. } => anyhow!(
            "it does not say what it should show, as PNGs made by prepose do; {hint} with --prompt or --relation"
        ),
        other => anyhow::Error::from(other),
    }
}

/// What `prompt` states, or `relations` instead: the scene, and what is asked about it.
///
/// # Errors
/// A prompt that cannot be read.
pub(super) fn questions_in(
    prompt: &str,
    relations: &[GivenRelation],
    vocabulary: Vocabulary,
    depth: bool,
) -> anyhow::Result<(Scene, Questions)> {
    let scene = scene_of(prompt, relations)
        .with_context(|| format!("cannot read the prompt \"{}\"", printable(prompt)))?;
    let questions = Questions::of_scene(&scene, vocabulary, depth);
    Ok((scene, questions))
}

/// Leaves out the pictures that the toybox's detector must not look at unasked: those that say that another checkpoint made
/// them.
pub(super) fn of_the_toybox(inputs: &mut Inputs) {
    let problems = &mut inputs.problems;
    inputs.samples.retain(|sample| {
        let request = png::read_request(&sample.path).ok();
        let other = request.and_then(|request| refusal_of_the_toybox(&request.model.checkpoint));
        let Some(why) = other else {
            return true;
        };
        problems.push(Told::new(sample.path.display(), why));
        false
    });
}

/// Why the toybox's detector does not look unasked at a picture by this checkpoint; none for the toybox's own.
pub fn refusal_of_the_toybox(checkpoint: &str) -> Option<String> {
    (checkpoint != TOYBOX).then(|| {
        format!(
            "{checkpoint} made it, and the toybox's detector knows the toybox's pictures only; choose another with \
             --checker (such as frcnn-v2), or use it all the same with --checker toybox"
        )
    })
}
