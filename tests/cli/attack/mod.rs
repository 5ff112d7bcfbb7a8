//! What somebody with bad intentions would try: files, names and options that should end, hang or fill the program, or write
//! on the terminal. Each ends with one short message.

mod checkpoints;
mod files;
mod names;
mod pickles;
mod pictures;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::program;

/// What the program may take for anything of this folder, in KiB: what it takes at rest, and 1 GiB beyond.
const MEMORY: usize = 2 << 20;

/// The longest message.
const MESSAGE: usize = 3500;

/// A folder in which the program is run.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Names of all files, however deep.
    fn files(&self) -> Vec<PathBuf> {
        fn below(folder: &Path, files: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                match entry.file_type().unwrap().is_dir() {
                    true => below(&entry.path(), files),
                    false => files.push(entry.path()),
                }
            }
        }
        let mut files = Vec::new();
        below(self.path(), &mut files);
        files.sort();
        files
    }

    /// Runs the program with limited memory and nothing to read.
    fn run(&self, args: &[&str]) -> Output {
        // The shell's own limit: it holds for all that the program asks the system for.
        // What hangs ends in the end.
        let limited = format!("ulimit -d {MEMORY}; exec timeout 300 \"$0\" \"$@\"");
        let program = env!("CARGO_BIN_EXE_prepose");
        let mut command = Command::new("sh");
        command.args(["-c", &limited, program]).args(args);
        command.env_remove("RUST_LOG").stdin(Stdio::null());
        command.current_dir(self.path()).output().unwrap()
    }

    /// The command ends with code 2, one short message that contains each of `parts`, and nothing that was not there.
    #[track_caller]
    fn refuses(&self, args: &[&str], parts: &[&str]) -> String {
        let before = self.files();
        let output = self.run(args);
        let message = sound(args, &output);
        assert_eq!(output.status.code(), Some(2), "{}: {message}", shown(args));
        for part in parts {
            assert!(
                message.contains(part),
                "{}: {message:?} lacks {part:?}",
                shown(args)
            );
        }
        assert_eq!(self.files(), before, "{} left something", shown(args));
        message
    }
}

/// What the program says, whatever it was asked: no panic, no signal, not too long, nothing that moves a terminal.
#[track_caller]
fn sound(args: &[&str], output: &Output) -> String {
    let message = program::stderr(output);
    let args = shown(args);
    assert!(
        output.status.signal().is_none(),
        "{args}: {:?}: {message}",
        output.status
    );
    assert!(
        message.chars().count() < MESSAGE,
        "{args}: {} bytes",
        message.len()
    );
    for text in [&message, &program::stdout(output)] {
        let moves = |c: char| {
            c.is_control() && c != '\n' && c != '\t' || ('\u{202a}'..='\u{202e}').contains(&c)
        };
        assert!(!text.contains(moves), "{args}: {text:?}");
    }
    message
}

/// The arguments as far as a failing test shows them.
fn shown(args: &[&str]) -> String {
    let beginning = |arg: &&str| arg.chars().take(80).collect::<String>();
    format!("{:?}", args.iter().map(beginning).collect::<Vec<_>>())
}

/// A copy of the toybox in `folder`, in diffusers' layout.
fn toybox(folder: &Path) -> PathBuf {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => copy(&entry.path(), &target),
                false => _ = fs::copy(entry.path(), target).unwrap(),
            }
        }
    }
    let copied = folder.join("model");
    copy(&crate::support::root().join("weights/toybox"), &copied);
    copied
}

/// A named pipe.
fn fifo(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}
