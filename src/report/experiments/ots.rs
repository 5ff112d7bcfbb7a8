//! Order to space: where the first-mentioned of two things stands (Order Is Not Layout, arXiv 2603.03714).

use std::collections::{BTreeSet, HashMap};

use super::{Compared, Pictures, Results, percent, published, share};
use prepose_check::prompt::SuitePrompt;
use prepose_check::rules::ots::homogenization as score;
use prepose_check::sample::Scores;
use prepose_draw::plot::{Axis, Chart, Ink, Parts, Series, Style};
use prepose_draw::table::{Cell, Table};
use prepose_scene::neutral::Opening;

/// Which of two directions is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Left and right, as in the paper.
    Sides,
    /// Above and below.
    Levels,
}

/// Where the first-mentioned object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On the left, or above: as the order of mention has it.
    First,
    /// On the right, or below.
    Second,
    /// An object is missing, or both are level.
    Invalid,
}

impl Direction {
    /// The words for where the first-mentioned object is.
    fn words(self) -> [&'static str; 2] {
        match self {
            Self::Sides => ["left", "right"],
            Self::Levels => ["above", "below"],
        }
    }

    fn place(self, scores: &Scores) -> Option<Place> {
        let place = match self {
            Self::Sides => scores.side.as_deref()?,
            Self::Levels => scores.level.as_deref()?,
        };
        Some(match place {
            "left" | "above" => Place::First,
            "right" | "below" => Place::Second,
            _ => Place::Invalid,
        })
    }
}

/// How often the first-mentioned object is where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// On the left, or above.
    pub first: usize,
    /// On the right, or below.
    pub second: usize,
    /// Not clear.
    pub invalid: usize,
}

impl Tally {
    fn of(places: impl IntoIterator<Item = Place>) -> Self {
        let mut tally = Self::default();
        for place in places {
            *match place {
                Place::First => &mut tally.first,
                Place::Second => &mut tally.second,
                Place::Invalid => &mut tally.invalid,
            } += 1;
        }
        tally
    }

    fn total(self) -> usize {
        self.first + self.second + self.invalid
    }

    fn homogenization(self) -> Option<f64> {
        score(self.first, self.second)
    }

    /// Where the order of mention has its way, of the valid ones.
    fn success(self) -> Option<f64> {
        share(self.first, self.first + self.second)
    }

    fn cells(self) -> [Cell; 5] {
        [
            Cell::Count(self.total()),
            Cell::Count(self.first),
            Cell::Count(self.second),
            Cell::Count(self.invalid),
            percent(share(self.invalid, self.total())),
        ]
    }
}

/// What pairs of pictures show together: of the same two objects in both orders, with the same seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pairs {
    /// The first-mentioned one is on the left in both: the order decides.
    follow: usize,
    /// It is on the right in both.
    oppose: usize,
    /// The same object is on the left in both: the objects decide, or the noise.
    same: usize,
}

/// Published homogenization: model, figure, share of invalid pictures; in percent.
type Published = (&'static str, f64, Option<f64>);

/// Table 4 of the paper, with the invalid ones of the authors' rebuttal.
const PUBLISHED_SIDES: [Published; 4] = [
    ("SDXL", 52.6, Some(34.41)),
    ("SD3.5", 84.2, Some(13.82)),
    ("FLUX-dev", 88.8, Some(12.82)),
    ("Qwen-Image", 91.6, None),
];
/// The rebuttal's table 4b, of a hundred pictures each.
const PUBLISHED_LEVELS: [Published; 3] = [
    ("SD3.5", 3.6, Some(44.0)),
    ("FLUX-dev", 28.6, Some(34.0)),
    ("Qwen-Image", 18.8, Some(31.0)),
];

/// Table 7 of the paper, for FLUX-dev, in percent: at the base, and after 1 to 5 steps.
const FLUX: [(&str, [f64; 6]); 4] = [
    ("A2B", [100.0, 25.0, 14.8, 11.1, 3.2, 2.2]),
    ("B2A", [100.0, 23.0, 17.8, 5.5, 2.4, 1.2]),
    ("N2A", [89.9, 28.8, 21.8, 27.2, 34.1, 39.1]),
    ("N2B", [85.0, 31.1, 15.7, 20.0, 27.1, 41.6]),
];

/// How far each method's pictures of neutral prompts are from half and half, over all and by the kind of pair.
pub fn homogenization(pictures: &Pictures, direction: Direction) -> Results {
    let [left, right] = direction.words();
    let follow = format!("first_{left}_in_both");
    let oppose = format!("first_{right}_in_both");
    let columns = [
        "run",
        "pairs_of",
        "pictures",
        left,
        right,
        "invalid",
        "invalid_percent",
        "homogenization",
        "pairs",
        follow.as_str(),
        oppose.as_str(),
        "same_object_in_both",
    ];
    let counterparts = pictures.counterparts();
    let kinds: BTreeSet<&str> = (pictures.prompts.iter())
        .flat_map(|prompt| prompt.tags.iter().map(String::as_str))
        .collect();
    let kinds: Vec<Option<&str>> = std::iter::once(None)
        .chain(kinds.into_iter().map(Some))
        .collect();
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for (method, seen) in &pictures.methods {
        for kind in &kinds {
            let of_kind = |prompt: &SuitePrompt| {
                kind.is_none_or(|kind| prompt.tags.iter().any(|tag| tag == kind))
            };
            let placed: Vec<(usize, u64, Place)> = seen
                .iter()
                .filter(|(prompt, _)| of_kind(&pictures.prompts[*prompt]))
                .filter_map(|(prompt, scores)| {
                    Some((*prompt, scores.seed, direction.place(scores)?))
                })
                .collect();
            let tally = Tally::of(placed.iter().map(|(.., place)| *place));
            if tally.total() == 0 {
                continue;
            }
            let Pairs {
                follow,
                oppose,
                same,
            } = together(&placed, &counterparts);
            let mut row = vec![
                Cell::Name(method.name.clone()),
                Cell::Name(kind.unwrap_or("all").to_owned()),
            ];
            row.extend(tally.cells());
            row.push(percent(tally.homogenization()));
            row.extend([follow + oppose + same, follow, oppose, same].map(Cell::Count));
            rows.push(row);
            let name = match kind {
                None => method.name.clone(),
                Some(kind) => format!("{}, {kind}", method.name),
            };
            bars.push((name, vec![tally.first, tally.second, tally.invalid]));
        }
    }
    let known: &[Published] = match direction {
        Direction::Sides => &PUBLISHED_SIDES,
        Direction::Levels => &PUBLISHED_LEVELS,
    };
    for (name, figure, invalid) in known {
        let mut row = vec![published(name), Cell::Name("all".into())];
        row.extend([Cell::Empty, Cell::Empty, Cell::Empty, Cell::Empty]);
        row.extend([percent(*invalid), Cell::Percent(*figure)]);
        row.extend([Cell::Empty, Cell::Empty, Cell::Empty, Cell::Empty]);
        rows.push(row);
    }
    let plot = Parts {
        title: "Where the first-mentioned object is".into(),
        label: "share of all pictures".into(),
        parts: vec![
            (left.into(), Ink::Series(0)),
            (right.into(), Ink::Series(1)),
            ("invalid".into(), Ink::Undecided),
        ],
        rows: bars,
    };
    Results {
        name: "homogenization",
        note: format!(
            "Where the first-mentioned object of a neutral prompt is. Homogenization: 100 · |{left} − {right}| / ({left} + \
             {right}), without the invalid ones, in which an object is missing. Pairs are the same two objects in both orders \
             with the same seed, both pictures valid."
        ),
        tables: vec![Table::new("homogenization", &columns, rows.into_iter())],
        plots: vec![("places", plot.draw())],
    }
}

/// The pairs among these pictures: prompt, seed, place.
fn together(placed: &[(usize, u64, Place)], counterparts: &[Option<usize>]) -> Pairs {
    let places: HashMap<(usize, u64), Place> = (placed.iter())
        .map(|(prompt, seed, place)| ((*prompt, *seed), *place))
        .collect();
    let mut pairs = Pairs::default();
    for (prompt, seed, place) in placed {
        let Some(other) = counterparts[*prompt].filter(|other| other > prompt) else {
            continue;
        };
        match (place, places.get(&(other, *seed))) {
            (Place::First, Some(Place::First)) => pairs.follow += 1,
            (Place::Second, Some(Place::Second)) => pairs.oppose += 1,
            (Place::First, Some(Place::Second)) | (Place::Second, Some(Place::First)) => {
                pairs.same += 1;
            }
            _ => {}
        }
    }
    pairs
}

/// One setting at one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Switched {
    /// `A2B`: begun with the order A, switched to B; `N2A`: begun without an order, switched to A.
    pub setting: &'static str,
    /// How many steps it was begun so; 0 is the final prompt from the start.
    pub step: usize,
    /// Of all pictures.
    pub all: Tally,
    /// Of the pictures whose pair follows the order of mention at the base, which the paper selects.
    pub biased: Tally,
}

/// What the switch at each step came to: of the objects' order in the set (A) and the other one (B).
pub fn switched(pictures: &Pictures, direction: Direction) -> Vec<Switched> {
    let counterparts = pictures.counterparts();
    let base = pictures
        .methods
        .iter()
        .find(|(method, _)| method.name == Compared::PROMPT_ONLY && method.is_plain());
    let at_base: HashMap<(usize, u64), Place> = (base.iter().flat_map(|(_, seen)| seen))
        .filter_map(|(prompt, scores)| Some(((*prompt, scores.seed), direction.place(scores)?)))
        .collect();
    let follows = |prompt: usize, seed| at_base.get(&(prompt, seed)) == Some(&Place::First);
    let mut all = Vec::new();
    // The final order is the set's, or the other one.
    for (setting, with, set_order) in [
        ("A2B", Opening::Swapped, false),
        ("B2A", Opening::Swapped, true),
        ("N2A", Opening::Neutral, true),
        ("N2B", Opening::Neutral, false),
    ] {
        let mut of_setting = Vec::new();
        for (method, seen) in &pictures.methods {
            let step = match method.opening {
                None if method.is_plain() => 0,
                Some((opening, steps)) if opening == with => steps,
                _ => continue,
            };
            let placed: Vec<(Place, bool)> = seen
                .iter()
                .filter_map(|(prompt, scores)| {
                    let other = counterparts[*prompt]?;
                    if (other > *prompt) != set_order {
                        return None;
                    }
                    let place = direction.place(scores)?;
                    let seed = scores.seed;
                    Some((place, follows(*prompt, seed) && follows(other, seed)))
                })
                .collect();
            let biased = placed.iter().filter(|(_, biased)| *biased);
            of_setting.push(Switched {
                setting,
                step,
                all: Tally::of(placed.iter().map(|(place, _)| *place)),
                biased: Tally::of(biased.map(|(place, _)| *place)),
            });
        }
        of_setting.sort_by_key(|row| row.step);
        all.extend(of_setting.into_iter().filter(|row| row.all.total() > 0));
    }
    all
}

/// What the switch at each step came to, beside FLUX-dev.
pub fn switch(pictures: &Pictures, direction: Direction) -> Results {
    let [left, right] = direction.words();
    let columns = [
        "run",
        "step",
        "share_of_steps",
        "pictures",
        left,
        right,
        "invalid",
        "invalid_percent",
        "success",
        "success_of_all",
        "homogenization",
        "published_FLUX-dev",
    ];
    let switched = switched(pictures, direction);
    let flux = |setting: &str, step: usize| {
        let known = FLUX.iter().find(|(name, _)| *name == setting)?;
        (direction == Direction::Sides).then(|| known.1.get(step).copied())?
    };
    let swap = |row: &Switched| row.setting.starts_with(['A', 'B']);
    let rows = switched.iter().map(|row| {
        let tally = if swap(row) { row.biased } else { row.all };
        let mut cells = vec![
            Cell::Name(row.setting.into()),
            Cell::Count(row.step),
            Cell::Rate(row.step as f64 / pictures.steps.max(1) as f64),
        ];
        cells.extend(tally.cells());
        cells.extend(match swap(row) {
            true => [
                percent(tally.success()),
                percent(row.all.success()),
                Cell::Empty,
            ],
            false => [Cell::Empty, Cell::Empty, percent(tally.homogenization())],
        });
        cells.push(percent(flux(row.setting, row.step)));
        cells
    });
    let table = Table::new("switch", &columns, rows);
    let last = switched
        .iter()
        .map(|row| row.step)
        .max()
        .unwrap_or(0)
        .max(1);
    let chart =
        |title: &str, label: &str, settings: [&str; 2], of: fn(&Switched) -> Option<f64>| {
            let mut series = Vec::new();
            for (look, setting) in settings.into_iter().enumerate() {
                let points = switched.iter().filter(|row| row.setting == setting);
                let points = points.filter_map(|row| Some((row.step as f64, of(row)?)));
                series.push(Series::new(setting, points.collect(), Style::Line, look));
            }
            for (look, setting) in settings.into_iter().enumerate() {
                let points =
                    (0..=last).filter_map(|step| Some((step as f64, flux(setting, step)?)));
                let name = format!("{setting}, FLUX-dev (published)");
                series.push(Series::new(&name, points.collect(), Style::Line, look + 2));
            }
            series.retain(|series| !series.points.is_empty());
            Chart {
                title: title.into(),
                x: Axis::linear(
                    &format!("step of the switch, of {}", pictures.steps),
                    0.0,
                    last as f64,
                ),
                y: Axis::linear(label, 0.0, 100.0),
                series,
                notes: Vec::new(),
            }
            .draw()
        };
    Results {
        name: "switch",
        note: format!(
            "A and B are the two orders of a pair. A2B begins with A and switches to B, N2A begins with the neutral prompt and \
             switches to A; step 0 has the final prompt from the start. Success: the first-mentioned object of the final prompt is \
             {left}, of the valid pictures; over the pairs and seeds that follow the order of mention in both orders at step 0, as the \
             paper selects its pictures, and over all. Homogenization is over all. Invalid pictures lack an object and do not count."
        ),
        tables: vec![table],
        plots: vec![
            (
                "success",
                chart(
                    "Order swap",
                    "follows the final prompt, %",
                    ["A2B", "B2A"],
                    |row| row.biased.success(),
                ),
            ),
            (
                "homogenization",
                chart(
                    "Neutral, then the prompt",
                    "homogenization, %",
                    ["N2A", "N2B"],
                    |row| row.all.homogenization(),
                ),
            ),
        ],
    }
}

#[cfg(test)]
mod tests;
