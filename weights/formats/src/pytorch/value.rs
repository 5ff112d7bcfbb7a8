//! What pickles are made of, and why one is not read.

use std::rc::Rc;

use super::tensor::TensorRef;
use crate::dtype::StoredType;

/// Why a pickle was not read to its end.
#[derive(Debug)]
pub(super) enum Fault {
    /// It makes no sense, in words.
    Damaged(String),
    /// It names this function, which only an attack would call.
    Attack(String),
}

impl From<&str> for Fault {
    fn from(what: &str) -> Self {
        Self::Damaged(what.into())
    }
}

impl From<String> for Fault {
    fn from(what: String) -> Self {
        Self::Damaged(what)
    }
}

/// A Python object. Those that can change after they are put aside in the memo live in a list of
/// their own.
#[derive(Debug, Clone)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Str(Rc<str>),
    /// Index in [`Machine::lists`]. Tuples and sets are lists.
    List(usize),
    /// Index in [`Machine::dicts`].
    Dict(usize),
    /// A name of Python's: module and name.
    Name(Rc<str>, Rc<str>),
    /// Bytes that lie elsewhere in the file.
    Storage {
        key: Rc<str>,
        dtype: Option<StoredType>,
    },
    Tensor(Rc<TensorRef>),
    /// Anything else.
    Opaque,
    Mark,
}

pub(super) type Step<T> = Result<T, Fault>;
