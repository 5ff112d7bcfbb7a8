//! Runs made up for the tests, with every kind of verdict in them.

use std::path::Path;

use serde_json::{Value, json};

use super::{HOSTILE, lines, png, write};

const METHODS: [&str; 3] = ["prompt-only", "psg", "best-of-4"];
pub const PROMPTS: usize = 4;
pub const SEEDS: u64 = 2;

/// Everything about one picture of the made-up run.
pub struct Made {
    pub id: String,
    pub manifest: Value,
    pub record: Value,
    scores: Value,
}

pub fn made(method: &str, prompt: usize, seed: u64) -> Made {
    let id = format!("{method}_p{prompt}_seed{seed:04}");
    let relation = ["left_of", "right_of"][prompt % 2];
    let (a, b) = [("dog", "cat"), ("cat", "dog")][prompt % 2];
    let passes = method == "psg" || seed == 0;
    let decided = prompt != 3;
    let verdict = match (decided, passes) {
        (false, _) => "UNDECIDABLE",
        (true, true) => "PASS",
        (true, false) => "FAIL",
    };
    let boxes = [[2.0, 8.0, 12.0, 20.0], [18.0, 8.0, 30.0, 20.0]];
    let text = if prompt == 0 {
        HOSTILE
    } else {
        "a dog to the left of a cat"
    };
    Made {
        manifest: json!({
            "sample_id": id, "run_id": method, "prompt_id": format!("p{prompt}"), "image_path": format!("images/{id}.png"),
            "model": {"pipeline": "txt2img", "model_id": "toybox", "revision": null},
            "gen_params": {"seed": if method == "best-of-4" { seed + 100 } else { seed }, "height": 32, "width": 32, "num_inference_steps": 4, "guidance_scale": 7.5, "scheduler": "ddim", "negative_prompt": null},
            "prompt": text, "relation": relation, "object_a": a, "object_b": b, "timestamp_utc": "2026-01-01T00:00:00Z",
            "code_version": {"prepose": "0", "burn": "0", "device": "flex", "git_commit": null}}),
        record: json!({
            "sample_id": id, "prompt_id": format!("p{prompt}"), "relation": relation, "object_a": a, "object_b": b,
            "verdict_raw": verdict, "verdict_reason": if decided { Value::Null } else { json!("missing: cat") },
            "conf": if decided { 0.75 } else { 0.0 },
            "conf_components": {"detection": 0.9, "geometry": 1.0, "stability": 1.0, "agreement": 1.0},
            "detectors": {"primary": {"type": "toybox", "detections": [
                {"label": a, "score": 0.9, "box_xyxy": boxes[0], "segmentation": {"size": [32, 32], "counts": "Z4:f00000000000000fc0"}}, {"label": b, "score": 0.8, "box_xyxy": boxes[1]}]}},
            "selected": {"box_a_xyxy": boxes[0], "box_b_xyxy": boxes[1], "score_a": 0.9, "score_b": 0.8},
            "geometry": {"delta": -0.5, "margin": 0.1, "iou_ab": 0.0}, "overlay_path": null, "image_size": [32, 32]}),
        scores: json!({
            "sample_id": id, "prompt_id": format!("p{prompt}"), "seed": seed, "unet_calls": if method == "best-of-4" { 16 } else { 4 },
            "guided_calls": 0, "candidates": if method == "best-of-4" { 4 } else { 1 }, "seconds": 0.5, "found": 1 + usize::from(decided),
            "objects": 2, "each_found": [true, decided], "centre": if decided { json!(passes) } else { Value::Null }, "geneval": decided && passes,
            "t2i": 0.5, "hrs": null, "pse": 0.75, "side": null, "level": null}),
        id,
    }
}

fn jobs() -> impl Iterator<Item = (usize, usize, usize, u64)> {
    let each = (0..METHODS.len())
        .flat_map(|m| (0..PROMPTS).flat_map(move |p| (0..SEEDS).map(move |s| (m, p, s))));
    each.enumerate()
        .map(|(index, (method, prompt, seed))| (index, method, prompt, seed))
}

fn write_head(run: &Path, shard: Value) {
    let methods: Vec<Value> = METHODS.iter().map(|name| json!({"name": name})).collect();
    let config = json!({"suite": {"name": "made", "version": "1", "sha256": "0"}, "prompts": PROMPTS, "seeds": (0..SEEDS).collect::<Vec<_>>(),
        "methods": methods, "checkpoint": {"name": HOSTILE, "sha256": "0"}, "shard": shard});
    write(run.join("run.json"), config.to_string());
    let prompts: Vec<Value> = (0..PROMPTS)
        .map(|p| {
            let manifest = made("psg", p, 0).manifest;
            json!({"prompt_id": format!("p{p}"), "prompt": manifest["prompt"], "objects": [manifest["object_a"], manifest["object_b"]],
                "relations": [{"relation": manifest["relation"], "a": 0, "b": 1}]})
        })
        .collect();
    write(run.join("prompts.jsonl"), lines(&prompts));
    write(
        run.join("provenance/1.json"),
        json!({"command": ["prepose", HOSTILE]}).to_string(),
    );
}

/// A run with the pictures of `done`; those of `folded` methods are in the released files and the others still apart.
pub fn write_run(
    run: &Path,
    shard: Value,
    done: impl Fn(usize) -> bool,
    folded: impl Fn(usize) -> bool,
) {
    write_head(run, shard);
    for (m, method) in METHODS.iter().enumerate() {
        let all: Vec<(usize, Made)> = jobs()
            .filter(|(index, job, ..)| *job == m && done(*index))
            .map(|(index, _, prompt, seed)| (index, made(method, prompt, seed)))
            .collect();
        let folder = run.join(method);
        for (index, one) in &all {
            write(folder.join(format!("images/{}.png", one.id)), png());
            if !folded(m) {
                let sample = json!({"index": index, "manifest": one.manifest, "records": [one.record], "scores": one.scores});
                write(
                    folder.join(format!("samples/{index:06}.json")),
                    sample.to_string(),
                );
            }
        }
        if folded(m) {
            let of = |part: fn(&Made) -> &Value| {
                lines(
                    &all.iter()
                        .map(|(_, one)| part(one).clone())
                        .collect::<Vec<_>>(),
                )
            };
            write(folder.join("manifest.jsonl"), of(|one| &one.manifest));
            write(folder.join("eval/per_sample.jsonl"), of(|one| &one.record));
            write(folder.join("eval/scores.jsonl"), of(|one| &one.scores));
        }
    }
}

pub fn finished(run: &Path) {
    write_run(run, Value::Null, |_| true, |_| true);
}
