//! Confidence intervals: by the bootstrap (Efron 1979), and Wilson's of shares.

use crate::python_random::PythonRandom;

/// The low and the high end of a 95 % interval.
pub type Interval = [f64; 2];

/// How often things are drawn again with replacement, and with which seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// More give steadier ends; at least 1.
    pub draws: usize,
    /// The same seed gives the same intervals.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self {
            draws: 2000,
            seed: 0,
        }
    }
}

/// A value and its 95 % percentile interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Of what was seen.
    pub value: f64,
    /// 2.5 % of the draws are below it.
    pub low: f64,
    /// 2.5 % of the draws are above it.
    pub high: f64,
}

impl Estimate {
    /// A value with the interval of its draws.
    pub fn new(value: f64, mut draws: Vec<f64>) -> Self {
        let [low, high] = ends(&mut draws);
        Self { value, low, high }
    }
}

impl Bootstrap {
    /// What `of` says of each draw of as many of `groups` as there are, with replacement. What is not independent of each
    /// other belongs into one group: the pictures of a prompt, the labels of a picture.
    pub fn draws_of<'a, T, R>(&self, groups: &'a [T], of: impl Fn(&[&'a T]) -> R) -> Vec<R> {
        let mut random = PythonRandom::new(self.seed);
        let count = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        let mut drawn = Vec::with_capacity(groups.len());
        (0..self.draws.max(1))
            .map(|_| {
                drawn.clear();
                drawn.extend((0..count).map(|_| &groups[random.below(count) as usize]));
                of(&drawn)
            })
            .collect()
    }

    /// The interval of what `of` says of groups drawn again; none of no groups, and where it says nothing of most draws.
    pub fn interval<T>(&self, groups: &[T], of: impl Fn(&[&T]) -> Option<f64>) -> Option<Interval> {
        if groups.is_empty() {
            return None;
        }
        let draws = self.draws_of(groups, of);
        let mut values: Vec<f64> = draws.iter().flatten().copied().collect();
        (2 * values.len() >= draws.len()).then(|| ends(&mut values))
    }

    /// What `of` says of groups, with its interval over draws of them; none if it says nothing of all of them. Draws of
    /// which it says nothing are left out.
    pub fn estimate<T>(&self, groups: &[T], of: impl Fn(&[&T]) -> Option<f64>) -> Option<Estimate> {
        let whole: Vec<&T> = groups.iter().collect();
        let value = of(&whole)?;
        let draws = self.draws_of(groups, of);
        Some(Estimate::new(value, draws.into_iter().flatten().collect()))
    }

    /// The mean of values that come in groups: the groups are drawn again, and draws without a value are left out. 0 of none.
    pub fn mean(&self, groups: &[Vec<f64>]) -> Estimate {
        let sums: Vec<(f64, usize)> = (groups.iter())
            .map(|group| (group.iter().sum(), group.len()))
            .collect();
        let mean = |groups: &[&(f64, usize)]| {
            let (sum, count) =
                (groups.iter()).fold((0.0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            (count > 0).then(|| sum / count as f64)
        };
        self.estimate(&sums, mean).unwrap_or_default()
    }
}

/// Wilson's interval (1927) of a share, which holds for few things too, where all or none of them count; none of none.
pub fn wilson(part: usize, whole: usize) -> Option<Interval> {
    const Z: f64 = 1.959_963_984_540_054;
    if whole == 0 {
        return None;
    }
    let n = whole as f64;
    let share = part as f64 / n;
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    Some([(middle - half) / scale, (middle + half) / scale].map(|end| end.clamp(0.0, 1.0)))
}

/// Where 2.5 % of the values are below, and where as many are above.
fn ends(values: &mut [f64]) -> Interval {
    values.sort_by(f64::total_cmp);
    [quantile(values, 0.025), quantile(values, 0.975)]
}

/// Between the two nearest of sorted values, in proportion, as NumPy's default; 0 of none.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let at = share * last as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_few_are_uncertain() {
        // Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
        for (part, whole, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            let [a, b] = wilson(part, whole).unwrap();
            assert!(
                (a - low).abs() < 5e-5 && (b - high).abs() < 5e-5,
                "{part} of {whole}: {a} {b}"
            );
        }
        assert_eq!(wilson(0, 0), None);
    }

    #[test]
    fn draws_are_the_same_each_time() {
        let items: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        let mean =
            |some: &[&f64]| Some(some.iter().copied().sum::<f64>() / some.len().max(1) as f64);
        let bootstrap = Bootstrap::default();
        let [low, high] = bootstrap.interval(&items, mean).unwrap();
        // 0.5 ± 1.96 · √(0.25 / 100).
        assert!(
            (low - 0.402).abs() < 0.02 && (high - 0.598).abs() < 0.02,
            "{low} {high}"
        );
        assert_eq!(bootstrap.interval(&items, mean), Some([low, high]));
        assert_eq!(bootstrap.interval(&items, |_| None), None);
        assert_eq!(bootstrap.interval::<f64>(&[], mean), None);
    }

    #[test]
    fn means_are_drawn_by_groups() {
        // All four values of a group agree: 50 groups are worth 50 observations, not 200.
        let groups: Vec<Vec<f64>> = (0..50).map(|i| vec![f64::from(i % 2); 4]).collect();
        let mean = Bootstrap::default().mean(&groups);
        assert_eq!(mean.value, 0.5);
        // The normal approximation: 0.5 ± 1.96 · √(0.25 / 50) = 0.5 ± 0.139.
        assert!(
            (mean.low - 0.361).abs() < 0.025 && (mean.high - 0.639).abs() < 0.025,
            "{mean:?}"
        );
        assert_eq!(Bootstrap::default().mean(&[]), Estimate::default());
    }

    #[test]
    fn draws_without_a_value_have_no_mean() {
        // (197 / 200)^200 = 4.9 % of the draws have none of the three groups with a value.
        let groups: Vec<Vec<f64>> = (0..200).map(|i| vec![1.0; usize::from(i < 3)]).collect();
        let all = Estimate {
            value: 1.0,
            low: 1.0,
            high: 1.0,
        };
        assert_eq!(Bootstrap::default().mean(&groups), all);
    }

    #[test]
    fn quantiles_lie_between_values() {
        assert_eq!(quantile(&[1.0, 2.0], 0.25), 1.25);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
