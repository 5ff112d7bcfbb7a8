//! `--dtype`: a network that computes in 16 bits learns nearly what it learns in 32, and goes on where it was killed.

use serde_json::Value;

use super::kills::survives;
use super::{LORA, provide, read, small};
use crate::program::works;

#[test]
fn half_types_train_nearly_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    let steps = |dtype| {
        let more = ["--steps", "3", "--dtype", dtype, "--out", dtype];
        works(folder, &small(&more));
        let log = read(&folder.join(dtype), &["log.jsonl"]).remove(0);
        let lines = String::from_utf8(log).unwrap();
        let steps = lines.lines().map(serde_json::from_str);
        steps.collect::<Result<Vec<Value>, _>>().unwrap()
    };
    let exact = steps("f32");
    for (dtype, most, scale) in [("bf16", 0.02, None), ("f16", 0.005, Some(65536.0))] {
        let half = steps(dtype);
        assert_eq!(half.len(), exact.len());
        for (half, exact) in half.iter().zip(&exact) {
            let loss = |step: &Value| step["loss"].as_f64().unwrap();
            let off = (loss(half) / loss(exact) - 1.0).abs();
            assert!(off < most, "{dtype}: {half} {exact}");
            assert!(half["norm"].as_f64().unwrap() > 0.0, "{half}");
            assert_eq!(half["scale"].as_f64(), scale, "{half}");
        }
        assert_ne!(half, exact);
    }
    assert!(exact[0]["scale"].is_null());
}

#[test]
fn scaled_losses_survive_kills() {
    let folder = tempfile::tempdir().unwrap();
    provide(folder.path());
    let with = |out| {
        let more = ["--steps", "6", "--keep-every", "1", "--dtype", "f16"];
        [&small(&more)[..], &["--cache", "cache", "--out", out]].concat()
    };
    survives(folder.path(), with, 3, &LORA);
}
