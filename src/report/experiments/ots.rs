//! Order to space: where the first-mentioned of two things stands, and who does what (Order Is Not Layout, arXiv
//! 2603.03714).
//!
//! * [`homogenization`], [`correctness`]: text to image, tables 2 and 4;
//! * [`edit`]: image to image, table 4;
//! * [`switch`]: until when the order matters, table 7;
//! * [`cure`]: what fine-tuning on flipped pairs makes of it, table 6.

mod correctness;
pub mod cure;
mod edit;
mod homogenization;
mod published;
mod switch;

use std::collections::BTreeMap;

use super::{percent, share};
use crate::bootstrap::{Bootstrap, Estimate};
use prepose_check::rules::ots::homogenization as score;
use prepose_check::sample::Scores;
use prepose_draw::table::Cell;

pub use correctness::correctness;
pub use edit::{Labels, edit};
pub use homogenization::homogenization;
pub use switch::{Switched, switch, switched};

/// Which of two directions is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Left and right, as in the paper.
    Sides,
    /// Above and below.
    Levels,
}

/// Where the first-mentioned object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On the left, or above: as the order of mention has it.
    First,
    /// On the right, or below.
    Second,
    /// An object is missing, or both are level.
    Invalid,
}

impl Direction {
    /// The words for where the first-mentioned object is.
    fn words(self) -> [&'static str; 2] {
        match self {
            Self::Sides => ["left", "right"],
            Self::Levels => ["above", "below"],
        }
    }

    /// How the two stand in a picture that counts.
    fn arrangement(self) -> &'static str {
        match self {
            Self::Sides => "beside rather than above each other",
            Self::Levels => "above rather than beside each other",
        }
    }

    fn place(self, scores: &Scores) -> Option<Place> {
        let place = match self {
            Self::Sides => scores.side.as_deref()?,
            Self::Levels => scores.level.as_deref()?,
        };
        Some(match place {
            "left" | "above" => Place::First,
            "right" | "below" => Place::Second,
            _ => Place::Invalid,
        })
    }
}

/// How often the first-mentioned object is where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// On the left, or above; correct.
    pub first: usize,
    /// On the right, or below; wrong.
    pub second: usize,
    /// Not clear.
    pub invalid: usize,
}

impl Tally {
    fn add(&mut self, place: Place) {
        *match place {
            Place::First => &mut self.first,
            Place::Second => &mut self.second,
            Place::Invalid => &mut self.invalid,
        } += 1;
    }

    fn plus(self, other: Self) -> Self {
        Self {
            first: self.first + other.first,
            second: self.second + other.second,
            invalid: self.invalid + other.invalid,
        }
    }

    fn total(self) -> usize {
        self.first + self.second + self.invalid
    }

    fn homogenization(self) -> Option<f64> {
        score(self.first, self.second)
    }

    /// Where the order of mention has its way, of the valid ones.
    fn success(self) -> Option<f64> {
        share(self.first, self.first + self.second)
    }

    fn cells(self) -> [Cell; 5] {
        [
            Cell::Count(self.total()),
            Cell::Count(self.first),
            Cell::Count(self.second),
            Cell::Count(self.invalid),
            percent(share(self.invalid, self.total())),
        ]
    }
}

/// The places of the pictures of each pair of prompts together, as they are not independent of each other: a pair in both
/// orders, with all its seeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tallies(Vec<Tally>);

impl Tallies {
    /// Of places with the prompts whose they are.
    fn of(
        places: impl IntoIterator<Item = (usize, Place)>,
        counterparts: &[Option<usize>],
    ) -> Self {
        let mut pairs: BTreeMap<usize, Tally> = BTreeMap::new();
        for (prompt, place) in places {
            let pair = counterparts[prompt].map_or(prompt, |other| other.min(prompt));
            pairs.entry(pair).or_default().add(place);
        }
        Self(pairs.into_values().collect())
    }

    /// All of them.
    pub fn sum(&self) -> Tally {
        self.0
            .iter()
            .fold(Tally::default(), |sum, one| sum.plus(*one))
    }

    /// What `of` says of all, with its 95 % interval over pairs; none of nothing.
    fn estimate(&self, of: fn(Tally) -> Option<f64>) -> Option<Estimate> {
        let sum = |drawn: &[&Tally]| {
            let drawn = drawn.iter().copied();
            of(drawn.fold(Tally::default(), |sum, one| sum.plus(*one)))
        };
        Bootstrap::default().estimate(&self.0, sum)
    }
}

/// A value and its interval.
fn cells(estimate: Option<Estimate>) -> [Cell; 3] {
    match estimate {
        Some(Estimate { value, low, high }) => [value, low, high].map(Cell::Percent),
        None => [Cell::Empty, Cell::Empty, Cell::Empty],
    }
}

#[cfg(test)]
mod tests;
