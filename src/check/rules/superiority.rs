//! The probability of superiority of two objects along an axis (Why Settle for Mid, arXiv 2506.23418, equations 2 and 3).

use crate::Mask;
use prepose_scene::Relation;

/// P(A ≥ B), ties included, for places A and B drawn independently from two profiles of one length: how much of each
/// object lies in each column, row or depth, not negative. In 0..=1; none if a profile is empty.
pub fn at_least(a: &[f64], b: &[f64]) -> Option<f64> {
    let (total_a, total_b) = (a.iter().sum::<f64>(), b.iter().sum::<f64>());
    if total_a <= 0.0 || total_b <= 0.0 {
        return None;
    }
    // Divided last: pixels are whole numbers, whose sums are exact.
    let (mut below, mut sum) = (0.0, 0.0);
    for (p, q) in a.iter().zip(b) {
        below += q;
        sum += p * below;
    }
    Some(sum / (total_a * total_b))
}

/// How probable it is that two objects stand as a relation says, and how probable the contrary is. Both count ties.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Superiority {
    /// That the relation holds.
    pub right: f64,
    /// That its contrary does.
    pub wrong: f64,
}

impl Superiority {
    /// `a` should come first along the axis: left, above. None if a profile is empty.
    pub fn of_order(a: &[f64], b: &[f64]) -> Option<Self> {
        Some(Self {
            right: at_least(b, a)?,
            wrong: at_least(a, b)?,
        })
    }

    /// PSE: how much more probable right is than wrong, 0 if it is not; ties cancel. In 0..=1.
    pub fn pse(self) -> f64 {
        (self.right - self.wrong).max(0.0)
    }
}

/// For each axis of a direction in the picture, how far the first mask obeys it; a diagonal has two axes. None if a mask
/// is empty. Both masks are of one size.
///
/// Relations without a direction have no axis.
pub fn in_the_plane(relation: Relation, a: &Mask, b: &Mask) -> Option<Vec<Superiority>> {
    let (x, y) = relation.direction().unwrap_or_default();
    let axes = [
        (x, Mask::x_profile as fn(&Mask) -> Vec<f64>),
        (y, Mask::y_profile),
    ];
    let axes = axes.into_iter().filter(|(sign, _)| *sign != 0);
    axes.map(|(sign, profile)| {
        let (a, b) = (profile(a), profile(b));
        if sign < 0 {
            Superiority::of_order(&a, &b)
        } else {
            Superiority::of_order(&b, &a)
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_count_for_both() {
        assert_eq!(at_least(&[0.0, 1.0], &[2.0, 0.0]), Some(1.0));
        assert_eq!(at_least(&[1.0, 0.0], &[0.0, 2.0]), Some(0.0));
        assert_eq!(at_least(&[1.0, 1.0], &[1.0, 1.0]), Some(0.75));
        assert_eq!(at_least(&[0.0], &[1.0]), None);
        let same = Superiority::of_order(&[1.0, 3.0], &[1.0, 3.0]).unwrap();
        assert_eq!(same.pse(), 0.0);
        assert_eq!(same.right, same.wrong);
    }
}
