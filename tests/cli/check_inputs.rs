//! What `prepose check` takes: folders, relations alone, manifests by anybody, lines of earlier pictures.
#![cfg(feature = "toybox")]

use std::fs;
use std::path::Path;
use std::process::Output;

use prepose::output::png;
use prepose::picture::Picture;
use prepose::request::{PromptSwitch, Request};
use serde_json::{Value, json};

use crate::check_pictures::{check, dog_cat, records};
use crate::program::{stderr, stdout, with_input};

/// The docs' picture without what it says of itself, as of another program.
fn put_plain(folder: &Path, names: &[&str]) {
    let picture = Picture::decode(&fs::read(dog_cat()).unwrap()).unwrap();
    for name in names {
        png::save_plain(&folder.join(name), &picture).unwrap();
    }
}

fn verdicts(output: &Output) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let records = records(output).into_iter();
    records
        .map(|record| (text(&record["sample_id"]), text(&record["verdict"])))
        .collect()
}

fn expected<const N: usize>(all: [(&str, &str); N]) -> Vec<(String, String)> {
    all.map(|(id, verdict)| (id.to_owned(), verdict.to_owned()))
        .to_vec()
}

/// As guidance reads it; a relation that is given is about all parts where the first does not name it.
#[test]
fn a_composed_prompt_asks_for_its_first_part() {
    let folder = tempfile::tempdir().unwrap();
    put_plain(folder.path(), &["a.png"]);
    let passes = |more: &[&str]| {
        let output = check(folder.path(), &[&["a.png", "--json"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(verdicts(&output), expected([("a", "PASS")]), "{more:?}");
    };
    let checker = ["--checker", "toybox", "--prompt"];
    passes(&[&checker[..], &["a dog left of a cat AND a bird :0.5"]].concat());
    let given = ["a dog AND a cat", "--relation", "dog | left of | cat"];
    passes(&[&checker[..], &given].concat());
    let given = ["a dog and a cat AND a dog", given[1], given[2]];
    passes(&[&checker[..], &given].concat());
}

#[test]
fn manifests_are_read_line_by_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("run")).unwrap();
    let names: Vec<String> = (1..10).map(|n| format!("{n}.png")).collect();
    put_plain(
        &folder.path().join("run"),
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let lines = [
        json!({"sample_id": "released", "relation": "left_of", "object_a": "dog", "object_b": "cat", "prompt": "whatever"}),
        json!({"sample_id": "ours", "relation": null, "object_a": null, "object_b": null, "prompt": "a cat to the right of a dog"}),
        json!({"sample_id": "released", "prompt": "a dog above a cat"}),
        json!({"relation": "left_of", "object_a": "zebras and unicorns", "object_b": "cat"}),
        json!({"relation": "inside", "object_a": "dog", "object_b": "cat"}),
        json!({"relation": "left_of", "object_a": "dog"}),
        json!({}),
        json!({"prompt": "a dog far from a cat"}),
    ];
    let lines = lines.into_iter().zip(1..).map(|(mut line, number)| {
        line["image_path"] = json!(format!("{number}.png"));
        line.to_string()
    });
    let text = lines
        .chain(["{".to_owned()])
        .collect::<Vec<_>>()
        .join("\r\n");
    fs::write(folder.path().join("run/manifest.jsonl"), text).unwrap();
    let output = check(
        folder.path(),
        &["--manifest", "run/manifest.jsonl", "--json"],
    );
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    for part in [
        "error: run/manifest.jsonl, line 3: \"released\" is in line 1 already",
        "skipped: run/manifest.jsonl, line 4: ",
        "it knows: zebra",
        "error: run/manifest.jsonl, line 5: ",
        "line 6: relation, object_a and object_b go together",
        "line 7: neither a \"prompt\"",
        "skipped: run/manifest.jsonl, line 8: ",
        "line 9: it is not a JSON object",
    ] {
        assert!(message.contains(part), "{message} lacks {part:?}");
    }
    assert_eq!(
        verdicts(&output),
        expected([("released", "PASS"), ("ours", "PASS")])
    );
}

/// The lines of a run name objects as their prompts do, with adjectives, in the plural and numbered.
#[test]
fn lines_of_a_run_name_objects_as_their_prompts_do() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        (Some("a red dog left of a cat"), "red dog", "cat"),
        (Some("two dogs left of cats"), "dogs", "cats"),
        (Some("a dog and a dog left of a cat"), "dog#2", "cat"),
        // The prompt does not name them, or there is none.
        (Some("whatever"), "two red dogs", "cat#1"),
        (None, "a red dog", "cats"),
    ];
    let names: Vec<String> = (1..6).map(|n| format!("{n}.png")).collect();
    put_plain(
        folder.path(),
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let lines = lines.into_iter().zip(&names).map(|((prompt, a, b), name)| {
        json!({"image_path": name, "prompt": prompt, "relation": "left_of", "object_a": a, "object_b": b})
            .to_string()
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    fs::write(folder.path().join("m.jsonl"), text).unwrap();
    let output = check(folder.path(), &["--manifest", "m.jsonl", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let passed = ["1", "2", "3", "4", "5"].map(|id| (id, "PASS"));
    assert_eq!(verdicts(&output), expected(passed));
}

/// What states nothing, or something that the detector does not know, is no mistake.
#[test]
fn what_cannot_be_asked_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    put_plain(folder.path(), &["a.png", "b.png", "c.png", "d.png"]);
    let lines = [
        json!({"image_path": "a.png", "prompt": "a dog to the left of a cat"}),
        json!({"file_name": "b.png", "text": "a dog"}),
        json!({"path": "c.png", "prompt": "a dog to the left of a cat and above a unicorn"}),
        json!({"image_path": "d.png", "prompt": "a unicorn above a cat"}),
    ];
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs::write(folder.path().join("m.jsonl"), text.join("\n")).unwrap();
    let output = check(folder.path(), &["--manifest", "m.jsonl"]);
    let (out, message) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(
        message.contains("skipped: m.jsonl, line 2: no relation is stated"),
        "{message}"
    );
    assert!(
        message.contains(
            "skipped: m.jsonl, line 3 (and 1 more): the checker does not know \"unicorn\""
        ),
        "{message}"
    );
    assert!(
        out.contains("2 in all: 2 PASS") && out.contains("skipped: 3"),
        "{out}"
    );
    // Quiet is about standard error.
    let output = check(folder.path(), &["--manifest", "m.jsonl", "--quiet"]);
    assert_eq!((stdout(&output), stderr(&output)), (out, String::new()));
    // A relation that nobody decided did not pass.
    let output = check(folder.path(), &["--manifest", "m.jsonl", "--strict"]);
    assert_eq!(output.status.code(), Some(1));
    fs::write(folder.path().join("m.jsonl"), text[..2].join("\n")).unwrap();
    let output = check(folder.path(), &["--manifest", "m.jsonl", "--strict"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    fs::write(folder.path().join("m.jsonl"), &text[1]).unwrap();
    let output = check(folder.path(), &["--manifest", "m.jsonl"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("nothing was checked"));
}

/// Where the checker's rule has nothing to say, a published one does.
#[test]
fn published_rules_answer_what_the_checker_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    put_plain(
        folder,
        &["a.png", "b.png", "c.png", "d.png", "e.png", "f.png"],
    );
    fs::create_dir(folder.join("depth")).unwrap();
    // The dog, on the left, is nearer.
    let nearer = image::GrayImage::from_fn(128, 128, |x, _| {
        image::Luma([if x < 64 { 200 } else { 20 }])
    });
    nearer.save(folder.join("depth/e.png")).unwrap();
    let lines = [
        json!({"image_path": "a.png", "prompt": "a cat and a dog"}),
        json!({"image_path": "b.png", "prompt": "a dog near a cat"}),
        json!({"image_path": "c.png", "prompt": "a dog between a cat and a zebra"}),
        json!({"image_path": "d.png", "prompt": "a dog in front of a cat"}),
        json!({"image_path": "e.png", "prompt": "a dog in front of and to the left of a cat"}),
        json!({"image_path": "f.png", "prompt": "a dog to the left of a cat"}),
    ];
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs::write(folder.join("m.jsonl"), text.join("\n")).unwrap();
    let args = [
        "--manifest",
        "m.jsonl",
        "--depth",
        "depth",
        "--out",
        "seen",
        "--json",
    ];
    let output = check(folder, &args);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(
        message.contains("line 4: \"dog in front of cat\" is about depth"),
        "{message}"
    );
    let said = fs::read_to_string(folder.join("seen/rules.jsonl")).unwrap();
    let said: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |id: &str| said.iter().find(|line| line["sample_id"] == id);
    let side = of("a").unwrap();
    assert_eq!(
        (&side["rule"], &side["note"]),
        (&json!("homogenization"), &json!("right"))
    );
    let near = of("b").unwrap();
    assert_eq!(
        (&near["rule"], &near["about"]),
        (&json!("t2i-compbench"), &json!("dog near cat"))
    );
    assert!(near["score"].as_f64().unwrap() > 0.9, "{near}");
    let between = of("c").unwrap();
    assert_eq!(
        (&between["score"], &between["missing"]),
        (&json!(0.0), &json!(["zebra"]))
    );
    assert!(of("d").is_none());
    assert_eq!(of("e").unwrap()["rule"], "t2i-compbench-3d");
    // Only what the checker itself decides is in its records.
    let records = fs::read_to_string(folder.join("seen/per_sample.jsonl")).unwrap();
    assert_eq!(records.lines().count(), 2);
    // Something that did not hold did not pass, and a side is no merit.
    let strict = check(folder, &["--manifest", "m.jsonl", "--strict"]);
    assert_eq!(strict.status.code(), Some(1));
    fs::write(folder.join("m.jsonl"), text[..2].join("\n")).unwrap();
    let strict = check(folder, &["--manifest", "m.jsonl", "--strict"]);
    assert_eq!(strict.status.code(), Some(0), "{}", stderr(&strict));
    let shown = stdout(&strict);
    assert!(
        shown.contains("right") && shown.contains("(homogenization)"),
        "{shown}"
    );
}

/// A picture that was made again under the same name is judged by what it was made for.
#[test]
fn lines_of_an_earlier_picture_do_not_judge_a_later_one() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(dog_cat(), folder.path().join("x.png")).unwrap();
    let own = png::read_request(&dog_cat()).unwrap().prompt;
    let line = |id: &str, prompt: &str| {
        json!({"sample_id": id, "image_path": "x.png", "prompt": prompt}).to_string()
    };
    let text = [
        line("1", "a dog above a cat"),
        line("2", &own),
        line("3", &own),
    ];
    let put =
        |lines: &[String]| fs::write(folder.path().join("m.jsonl"), lines.join("\n")).unwrap();
    put(&text);
    let output = check(folder.path(), &["--manifest", "m.jsonl", "--json"]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(
        message.contains(
            "line 1 (and 1 more): line 3 is about the same picture, and only the last one counts"
        ),
        "{message}"
    );
    assert_eq!(verdicts(&output), expected([("3", "PASS")]));
    put(&text[..1]);
    let output = check(folder.path(), &["--manifest", "m.jsonl", "--json"]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("it says \"a dog above a cat\", but") && message.contains(&own),
        "{message}"
    );
    assert!(records(&output).is_empty());
}

/// A picture by prepose should show the prompt of its last step, with the relations that were given beside it.
#[test]
fn lines_without_a_relation_leave_the_word_to_the_picture() {
    let folder = tempfile::tempdir().unwrap();
    let picture = Picture::decode(&fs::read(dog_cat()).unwrap()).unwrap();
    let made = png::read_request(&dog_cat()).unwrap();
    let wrong = "a cat to the left of a dog";
    let put = |name: &str, request: &Request| {
        png::save(
            &folder.path().join(name),
            &picture,
            request,
            "euler",
            "flex",
        )
        .unwrap();
    };
    let mut switched = made.clone();
    switched.prompt = wrong.to_owned();
    switched.switch = Some(PromptSwitch {
        to: made.prompt.clone(),
        at: 1,
    });
    put("switched.png", &switched);
    let mut given = made.clone();
    given.prompt = wrong.to_owned();
    given.relations = vec!["dog | left of | cat".parse().unwrap()];
    put("given.png", &given);
    put("stated.png", &given);
    let mut stated = json!({"relation": "left_of", "object_a": "cat", "object_b": "dog"});
    stated["image_path"] = json!("stated.png");
    stated["prompt"] = json!(wrong);
    let lines = ["switched.png", "given.png"]
        .map(|name| json!({"image_path": name, "prompt": wrong}))
        .into_iter()
        .chain([stated]);
    let text = lines.map(|line| line.to_string()).collect::<Vec<_>>();
    fs::write(folder.path().join("m.jsonl"), text.join("\n")).unwrap();
    let output = check(folder.path(), &["--manifest", "m.jsonl", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let all = [("switched", "PASS"), ("given", "PASS"), ("stated", "FAIL")];
    assert_eq!(verdicts(&output), expected(all));
    let prompts: Vec<Value> = (records(&output).into_iter())
        .map(|record| record["prompt"].clone())
        .collect();
    assert_eq!(prompts, [made.prompt.as_str(), wrong, wrong]);
}

#[test]
fn folders_and_relations_alone_are_enough() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("out/below")).unwrap();
    fs::copy(dog_cat(), folder.path().join("out/b.PNG")).unwrap();
    fs::copy(dog_cat(), folder.path().join("out/a.png")).unwrap();
    fs::write(folder.path().join("out/manifest.jsonl"), "{}").unwrap();
    let output = check(folder.path(), &["out", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(verdicts(&output), expected([("a", "PASS"), ("b", "PASS")]));
    let record = records(&output).remove(0);
    assert_eq!(record["path"], "out/a.png");
    assert_eq!(record["confidence"], record["conf"]);
    assert_eq!(
        (&record["reason"], record["prompt"].is_string()),
        (&Value::Null, true)
    );

    put_plain(folder.path(), &["plain.png"]);
    let relation = ["plain.png", "--relation", "dog | left of | cat", "--json"];
    let output = check(folder.path(), &relation);
    assert_eq!(
        verdicts(&output),
        expected([("plain", "PASS")]),
        "{}",
        stderr(&output)
    );
    assert_eq!(records(&output)[0]["prompt"], "dog left of cat");
    // Lines of what made the pictures can be piped on.
    let path = folder.path().join("plain.png");
    let line = json!({"path": path, "prompt": "a cat to the left of a dog"}).to_string();
    let output = with_input(
        &["check", "--device", "flex", "--manifest", "-", "--json"],
        &line,
    );
    assert_eq!(
        verdicts(&output),
        expected([("plain", "FAIL")]),
        "{}",
        stderr(&output)
    );
}

/// The folder of results says what its records are of.
#[test]
fn results_can_be_reported_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    put_plain(folder.path(), &["a.png", "b.png"]);
    let line = |name: &str| {
        json!({"image_path": name, "prompt": "a dog to the left of a cat"}).to_string()
    };
    fs::write(
        folder.path().join("m.jsonl"),
        [line("a.png"), line("b.png")].join("\n"),
    )
    .unwrap();
    let output = check(folder.path(), &["--manifest", "m.jsonl", "--out", "seen"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = fs::read_to_string(folder.path().join("seen/manifest.jsonl")).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines[1],
        json!({"sample_id": "b", "prompt_id": "a dog to the left of a cat", "image_path": "../b.png",
            "prompt": "a dog to the left of a cat", "seed": 1})
    );
}
