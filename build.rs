//! Tells the program which commit and which version of Burn it is built from, so that runs can name them.

use std::process::Command;

/// Given instead of asking git, by packagers.
const VARIABLE: &str = "PREPOSE_GIT_COMMIT";

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    let burn = burn_version().unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=PREPOSE_BURN_VERSION={burn}");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    if std::env::var_os(VARIABLE).is_some() {
        return;
    }
    // A copy without a repository has no commit, which is no error.
    let Some(commit) = git(&["rev-parse", "HEAD"]) else {
        return;
    };
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let sources = [
        "build.rs",
        "Cargo.toml",
        "Cargo.lock",
        "src",
        "kernels",
        "models",
        "weights",
    ];
    for path in sources {
        println!("cargo::rerun-if-changed={path}");
    }
    let changed = git(&[&["status", "--porcelain", "--"], &sources[..]].concat());
    let mark = match changed.as_deref() {
        Some("") => "",
        _ => "-changed",
    };
    println!("cargo::rustc-env={VARIABLE}={commit}{mark}");
}

/// The version that Cargo.lock has; a package without one has no lock of its own.
fn burn_version() -> Option<String> {
    let lock = std::fs::read_to_string("Cargo.lock").ok()?;
    let (_, version) = lock.split_once("name = \"burn\"\nversion = \"")?;
    Some(version.split_once('"')?.0.to_string())
}

/// What git says; none if it fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string())
}
