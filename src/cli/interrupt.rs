//! What Ctrl-C and other requests to end do while pictures are made.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::Context;

/// The exit code that the first signal asks for: 128 and its number, as shells have it; 0 while there was none.
static CODE: AtomicU8 = AtomicU8::new(0);

/// The exit code of a program that a signal has asked to end: 130 for Ctrl-C, 143 for `kill`.
pub fn exit_code() -> Option<u8> {
    Some(CODE.load(Ordering::Relaxed)).filter(|code| *code > 0)
}

/// Held while a picture is written with what is told of it elsewhere: only a second signal ends the program then.
pub fn whole() -> MutexGuard<'static, ()> {
    static WRITING: Mutex<()> = Mutex::new(());
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a step at hand is waited for where nothing comes of waiting.
const PATIENCE: Duration = Duration::from_secs(2);

/// The flag that the first signal sets, for work that keeps nothing of what is not finished: a step may take minutes, and loading
/// as long, so the program ends a little later in any case. The second signal ends it at once.
pub fn listen_briefly() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    on_signal(move |code| {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(code.into());
        }
        let seconds = PATIENCE.as_secs();
        eprintln!(
            "stopping after this step, or in {seconds} seconds; interrupt again to stop at once; finished pictures are kept"
        );
        std::thread::spawn(move || {
            std::thread::sleep(PATIENCE);
            let _whole = whole();
            std::process::exit(exit_code().unwrap_or(code).into());
        });
    })?;
    Ok(stop)
}

/// The flag that the first signal sets. The second ends the program at once, since a step may take minutes.
pub fn listen() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    on_signal(move |code| match flag.swap(true, Ordering::Relaxed) {
        false => eprintln!("stopping after this step; interrupt again to stop at once"),
        true => std::process::exit(code.into()),
    })?;
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

/// Flags that the first and the second signal set; the same ones each time.
pub fn listen_twice() -> anyhow::Result<Requested> {
    static HEARD: OnceLock<Requested> = OnceLock::new();
    if let Some(requested) = HEARD.get() {
        return Ok(requested.clone());
    }
    let requested = HEARD.get_or_init(Requested::default).clone();
    let flags = requested.clone();
    on_signal(move |_| match flags.soon.swap(true, Ordering::Relaxed) {
        false => eprintln!("finishing the current pictures; interrupt again to stop at once"),
        true => flags.at_once.store(true, Ordering::Relaxed),
    })?;
    Ok(requested)
}

/// Calls `act` with the exit code of each signal that asks the program to end.
#[cfg(unix)]
fn on_signal(mut act: impl FnMut(u8) + Send + 'static) -> anyhow::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]);
    let mut signals = signals.context("cannot listen for Ctrl-C")?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            // There are fewer than 64 signals.
            let code = 128 + u8::try_from(signal).unwrap_or(0);
            remember(code);
            act(code);
        }
    });
    Ok(())
}

#[cfg(not(unix))]
fn on_signal(mut act: impl FnMut(u8) + Send + 'static) -> anyhow::Result<()> {
    let heard = move || {
        remember(130);
        act(130);
    };
    ctrlc::set_handler(heard).context("cannot listen for Ctrl-C")
}

/// The first signal decides.
fn remember(code: u8) {
    // Later ones find it taken.
    let _ = CODE.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
}
