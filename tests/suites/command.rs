//! `prepose suites`.

use std::process::{Command, Output};

use prepose::suite::SuitePrompt;
use prepose::suite::sets;

use crate::{original, suite};

fn prepose(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prepose"));
    command.args(args).env_remove("RUST_LOG").output().unwrap()
}

#[test]
fn the_command_lists_and_shows() {
    let text = |args: &[&str]| {
        let output = prepose(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let list = text(&["suites"]);
    for name in sets::names() {
        assert!(
            list.contains(&format!("\n{name} (")) || list.starts_with(name),
            "{name}"
        );
    }
    let lines = text(&["suites", "--json"]);
    let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(first["prompts"], 200);
    assert_eq!(first["relations"]["left_of"], 50);
    let shown = text(&["suites", "psg-three"]);
    let prompts: Vec<SuitePrompt> = (shown.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(prompts, suite("psg-three").prompts);
    let released = text(&["suites", "spatialbench-uc", "--original"]);
    assert!(released == original("spatialbench-uc"));

    for (args, part) in [
        (&["suites", "viser"][..], "`visor`"),
        (
            &["suites", "psg-four", "--original"],
            "spatialbench-uc, visor",
        ),
        (&["suites", "--original"], "SUITE"),
    ] {
        let output = prepose(args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(part), "{args:?}: {message}");
    }
}
