//! The memory of the pickle interpreter.

use std::collections::HashMap;
use std::rc::Rc;

use super::value::{Step, Value};
use crate::dtype::StoredType;

/// The interpreter's memory. Several pickles of one file share it.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub lists: Vec<Vec<Value>>,
    pub dicts: Vec<Vec<(Value, Value)>>,
    /// Storages by key: type and number of elements.
    pub storages: HashMap<Rc<str>, (Option<StoredType>, usize)>,
    /// Instructions that were executed.
    pub instructions: usize,
    /// Values that calls have copied.
    copied: usize,
}

impl Machine {
    /// Allows a call to copy so many values. Each value took an instruction to make, and no honest pickle copies what
    /// it made more than once or twice.
    pub fn allow_copies(&mut self, values: usize) -> Step<()> {
        self.copied += values;
        match self.copied <= 4 * self.instructions {
            true => Ok(()),
            false => Err("a pickle that copies the same values again and again".into()),
        }
    }
}
