//! `prepose selftest` on the CPU.

#![cfg(feature = "toybox")]

use std::process::Output;

use crate::program::prepose;

fn selftest(arguments: &[&str]) -> Output {
    prepose()
        .args(["selftest", "--device", "flex"])
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn the_cpu_passes() {
    let done = selftest(&["--json"]);
    let text = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(0), "{text}");
    let outcomes: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (name, dtype) in [
        ("attention", "f32"),
        ("attention_input_grads", "bf16"),
        ("pictures", "f32"),
        ("guided pictures", "f16"),
    ] {
        let outcome = outcomes
            .iter()
            .find(|outcome| outcome["name"] == name && outcome["dtype"] == dtype)
            .unwrap();
        assert!(outcome["error"].as_f64().unwrap() > 0.0, "{outcome}");
        assert!(outcome["failure"].is_null(), "{outcome}");
    }
    assert!(outcomes.len() > 60);
}

#[test]
fn it_can_be_narrowed_down() {
    let done = selftest(&["--only", "geglu", "--dtype", "f32"]);
    let text = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(0), "{text}");
    assert!(text.contains("| ok | geglu_input_grad | f32 |"), "{text}");
    assert!(text.contains("All 2 are right."), "{text}");

    let nothing = selftest(&["--only", "nonsense"]);
    let error = String::from_utf8(nothing.stderr).unwrap();
    assert_eq!(nothing.status.code(), Some(2));
    assert!(
        error.contains(r#"nothing has any of ["nonsense"] in its name"#),
        "{error}"
    );
}
