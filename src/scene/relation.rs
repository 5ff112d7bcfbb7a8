//! The relations and what they are called.

use std::fmt;
use std::str::FromStr;

use super::SceneError;
use super::given::relation_named;

/// How one object stands to another, seen from the camera: `a LeftOf b` is "a is to the left of b".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Relation {
    /// Smaller x.
    LeftOf,
    /// Larger x.
    RightOf,
    /// Higher up in the picture.
    Above,
    /// Lower down in the picture.
    Below,
    /// [`Above`](Self::Above) and [`LeftOf`](Self::LeftOf).
    AboveLeft,
    /// [`Above`](Self::Above) and [`RightOf`](Self::RightOf).
    AboveRight,
    /// [`Below`](Self::Below) and [`LeftOf`](Self::LeftOf).
    BelowLeft,
    /// [`Below`](Self::Below) and [`RightOf`](Self::RightOf).
    BelowRight,
    /// Close by, in any direction.
    Near,
    /// Far away, in any direction.
    Far,
    /// Between two others; the only relation with two objects.
    Between,
    /// Nearer to the camera.
    InFrontOf,
    /// Farther from the camera, or hidden by the other.
    Behind,
}

impl Relation {
    /// Every relation.
    pub const ALL: [Self; 13] = [
        Self::LeftOf,
        Self::RightOf,
        Self::Above,
        Self::Below,
        Self::AboveLeft,
        Self::AboveRight,
        Self::BelowLeft,
        Self::BelowRight,
        Self::Near,
        Self::Far,
        Self::Between,
        Self::InFrontOf,
        Self::Behind,
    ];

    /// The name in messages and JSON, which [`parse`](str::parse) reads back.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LeftOf => "left of",
            Self::RightOf => "right of",
            Self::Above => "above",
            Self::Below => "below",
            Self::AboveLeft => "above left of",
            Self::AboveRight => "above right of",
            Self::BelowLeft => "below left of",
            Self::BelowRight => "below right of",
            Self::Near => "near",
            Self::Far => "far from",
            Self::Between => "between",
            Self::InFrontOf => "in front of",
            Self::Behind => "behind",
        }
    }

    /// The relation of `b` to `a` when `a` stands in this one to `b`; none for [`Between`](Self::Between).
    pub fn inverse(self) -> Option<Self> {
        Some(match self {
            Self::Near => Self::Near,
            Self::Far => Self::Far,
            Self::InFrontOf => Self::Behind,
            Self::Behind => Self::InFrontOf,
            Self::Between => return None,
            _ => {
                let (x, y) = self.direction()?;
                return Self::from_direction(-x, -y);
            }
        })
    }

    /// Whether it is about how far away things are: in front of, behind.
    pub fn is_of_depth(self) -> bool {
        matches!(self, Self::InFrontOf | Self::Behind)
    }

    /// Where the subject lies in the picture as seen from the object: x to the right, y downwards, each -1, 0 or 1.
    /// None for relations that have no direction in the picture.
    pub fn direction(self) -> Option<(i8, i8)> {
        Some(match self {
            Self::LeftOf => (-1, 0),
            Self::RightOf => (1, 0),
            Self::Above => (0, -1),
            Self::Below => (0, 1),
            Self::AboveLeft => (-1, -1),
            Self::AboveRight => (1, -1),
            Self::BelowLeft => (-1, 1),
            Self::BelowRight => (1, 1),
            Self::Near | Self::Far | Self::Between | Self::InFrontOf | Self::Behind => return None,
        })
    }

    /// The relation of that [`direction`](Self::direction).
    pub fn from_direction(x: i8, y: i8) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|relation| relation.direction() == Some((x, y)))
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Relation {
    type Err = SceneError;

    /// Reads a name of [`as_str`](Self::as_str), or any phrase that a prompt may use, such as `to the left of`; also
    /// `left`, `right`, `top`, `bottom` and `front` alone.
    fn from_str(text: &str) -> Result<Self, SceneError> {
        let name = text.trim().to_lowercase().replace(['_', '-'], " ");
        Self::ALL
            .into_iter()
            .find(|relation| relation.as_str() == name)
            .or_else(|| relation_named(&name))
            .ok_or_else(|| SceneError::UnknownRelation(text.trim().to_owned()))
    }
}
