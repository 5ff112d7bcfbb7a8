//! Why a set of pictures cannot be measured.

use thiserror::Error;

/// What is wrong with features or statistics.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum QualityError {
    /// Numbers that make no rows.
    #[error("{values} numbers do not make rows of {columns} features")]
    Shape {
        /// Of a row.
        columns: usize,
        /// How many numbers there are.
        values: usize,
    },
    /// A feature that is no number.
    #[error(
        "feature {column} of picture {row} (from 0) is {value}; the network's numbers overflow; try it in f32"
    )]
    NotFinite {
        /// The picture, from 0.
        row: usize,
        /// The feature, from 0.
        column: usize,
        /// What is there.
        value: f32,
    },
    /// Too few pictures for the statistic to be defined.
    #[error("{statistic} needs at least {least} pictures, but there are {found}")]
    Few {
        /// What was asked for.
        statistic: &'static str,
        /// The least number.
        least: usize,
        /// How many there are.
        found: usize,
    },
    /// Two sets that different networks saw.
    #[error(
        "the pictures have {own} features but the reference has {reference}; both must be seen by the same network"
    )]
    Columns {
        /// Of the pictures.
        own: usize,
        /// Of the reference.
        reference: usize,
    },
    /// A covariance matrix that is none.
    #[error("the covariance is not that of a set of pictures: {0}")]
    Covariance(String),
    /// A setting out of its range.
    #[error("{name} is {value}; it should be {range}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// As given.
        value: f64,
        /// What is possible.
        range: &'static str,
    },
    /// Eigenvalues that could not be found.
    #[error(
        "the eigenvalues of the features could not be found; some features are too large for f64"
    )]
    Eigenvalues,
}
