//! Options that leave out parts of the network's calls: in pictures, made again, in runs, and in messages.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::program::{refuses, works};

const PROMPT: &str = "a dog to the left of a cat";

fn request(folder: &Path, name: &str) -> Value {
    let info: Value = serde_json::from_str(&works(folder, &["info", name, "--json"])).unwrap();
    info["request"].clone()
}

#[test]
fn pictures_carry_what_was_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let draw = |name: &str, more: &[&str]| {
        let args = [
            "-q", "generate", PROMPT, "--steps", "5", "--seed", "7", "-o", name,
        ];
        works(folder, &[&args[..], more].concat());
        fs::read(folder.join(name)).unwrap()
    };
    let all = [
        "--deep-cache",
        "2:1",
        "--tgate",
        "0.6",
        "--token-merging",
        "0.5",
        "--timestep-spacing",
        "trailing",
        "--guide",
        "pos",
        "--guide-steps",
        "2",
        "--guide-every",
        "2",
    ];
    let made = draw("a.png", &all);
    let stored = request(folder, "a.png");
    let savings =
        json!({"deep_cache": {"every": 2, "branch": 1}, "tgate": 0.6, "token_merging": 0.5});
    assert_eq!(stored["savings"], savings);
    assert_eq!(stored["timestep_spacing"], "trailing");
    assert_eq!(stored["guide"]["every"], 2);
    let again = |name: &str, more: &[&str]| {
        let args = ["-q", "generate", "--again", "a.png", "-o", name];
        works(folder, &[&args[..], more].concat());
        fs::read(folder.join(name)).unwrap()
    };
    assert_eq!(again("same.png", &[]), made);
    again("fewer.png", &["--tgate", "off", "--token-merging", "0.25"]);
    let savings = json!({"deep_cache": {"every": 2, "branch": 1}, "token_merging": 0.25});
    assert_eq!(request(folder, "fewer.png")["savings"], savings);
    // Without any of them it is what it would have been.
    let off = [
        "--deep-cache",
        "off",
        "--tgate",
        "off",
        "--token-merging",
        "off",
        "--timestep-spacing",
        "leading",
        "--no-guide",
    ];
    again("off.png", &off);
    assert_eq!(request(folder, "off.png").get("savings"), None);
    let plain = draw("plain.png", &["--timestep-spacing", "leading"]);
    assert_eq!(fs::read(folder.join("off.png")).unwrap(), plain);
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    for (more, why) in [
        (&["--deep-cache", "1"][..], "at least 2"),
        (&["--deep-cache", "x"], "such as 3"),
        (&["--tgate", "5"], "must be 1 to 4"),
        (&["--token-merging", "0.8"], "at most 0.75"),
        (
            &["--deep-cache", "2", "--guide", "pos"],
            "a guided step runs the whole network",
        ),
        (&["--tgate", "2", "--guide", "pos"], "until step 4"),
        (
            &["--guide", "layout", "--guide-every", "2"],
            "--guide-refine false",
        ),
        (
            &["--guide", "pos", "--guide-extrapolate"],
            "--guide-every N",
        ),
        (
            &["--scheduler", "tcd", "--timestep-spacing", "trailing"],
            "distilled",
        ),
        (
            &[
                "--scheduler",
                "dpmpp_2m_karras",
                "--timestep-spacing",
                "trailing",
            ],
            "Karras",
        ),
    ] {
        let args = ["generate", PROMPT, "--steps", "5", "-o", "a.png"];
        refuses(folder.path(), &[&args[..], more].concat(), &[why]);
    }
}

#[test]
fn methods_of_a_run_leave_out_what_they_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let args = [
        "-q",
        "run",
        "spatialbench-uc",
        "--limit",
        "1",
        "--seeds",
        "0,1",
        "--steps",
        "5",
        "--checker",
        "none",
        "--token-merging",
        "0.5",
        "--method",
        "prompt-only,deep-cache-3+tgate-2",
        "--out",
        "run",
    ];
    works(folder, &args);
    let settings: Value =
        serde_json::from_slice(&fs::read(folder.join("run/run.json")).unwrap()).unwrap();
    assert_eq!(
        settings["sampling"]["savings"],
        json!({"token_merging": 0.5})
    );
    let rows = |method: &str| {
        let scores = fs::read_to_string(folder.join("run").join(method).join("eval/scores.jsonl"));
        let scores = scores.unwrap();
        let first: Value = serde_json::from_str(scores.lines().next().unwrap()).unwrap();
        first["unet_rows"].clone()
    };
    assert_eq!(rows("prompt-only"), json!([10, 0]));
    // Whole: both halves of steps 0 and 1, and one row of step 2.
    assert_eq!(rows("deep-cache-3+tgate-2"), json!([5, 2]));
    let manifest =
        fs::read_to_string(folder.join("run/deep-cache-3+tgate-2/manifest.jsonl")).unwrap();
    let line: Value = serde_json::from_str(manifest.lines().next().unwrap()).unwrap();
    let name = Path::new(line["image_path"].as_str().unwrap()).file_name();
    let name = name.unwrap().to_str().unwrap();
    let picture = format!("run/deep-cache-3+tgate-2/images/{name}");
    let savings = json!({"deep_cache": {"every": 3}, "tgate": 2, "token_merging": 0.5});
    assert_eq!(request(folder, &picture)["savings"], savings);
}
