//! Running the program, and what it must do with wrong input.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program, without the variables that would change what it says.
pub fn prepose() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prepose"));
    command.env_remove("RUST_LOG");
    command.env_remove("PREPOSE_EXTRACT_KEY");
    command
}

/// What it does with these arguments in this folder.
pub fn prepose_in(folder: &Path, args: &[&str]) -> Output {
    prepose().args(args).current_dir(folder).output().unwrap()
}

/// What it does with these arguments and this on standard input.
pub fn with_input(args: &[&str], input: &str) -> Output {
    let mut child = prepose()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may end without reading all of it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Its messages. None of them is a panic's.
#[track_caller]
pub fn stderr(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!text.contains("panicked"), "{text}");
    text
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The command succeeds; what it prints.
#[track_caller]
pub fn works(folder: &Path, args: &[&str]) -> String {
    let output = prepose_in(folder, args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

/// The command fails with code 2 and one message that contains each of `parts`, and leaves nothing in the folder that was not there.
#[track_caller]
pub fn refuses(folder: &Path, args: &[&str], parts: &[&str]) {
    let before = fs::read_dir(folder).unwrap().count();
    let output = prepose_in(folder, args);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    for part in parts {
        assert!(
            message.contains(part),
            "{args:?}: {message:?} lacks {part:?}"
        );
    }
    assert_eq!(
        fs::read_dir(folder).unwrap().count(),
        before,
        "{args:?} left something"
    );
}
