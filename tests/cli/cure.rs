//! `prepose ots cure`, as small as it can be: what it leaves, what it refuses, and what is left when it is killed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::program::{prepose, refuses, works};

/// Three pairs to train on, one that is measured, two steps of training.
const SMALL: &str = "ots cure --with-sides --most-pairs 3 --pair-seeds 0,1 --most-prompts 2 --seeds 0 --steps 8 \
                     --train-steps 2 --train-batch 2 --rank 2 --batch 4 --device flex";

fn args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SMALL.split_whitespace().collect::<Vec<_>>()[..], more].concat()
}

fn results(out: &Path) -> Value {
    let text = fs::read_to_string(out.join("results/cure.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn events(told: &str) -> Vec<Value> {
    let lines = told.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

fn stages(told: &str) -> Vec<String> {
    let events = events(told);
    let stages = events.iter().filter(|event| event["event"] == "stage");
    stages
        .map(|event| event["stage"].as_str().unwrap().to_owned())
        .collect()
}

/// Ends the program as soon as it tells something.
fn kill_at(folder: &Path, args: &[&str], event: &str, stage: &str) {
    let mut program = prepose()
        .args(args)
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let told = BufReader::new(program.stdout.take().unwrap());
    let mut current = String::new();
    let mut seen = false;
    for line in told.lines() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if line["event"] == "stage" {
            current = line["stage"].as_str().unwrap().to_owned();
        }
        if line["event"] == event && current == stage {
            program.kill().unwrap();
            seen = true;
            break;
        }
    }
    let ended = program.wait().unwrap();
    assert!(seen, "there was no {event} of {stage}");
    assert!(!ended.success(), "{event} of {stage}");
}

#[test]
fn a_cure_is_measured_and_goes_on_after_kills() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let whole = args(&["--by", "mirror,exchange", "--out", "whole", "--json"]);
    let told = works(folder, &whole);
    assert_eq!(
        stages(&told),
        [
            "pairs",
            "train control",
            "train mirror",
            "train exchange",
            "measure before",
            "measure control",
            "measure mirror",
            "measure exchange"
        ]
    );
    let found = results(&folder.join("whole"));
    assert_eq!(events(&told).last().unwrap()["results"], found);

    let pairs = &found["pairs"];
    assert_eq!(pairs["pictures"], 12);
    let kept = pairs["kept"].as_u64().unwrap();
    // Each picture with its own caption, and with two that say a side.
    assert!(kept > 0 && pairs["samples"] == 3 * kept, "{pairs}");
    let samples = |name: &str| {
        let text = fs::read_to_string(folder.join(format!("whole/trained/{name}/training.json")));
        serde_json::from_str::<Value>(&text.unwrap()).unwrap()["samples"].clone()
    };
    assert_eq!(samples("control"), 3 * kept);
    assert_eq!(
        (samples("mirror"), samples("exchange")),
        (Value::from(6 * kept), Value::from(6 * kept))
    );
    let lines = fs::read_to_string(folder.join("whole/samples.jsonl")).unwrap();
    assert!(
        lines.contains(" to the left of ") && lines.contains(" to the right of "),
        "{lines}"
    );

    let arms = found["arms"].as_array().unwrap();
    let names: Vec<&str> = arms
        .iter()
        .map(|arm| arm["arm"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["before", "control", "mirror", "exchange"]);
    for arm in arms {
        assert_eq!(
            (&arm["neutral"]["pictures"], &arm["stated"]),
            (&Value::from(2), &Value::from(2))
        );
        assert!(arm["distance"]["value"][0].is_number(), "{arm}");
    }
    assert!(arms[0]["figures"][0]["change"].is_null());
    let page = fs::read_to_string(folder.join("whole/results/cure.md")).unwrap();
    assert!(
        page.contains("| exchange |") && page.contains("published: Qwen-Image (SFT)"),
        "{page}"
    );

    // Killed while pictures are made, and while a LoRA is trained, it ends the same.
    let killed = args(&["--by", "exchange", "--out", "killed", "--json"]);
    kill_at(folder, &killed, "stage", "pairs");
    kill_at(folder, &killed, "step", "train control");
    works(folder, &killed);
    let again = results(&folder.join("killed"));
    assert_eq!(again["pairs"], found["pairs"]);
    let arm = |found: &Value, name: &str| {
        let mut arms = found["arms"].as_array().unwrap().iter();
        arms.find(|arm| arm["arm"] == name).unwrap().clone()
    };
    for name in ["before", "control", "exchange"] {
        assert_eq!(arm(&again, name), arm(&found, name), "{name}");
    }
    let lora =
        |out: &str| fs::read(folder.join(out).join("trained/exchange/state.safetensors")).unwrap();
    assert_eq!(lora("killed"), lora("whole"));

    // What is done is not done again, and another kind of flips is added to it.
    let told = works(
        folder,
        &args(&["--by", "mirror", "--out", "killed", "--json"]),
    );
    assert_eq!(stages(&told), ["train mirror", "measure mirror"]);
    assert_eq!(
        arm(&results(&folder.join("killed")), "mirror"),
        arm(&found, "mirror")
    );

    // The pictures of a run are trained on as well; what they show is not measured.
    let taken = "ots cure --with-sides --pairs whole/pairs --most-prompts 2 --seeds 0 --steps 8 --train-steps 2 --train-batch 2 \
                 --rank 2 --device flex --out taken";
    works(folder, &taken.split_whitespace().collect::<Vec<_>>());
    let taken = results(&folder.join("taken"));
    assert_eq!(taken["pairs"], found["pairs"]);

    let other = args(&["--train-rate", "0.5", "--out", "killed"]);
    refuses(
        folder,
        &other,
        &[
            "killed has another cure",
            "recipe.rate.peak is 0.001 there and 0.5 here",
        ],
    );
    let lock = File::options()
        .append(true)
        .open(folder.join("killed/lock"))
        .unwrap();
    lock.lock().unwrap();
    refuses(folder, &killed, &["another cure is at work in killed"]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let refused = |more: &str, parts: &[&str]| {
        let args = format!("ots cure --device flex --out none {more}");
        refuses(folder, &args.split(' ').collect::<Vec<_>>(), parts);
    };
    refused("--checker none", &["--checker none sees nothing"]);
    refused("--every 2", &["--most-prompts and --most-pairs"]);
    refused("--shard 0/2", &["no shards"]);
    refused("--lora a.safetensors", &["--lora changes the checkpoint"]);
    refused("--by exchange,exchange", &["names the same one twice"]);
    refused("--by mirror,exchange,mirror", &["names the same one twice"]);
    refused("--by turning", &["turning", "mirror", "exchange"]);
    refused("--most-prompts 1", &["--most-prompts is 1"]);
    refused("--suite spatialbench-uc", &["do not just name two objects"]);
    refused("--most-prompts 9999", &["too few pairs"]);
    refused("--features nowhere", &["cannot use --features nowhere"]);
    refused("--rank 0", &["rank", "0"]);
    // What it never takes is not offered.
    let help = works(folder, &["ots", "cure", "--help"]);
    for hidden in [
        "s3://",
        "--every",
        "--limit",
        "--shard",
        "--pictures",
        "--endpoint",
    ] {
        assert!(!help.contains(hidden), "{hidden}: {help}");
    }
    let help = works(folder, &["train", "steer", "--help"]);
    assert!(help.contains("--pictures <RUN>"), "{help}");
    for hidden in ["s3://", "--shard", "--endpoint", "--layout"] {
        assert!(!help.contains(hidden), "{hidden}: {help}");
    }
    refused("--layout-share 2", &["--layout-share is 2", "from 0 to 1"]);
    let pairs = "ots cure --pairs nowhere --device flex --out none";
    refuses(
        folder,
        &pairs.split(' ').collect::<Vec<_>>(),
        &["--pairs nowhere is not a run"],
    );
    assert!(!folder.join("none").exists(), "nothing is begun");
    let shown = works(folder, &args(&["--recipe", "--out", "none"]));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        (&shown["recipe"]["batch"], &shown["with_sides"]),
        (&Value::from(2), &Value::from(true))
    );
    assert_eq!(
        shown["recipe"]["timesteps"],
        serde_json::json!({"layout": 0.7})
    );
    assert!(!folder.join("none").exists(), "nothing is begun");
}
