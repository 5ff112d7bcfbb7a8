//! Axes: what a value's place is, and where the numbers stand.

/// How values are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Evenly.
    Linear,
    /// Each doubling takes the same room; values have to be positive.
    Log2,
}

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What stands beside it.
    pub label: String,
    /// The values at its ends, the lower first.
    pub range: (f64, f64),
    /// How values are spread between them.
    pub kind: Kind,
}

impl Axis {
    /// Evenly from `low` to `high`.
    pub fn linear(label: &str, low: f64, high: f64) -> Self {
        Self {
            label: label.into(),
            range: (low, high),
            kind: Kind::Linear,
        }
    }

    /// Evenly from 0 to a round number that is not below any of `values`, nor below `least`.
    pub fn from_zero(label: &str, values: impl IntoIterator<Item = f64>, least: f64) -> Self {
        let highest = values.into_iter().filter(|v| v.is_finite());
        let highest = highest.fold(least, f64::max);
        let highest = if highest > 0.0 { highest } else { 1.0 };
        let step = step(highest);
        Self::linear(label, 0.0, (highest / step - 1e-9).ceil() * step)
    }

    /// By doublings, from the least to the greatest of `values`, with room beyond both; they have to be positive.
    pub fn log2(label: &str, values: impl IntoIterator<Item = f64> + Clone) -> Self {
        let positive = || values.clone().into_iter().filter(|v| *v > 0.0);
        let (low, high) = (
            positive().fold(f64::INFINITY, f64::min),
            positive().fold(0.0, f64::max),
        );
        let (low, high) = if low <= high { (low, high) } else { (1.0, 1.0) };
        Self {
            label: label.into(),
            range: (low / 1.4, high * 1.4),
            kind: Kind::Log2,
        }
    }

    /// Where a value stands: 0 at the lower end, 1 at the upper.
    pub fn place(&self, value: f64) -> f64 {
        let (low, high) = self.range;
        let (value, low, high) = match self.kind {
            Kind::Linear => (value, low, high),
            Kind::Log2 => (value.max(f64::MIN_POSITIVE).log2(), low.log2(), high.log2()),
        };
        if high > low {
            (value - low) / (high - low)
        } else {
            0.5
        }
    }

    /// Where numbers stand, and how they are written.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let (low, high) = self.range;
        match self.kind {
            Kind::Linear => {
                let step = step(high - low);
                let first = (low / step - 1e-9).ceil() as i64;
                let last = (high / step + 1e-9).floor() as i64;
                (first..=last.min(first + 50))
                    .map(|i| (i as f64 * step, number(i as f64 * step, step)))
                    .collect()
            }
            Kind::Log2 => {
                let (first, last) = (low.log2().ceil() as i32, high.log2().floor() as i32);
                // Every power of two where there is room, else every other, and so on.
                let by = ((last - first) / 8 + 1).max(1);
                (first..=last)
                    .filter(|power| (power - first) % by == 0)
                    .map(|power| (2f64.powi(power), number(2f64.powi(power), 2f64.powi(power))))
                    .collect()
            }
        }
    }
}

/// The distance of about five numbers over a length: 1, 2, 2.5 or 5 times a power of ten.
fn step(length: f64) -> f64 {
    if !(length.is_finite() && length > 0.0) {
        return 1.0;
    }
    let rough = length / 5.0;
    let power = 10f64.powi(rough.log10().floor() as i32);
    let factor = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .find(|factor| rough <= factor * power * 1.0001)
        .unwrap_or(10.0);
    factor * power
}

/// With as many digits as the distance needs.
fn number(value: f64, step: f64) -> String {
    let mut digits = 0;
    while digits < 6 && (step * 10f64.powi(digits)).fract().abs() > 1e-6 {
        digits += 1;
    }
    let value = if value == 0.0 { 0.0 } else { value };
    format!("{value:.*}", digits as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_round() {
        let texts = |axis: Axis| -> Vec<String> { axis.ticks().into_iter().map(|t| t.1).collect() };
        let share = Axis::linear("", 0.0, 1.0);
        assert_eq!(texts(share), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        let some = Axis::from_zero("", [0.031, f64::NAN], 0.0);
        assert_eq!(some.range.1, 0.04);
        assert_eq!(texts(some), ["0.00", "0.01", "0.02", "0.03", "0.04"]);
        assert_eq!(Axis::from_zero("", [0.4], 0.05).range.1, 0.4);
        assert_eq!(Axis::from_zero("", [], 0.0).range, (0.0, 1.0));
    }

    #[test]
    fn doublings_take_the_same_room() {
        let axis = Axis::log2("", [30.0, 480.0]);
        assert_eq!(axis.ticks().first().map(|t| t.0), Some(32.0));
        let [a, b, c] = [32.0, 64.0, 128.0].map(|v| axis.place(v));
        assert!((b - a - (c - b)).abs() < 1e-12);
        assert!(axis.place(30.0) > 0.0 && axis.place(480.0) < 1.0);
        assert!(!Axis::log2("", []).ticks().is_empty());
    }
}
