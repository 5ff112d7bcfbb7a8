//! A newcomer's first day: what somebody typed who knows other programs, and what has to come of it.
//!
//! Each step is a line for the shell, its exit code, and pieces of what it says; steps of a test share a folder.

use std::path::Path;

use crate::commands::shell;
use crate::program::{stderr, stdout};

/// A line for the shell, its exit code, and pieces of its output.
type Step<'a> = (&'a str, i32, &'a [&'a str]);

#[track_caller]
fn day(steps: &[Step]) {
    let folder = tempfile::tempdir().unwrap();
    for (line, code, parts) in steps {
        step(folder.path(), line, *code, parts);
    }
}

#[track_caller]
fn step(folder: &Path, line: &str, code: i32, parts: &[&str]) {
    let output = shell(folder, line);
    let said = stdout(&output) + &stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{line}: {said}");
    for part in parts {
        assert!(said.contains(part), "{line}: {said:?} lacks {part:?}");
    }
}

#[test]
fn a_picture_that_was_made_again_is_judged_once() {
    day(&[
        (
            "prepose -q generate 'a dog to the left of a cat' --seed 9 --steps 10 -o over/x.png",
            0,
            &["over/x.png"],
        ),
        (
            "prepose -q generate --again over/x.png --guide pos -o over/x.png",
            0,
            &[],
        ),
        (
            "prepose check --manifest over/manifest.jsonl",
            0,
            &[
                "line 1: line 2 is about the same picture",
                "1 in all",
                "skipped: 1",
            ],
        ),
        ("prepose -q check over", 0, &["1 in all"]),
        (
            "prepose check over --relation 'dog | left of | cat'",
            0,
            &["dog left of cat"],
        ),
        (
            "prepose check over --json",
            0,
            &[
                "\"path\":",
                "\"prompt\":",
                "\"verdict\":",
                "\"reason\":",
                "\"confidence\":",
            ],
        ),
        (
            "prepose check nothing/*.png",
            2,
            &["nothing/*.png", "pattern"],
        ),
        ("prepose check gone.png", 2, &["gone.png", "no such file"]),
    ]);
}

#[test]
fn advice_can_be_followed() {
    day(&[
        (
            "prepose generate 'a dog in front of a cat' --guide pos",
            2,
            &["depth", "neither guided nor searched"],
        ),
        (
            "prepose generate 'a dog in front of a cat' --best-of 4 --reward checker",
            2,
            &["in front of"],
        ),
        (
            "prepose generate 'a zebra and a bus' --best-of 8",
            2,
            &["no relation", "--relation"],
        ),
        (
            "prepose generate 'a dog facing left' --attention-maps m",
            2,
            &["--attention-words"],
        ),
        (
            "prepose generate 'a unicorn' --steps 2 -o u.png",
            0,
            &["35 objects", "zebra", "--checkpoint"],
        ),
        (
            "prepose generate 'a unicorn above a cat' --best-of 2 --reward checker",
            2,
            &["unicorn", "it knows:", "zebra"],
        ),
        (
            "prepose run spatialbench-uc --guide-scale 40 --out r",
            2,
            &["--methods FILE.toml"],
        ),
        (
            "prepose generate x --checkpoint sdxl",
            2,
            &["did you mean sdxl-base?"],
        ),
        (
            "prepose check u.png --checker frcnn",
            2,
            &["fasterrcnn", "https://"],
        ),
    ]);
}

#[test]
fn runs_grow_and_say_what_contradicts() {
    day(&[
        (
            "prepose -q run spatialbench-uc --limit 1 --seeds 0 --steps 2 --out r",
            0,
            &[],
        ),
        (
            "prepose run spatialbench-uc --limit 2 --seeds 0..1 --steps 2 --method prompt-only,pos --out r",
            0,
            &["psg"],
        ),
        (
            "prepose run spatialbench-uc --limit 2 --seeds 0 --steps 3 --method prompt-only,boxdiff --out r",
            2,
            &["steps: 2 there, 3 asked for"],
        ),
        (
            "prepose verify r",
            0,
            &["all files are as they were written"],
        ),
        (
            "rm r/psg/eval/metrics.json && prepose verify r",
            1,
            &["r/psg/eval/metrics.json: deleted"],
        ),
        ("prepose verify r --mend", 0, &["remade"]),
        (
            "prepose score t2i-compbench r/psg/eval/per_sample.jsonl",
            0,
            &["4"],
        ),
        (
            "prepose score visor - --json < r/psg/eval/per_sample.jsonl",
            0,
            &["{"],
        ),
        (
            "prepose audit sample --records r --out audit/sample.csv",
            0,
            &["audit/sample.csv"],
        ),
    ]);
}

#[test]
fn other_programs_habits_are_understood() {
    day(&[
        (
            "prepose generate 'a dog' --seed -1 --steps 2 --output a.png",
            0,
            &["a.png"],
        ),
        (
            "printf 'a dog\\na cat\\n' | prepose generate - --steps 2 --seeds 0..1 -o out",
            0,
            &["out/a-cat-1.png"],
        ),
        (
            "prepose generate 'a dog' --seeds 0-40 --steps 2 -o gp | head -1; exit 0",
            0,
            &["gp/"],
        ),
        (
            "NO_COLOR=1 prepose check a.png --prompt 'a dog'",
            2,
            &["no relation"],
        ),
        (
            "printf '%s\\n' '{\"image_path\": \"a.png\", \"prompt\": \"a dog and a cat\"}' '{\"file_name\": \"a.png\", \
             \"text\": \"a dog to the left of a cat\"}' > m.jsonl; prepose check --manifest m.jsonl --checker toybox",
            2,
            &["a dog"],
        ),
        ("prepose pull --json", 0, &["\"name\":\"sd15\""]),
        ("prepose info toybox", 0, &["35 objects", "--guide steer"]),
        (
            "prepose suites spatialbench-uc | head -1",
            0,
            &["prompt_id"],
        ),
        ("prepose bench roofline | head -1", 0, &["# Rooflines"]),
        // Nobody reads any more: the output is closed before the first line.
        (
            "mkfifo go; (read x < go; prepose detect a.png; echo \"code $?\" >&2) | (exec <&-; echo > go)",
            0,
            &["code 141"],
        ),
        (
            "(read x < go; prepose bench weights toybox -o w; echo \"code $?\" >&2) | (exec <&-; echo > go)",
            0,
            &["code 141"],
        ),
        ("prepose help generate", 0, &["--again"]),
        ("prepose help --help", 0, &["Commands:"]),
        ("prepose help run -h", 0, &["--method"]),
    ]);
}
