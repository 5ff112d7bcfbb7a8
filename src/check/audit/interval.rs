//! How far the figures of an audit could be off: 95 % intervals for few labels.

use crate::python_random::PythonRandom;

/// Low and high end.
pub type Interval = [f64; 2];

/// Wilson's interval (1927) of a share, which holds for few pictures too, where all or none of them count; none of none.
pub fn of_share(part: usize, whole: usize) -> Option<Interval> {
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

/// The bootstrap's percentile interval of what `of` says of items drawn again; none if it says nothing of most draws.
pub fn drawn<T: Copy>(items: &[T], of: impl Fn(&[T]) -> Option<f64>) -> Option<Interval> {
    const DRAWS: usize = 2000;
    let count = u32::try_from(items.len()).ok().filter(|count| *count > 0)?;
    let mut random = PythonRandom::new(0);
    let mut values = Vec::with_capacity(DRAWS);
    let mut some = Vec::with_capacity(items.len());
    for _ in 0..DRAWS {
        some.clear();
        some.extend((0..count).map(|_| items[random.below(count) as usize]));
        values.extend(of(&some));
    }
    if values.len() < DRAWS / 2 {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[(share * (values.len() - 1) as f64).round() as usize];
    Some([at(0.025), at(0.975)])
}

/// As it is printed: ` [0.6868, 0.9868]`, or nothing.
pub fn shown(interval: Option<Interval>) -> String {
    interval.map_or(String::new(), |[low, high]| {
        format!(" [{low:.4}, {high:.4}]")
    })
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
            let [a, b] = of_share(part, whole).unwrap();
            assert!(
                (a - low).abs() < 5e-5 && (b - high).abs() < 5e-5,
                "{part} of {whole}: {a} {b}"
            );
        }
        assert_eq!(of_share(0, 0), None);
    }

    #[test]
    fn draws_are_the_same_each_time() {
        let items: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        let mean = |some: &[f64]| Some(some.iter().sum::<f64>() / some.len() as f64);
        let [low, high] = drawn(&items, mean).unwrap();
        // 0.5 ± 1.96 · √(0.25 / 100).
        assert!(
            (low - 0.402).abs() < 0.02 && (high - 0.598).abs() < 0.02,
            "{low} {high}"
        );
        assert_eq!(drawn(&items, mean), Some([low, high]));
        assert_eq!(drawn(&items, |_| None), None);
        assert_eq!(drawn::<f64>(&[], mean), None);
    }
}
