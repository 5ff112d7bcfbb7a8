//! Correlation of paired values, ties included.

/// Pearson's r of the pairs (x, y): how far they lie on a line, in -1..=1. `None` for fewer than two pairs, for values of
/// which all are equal, and where a value is not finite.
///
/// # Panics
/// If there are not as many `y` as `x`.
pub fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    assert_eq!(x.len(), y.len(), "values come in pairs");
    if x.len() < 2 || !x.iter().chain(y).all(|value| value.is_finite()) {
        return None;
    }
    let (dx, dy) = (centred(x)?, centred(y)?);
    // Both have the length 1.
    let r: f64 = dx.iter().zip(&dy).map(|(a, b)| a * b).sum();
    Some(r.clamp(-1.0, 1.0))
}

/// The values without their mean, scaled to the length 1; `None` if all are equal.
fn centred(values: &[f64]) -> Option<Vec<f64>> {
    if values.iter().all(|value| *value == values[0]) {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let away: Vec<f64> = values.iter().map(|value| value - mean).collect();
    // Scaled first, so that squares neither overflow nor vanish.
    let largest = away.iter().fold(0.0, |most: f64, one| most.max(one.abs()));
    let scaled: Vec<f64> = away.iter().map(|one| one / largest).collect();
    let length = scaled.iter().map(|one| one * one).sum::<f64>().sqrt();
    Some(scaled.iter().map(|one| one / length).collect())
}

/// Spearman's ρ: Pearson's r of the ranks, equal values sharing the mean of their ranks. `None` as for [`pearson`].
///
/// # Panics
/// As [`pearson`].
pub fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    assert_eq!(x.len(), y.len(), "values come in pairs");
    if !x.iter().chain(y).all(|value| value.is_finite()) {
        return None;
    }
    pearson(&ranks(x), &ranks(y))
}

/// The rank of each value from 1; equal values share the mean of their ranks.
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        // -0 and 0 are equal, though one is sorted before the other.
        let ties = order[start..]
            .iter()
            .take_while(|&&at| values[at] == values[order[start]])
            .count()
            .max(1);
        let mean = start as f64 + (ties as f64 + 1.0) / 2.0;
        for &at in &order[start..start + ties] {
            ranks[at] = mean;
        }
        start += ties;
    }
    ranks
}

/// Kendall's τ-b (Kendall 1945): concordant less discordant pairs of items, over those that are tied in neither, corrected
/// for ties. `None` as for [`pearson`]. In time n log n (Knight 1966).
///
/// # Panics
/// As [`pearson`].
pub fn kendall_tau_b(x: &[f64], y: &[f64]) -> Option<f64> {
    assert_eq!(x.len(), y.len(), "values come in pairs");
    if x.len() < 2 || !x.iter().chain(y).all(|value| value.is_finite()) {
        return None;
    }
    // Ranks instead of values, so that equal is equal.
    let mut pairs: Vec<(f64, f64)> = ranks(x).into_iter().zip(ranks(y)).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let all = pairs_of(pairs.len());
    let tied_x = tied(pairs.iter().map(|pair| pair.0));
    let tied_both = tied(pairs.iter().copied());
    let mut y: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
    let discordant = inversions(&mut y);
    let tied_y = tied(y.iter().copied());
    if tied_x == all || tied_y == all {
        return None;
    }
    let concordant_less_discordant =
        all as f64 - tied_x as f64 - tied_y as f64 + tied_both as f64 - 2.0 * discordant as f64;
    let scale = ((all - tied_x) as f64).sqrt() * ((all - tied_y) as f64).sqrt();
    Some((concordant_less_discordant / scale).clamp(-1.0, 1.0))
}

/// How many pairs there are among `n` items.
fn pairs_of(n: usize) -> u64 {
    let n = n as u64;
    n * n.saturating_sub(1) / 2
}

/// How many pairs of neighbours in sorted `values` are equal, pairs that lie farther apart included.
fn tied<T: PartialEq>(values: impl Iterator<Item = T>) -> u64 {
    let (mut tied, mut run, mut last) = (0, 0, None);
    for value in values {
        match last.as_ref() == Some(&value) {
            true => run += 1,
            false => {
                tied += pairs_of(run);
                run = 1;
            }
        }
        last = Some(value);
    }
    tied + pairs_of(run)
}

/// Sorts `values`; how many pairs were in the wrong order.
fn inversions(values: &mut [f64]) -> u64 {
    let middle = values.len() / 2;
    if middle == 0 {
        return 0;
    }
    let (left, right) = values.split_at_mut(middle);
    let mut count = inversions(left) + inversions(right);
    let mut merged = Vec::with_capacity(values.len());
    let (mut l, mut r) = (0, middle);
    while l < middle || r < values.len() {
        let from_left = r == values.len() || (l < middle && values[l] <= values[r]);
        if from_left {
            merged.push(values[l]);
            l += 1;
        } else {
            // It goes before all that are left over there.
            count += (middle - l) as u64;
            merged.push(values[r]);
            r += 1;
        }
    }
    values.copy_from_slice(&merged);
    count
}
