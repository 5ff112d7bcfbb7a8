//! `prepose suites`.

use std::path::Path;

use prepose::suite::SuitePrompt;
use prepose::suite::sets;

use crate::program::{prepose_in, stderr, stdout, with_input, works};

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

/// The names of columns may be in any letters, as in files.
#[test]
fn a_table_on_standard_input_is_known_by_its_columns() {
    for header in [
        "Prompt_ID,Prompt",
        "prompt_id,\" PROMPT \"",
        "prompt_id,prompt",
    ] {
        let output = with_input(
            &["suites", "-"],
            &format!("{header}\none,a dog left of a cat\n"),
        );
        let lines: Vec<SuitePrompt> = (stdout(&output).lines())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let told: Vec<_> = (lines.iter())
            .map(|prompt| (&*prompt.prompt_id, &*prompt.prompt))
            .collect();
        assert_eq!(
            told,
            [("one", "a dog left of a cat")],
            "{header}: {}",
            stderr(&output)
        );
    }
}
