//! A cure for the bias of order, before and after (table 6).

use std::collections::BTreeMap;

use prepose_check::sample::Scores;
use prepose_draw::plot::{Ink, Parts};
use prepose_draw::table::{Cell, Table};
use prepose_scene::Relation;
use serde::Serialize;

use super::published::CURED;
use super::{Direction, Tally, share};
use crate::bootstrap::{Bootstrap, Estimate};
use crate::experiments::{Pictures, Results};

/// A checkpoint as it is, or with a LoRA, and the pictures that it made.
#[derive(Clone, Debug)]
pub struct Arm {
    /// What it is called.
    pub name: String,
    /// Of prompts that leave open which of two things is where.
    pub neutral: Pictures,
    /// Of prompts that say which is to the left, or to the right, of the other.
    pub stated: Pictures,
    /// How far the neutral pictures are from those that were trained on, in the unit of its name.
    pub distance: Option<(String, Estimate)>,
}

/// What arms came to; the first is what the others are compared with.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// As in [`Arm`].
    pub arm: String,
    /// Neutral pictures; left, right and invalid are where the first-mentioned one is.
    pub neutral: Places,
    /// Pictures with a stated side.
    pub stated: usize,
    /// Everything in percent.
    pub figures: Vec<Figure>,
    /// How far the neutral pictures are from those that were trained on.
    pub distance: Option<Distance>,
}

/// Where the first-mentioned one is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Places {
    /// All of them.
    pub pictures: usize,
    /// On the left.
    pub left: usize,
    /// On the right.
    pub right: usize,
    /// Not clear.
    pub invalid: usize,
}

/// A share with its interval, and how it differs from that of the first arm.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What it is of.
    pub name: &'static str,
    /// Value, low and high end; none where there is no picture that counts.
    pub value: Option<[f64; 3]>,
    /// As `value`; none of the first arm.
    pub change: Option<[f64; 3]>,
}

/// A distance with its interval.
#[derive(Clone, Debug, Serialize)]
pub struct Distance {
    /// By which measure.
    pub name: String,
    /// Value, low and high end.
    pub value: [f64; 3],
}

/// Pictures with a stated side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stated {
    right: usize,
    wrong: usize,
    /// An object is missing.
    missing: usize,
}

impl Stated {
    fn of_all(self) -> Option<f64> {
        share(self.right, self.right + self.wrong + self.missing)
    }

    fn of_valid(self) -> Option<f64> {
        share(self.right, self.right + self.wrong)
    }

    fn plus(self, other: Self) -> Self {
        Self {
            right: self.right + other.right,
            wrong: self.wrong + other.wrong,
            missing: self.missing + other.missing,
        }
    }
}

/// The pictures of two objects, in whichever order, with all their seeds: they are not independent of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    neutral: Tally,
    /// The left one mentioned first, and the right one.
    stated: [Stated; 2],
    /// Pictures with both objects, of so many.
    found: [usize; 2],
}

impl Counts {
    fn plus(self, other: &Self) -> Self {
        Self {
            neutral: self.neutral.plus(other.neutral),
            stated: [0, 1].map(|i| self.stated[i].plus(other.stated[i])),
            found: [0, 1].map(|i| self.found[i] + other.found[i]),
        }
    }

    fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        all.into_iter()
            .fold(Self::default(), |sum, one| sum.plus(one))
    }

    fn both(&self) -> Stated {
        self.stated[0].plus(self.stated[1])
    }
}

type Said = fn(&Counts) -> Option<f64>;

/// What is said of an arm, under the names that files have.
const FIGURES: [(&str, Said); 7] = [
    ("homogenization", |counts| counts.neutral.homogenization()),
    ("aligned", |counts| counts.stated[0].of_valid()),
    ("reversed", |counts| counts.stated[1].of_valid()),
    ("left_of", |counts| counts.stated[0].of_all()),
    ("right_of", |counts| counts.stated[1].of_all()),
    ("sides", |counts| counts.both().of_all()),
    ("found", |counts| share(counts.found[0], counts.found[1])),
];

/// Homogenization, correctness and quality of arms on the same prompts and seeds, with intervals over pairs of objects, and
/// how all but the first differ from that, picture by picture.
pub fn cure(arms: &[Arm]) -> (Vec<Measured>, Results) {
    let counted: Vec<BTreeMap<[&str; 2], Counts>> = arms.iter().map(counts).collect();
    let measured: Vec<Measured> = (arms.iter().zip(&counted).enumerate())
        .map(|(at, (arm, counts))| measured(arm, counts, (at > 0).then(|| &counted[0])))
        .collect();
    let bars = measured.iter().map(|one| {
        let Places {
            left,
            right,
            invalid,
            ..
        } = one.neutral;
        (one.arm.clone(), vec![left, right, invalid])
    });
    let plot = Parts {
        title: "Where the first-mentioned object is".into(),
        label: "share of all pictures".into(),
        parts: vec![
            ("left".into(), Ink::Series(0)),
            ("right".into(), Ink::Series(1)),
            ("invalid".into(), Ink::Undecided),
        ],
        rows: bars.collect(),
    };
    let results = Results {
        name: "cure",
        note: "Neutral prompts: 100 · |left − right| / (left + right) by where the first-mentioned object is. Prompts that say \
               a side: aligned name the left one first (left of), reversed the right one (right of); correct of those with \
               both objects, and of all (left of, right of, both). Found: both objects are there, of all pictures. In \
               brackets the 95 % interval over pairs of objects. Changes are from the first row, on the same prompts and \
               noise."
            .into(),
        tables: vec![table(&measured), figures(&measured)],
        plots: vec![("places", plot.draw())],
    };
    (measured, results)
}

/// The pictures of an arm by the two objects that they are to show, whatever their order.
fn counts(arm: &Arm) -> BTreeMap<[&str; 2], Counts> {
    let mut pairs: BTreeMap<[&str; 2], Counts> = BTreeMap::new();
    let both = [(&arm.neutral, true), (&arm.stated, false)];
    for (pictures, is_neutral) in both {
        for (prompt, scores) in pictures.methods.iter().flat_map(|(_, seen)| seen) {
            let prompt = &pictures.prompts[*prompt];
            let [a, b] = prompt.objects.as_slice() else {
                continue;
            };
            let mut names = [a.as_str(), b.as_str()];
            names.sort_unstable();
            let counts = pairs.entry(names).or_default();
            let is_found = scores.found == Some(scores.objects);
            counts.found[0] += usize::from(is_found);
            counts.found[1] += 1;
            if is_neutral {
                if let Some(place) = Direction::Sides.place(scores) {
                    counts.neutral.add(place);
                }
            } else if let [stated] = prompt.relations.as_slice() {
                let which = usize::from(stated.relation == Relation::RightOf);
                add(&mut counts.stated[which], scores);
            }
        }
    }
    pairs
}

fn add(stated: &mut Stated, scores: &Scores) {
    *match scores.centre {
        Some(true) => &mut stated.right,
        Some(false) => &mut stated.wrong,
        None => &mut stated.missing,
    } += 1;
}

fn measured(
    arm: &Arm,
    counts: &BTreeMap<[&str; 2], Counts>,
    first: Option<&BTreeMap<[&str; 2], Counts>>,
) -> Measured {
    let bootstrap = Bootstrap::default();
    let groups: Vec<Counts> = counts.values().copied().collect();
    let matched: Option<Vec<[Counts; 2]>> = first.map(|first| {
        let both = counts
            .iter()
            .filter_map(|(pair, now)| Some([*first.get(pair)?, *now]));
        both.collect()
    });
    let ends = |estimate: Estimate| [estimate.value, estimate.low, estimate.high];
    let figure = |(name, of): &(&'static str, Said)| Figure {
        name,
        value: bootstrap
            .estimate(&groups, |drawn| of(&Counts::sum(drawn.iter().copied())))
            .map(ends),
        change: matched.as_ref().and_then(|matched| {
            let change = |drawn: &[&[Counts; 2]]| {
                let [before, after] =
                    [0, 1].map(|i| of(&Counts::sum(drawn.iter().map(|both| &both[i]))));
                Some(after? - before?)
            };
            bootstrap.estimate(matched, change).map(ends)
        }),
    };
    let all = Counts::sum(&groups);
    let stated = all.both();
    Measured {
        arm: arm.name.clone(),
        neutral: Places {
            pictures: all.neutral.total(),
            left: all.neutral.first,
            right: all.neutral.second,
            invalid: all.neutral.invalid,
        },
        stated: stated.right + stated.wrong + stated.missing,
        figures: FIGURES.iter().map(figure).collect(),
        distance: arm.distance.as_ref().map(|(name, estimate)| Distance {
            name: name.clone(),
            value: ends(*estimate),
        }),
    }
}

/// Table 6: a row an arm, and what the paper has.
fn table(measured: &[Measured]) -> Table {
    let mut columns = vec!["run", "pictures"];
    columns.extend(FIGURES.iter().map(|(name, _)| *name));
    columns.push("distance");
    let name = |text: String| Cell::Name(text);
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for one in measured {
        let mut row = vec![
            name(one.arm.clone()),
            Cell::Count(one.neutral.pictures + one.stated),
        ];
        row.extend(one.figures.iter().map(|figure| match figure.value {
            Some([value, low, high]) => name(format!("{value:.1} [{low:.1}, {high:.1}]")),
            None => Cell::Empty,
        }));
        row.push(match &one.distance {
            Some(Distance {
                name: measure,
                value: [value, low, high],
            }) => name(format!("{measure} {value:.2} [{low:.2}, {high:.2}]")),
            None => Cell::Empty,
        });
        rows.push(row);
    }
    for (model, [homogenization, aligned, reversed]) in CURED {
        let mut row = vec![super::super::published(model), Cell::Empty];
        row.extend([homogenization, aligned, reversed].map(|value| name(format!("{value:.1}"))));
        row.resize(columns.len(), Cell::Empty);
        rows.push(row);
    }
    Table::new("cure", &columns, rows.into_iter())
}

/// All figures, one a row, for programs.
fn figures(measured: &[Measured]) -> Table {
    let columns = [
        "run",
        "figure",
        "value",
        "low",
        "high",
        "change",
        "change_low",
        "change_high",
    ];
    let cells = |ends: Option<[f64; 3]>| match ends {
        Some(ends) => ends.map(Cell::Percent),
        None => [Cell::Empty, Cell::Empty, Cell::Empty],
    };
    let rows = measured.iter().flat_map(|one| {
        one.figures.iter().map(move |figure| {
            let mut row = vec![Cell::Name(one.arm.clone()), Cell::Name(figure.name.into())];
            row.extend(cells(figure.value));
            row.extend(cells(figure.change));
            row
        })
    });
    Table::new("cure_figures", &columns, rows)
}

#[cfg(test)]
mod tests {
    use prepose_check::prompt::SuitePrompt;
    use prepose_scene::StatedRelation;

    use super::*;
    use crate::experiments::Compared;

    /// Pictures of pairs of objects: of pair `i` its neutral prompts in both orders, or both sides stated.
    fn pictures(pairs: usize, stated: bool, scores: impl Fn(usize, bool) -> Scores) -> Pictures {
        let mut prompts = Vec::new();
        let mut seen = Vec::new();
        for pair in 0..pairs {
            for second in [false, true] {
                let mut objects = vec![format!("a{pair}"), format!("b{pair}")];
                let mut relations = Vec::new();
                match (stated, second) {
                    (false, true) => objects.reverse(),
                    (true, false) => {
                        relations.push(StatedRelation::of_two(0, Relation::LeftOf, 1));
                    }
                    (true, true) => {
                        relations.push(StatedRelation::of_two(0, Relation::RightOf, 1));
                    }
                    (false, false) => {}
                }
                seen.push((
                    prompts.len(),
                    Scores {
                        objects: 2,
                        found: Some(2),
                        ..scores(pair, second)
                    },
                ));
                prompts.push(SuitePrompt {
                    objects,
                    relations,
                    ..SuitePrompt::default()
                });
            }
        }
        let method = Compared {
            name: "prompt-only".into(),
            guided: false,
            searched: false,
            opening: None,
        };
        Pictures {
            steps: 10,
            prompts,
            methods: vec![(method, seen)],
        }
    }

    fn arm(name: &str, side: fn(usize, bool) -> &'static str, centre: Option<bool>) -> Arm {
        Arm {
            name: name.into(),
            neutral: pictures(40, false, |pair, second| Scores {
                side: Some(side(pair, second).into()),
                ..Scores::default()
            }),
            stated: pictures(40, true, |_, second| Scores {
                centre: if second { centre } else { Some(true) },
                ..Scores::default()
            }),
            distance: None,
        }
    }

    #[test]
    fn arms_are_compared_picture_by_picture() {
        let before = arm("before", |_, _| "left", Some(false));
        // The object decides instead of the order: as often left as right.
        let cured = arm(
            "cured",
            |_, second| if second { "right" } else { "left" },
            None,
        );
        let (measured, results) = cure(&[before.clone(), cured]);
        let figure = |arm: usize, name: &str| {
            let mut all = measured[arm].figures.iter();
            all.find(|figure| figure.name == name)
                .expect("it is there")
                .clone()
        };
        assert_eq!(figure(0, "homogenization").value, Some([100.0; 3]));
        assert_eq!(figure(0, "homogenization").change, None);
        assert_eq!(figure(1, "homogenization").value, Some([0.0; 3]));
        assert_eq!(figure(1, "homogenization").change, Some([-100.0; 3]));
        // Aligned ones are all right; of the reversed all are wrong before, and lack an object after.
        assert_eq!(figure(0, "reversed").value, Some([0.0; 3]));
        assert_eq!(figure(1, "reversed").value, None);
        assert_eq!(figure(1, "right_of").change, Some([0.0; 3]));
        assert_eq!(figure(1, "sides").value, Some([50.0; 3]));
        assert_eq!(figure(1, "found").value, Some([100.0; 3]));
        let places = measured[1].neutral;
        assert_eq!((places.pictures, places.left, places.right), (80, 40, 40));
        let markdown = results.markdown();
        assert!(
            markdown.contains("100.0 [100.0, 100.0]") && markdown.contains("published: FLUX-dev"),
            "{markdown}"
        );

        // One pair of four turns round: the change has an interval, as other pairs might have.
        let some = arm(
            "some",
            |pair, _| if pair % 4 == 0 { "right" } else { "left" },
            Some(false),
        );
        let (measured, _) = cure(&[before, some]);
        let [value, low, high] = measured[1].figures[0].change.expect("both are there");
        assert_eq!(value, -50.0);
        assert!(
            low < -50.0 && high > -50.0 && low > -100.0 && high < 0.0,
            "{low} {high}"
        );
    }
}
