//! What a judge that says yes or no gets right.

/// How often a judge said what, beside what was true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confusion {
    /// True, and it said so.
    pub true_positives: usize,
    /// Not true, and it said it was.
    pub false_positives: usize,
    /// Not true, and it said so.
    pub true_negatives: usize,
    /// True, and it said it was not.
    pub false_negatives: usize,
}

impl Confusion {
    /// Counts pairs of what was true and what the judge said.
    pub fn of(pairs: impl IntoIterator<Item = (bool, bool)>) -> Self {
        let mut counts = Self::default();
        for (truth, said) in pairs {
            *match (truth, said) {
                (true, true) => &mut counts.true_positives,
                (false, true) => &mut counts.false_positives,
                (false, false) => &mut counts.true_negatives,
                (true, false) => &mut counts.false_negatives,
            } += 1;
        }
        counts
    }

    /// How many pairs.
    pub fn total(&self) -> usize {
        self.true_positives + self.false_positives + self.true_negatives + self.false_negatives
    }

    /// Right answers of all; `None` of nothing, as for all that follow.
    pub fn accuracy(&self) -> Option<f64> {
        share(self.true_positives + self.true_negatives, self.total())
    }

    /// True of what it said was.
    pub fn precision(&self) -> Option<f64> {
        share(
            self.true_positives,
            self.true_positives + self.false_positives,
        )
    }

    /// What it found of what was true; also called sensitivity.
    pub fn recall(&self) -> Option<f64> {
        share(
            self.true_positives,
            self.true_positives + self.false_negatives,
        )
    }

    /// What it rejected of what was not true.
    pub fn specificity(&self) -> Option<f64> {
        share(
            self.true_negatives,
            self.true_negatives + self.false_positives,
        )
    }

    /// The harmonic mean of precision and recall.
    pub fn f1(&self) -> Option<f64> {
        let wrong = self.false_positives + self.false_negatives;
        share(2 * self.true_positives, 2 * self.true_positives + wrong)
    }
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
