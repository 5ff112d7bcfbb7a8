//! Notes the commit that the program is built from, for the provenance of its pictures.

use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_string())
}

fn main() {
    // Without git, or from an archive, there is no commit to note.
    if let Some(commit) = git(&["rev-parse", "HEAD"]) {
        println!("cargo::rustc-env=PREPOSE_GIT_COMMIT={commit}");
    }
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
