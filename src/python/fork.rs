//! Processes that were forked from one that has opened networks.

use std::sync::OnceLock;

use pyo3::prelude::*;

use crate::error::{self, Class};

/// The process that was the first to open an engine, a checker, an oracle, or networks that look for a rule. Children that are
/// forked from it inherit this number, but not the threads that work for all of these: whoever waits for those waits forever.
static FIRST: OnceLock<u32> = OnceLock::new();

/// Refuses networks to a process whose parent has opened some before the fork.
///
/// # Errors
/// `EngineError`.
pub fn refuse(py: Python) -> PyResult<()> {
    let process = std::process::id();
    if *FIRST.get_or_init(|| process) == process {
        return Ok(());
    }
    Err(error::new(
        py,
        Class::Engine,
        "this process was forked from one that had opened an engine, a checker, an oracle, or a network to score with, whose \
         threads are not here; start processes with multiprocessing's \"spawn\", or open such things only in the children",
    ))
}
