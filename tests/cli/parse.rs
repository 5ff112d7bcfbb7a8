//! `prepose parse` as a user meets it. Runs offline.

use std::process::Output;

use serde_json::{Value, json};

use crate::program::{prepose, stderr, stdout};

fn parse(args: &[&str]) -> Output {
    prepose().arg("parse").args(args).output().unwrap()
}

#[test]
fn everything_about_a_prompt() {
    let output = parse(&[
        "a (red:1.2) surfboard [to the left of a cat:.5], oil painting",
        "-c",
        "clip",
        "--steps",
        "10",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        found,
        json!({
            "prompt": "a (red:1.2) surfboard [to the left of a cat:.5], oil painting",
            "objects": [
                {"phrase": "red surfboard", "noun": "surfboard", "count": 1, "bytes": [3, 21], "tokens": [[2, 3, 4]]},
                {"phrase": "cat", "noun": "cat", "count": 1, "bytes": [39, 42], "tokens": [[10]]},
            ],
            "relations": [{"subject": 0, "relation": "left of", "objects": [1], "text": "red surfboard left of cat"}],
            "unread": ["oil painting"],
            "neutral": "two things, one to the left of the other, oil painting",
            "not_neutral_because": null,
            "swapped": "a cat to the right of a (red:1.2) surfboard, oil painting",
            "segments": [
                {"first_step": 0, "prompt": "a (red:1.2) surfboard , oil painting"},
                {"first_step": 5, "prompt": "a (red:1.2) surfboard to the left of a cat, oil painting"},
            ],
        })
    );
}

#[test]
fn as_text() {
    let output = parse(&[
        "a dog to the left of a cat",
        "two dogs",
        "-c",
        "clip",
        "--tokens",
        "first",
    ]);
    let expected = "a dog to the left of a cat
  objects    dog  tokens 2
             cat  tokens 8
  relations  dog left of cat
  neutral    two animals, one to the left of the other
  swapped    a cat to the right of a dog

two dogs
  objects    dogs  tokens 2, dog, 2 of them
  relations  none
  neutral    none: \"two dogs\" names one object, so there is no order of mention to hide; give the neutral prompt itself with --neutral-prompt
";
    assert_eq!(stdout(&output), expected);
}

#[test]
fn a_composed_prompt_is_read_from_its_first_part() {
    let found = |prompt: &str| {
        let output = parse(&[prompt, "-c", "clip", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
        ["objects", "relations", "unread"].map(|key| found[key].clone())
    };
    let first = found("a dog left of a cat");
    assert_eq!(first[0].as_array().unwrap().len(), 2);
    assert_eq!(found("a dog left of a cat AND a bird :0.5"), first);
    let output = parse(&["a dog and a [cat:pig:.5] :2 AND a bird", "-c", "clip"]);
    let text = stdout(&output);
    for form in [
        "neutral    two animals :2 AND a bird",
        "swapped    a pig and a dog :2 AND a bird",
    ] {
        assert!(text.contains(form), "{text}");
    }
}

#[test]
fn refusals_have_code_2_and_a_reason() {
    let refused = |args: &[&str], part: &str| {
        let output = parse(args);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(
            message.contains(part) && !message.contains("panicked"),
            "{args:?}: {message}"
        );
        stdout(&output)
    };
    refused(&["a dog facing left"], "\"left\"");
    refused(&["a dog left of a cat and right of the cat"], "contradict");
    refused(
        &["a dog", "--relation", "dog | left of | cat"],
        "\"cat\" is not in the prompt",
    );
    refused(&["a dog", "--relation", "dog | left of | dog"], "itself");
    refused(&["a [dog:cat:10]", "--steps", "10"], "10 steps");
    refused(&["a dog", "-c", "no/such/file"], "no/such/file");
    refused(
        &["a dog", "--extract-with", "http://127.0.0.1:9"],
        "--extract-model",
    );
    refused(&[], "<PROMPT>");
    // The others are shown all the same.
    let shown = refused(&["", "a dog", "--json"], "no object");
    let lines: Vec<Value> = shown
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines[0]["error"].as_str().unwrap().contains("no object"));
    assert_eq!(lines[1]["objects"][0]["phrase"], "dog");
}

#[test]
fn the_rules_step_in_for_a_server_that_is_not_there() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let output = parse(&[
        "a dog left of a cat",
        "--extract-with",
        &format!("http://{closed}/v1"),
        "--extract-model",
        "m",
        "-c",
        "clip",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("dog left of cat"));
    assert!(
        stderr(&output).contains("no answer from") && stderr(&output).contains("by rules"),
        "{}",
        stderr(&output)
    );
}
