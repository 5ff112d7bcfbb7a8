//! `prepose scene refine`: draw, look, draw what is missing, and draw again with both in sight. Runs offline, with tiny random networks
//! whose pictures show nothing, so that everything is missing.

use std::fs;
use std::path::Path;

use prepose::remote::stub::{Reply, Stub};
use serde_json::{Value, json};

use crate::program::{prepose_in, refuses, stderr, works};
use crate::support::fixture;

fn path(name: &str) -> String {
    fixture(name).to_string_lossy().into_owned()
}

fn refine(more: &[&str]) -> Vec<String> {
    refine_by("oracle", more)
}

fn refine_by(judge: &str, more: &[&str]) -> Vec<String> {
    let (checkpoint, adapter) = (
        path("single-file/sd1"),
        path("ip-adapter/plus_sd1.safetensors"),
    );
    let first = ["scene", "refine"];
    let last = [
        "--judge",
        judge,
        "-c",
        &checkpoint,
        "--ip-adapter",
        &adapter,
        "--size",
        "48x32",
        "--steps",
        "2",
        "--device",
        "flex",
        "--json",
        "--out",
        "out",
    ];
    let all = first.iter().chain(more).chain(&last);
    all.map(ToString::to_string).collect()
}

fn said(folder: &Path, args: &[String]) -> Value {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    serde_json::from_str(&works(folder, &args)).unwrap()
}

fn request(path: &Path) -> Value {
    serde_json::to_value(prepose::output::png::read_request(path).unwrap()).unwrap()
}

#[test]
fn what_is_missing_is_drawn_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let edge = json!({"source": "dog.1", "target": "cat.1", "relation": "left of"});
    let graphs = [
        json!({"id": "a", "objects": ["dog.1", "cat.1"], "relationships": [edge]}),
        json!({"id": "b/c", "objects": ["cup.1"], "relationships": []}),
    ];
    fs::write(
        folder.join("g.jsonl"),
        graphs.map(|graph| format!("{graph}\n")).concat(),
    )
    .unwrap();
    let args = refine(&["g.jsonl"]);
    let told = said(folder, &args);
    let row = |name: &str| {
        let rows = told["feedback"].as_array().unwrap();
        rows.iter()
            .find(|row| row["model"] == name || row["method"] == name)
            .cloned()
    };
    assert!(
        row("first").is_some() && row("feedback").is_some(),
        "{told}"
    );
    let lines = fs::read_to_string(folder.join("out/judged.jsonl")).unwrap();
    let line: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(line["first"]["object_recall"], 0.0);
    assert_eq!(line["reference_prompt"], "dog left of cat");

    let out = folder.join("out");
    let [first, missing, last] =
        ["first", "missing", "last"].map(|stage| request(&out.join(stage).join("00001.png")));
    assert_eq!(first["prompt"], "dog left of cat");
    assert!(first["pictures"].is_null() && missing["pictures"].is_null());
    let [first_seed, missing_seed, last_seed] = [&first, &missing, &last].map(|one| &one["seed"]);
    assert_eq!(first_seed, last_seed);
    assert_ne!(first_seed, missing_seed);
    let shown = last["pictures"].as_array().unwrap();
    assert_eq!(shown.len(), 2);
    for (picture, stage) in shown.iter().zip(["first", "missing"]) {
        assert_eq!(picture["scale"], 0.5);
        assert_eq!(picture["own_softmax"], true);
        let path = picture["path"].as_str().unwrap();
        assert!(path.contains(&format!("{stage}/00001.png")), "{path}");
    }
    assert_eq!(request(&out.join("missing/00002.png"))["prompt"], "cup");
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.contains("last/00001.png") && page.contains("Missing: dog left of cat"));
    // What it writes can be compared.
    let judged = [
        "scene",
        "compare",
        "out/judged/first",
        "out/judged/feedback",
        "--with",
        "feedback",
        "--json",
    ];
    assert!(works(folder, &judged).contains("feedback"));

    // Made once: the same command asks and draws nothing anew, and one that was killed goes on.
    let before = fs::read(out.join("last/00001.png")).unwrap();
    fs::remove_file(out.join("last/00002.png")).unwrap();
    let again = said(folder, &args);
    assert_eq!(fs::read(out.join("last/00001.png")).unwrap(), before);
    assert!(out.join("last/00002.png").is_file());
    assert_eq!(again["feedback"], told["feedback"]);
    let guided = [&args[..], &["--guide".into(), "pos".into()]].concat();
    let guided: Vec<&str> = guided.iter().map(String::as_str).collect();
    refuses(folder, &guided, &["different guide", "--out"]);
    let others = [&args[..], &["--seed".into(), "5".into()]].concat();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    refuses(folder, &others, &["different seed", "--out"]);
}

/// What is missing, and so what is drawn, goes by whoever looks, and by how they are asked; a port of this machine says nothing.
#[test]
fn another_judge_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let stubs = [0, 1].map(|_| Stub::start(|_| Reply::chat("No")).unwrap());
    let by = |stub: &Stub, more: &[&str]| {
        let url = format!("{}/v1", stub.address);
        let words = [&["a dog", "--judge-model", "vlm"][..], more].concat();
        refine_by(&url, &words)
    };
    said(folder, &by(&stubs[0], &[]));
    for (more, what) in [
        (
            ["--temperature", "0.5"],
            "judge_settings.request.temperature",
        ),
        (["--judge-seed", "1"], "judge_settings.request.seed"),
        (["--largest", "64"], "judge_settings.largest"),
        (["--judge-as", "ours"], "judge_settings.server"),
    ] {
        let args = by(&stubs[0], &more);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let told = format!("different {what};");
        refuses(folder, &args, &[told.as_str(), "--out"]);
    }
    said(folder, &by(&stubs[1], &[]));
}

/// Only what is drawn again, and only by relations that attention shows.
#[test]
fn what_is_drawn_again_can_be_guided() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let edge = |relation: &str| json!({"source": "dog.1", "target": "cat.1", "relation": relation});
    let graphs = ["to the left of", "behind", "holding"].map(|relation| {
        json!({"id": relation, "objects": ["dog.1", "cat.1"], "relationships": [edge(relation)]})
    });
    let text = graphs.map(|graph| format!("{graph}\n")).concat();
    fs::write(folder.join("g.jsonl"), text).unwrap();
    said(folder, &refine(&["g.jsonl", "--guide", "pos"]));
    let guided = |stage: &str, number: usize| {
        let path = folder.join(format!("out/{stage}/{number:05}.png"));
        let request = request(&path);
        (
            request["guide"]["method"].clone(),
            request["relations"].clone(),
        )
    };
    let none = (Value::Null, Value::Null);
    assert_eq!(guided("first", 1), none);
    for stage in ["missing", "last"] {
        let wanted = (json!("pos"), json!(["dog | left of | cat"]));
        assert_eq!(guided(stage, 1), wanted, "{stage}");
        assert_eq!(guided(stage, 2), none, "{stage}");
        assert_eq!(guided(stage, 3), none, "{stage}");
    }
    let wrong = refine(&["g.jsonl", "--guide", "nothing"]);
    let wrong: Vec<&str> = wrong.iter().map(String::as_str).collect();
    refuses(folder, &wrong, &["--guide", "nothing"]);
}

/// A text has its own words, and a graph two things of one name.
#[test]
fn what_the_text_has_no_words_for_does_not_guide() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let edge = |source: &str, relation: &str, target: &str| json!({"source": source, "target": target, "relation": relation});
    let graphs = [
        json!({"id": "1", "objects": ["dog.1", "cat.1"], "relationships": [edge("dog.1", "left of", "cat.1")]}),
        json!({"id": "2", "objects": ["dog.1", "cat.1", "cup.1"], "relationships": [
            edge("dog.1", "left of", "cat.1"), edge("cup.1", "above", "cat.1"),
        ]}),
        json!({"id": "3", "objects": ["dog.1", "dog.2"], "relationships": [edge("dog.1", "left of", "dog.2")]}),
    ];
    let texts = [
        "A puppy sits by a cat.",
        "A puppy, and a cup above a cat.",
        "Two dogs.",
    ];
    let lines = graphs.map(|graph| format!("{graph}\n")).concat();
    fs::write(folder.join("g.jsonl"), lines).unwrap();
    let lines = (1..).zip(texts).map(|(id, text)| {
        let line = json!({"id": id.to_string(), "prompt": text});
        format!("{line}\n")
    });
    fs::write(folder.join("t.jsonl"), lines.collect::<String>()).unwrap();
    let told = said(
        folder,
        &refine(&["g.jsonl", "--texts", "t.jsonl", "--guide", "pos"]),
    );
    let note = told["notes"][1].as_str().unwrap();
    assert!(note.starts_with("3 of the pictures drawn again"), "{told}");
    let relations = |number: usize| {
        let path = folder.join(format!("out/last/{number:05}.png"));
        request(&path)["relations"].clone()
    };
    assert_eq!(relations(1), Value::Null);
    assert_eq!(relations(2), json!(["cup | above | cat"]));
    assert_eq!(relations(3), Value::Null);
    // What is missing is drawn by the graph's own words.
    let missing = request(&folder.join("out/missing/00001.png"));
    assert_eq!(missing["relations"], json!(["dog | left of | cat"]));
}

#[test]
fn a_prompt_will_do_and_wrong_input_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let told = said(folder, &refine(&["a dog above a cat", "--scales", "0.5,0"]));
    assert!(
        told["notes"][0].as_str().unwrap().contains("drawn again"),
        "{told}"
    );
    let last = request(&folder.join("out/last/00001.png"));
    assert_eq!(last["pictures"].as_array().unwrap().len(), 1);
    assert_eq!(last["prompt"], "a dog above a cat");

    let checkpoint = path("single-file/sd1");
    let plain = [
        "scene", "refine", "a dog", "--judge", "oracle", "--out", "x",
    ];
    let other = [&plain[..], &["-c", &checkpoint]].concat();
    refuses(folder, &other, &["--ip-adapter FILE"]);
    for (more, says) in [
        (&["none.jsonl"][..], "no file none.jsonl"),
        (&["a dog", "--texts", "t.jsonl"], "--texts"),
        (&["a dog", "--ip-picture", "x.png"], "--ip-picture"),
        (&["a dog", "--alpha", "2"], "--alpha"),
    ] {
        let args = refine(more);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        refuses(folder, &args, &[says]);
    }
    let scales = prepose_in(
        folder,
        &["scene", "refine", "a dog", "--scales", "1", "--out", "y"],
    );
    assert!(stderr(&scales).contains("two numbers"));
}

#[test]
fn the_toybox_is_shown_pictures_by_its_own_adapter() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // After two steps nothing can be made out.
    let words = [
        "scene",
        "refine",
        "a dog to the left of a cat",
        "--judge",
        "oracle",
    ];
    let more = ["--device", "flex", "--steps", "2", "--json", "--out", "out"];
    let args = [&words[..], &more].concat();
    let told: Value = serde_json::from_str(&works(folder, &args)).unwrap();
    assert!(
        told["notes"][0]
            .as_str()
            .unwrap()
            .contains("1 were drawn again"),
        "{told}"
    );
    let last = request(&folder.join("out/last/00001.png"));
    assert_eq!(last["model"]["adapters"][0]["path"], "toybox");
    assert_eq!(last["pictures"].as_array().unwrap().len(), 2);

    // The same by hand; without a word of it, and by name.
    let picture = "out/first/00001.png";
    let make = |more: &[&str], name: &str| {
        let words = [
            "generate", "a dog", "--device", "flex", "--steps", "2", "--seed", "3", "-o", name,
        ];
        works(folder, &[&words[..], more].concat());
        image::open(folder.join(name)).unwrap().into_rgb8()
    };
    let shown = make(&["--ip-picture", picture], "shown.png");
    assert_ne!(shown, make(&[], "plain.png"));
    assert_eq!(
        shown,
        make(
            &["--ip-picture", picture, "--ip-adapter", "toybox"],
            "named.png"
        )
    );
    works(
        folder,
        &[
            "generate",
            "--again",
            "shown.png",
            "--device",
            "flex",
            "-o",
            "again.png",
        ],
    );
    assert_eq!(
        image::open(folder.join("again.png")).unwrap().into_rgb8(),
        shown
    );
    let about = works(folder, &["info", "toybox"]);
    assert!(about.contains("ip-adapter"), "{about}");
    let about = works(folder, &["info", "toybox-clip"]);
    assert!(about.contains("CLIP"), "{about}");
}
