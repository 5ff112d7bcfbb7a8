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
        Answer::AfterThisStep => {
            tracing::warn!("stopping after this step; Ctrl-C once more ends it at once");
        }
        Answer::AtOnce => std::process::exit(INTERRUPTED.into()),
    })
    .context("cannot listen for Ctrl-C")?;
    Ok(stop)
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    AfterThisStep,
    AtOnce,
}

/// What is done about a signal; `stop` is set from the first on.
fn answer(stop: &AtomicBool) -> Answer {
    match stop.swap(true, Ordering::Relaxed) {
        false => Answer::AfterThisStep,
        true => Answer::AtOnce,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_signal_does_not_wait() {
        let stop = AtomicBool::new(false);
        assert_eq!(answer(&stop), Answer::AfterThisStep);
        assert!(stop.load(Ordering::Relaxed));
        assert_eq!(answer(&stop), Answer::AtOnce);
        assert_eq!(answer(&stop), Answer::AtOnce);
    }
}
