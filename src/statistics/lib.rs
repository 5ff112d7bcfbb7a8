//! How far people, judges and metrics agree.
//!
//! Owns correlations of ranks and values ([`correlation`]), agreement beyond chance between two or more annotators
//! ([`agreement`]), what a yes-or-no judge gets right ([`binary`]), and how far any of it could be off ([`bootstrap`]). Pure
//! functions on numbers; it imports no other crate of this workspace. Values are compared with those of SciPy,
//! scikit-learn, statsmodels and the package `krippendorff` (`scripts/reference/cases/agreement.py`).

#![warn(clippy::unwrap_used)]

pub mod agreement;
pub mod binary;
pub mod bootstrap;
pub mod correlation;
pub mod python_random;

#[cfg(test)]
mod tests;
