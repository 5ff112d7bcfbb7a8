//! Agreement of two or more annotators beyond what chance would give. Labels are places in a list of categories, from 0.

/// How far apart two categories are, for [`cohen_kappa`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// Another category is wrong, whichever it is (Cohen 1960).
    None,
    /// By the distance of the categories (Cohen 1968).
    Linear,
    /// By its square.
    Quadratic,
}

/// Cohen's κ of two annotators, from how often the first gave the category of the row and the second that of the column.
/// `None` of nothing, and where chance alone would give all of the agreement.
///
/// # Panics
/// If the table is not square.
pub fn cohen_kappa(counts: &[Vec<usize>], weights: Weights) -> Option<f64> {
    let categories = counts.len();
    assert!(
        counts.iter().all(|row| row.len() == categories),
        "both annotators choose from the same categories"
    );
    let total: usize = counts.iter().flatten().sum();
    let rows: Vec<usize> = counts.iter().map(|row| row.iter().sum()).collect();
    let columns: Vec<usize> = (0..categories)
        .map(|column| counts.iter().map(|row| row[column]).sum())
        .collect();
    let (mut observed, mut expected) = (0.0, 0.0);
    for (i, row) in counts.iter().enumerate() {
        for (j, count) in row.iter().enumerate() {
            let apart = i.abs_diff(j) as f64;
            let weight = match weights {
                Weights::None => f64::from(i != j),
                Weights::Linear => apart,
                Weights::Quadratic => apart * apart,
            };
            observed += weight * *count as f64;
            expected += weight * rows[i] as f64 * columns[j] as f64 / total as f64;
        }
    }
    (total > 0 && expected > 0.0).then(|| 1.0 - observed / expected)
}

/// The table for [`cohen_kappa`] of two annotators' labels, item by item, each below `categories`.
///
/// # Panics
/// If there are not as many labels of one as of the other, or a label is out of range.
pub fn confusion(first: &[usize], second: &[usize], categories: usize) -> Vec<Vec<usize>> {
    assert_eq!(first.len(), second.len(), "each item has both labels");
    let mut counts = vec![vec![0; categories]; categories];
    for (a, b) in first.iter().zip(second) {
        counts[*a][*b] += 1;
    }
    counts
}

/// Fleiss' κ (Fleiss 1971): items in rows, categories in columns, each number how many annotators gave that item that
/// category. `None` where an item has another number of labels than the first or fewer than two, and where chance alone
/// would give all of the agreement.
pub fn fleiss_kappa(counts: &[Vec<usize>]) -> Option<f64> {
    let annotators: usize = counts.first()?.iter().sum();
    if annotators < 2
        || counts
            .iter()
            .any(|row| row.iter().sum::<usize>() != annotators)
    {
        return None;
    }
    let (n, items) = (annotators as f64, counts.len() as f64);
    let agreed = counts.iter().map(|row| {
        let pairs: f64 = row
            .iter()
            .map(|&count| count as f64 * (count as f64 - 1.0))
            .sum();
        pairs / (n * (n - 1.0))
    });
    let observed = agreed.sum::<f64>() / items;
    let categories = counts.iter().map(Vec::len).max()?;
    let expected: f64 = (0..categories)
        .map(|category| {
            let given: usize = counts.iter().filter_map(|row| row.get(category)).sum();
            (given as f64 / (n * items)).powi(2)
        })
        .sum();
    (expected < 1.0).then(|| (observed - expected) / (1.0 - expected))
}

/// What two values of [`krippendorff_alpha`] mean to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Names without an order.
    Nominal,
    /// An order without distances.
    Ordinal,
    /// Numbers whose differences count.
    Interval,
}

/// Krippendorff's α (Krippendorff 2011): items in rows, annotators in columns, `None` where one said nothing of an item.
/// Items with fewer than two labels do not count. `None` where nothing is left to compare, or only one value was ever given.
pub fn krippendorff_alpha(units: &[Vec<Option<f64>>], level: Level) -> Option<f64> {
    let units: Vec<Vec<f64>> = units
        .iter()
        .map(|unit| unit.iter().flatten().copied().collect())
        .filter(|unit: &Vec<f64>| unit.len() >= 2)
        .collect();
    let mut values: Vec<f64> = units.iter().flatten().copied().collect();
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    values.sort_by(f64::total_cmp);
    values.dedup_by(|a, b| a == b);
    let place = |value: f64| values.iter().position(|known| *known == value);
    // How often each value was given beside each other one, within an item.
    let mut together = vec![vec![0.0; values.len()]; values.len()];
    for unit in &units {
        let weight = 1.0 / (unit.len() as f64 - 1.0);
        let places: Vec<usize> = unit.iter().filter_map(|value| place(*value)).collect();
        for (i, a) in places.iter().enumerate() {
            for (j, b) in places.iter().enumerate() {
                if i != j {
                    together[*a][*b] += weight;
                }
            }
        }
    }
    let given: Vec<f64> = together.iter().map(|row| row.iter().sum()).collect();
    let all: f64 = given.iter().sum();
    let apart = |a: usize, b: usize| -> f64 {
        let (low, high) = (a.min(b), a.max(b));
        match level {
            Level::Nominal => f64::from(low != high),
            Level::Ordinal => {
                let between: f64 = given[low..=high].iter().sum();
                (between - (given[low] + given[high]) / 2.0).powi(2)
            }
            Level::Interval => (values[a] - values[b]).powi(2),
        }
    };
    let (mut observed, mut expected) = (0.0, 0.0);
    for a in 0..values.len() {
        for b in 0..values.len() {
            observed += together[a][b] * apart(a, b);
            expected += given[a] * given[b] * apart(a, b);
        }
    }
    (expected > 0.0).then(|| 1.0 - (all - 1.0) * observed / expected)
}

/// The label that more than half of those who said anything gave; `None` if there is none.
pub fn majority(labels: &[Option<usize>]) -> Option<usize> {
    let given: Vec<usize> = labels.iter().flatten().copied().collect();
    let of = |label: &usize| given.iter().filter(|other| *other == label).count();
    given
        .iter()
        .find(|label| 2 * of(label) > given.len())
        .copied()
}
