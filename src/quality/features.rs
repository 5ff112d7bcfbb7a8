//! What a network sees in pictures: a row of numbers for each.

use crate::QualityError;

/// Features of a set of pictures, a row for each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Features {
    columns: usize,
    values: Vec<f32>,
}

impl Features {
    /// Rows of `columns` numbers, one after the other.
    ///
    /// # Errors
    /// [`QualityError::Shape`] if they make no rows, [`QualityError::NotFinite`] for NaN and infinity.
    pub fn new(columns: usize, values: Vec<f32>) -> Result<Self, QualityError> {
        let whole = columns > 0 && values.len().is_multiple_of(columns);
        if !whole {
            let values = values.len();
            return Err(QualityError::Shape { columns, values });
        }
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            return Err(QualityError::NotFinite {
                row: at / columns,
                column: at % columns,
                value: values[at],
            });
        }
        Ok(Self { columns, values })
    }

    /// How many pictures there are.
    pub fn rows(&self) -> usize {
        self.values.len() / self.columns.max(1)
    }

    /// How many features each picture has.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The features of each picture.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.columns.max(1))
    }

    /// The features of a picture.
    ///
    /// # Panics
    /// If there is none of this number.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.columns..][..self.columns]
    }

    /// The same with every row divided by its length; rows of zeros stay.
    pub fn unit(&self) -> Self {
        let rows = self.iter().flat_map(|row| {
            let squares: f64 = row.iter().map(|value| f64::from(*value).powi(2)).sum();
            let length = if squares > 0.0 { squares.sqrt() } else { 1.0 };
            row.iter()
                .map(move |value| (f64::from(*value) / length) as f32)
        });
        Self {
            columns: self.columns,
            values: rows.collect(),
        }
    }

    /// Refuses fewer pictures than a statistic needs.
    pub(crate) fn at_least(
        &self,
        statistic: &'static str,
        least: usize,
    ) -> Result<(), QualityError> {
        let found = self.rows();
        match found >= least {
            true => Ok(()),
            false => Err(QualityError::Few {
                statistic,
                least,
                found,
            }),
        }
    }

    /// Refuses to be compared with features of another network.
    pub(crate) fn like(&self, reference: usize) -> Result<(), QualityError> {
        let own = self.columns;
        match own == reference {
            true => Ok(()),
            false => Err(QualityError::Columns { own, reference }),
        }
    }
}
