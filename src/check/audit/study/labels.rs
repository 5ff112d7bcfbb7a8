//! Words against words: confusion, agreement beyond chance, and what most say.

use std::collections::{BTreeMap, BTreeSet};

use prepose_draw::table::{Cell, Table};
use prepose_statistics::agreement::{
    Level, Weights, cohen_kappa, confusion, fleiss_kappa, krippendorff_alpha, majority,
};
use prepose_statistics::bootstrap::Bootstrap;

use super::raters::{Rater, RaterError, in_common, some};
use super::sheet::Sheet;

/// The words that were said, in the order of `given` or else by number and alphabet, each once.
pub fn categories(raters: &[Rater], given: &[String]) -> Result<Vec<String>, RaterError> {
    let said: BTreeSet<&String> = raters
        .iter()
        .flat_map(|rater| rater.said.values())
        .collect();
    if given.is_empty() {
        let mut words: Vec<String> = said.into_iter().cloned().collect();
        let number = |word: &String| word.parse().unwrap_or(f64::INFINITY);
        words.sort_by(|a, b| number(a).total_cmp(&number(b)).then(a.cmp(b)));
        return Ok(words);
    }
    for rater in raters {
        if let Some((item, word)) = rater.said.iter().find(|(_, word)| !given.contains(word)) {
            return Err(RaterError::Unknown {
                rater: rater.name.clone(),
                item: item.clone(),
                word: word.clone(),
                there: given.join(", "),
            });
        }
    }
    Ok(given.to_vec())
}

/// Whether words that nobody put in order have one all the same: as numbers, which is the order of [`categories`].
///
/// # Errors
/// One is no number: its place in the alphabet says nothing.
pub fn have_order(words: &[String]) -> Result<(), RaterError> {
    let is_number = |word: &String| word.parse().is_ok_and(f64::is_finite);
    match words.iter().all(is_number) {
        true => Ok(()),
        false => Err(RaterError::NoOrder(some(words))),
    }
}

/// What one rater's words are in the list of categories.
fn places(rater: &Rater, categories: &[String]) -> BTreeMap<String, usize> {
    let place = |word: &String| categories.iter().position(|known| known == word);
    (rater.said.iter())
        .filter_map(|(item, word)| Some((item.clone(), place(word)?)))
        .collect()
}

/// Each two raters: how often they say the same, and Cohen's κ with its 95 % interval over items.
///
/// # Errors
/// Two of them say nothing of the same items.
pub fn pairwise(
    raters: &[Rater],
    categories: &[String],
    weights: Weights,
    bootstrap: &Bootstrap,
) -> Result<Table, RaterError> {
    let mut rows = Vec::new();
    for (second, b) in raters.iter().enumerate() {
        for a in &raters[..second] {
            let pairs = pairs(a, b, categories)?;
            let same = pairs.iter().filter(|[x, y]| x == y).count();
            let kappa = |pairs: &[&[usize; 2]]| {
                let (x, y): (Vec<usize>, Vec<usize>) = pairs.iter().map(|[x, y]| (*x, *y)).unzip();
                cohen_kappa(&confusion(&x, &y, categories.len()), weights)
            };
            let whole: Vec<&[usize; 2]> = pairs.iter().collect();
            let mut row = vec![
                Cell::Name(a.name.clone()),
                Cell::Name(b.name.clone()),
                Cell::Count(pairs.len()),
                Cell::Mean(same as f64 / pairs.len() as f64),
            ];
            row.extend(super::metrics::estimate(kappa(&whole), || {
                bootstrap.interval(&pairs, kappa)
            }));
            rows.push(row);
        }
    }
    let first = ["rater", "and", "items", "agreement"];
    Ok(super::metrics::table("pairs", &first, &["kappa"], rows))
}

fn pairs(a: &Rater, b: &Rater, categories: &[String]) -> Result<Vec<[usize; 2]>, RaterError> {
    let (x, y) = (places(a, categories), places(b, categories));
    let pairs = in_common([&a.name, &b.name], &x, &y)?;
    Ok(pairs.into_iter().map(|(a, b)| [*a, *b]).collect())
}

/// How often the first said the word of the row and the second that of the column, with sums.
///
/// # Errors
/// They say nothing of the same items.
pub fn matrix(a: &Rater, b: &Rater, categories: &[String]) -> Result<Table, RaterError> {
    let pairs = pairs(a, b, categories)?;
    let (x, y): (Vec<usize>, Vec<usize>) = pairs.iter().map(|[x, y]| (*x, *y)).unzip();
    let counts = confusion(&x, &y, categories.len());
    let mut columns = vec![format!("{} \\ {}", a.name, b.name)];
    columns.extend(categories.iter().cloned());
    columns.push("total".into());
    let with_sum = |name: &str, counts: Vec<usize>| {
        let total = counts.iter().sum();
        let mut row = vec![Cell::Name(name.to_owned())];
        row.extend(counts.into_iter().map(Cell::Count));
        row.push(Cell::Count(total));
        row
    };
    let sums = (0..categories.len()).map(|j| counts.iter().map(|row| row[j]).sum());
    let last = with_sum("total", sums.collect());
    let rows = (categories.iter().zip(&counts)).map(|(name, row)| with_sum(name, row.clone()));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    Ok(Table::new("confusion", &columns, rows.chain([last])))
}

/// What all raters come to.
#[derive(Clone, Debug, PartialEq)]
pub struct All {
    /// Items that at least two looked at.
    pub items: usize,
    /// Fleiss' κ over the items that everybody looked at.
    pub fleiss: Option<f64>,
    /// Krippendorff's α of words without an order.
    pub alpha: Option<f64>,
    /// Of words in their order.
    pub alpha_ordinal: Option<f64>,
    /// What more than half of them say.
    pub majority: Rater,
    /// Items on which they are divided.
    pub divided: usize,
}

/// All raters together.
pub fn all(raters: &[Rater], categories: &[String]) -> All {
    let placed: Vec<_> = raters
        .iter()
        .map(|rater| places(rater, categories))
        .collect();
    let items: BTreeSet<&String> = placed.iter().flat_map(BTreeMap::keys).collect();
    let labels: Vec<(&String, Vec<Option<usize>>)> = (items.into_iter())
        .map(|item| {
            (
                item,
                placed.iter().map(|of| of.get(item).copied()).collect(),
            )
        })
        .collect();
    let units: Vec<Vec<Option<f64>>> = (labels.iter())
        .map(|(_, given)| {
            given
                .iter()
                .map(|one| one.map(|place| place as f64))
                .collect()
        })
        .collect();
    let counts: Vec<Vec<usize>> = (labels.iter())
        .filter(|(_, given)| given.iter().all(Option::is_some))
        .map(|(_, given)| {
            let of = |category| given.iter().filter(|one| **one == Some(category)).count();
            (0..categories.len()).map(of).collect()
        })
        .collect();
    let most: Vec<_> = labels
        .iter()
        .map(|(item, given)| (*item, majority(given)))
        .collect();
    All {
        items: (labels.iter())
            .filter(|(_, given)| given.iter().flatten().count() >= 2)
            .count(),
        fleiss: fleiss_kappa(&counts),
        alpha: krippendorff_alpha(&units, Level::Nominal),
        alpha_ordinal: krippendorff_alpha(&units, Level::Ordinal),
        divided: most.iter().filter(|(_, most)| most.is_none()).count(),
        majority: Rater {
            name: "majority".into(),
            said: (most.iter())
                .filter_map(|(item, most)| Some(((*item).clone(), categories[(*most)?].clone())))
                .collect(),
        },
    }
}

/// What a score chooses: of the candidates of each item, the one with the highest; nothing where several have it. Needs the
/// columns `of`, which names a candidate, and `score`.
///
/// # Errors
/// A column is not there, or a score is no number.
pub fn best(sheet: &Sheet, of: &str, score: &str) -> Result<Rater, RaterError> {
    for name in [of, score] {
        if !sheet.columns.iter().any(|column| column == name) {
            return Err(RaterError::NoColumn {
                name: name.to_owned(),
                sheet: sheet.name.clone(),
                there: sheet.columns.join(", "),
            });
        }
    }
    let mut best: BTreeMap<&String, (f64, Option<&String>)> = BTreeMap::new();
    for (item, row) in &sheet.rows {
        let (Some(candidate), Some(word)) = (row.get(of), row.get(score)) else {
            continue;
        };
        let value: f64 = (word.parse().ok())
            .filter(|value: &f64| value.is_finite())
            .ok_or_else(|| RaterError::NoNumber {
                rater: sheet.name.clone(),
                item: item.clone(),
                word: word.clone(),
                hint: "",
            })?;
        let known = best.entry(item).or_insert((f64::NEG_INFINITY, None));
        if value > known.0 {
            *known = (value, Some(candidate));
        } else if value == known.0 {
            known.1 = None;
        }
    }
    Ok(Rater {
        name: score.to_owned(),
        said: (best.into_iter())
            .filter_map(|(item, (_, one))| Some((item.clone(), one?.clone())))
            .collect(),
    })
}
