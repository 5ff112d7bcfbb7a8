//! What Ctrl-C does while pictures are made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

use super::INTERRUPTED;

/// The flag that the first Ctrl-C sets. The second ends the program at once, since a step may take minutes.
pub fn listen() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    ctrlc::set_handler(move || match answer(&flag) {
        Answer::First => {
            tracing::warn!("stopping after this step; Ctrl-C once more ends it at once");
        }
        Answer::Again => std::process::exit(INTERRUPTED.into()),
    })
    .context("cannot listen for Ctrl-C")?;
    Ok(stop)
}

/// What signals have asked a run for.
#[derive(Clone, Default)]
pub struct Requested {
    /// Set by the first: to stop after the pictures at hand.
    pub soon: Arc<AtomicBool>,
    /// Set by the second: to stop at once.
    pub at_once: Arc<AtomicBool>,
}

/// Flags that the first and the second Ctrl-C (or other end of the process) set.
pub fn listen_twice() -> anyhow::Result<Requested> {
    let requested = Requested::default();
    let flags = requested.clone();
    ctrlc::set_handler(move || match answer(&flags.soon) {
        Answer::First => {
            eprintln!("finishing the pictures at hand; once more stops at once");
        }
        Answer::Again => flags.at_once.store(true, Ordering::Relaxed),
    })
    .context("cannot listen for Ctrl-C")?;
    Ok(requested)
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    First,
    Again,
}

/// Which signal this is; `stop` is set from the first on.
fn answer(stop: &AtomicBool) -> Answer {
    match stop.swap(true, Ordering::Relaxed) {
        false => Answer::First,
        true => Answer::Again,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_signal_does_not_wait() {
        let stop = AtomicBool::new(false);
        assert_eq!(answer(&stop), Answer::First);
        assert!(stop.load(Ordering::Relaxed));
        assert_eq!(answer(&stop), Answer::Again);
        assert_eq!(answer(&stop), Answer::Again);
    }
}
