//! Intervals by drawing items again (Efron 1979).

use rand_mt::Mt64;

/// An interval that 95 % of the draws lie in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// 2.5 % of the draws are below it.
    pub low: f64,
    /// 2.5 % of the draws are above it.
    pub high: f64,
}

/// Draws `items` numbers below `items` with replacement, `draws` times, and takes the interval of what `statistic` says of
/// each draw. The same seed gives the same interval. Draws that have no value, because all of their items are alike for
/// instance, are left out; `None` where fewer than half are left.
pub fn interval(
    items: usize,
    draws: usize,
    seed: u64,
    mut statistic: impl FnMut(&[usize]) -> Option<f64>,
) -> Option<Interval> {
    let mut random = Mt64::new(seed);
    let mut drawn = vec![0; items];
    let mut values = Vec::with_capacity(draws);
    for _ in 0..draws {
        for place in &mut drawn {
            *place = below(&mut random, items);
        }
        values.extend(statistic(&drawn).filter(|value| value.is_finite()));
    }
    if values.is_empty() || 2 * values.len() < draws {
        return None;
    }
    values.sort_by(f64::total_cmp);
    Some(Interval {
        low: quantile(&values, 0.025),
        high: quantile(&values, 0.975),
    })
}

/// A number below `n`, each as likely as the others; `n` is not 0.
fn below(random: &mut Mt64, n: usize) -> usize {
    let n = n as u64;
    // Numbers from here on would make the small ones likelier.
    let fair = u64::MAX - u64::MAX % n;
    loop {
        let number = random.next_u64();
        if number < fair {
            return (number % n) as usize;
        }
    }
}

/// Between the two nearest of sorted values, in proportion, as NumPy's default; 0 of none.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let at = share * last as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}
