//! How far the first-mentioned object is from being on either side equally often.

use std::collections::{BTreeSet, HashMap};

use super::published::{LEVELS, MODELS};
use super::{Direction, Place, Tallies, Tally, cells};
use crate::experiments::{Pictures, Results, percent, published};
use prepose_check::prompt::SuitePrompt;
use prepose_draw::plot::{Ink, Parts};
use prepose_draw::table::{Cell, Table};

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
        "low",
        "high",
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
        for &kind in &kinds {
            let of_kind = |prompt: &SuitePrompt| {
                kind.is_none_or(|kind| prompt.tags.iter().any(|tag| tag == kind))
            };
            let placed: Vec<Placed> = seen
                .iter()
                .filter(|(prompt, _)| of_kind(&pictures.prompts[*prompt]))
                .filter_map(|(prompt, scores)| {
                    Some((*prompt, scores.seed, direction.place(scores)?))
                })
                .collect();
            if placed.is_empty() {
                continue;
            }
            let (cells, tally) = counted(&placed, &counterparts);
            let kind_name = Cell::Name(kind.unwrap_or("all").to_owned());
            rows.push([vec![Cell::Name(method.name.clone()), kind_name], cells].concat());
            let name = match kind {
                None => method.name.clone(),
                Some(kind) => format!("{}, {kind}", method.name),
            };
            bars.push((name, vec![tally.first, tally.second, tally.invalid]));
        }
    }
    for (name, figure, invalid) in known(direction) {
        let mut row = vec![published(name), Cell::Name("all".into())];
        row.extend([Cell::Empty, Cell::Empty, Cell::Empty, Cell::Empty]);
        row.extend([percent(invalid), Cell::Percent(figure)]);
        row.resize(columns.len(), Cell::Empty);
        rows.push(row);
    }
    Results {
        name: "homogenization",
        note: format!(
            "Where the first-mentioned object of a neutral prompt is. Homogenization: 100 · |{left} − {right}| / ({left} + \
             {right}), without the invalid ones, in which the two are not both there once, apart, and {beside}; low and \
             high are the ends of its 95 % interval over pairs. Pairs are the same two objects in both orders with the same \
             seed, both pictures valid.",
            beside = direction.arrangement()
        ),
        tables: vec![Table::new("homogenization", &columns, rows.into_iter())],
        plots: vec![("places", places(direction, bars).draw())],
    }
}

/// How often the first-mentioned object is where, by method and kind of pair.
fn places(direction: Direction, rows: Vec<(String, Vec<usize>)>) -> Parts {
    let [left, right] = direction.words();
    Parts {
        title: "Where the first-mentioned object is".into(),
        label: "share of all pictures".into(),
        parts: vec![
            (left.into(), Ink::Series(0)),
            (right.into(), Ink::Series(1)),
            ("invalid".into(), Ink::Undecided),
        ],
        rows,
    }
}

/// A picture: its prompt, its seed, and where the first-mentioned object is.
type Placed = (usize, u64, Place);

/// The cells of a row after its names, and what they count.
fn counted(placed: &[Placed], counterparts: &[Option<usize>]) -> (Vec<Cell>, Tally) {
    let places = placed.iter().map(|(prompt, _, place)| (*prompt, *place));
    let tallies = Tallies::of(places, counterparts);
    let tally = tallies.sum();
    let Pairs {
        follow,
        oppose,
        same,
    } = together(placed, counterparts);
    let mut row = tally.cells().to_vec();
    row.extend(cells(tallies.estimate(Tally::homogenization)));
    row.extend([follow + oppose + same, follow, oppose, same].map(Cell::Count));
    (row, tally)
}

/// Published homogenization: model, figure, share of invalid pictures; in percent.
fn known(direction: Direction) -> Vec<(&'static str, f64, Option<f64>)> {
    match direction {
        Direction::Sides => (MODELS.iter())
            .map(|model| (model.name, model.homogenization, model.invalid))
            .collect(),
        Direction::Levels => (LEVELS.into_iter())
            .map(|(name, figure, invalid)| (name, figure, Some(invalid)))
            .collect(),
    }
}

/// The pairs among these pictures: prompt, seed, place.
fn together(placed: &[Placed], counterparts: &[Option<usize>]) -> Pairs {
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
