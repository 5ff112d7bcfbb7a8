//! Sheets: several pictures as one PNG with labels, and what changes from row to row and from column to column.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{bail, ensure};
use clap::ValueEnum;
use prepose::guidance::Method;
use prepose::output::files::{parent, prepare_folder};
use prepose::output::sheet;
use prepose::picture::Picture;
use prepose::request::{DeepCache, Gate, Request};
use prepose::sampling::schedulers::SchedulerKind;
use prepose::suite::requests::goes_by_boxes;
use prepose_draw::grid::Grid;
use prepose_untrusted::printable;

use super::options::GuideArgs;
use super::targets::names_picture;
use crate::cli::values::{OrOff, numbers};

/// Pixels of the largest sheet; its bytes are three times as many.
const MOST_PIXELS: usize = 1 << 28;

/// Compare pictures on one sheet (docs/generate.md).
#[derive(Debug, Default, clap::Args)]
pub struct SheetArgs {
    /// Draw all pictures on one PNG with labels.
    ///
    /// Seeds run across and prompts run down, unless --x and --y say otherwise.
    #[arg(long, value_name = "FILE.png", help_heading = "Output")]
    pub(super) grid: Option<PathBuf>,
    /// What changes across the sheet: seed=0-3, guide=none,pos, ...
    ///
    /// seed=0-3, steps=10,20, guidance-scale=3,7.5, scheduler=ddim,euler, guide=none,pos, guide-scale=10,20,
    /// guide-steps=5,10, guide-every=1,2, deep-cache=off,3, tgate=off,0.4, token-merging=off,0.5, strength=0.4,0.8 or
    /// clip-skip=0,1.
    #[arg(
        long,
        value_name = "AXIS=LIST",
        requires = "grid",
        help_heading = "Output"
    )]
    pub(super) x: Option<Axis>,
    /// What changes down the sheet, as for --x.
    #[arg(
        long,
        value_name = "AXIS=LIST",
        requires = "grid",
        help_heading = "Output"
    )]
    pub(super) y: Option<Axis>,
}

impl SheetArgs {
    /// Whether an axis says how pictures are guided.
    pub(super) fn chooses_guide(&self) -> bool {
        let guides = |axis: &Axis| matches!(axis.values.first(), Some(Change::Guide(_)));
        self.x.iter().chain(&self.y).any(guides)
    }

    /// `requests` in the order of the sheet's cells, row by row, each with what its row and its column change.
    ///
    /// # Errors
    /// Both axes say the same, or one says what --seeds says; constants for pictures without guidance.
    pub(super) fn lay_out(
        &self,
        requests: &[Request],
        guide: &GuideArgs,
    ) -> anyhow::Result<(Vec<Request>, Layout)> {
        let axes: Vec<&Axis> = self.x.iter().chain(&self.y).collect();
        if let [x, y] = axes[..] {
            ensure!(x.name != y.name, "--x and --y both change {}", x.name);
        }
        let of_seeds = axes.iter().any(|axis| axis.name == "seed");
        let seeds = distinct(requests.iter().map(|request| request.seed));
        let bases = bases(requests)?;
        let prompts = distinct(requests.iter().map(|request| &*request.prompt));
        ensure!(
            !of_seeds || seeds.len() == 1,
            "--seeds and an axis both say which seeds; give one of them"
        );
        let columns = match &self.x {
            Some(axis) => axis.values.clone(),
            None if of_seeds || requests.is_empty() => vec![Change::Nothing],
            None => seeds.iter().copied().map(Change::Seed).collect(),
        };
        // What is not on the way to the right goes down.
        let down_seeds = match self.x.is_some() && !of_seeds && seeds.len() > 1 {
            true => seeds.iter().copied().map(Change::Seed).collect(),
            false => vec![Change::Nothing],
        };
        let down = match &self.y {
            Some(axis) => axis.values.clone(),
            None => vec![Change::Nothing],
        };
        let mut cells = Vec::new();
        let mut rows = Vec::new();
        for prompt in &prompts {
            let base = bases[prompt];
            for y in &down {
                for seed in &down_seeds {
                    let prompt = Some(prompt.to_string()).filter(|_| prompts.len() > 1);
                    let labels = prompt.into_iter().chain(y.label()).chain(seed.label());
                    rows.push(labels.collect::<Vec<_>>().join(", "));
                    for x in &columns {
                        let mut request = Request::clone(base);
                        let mut changes = [seed, y, x];
                        // A method comes with constants of its own, which the other side may change.
                        changes.sort_by_key(|change| !matches!(change, Change::Guide(_)));
                        for change in changes {
                            change.apply(&mut request, guide)?;
                        }
                        let boxed = goes_by_boxes(&request) || !guide.boxes.is_empty();
                        if self.chooses_guide() && !boxed {
                            // Boxes that the prompt's file gives are for methods that go by them; others refuse them.
                            request.boxes.clear();
                        }
                        cells.push(request);
                    }
                }
            }
        }
        let columns = columns
            .iter()
            .map(|x| x.label().unwrap_or_default())
            .collect();
        Ok((cells, Layout { columns, rows }))
    }
}

/// The first request of each prompt, which stands for all of that prompt.
///
/// # Errors
/// They differ in more than their seeds.
fn bases(requests: &[Request]) -> anyhow::Result<HashMap<&str, &Request>> {
    let mut bases: HashMap<&str, &Request> = HashMap::new();
    for request in requests {
        let base = *bases.entry(&request.prompt).or_insert(request);
        let twin = Request {
            seed: base.seed,
            ..request.clone()
        };
        ensure!(
            twin == *base,
            "--grid: the pictures of \"{}\" differ in more than their seeds: their file gives them other relations, \
             boxes, neutral prompts or start pictures; leave out --grid",
            printable(&request.prompt)
        );
    }
    Ok(bases)
}

/// Without repetitions, in the order of first mention.
fn distinct<T: Copy + Eq + Hash>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    values.filter(|value| seen.insert(*value)).collect()
}

/// Rows and columns of a sheet, by label.
#[derive(Debug)]
pub struct Layout {
    columns: Vec<String>,
    rows: Vec<String>,
}

/// A sheet that fills with pictures.
#[derive(Debug)]
pub struct Sheet {
    path: PathBuf,
    layout: Layout,
    cells: HashMap<usize, (Request, Picture)>,
}

impl Sheet {
    /// # Errors
    /// `path` is no PNG, or the sheet would be larger than anybody can open.
    pub fn new(path: &Path, layout: Layout, requests: &[Request]) -> anyhow::Result<Self> {
        if !names_picture(path)? {
            bail!("--grid {} must be a file that ends in .png", path.display());
        }
        let pixels = requests
            .iter()
            .map(|request| request.width.saturating_mul(request.height));
        let pixels = pixels.fold(0usize, usize::saturating_add);
        ensure!(
            pixels <= MOST_PIXELS,
            "a sheet of {} pictures would have {} megapixels, more than {}; make fewer or smaller ones, or leave out --grid",
            requests.len(),
            pixels >> 20,
            MOST_PIXELS >> 20
        );
        prepare_folder(parent(path))?;
        Ok(Self {
            path: path.into(),
            layout,
            cells: HashMap::new(),
        })
    }

    /// Puts the picture of the request of that number into its cell.
    pub fn put(&mut self, number: usize, request: &Request, picture: &Picture) {
        self.cells
            .insert(number, (request.clone(), picture.clone()));
    }

    /// Writes it, and says where to.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(mut self) -> anyhow::Result<PathBuf> {
        let Layout { columns, rows } = self.layout;
        let (mut cells, mut requests) = (Vec::new(), Vec::new());
        for row in 0..rows.len() {
            let numbers = row * columns.len()..(row + 1) * columns.len();
            let made = numbers.filter_map(|number| self.cells.remove(&number));
            let (asked, pictures): (Vec<Request>, Vec<Picture>) = made.unzip();
            cells.push(pictures);
            requests.push(asked);
        }
        let grid = Grid {
            columns,
            rows,
            cells,
        };
        if let Some(picture) = grid.draw() {
            sheet::save(&self.path, &picture, &grid.columns, &grid.rows, &requests)?;
        }
        Ok(self.path)
    }
}

/// What changes along one side of a sheet.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    name: &'static str,
    values: Vec<Change>,
}

/// What one row or column changes.
#[derive(Clone, Debug, PartialEq)]
enum Change {
    Nothing,
    Seed(u64),
    Steps(usize),
    GuidanceScale(f64),
    Scheduler(SchedulerKind),
    Guide(Option<Method>),
    GuideScale(f64),
    GuideSteps(usize),
    GuideEvery(usize),
    DeepCache(OrOff<DeepCache>),
    Gate(OrOff<Gate>),
    TokenMerging(OrOff<f64>),
    Strength(f64),
    ClipSkip(usize),
}

/// Reads a value of an axis; `None` if it is none.
type ReadValue = fn(&str) -> Option<Change>;

/// The axes, and how a value of each is read.
const AXES: [(&str, ReadValue); 13] = [
    ("seed", |text| Some(Change::Seed(text.parse().ok()?))),
    ("steps", |text| Some(Change::Steps(text.parse().ok()?))),
    ("guidance-scale", |text| {
        Some(Change::GuidanceScale(number(text)?))
    }),
    ("scheduler", |text| {
        Some(Change::Scheduler(text.parse().ok()?))
    }),
    ("guide", |text| match text {
        "none" => Some(Change::Guide(None)),
        name => Some(Change::Guide(Some(
            <Method as ValueEnum>::from_str(name, false).ok()?,
        ))),
    }),
    ("guide-scale", |text| {
        Some(Change::GuideScale(number(text)?))
    }),
    ("guide-steps", |text| {
        Some(Change::GuideSteps(text.parse().ok()?))
    }),
    ("guide-every", |text| {
        Some(Change::GuideEvery(text.parse().ok()?))
    }),
    ("deep-cache", |text| {
        Some(Change::DeepCache(text.parse().ok()?))
    }),
    ("tgate", |text| Some(Change::Gate(text.parse().ok()?))),
    ("token-merging", |text| {
        Some(Change::TokenMerging(text.parse().ok()?))
    }),
    ("strength", |text| Some(Change::Strength(number(text)?))),
    ("clip-skip", |text| {
        Some(Change::ClipSkip(text.parse().ok()?))
    }),
];

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

impl FromStr for Axis {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || AXES.map(|(name, _)| name).join(", ");
        let (name, list) = text.split_once('=').ok_or_else(|| {
            format!(
                "give an axis and its values, such as seed=0-3 or guide=none,pos; there are {}",
                known()
            )
        })?;
        let (name, read) = AXES
            .into_iter()
            .find(|(axis, _)| *axis == name.trim())
            .ok_or_else(|| format!("{name:?} is not an axis; there are {}", known()))?;
        let values: Vec<Change> = match name {
            "seed" => numbers(list)?.into_iter().map(Change::Seed).collect(),
            _ => list
                .split(',')
                .map(|value| {
                    read(value.trim()).ok_or_else(|| format!("{value:?} is not a value of {name}"))
                })
                .collect::<Result<_, _>>()?,
        };
        for (number, value) in values.iter().enumerate() {
            if values[..number].contains(value) {
                return Err(format!("{name} has the same value twice"));
            }
        }
        Ok(Self { name, values })
    }
}

impl Change {
    /// What stands at its row or column.
    fn label(&self) -> Option<String> {
        Some(match self {
            Change::Nothing => return None,
            Change::Seed(seed) => format!("seed {seed}"),
            Change::Steps(steps) => format!("{steps} steps"),
            Change::GuidanceScale(scale) => format!("guidance scale {scale}"),
            Change::Scheduler(scheduler) => scheduler.to_string(),
            Change::Guide(None) => "no guidance".into(),
            Change::Guide(Some(method)) => method.name().into(),
            Change::GuideScale(scale) => format!("guide scale {scale}"),
            Change::GuideSteps(steps) => format!("{steps} guided steps"),
            Change::GuideEvery(steps) => format!("guide every {steps}"),
            Change::DeepCache(deep) => deep.label("deep cache"),
            Change::Gate(gate) => gate.label("tgate"),
            Change::TokenMerging(ratio) => ratio.label("token merging"),
            Change::Strength(strength) => format!("strength {strength}"),
            Change::ClipSkip(layers) => format!("clip skip {layers}"),
        })
    }

    fn apply(&self, request: &mut Request, guide: &GuideArgs) -> anyhow::Result<()> {
        let unguided = "changes how pictures are guided, but one of them is not; give --guide, or leave `none` out";
        match self {
            Change::Nothing => {}
            Change::Seed(seed) => request.seed = *seed,
            Change::Steps(steps) => request.steps = *steps,
            Change::GuidanceScale(scale) => request.guidance_scale = *scale,
            Change::Scheduler(scheduler) => request.scheduler = Some(scheduler.to_string()),
            Change::Guide(method) => request.guide = method.map(|method| guide.config(method)),
            Change::GuideScale(scale) => match &mut request.guide {
                Some(config) => config.scale = Some(*scale),
                None => bail!("guide-scale {unguided}"),
            },
            Change::GuideSteps(steps) => match &mut request.guide {
                Some(config) => config.steps = Some(*steps),
                None => bail!("guide-steps {unguided}"),
            },
            Change::GuideEvery(steps) => match &mut request.guide {
                Some(config) => config.every = Some(*steps),
                None => bail!("guide-every {unguided}"),
            },
            Change::DeepCache(OrOff(deep)) => request.savings.deep_cache = *deep,
            Change::Gate(OrOff(gate)) => request.savings.tgate = *gate,
            Change::TokenMerging(OrOff(ratio)) => request.savings.token_merging = *ratio,
            Change::Strength(strength) => match &mut request.init {
                Some(init) => init.strength = *strength,
                None => bail!("strength is for pictures with a start picture: give --init-image"),
            },
            Change::ClipSkip(layers) => request.clip_skip = *layers,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::tests::request;
    use prepose::guidance::METHODS;

    #[test]
    fn each_method_has_the_constants_of_its_row() {
        let mut base = request();
        base.guide = Some(GuideArgs::default().config(METHODS[0]));
        let guides = |x: &str, y: &str| {
            let sheet = SheetArgs {
                grid: None,
                x: Some(x.parse().unwrap()),
                y: Some(y.parse().unwrap()),
            };
            let cells = sheet.lay_out(std::slice::from_ref(&base), &GuideArgs::default());
            let (cells, _) = cells.unwrap();
            let guides = cells.into_iter().map(|cell| cell.guide.unwrap());
            guides.collect::<Vec<_>>()
        };
        let methods = "guide=pos,boxdiff";
        let scales = |x, y| guides(x, y).into_iter().map(|guide| guide.scale);
        let fives = [5.0, 5.0, 40.0, 40.0].map(Some);
        assert!(scales(methods, "guide-scale=5,40").eq(fives));
        let pairs = [5.0, 40.0, 5.0, 40.0].map(Some);
        assert!(scales("guide-scale=5,40", methods).eq(pairs));
        let steps = guides(methods, "guide-steps=2,3");
        assert!(
            steps
                .iter()
                .map(|guide| guide.steps)
                .eq([2, 2, 3, 3].map(Some::<usize>))
        );
        let every = guides(methods, "guide-every=1,2");
        assert!(
            every
                .iter()
                .map(|guide| guide.every)
                .eq([1, 1, 2, 2].map(Some::<usize>))
        );
    }

    #[test]
    fn axes_are_read() {
        let axis: Axis = "guide=none,pos".parse().unwrap();
        let labels: Vec<_> = axis.values.iter().filter_map(Change::label).collect();
        assert_eq!(labels, ["no guidance", "pos"]);
        let axis: Axis = "seed=0-2,7".parse().unwrap();
        assert_eq!(axis.values.len(), 4);
        let axis: Axis = "deep-cache=off,3:1".parse().unwrap();
        let labels: Vec<_> = axis.values.iter().filter_map(Change::label).collect();
        assert_eq!(labels, ["deep cache off", "deep cache 3:1"]);
        for wrong in [
            "seed",
            "sead=1",
            "steps=",
            "steps=a",
            "guide=magic",
            "guidance-scale=NaN",
            "steps=5,5",
        ] {
            assert!(wrong.parse::<Axis>().is_err(), "{wrong}");
        }
    }
}
