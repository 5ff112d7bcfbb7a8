//! `prepose suites`.

use std::path::Path;

use prepose::suite::SuitePrompt;
use prepose::suite::sets;

use crate::program::{prepose_in, stderr, works};

#[test]
fn the_command_lists_and_shows() {
    let text = |args: &[&str]| works(Path::new("."), args);
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
    assert_eq!(prompts, sets::open("psg-three").unwrap().prompts);
    let released = text(&["suites", "spatialbench-uc", "--original"]);
    assert!(released == sets::find("spatialbench-uc").unwrap().original().unwrap());

    for (args, part) in [
        (&["suites", "viser"][..], "`visor`"),
        (
            &["suites", "psg-four", "--original"],
            "spatialbench-uc, visor",
        ),
        (&["suites", "--original"], "SUITE"),
    ] {
        let output = prepose_in(Path::new("."), args);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(part), "{args:?}: {message}");
    }
}
