//! `prepose judge --benchmark spatialgen` and `prepose spatialgen`: from questions to a folder to train on.

use std::fs;
use std::path::Path;
use std::process::Output;

use prepose::remote::stub::{Asked, Reply, Stub};
use serde_json::{Value, json};

use crate::program::{prepose, refuses, stderr, stdout, works};
use crate::support::root;

/// The ten cases of our own making, and a picture for each.
fn provide(folder: &Path) -> Vec<Value> {
    fs::create_dir(folder.join("pictures")).unwrap();
    let text = fs::read_to_string(root().join("fixtures/spatialgen/ten.jsonl")).unwrap();
    fs::write(folder.join("ten.jsonl"), &text).unwrap();
    let items: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (number, item) in (0u8..).zip(&items) {
        let name = format!("pictures/{}.png", item["id"].as_str().unwrap());
        let picture = image::RgbImage::from_pixel(8, 8, image::Rgb([number, 0, 0]));
        picture.save(folder.join(name)).unwrap();
    }
    items
}

const JUDGE: [&str; 7] = [
    "judge",
    "pictures",
    "--benchmark",
    "spatialgen",
    "--questions",
    "ten.jsonl",
    "--json",
];

fn read(output: &str) -> Value {
    serde_json::from_str(output).unwrap()
}

/// The question's text, and whether a picture is with it.
fn heard(asked: &Asked) -> (String, bool) {
    let json = asked.json();
    let content = &json["messages"][1]["content"];
    match content.as_array() {
        None => (content.as_str().unwrap_or_default().to_owned(), false),
        Some(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            let shown = parts.iter().any(|part| part["type"] == "image_url");
            (texts.collect(), shown)
        }
    }
}

/// The right letters of the item that a text asks about.
fn letters(items: &[Value], text: &str) -> Option<String> {
    let item = items.iter().find(|item| {
        let questions = item["questions"].as_array().unwrap();
        questions
            .iter()
            .all(|question| text.contains(question.as_str().unwrap()))
    })?;
    let answers = item["answers"].as_array().unwrap();
    Some(
        answers
            .iter()
            .map(|answer| format!("{}\n", answer.as_str().unwrap()))
            .collect(),
    )
}

fn judge(folder: &Path, stub: &Stub, more: &[&str]) -> Output {
    let url = format!("{}/v1", stub.address);
    let mut command = prepose();
    command
        .args(JUDGE)
        .args(["--judge", &url, "--judge-model", "vlm"]);
    command.args(more).current_dir(folder).output().unwrap()
}

#[test]
fn from_questions_to_a_folder_to_train_on() {
    let folder = tempfile::tempdir().unwrap();
    let items = provide(folder.path());
    let known = items.clone();
    // Right about every picture but the last, of which it says C throughout; blind, it says C always. Some answers are of no use.
    let stub = Stub::start(move |asked| {
        let (text, shown) = heard(asked);
        match letters(&known, &text) {
            _ if asked.before % 9 == 4 => Reply::chat("All of them look fine to me."),
            Some(answer) if shown && !text.contains("wax") => Reply::chat(&answer),
            _ => Reply::chat(&"C\n".repeat(10)),
        }
    })
    .unwrap();
    let args = [
        "--out",
        "judged",
        "--control",
        "shuffled,no-picture",
        "--price",
        "1,2",
    ];
    let output = judge(folder.path(), &stub, &args);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = read(&stdout(&output));
    let row = &found["figures"][0];
    assert_eq!(
        (&row["asked"], &row["pictures"], &row["dropped"]),
        (&json!("as published"), &json!(10), &json!(0))
    );
    let overall = row["overall"].as_f64().unwrap();
    assert!((90.0..97.0).contains(&overall), "{overall}");
    assert!(row["overall_low"].as_f64().unwrap() < overall);
    assert_eq!(found["figures"][3]["asked"], "always A");
    assert_eq!(found["published"].as_array().unwrap().len(), 5);
    assert_eq!(found["domains"].as_array().unwrap().len(), 3 * 15);
    let notes = found["notes"].to_string();
    for part in [
        "asked no picture, the judge says 'C' in 500 of 500 answers",
        "with options in another order the judge says",
        "without a picture it is right on 25.0 %",
        "are not ten letters from A to E and were asked for again",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    assert_eq!(stub.asked()[0].json()["temperature"], 1.0);
    let prompt = items[0]["prompt"].as_str().unwrap();
    assert!(
        stub.asked()
            .iter()
            .all(|asked| !heard(asked).0.contains(prompt)),
        "the prompt is hidden"
    );
    let count = stub.count();
    assert!(
        count >= 150,
        "five rounds of ten pictures in three ways: {count}"
    );

    // Again, it asks nothing and says the same.
    let again = read(&stdout(&judge(folder.path(), &stub, &args)));
    assert_eq!(
        (stub.count(), &again["asked_now"], &again["figures"]),
        (count, &json!(0), &found["figures"])
    );

    // What passes, to train on.
    let export = [
        "spatialgen",
        "export",
        "judged",
        "--pictures",
        "pictures",
        "--questions",
        "ten.jsonl",
        "--out",
        "train",
    ];
    let told = works(folder.path(), &export);
    assert!(told.contains("9 of 10 pictures pass"), "{told}");
    let lines = fs::read_to_string(folder.path().join("train/metadata.jsonl")).unwrap();
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["file_name"], &first["text"], &first["right"]),
        (&json!("000001.png"), &items[0]["prompt"], &json!(10))
    );
    let copy = fs::read(folder.path().join("train/000001.png")).unwrap();
    assert_eq!(
        copy,
        fs::read(folder.path().join("pictures/000001.png")).unwrap()
    );
    let strict = [&export[..], &["--least", "1", "--need", "Place"]].concat();
    refuses(
        folder.path(),
        &strict,
        &["there are Object, Attribute, Position"],
    );
    // A second time, the folder is the same.
    works(folder.path(), &export);
    assert_eq!(
        fs::read_to_string(folder.path().join("train/metadata.jsonl")).unwrap(),
        lines
    );
}

/// Pictures of several models have the same ids.
#[test]
fn what_is_added_replaces_no_other_picture() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    fs::create_dir(folder.join("others")).unwrap();
    fs::copy(
        folder.join("pictures/000002.png"),
        folder.join("others/000001.png"),
    )
    .unwrap();
    fs::create_dir(folder.join("judged")).unwrap();
    let line = json!({"id": "000001", "item": "000001", "picture": "000001.png", "method": null, "asked": "as published",
        "right": [true, true, true, true, true, true, true, true, true, true]});
    fs::write(folder.join("judged/judged.jsonl"), format!("{line}\n")).unwrap();
    let export = |pictures: &str| -> Vec<String> {
        let args = [
            "spatialgen",
            "export",
            "judged",
            "--pictures",
            pictures,
            "--questions",
            "ten.jsonl",
            "--out",
            "train",
        ];
        works(folder, &args);
        let lines = fs::read_to_string(folder.join("train/metadata.jsonl")).unwrap();
        let name = |line: &str| read(line)["file_name"].as_str().unwrap().to_owned();
        lines.lines().map(name).collect()
    };
    assert_eq!(export("pictures"), ["000001.png"]);
    let names = export("others");
    assert_eq!(names.len(), 2);
    assert!(names.contains(&"000001.png".to_owned()));
    let added = names.iter().find(|name| name.starts_with("000001-"));
    for (name, picture) in [
        ("000001.png", "pictures/000001.png"),
        (added.unwrap().as_str(), "others/000001.png"),
    ] {
        let there = fs::read(folder.join("train").join(name)).unwrap();
        assert_eq!(there, fs::read(folder.join(picture)).unwrap(), "{name}");
    }
    // The same again adds nothing.
    assert_eq!(export("others"), names);
    assert_eq!(export("pictures"), names);
}

#[test]
fn the_oracle_says_what_it_cannot_tell() {
    let folder = tempfile::tempdir().unwrap();
    provide(folder.path());
    let one = |label: &str, x: i32, side: i32| json!({"label": label, "score": 0.9, "box_xyxy": [x, 100, x + side, 100 + side]});
    // What the detector is hardly sure of it knows all the same, and has not found.
    let unsure = |label: &str| json!({"label": label, "score": 0.1, "box_xyxy": [0, 0, 9, 9]});
    // No prompt is in these lines, as in those of pictures that are not prepose's.
    let lines: String = (1..=10)
        .map(|number| {
            let found = json!({"id": format!("{number:06}"), "width": 400, "height": 400,
                "detections": [one("dog", 0, 40), one("cat", 100, 50), one("car", 200, 150), one("bird", 0, 10), one("bowl", 0, 5), unsure("horse"), unsure("cow"), unsure("bus")]});
            format!("{found}\n")
        })
        .collect();
    fs::write(folder.path().join("found.jsonl"), lines).unwrap();
    let args = [
        &JUDGE[..],
        &["--detections", "found.jsonl", "--out", "judged"],
    ]
    .concat();
    let found = read(&works(folder.path(), &args));
    let notes = found["notes"].to_string();
    assert!(
        notes.contains("the oracle can answer ")
            && notes.contains("it cannot answer, and they count neither for nor against"),
        "{notes}"
    );
    assert_eq!(found["figures"][0]["Causal"], Value::Null);
    assert_eq!(found["figures"][0]["overall"], Value::Null);
    let judged = fs::read_to_string(folder.path().join("judged/judged.jsonl")).unwrap();
    let first: Value = serde_json::from_str(judged.lines().next().unwrap()).unwrap();
    assert_eq!(
        first["right"],
        json!([true, null, true, null, null, true, true, null, null, null])
    );
    let blind = [&args[..], &["--control", "no-picture"]].concat();
    refuses(folder.path(), &blind, &["boxes have no letters to prefer"]);
}

#[test]
fn wrong_input_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let items = provide(folder);
    let judge = [
        "judge",
        "pictures",
        "--benchmark",
        "spatialgen",
        "--out",
        "judged",
    ];
    refuses(
        folder,
        &judge,
        &[
            "--benchmark spatialgen needs --questions FILE",
            "no licence",
        ],
    );
    let mut nine = items[0].clone();
    nine["questions"].as_array_mut().unwrap().pop();
    fs::write(folder.join("nine.jsonl"), format!("{nine}\n")).unwrap();
    let with = |more: &[&'static str]| [&judge[..], more].concat();
    refuses(
        folder,
        &with(&["--questions", "nine.jsonl"]),
        &[
            "nine.jsonl",
            "line 1: 000001: 9 questions, but there must be ten",
        ],
    );
    refuses(
        folder,
        &with(&["--questions", "none.jsonl"]),
        &["cannot read none.jsonl"],
    );
    refuses(
        folder,
        &with(&["--questions", "ten.jsonl", "--agreeing", "6"]),
        &["--agreeing (6) must not be more than --rounds (5)"],
    );
    let seeded = [
        "--questions",
        "ten.jsonl",
        "--judge",
        "http://localhost:1/v1",
        "--judge-model",
        "m",
        "--judge-seed",
        "1",
    ];
    refuses(
        folder,
        &with(&seeded),
        &["--judge-seed would make all rounds of SpatialGenEval say the same"],
    );
    fs::remove_file(folder.join("pictures/000003.png")).unwrap();
    refuses(
        folder,
        &with(&["--questions", "ten.jsonl"]),
        &["1 of 10 pictures are not there", "000003.png"],
    );
    let export = [
        "spatialgen",
        "export",
        "nowhere",
        "--pictures",
        "pictures",
        "--questions",
        "ten.jsonl",
        "--out",
        "train",
    ];
    refuses(folder, &export, &["judged.jsonl; prepose judge writes it"]);
}

#[test]
fn prompts_are_those_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let items = provide(folder.path());
    let text = works(folder.path(), &["spatialgen", "prompts", "ten.jsonl"]);
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["prompt_id"], &first["prompt"]),
        (&json!("000001"), &items[0]["prompt"])
    );
    assert_eq!(text.lines().count(), 10);
}

/// An answer that can be used; with `leak`, its second question says its answer.
fn proposal(leak: bool) -> String {
    let questions: Vec<Value> = (0..10)
        .map(|number| {
            let stem = match leak && number == 1 {
                true => "Which thing is good1?".to_owned(),
                false => format!("What is thing number {number}?"),
            };
            json!({"question": stem, "right": format!("good{number}"), "wrong": ["bad", "worse", "worst"]})
        })
        .collect();
    json!({"prompt": "a cat and a dog in a park under a tree ".repeat(6), "questions": questions})
        .to_string()
}

/// What has no room for its end is no fault of the model's, and the same is asked once more.
#[test]
fn proposals_that_are_cut_off_are_told_with_what_helps() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("scenes.txt"), "a library\n").unwrap();
    let stub = Stub::start(|asked| match asked.before {
        0 => Reply::Json(
            200,
            json!({"choices": [{"message": {"content": "{\"prompt\": \"a"}, "finish_reason": "length"}]}),
        ),
        _ => Reply::chat(&proposal(false)),
    })
    .unwrap();
    let propose = |tries: &str| {
        let args = [
            "spatialgen",
            "propose",
            "scenes.txt",
            "--judge",
            &stub.address,
            "--judge-model",
            "m",
            "-o",
            "mine.jsonl",
            "--tries",
            tries,
        ];
        prepose().args(args).current_dir(folder).output().unwrap()
    };
    let output = propose("1");
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    for part in ["left out: a-library-001: ", "(cut)", "--max-tokens"] {
        assert!(told.contains(part), "{told}");
    }
    let output = propose("2");
    assert!(output.status.success(), "{}", stderr(&output));
    let [first, second] = [0, 1].map(|at| stub.asked()[at].json());
    assert_eq!(stub.count(), 2);
    assert_eq!(first["max_tokens"], 8192);
    assert_eq!(first["messages"], second["messages"]);
}

#[test]
fn proposals_are_asked_for_until_they_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(
        folder.join("scenes.txt"),
        "a library\n\nA harbour at dawn\n",
    )
    .unwrap();
    let stub = Stub::start(|asked| {
        let text = asked.json()["messages"][1]["content"].to_string();
        match (text.contains("library"), text.contains("could not be used")) {
            (true, false) => Reply::chat(&proposal(true)),
            (true, true) if !text.contains("question 2 itself says") => Reply::chat("?"),
            (true, true) => Reply::chat(&proposal(false)),
            (false, _) if asked.before == 0 => Reply::busy(1),
            (false, _) => Reply::chat(&format!("```json\n{}\n```", proposal(false))),
        }
    })
    .unwrap();
    let url = format!("{}/v1", stub.address);
    let propose = |more: &[&str]| {
        let mut command = prepose();
        command.args([
            "spatialgen",
            "propose",
            "scenes.txt",
            "--judge",
            &url,
            "--judge-model",
            "m",
            "-o",
            "out/mine.jsonl",
        ]);
        command.args(more).current_dir(folder).output().unwrap()
    };
    let output = propose(&["--tries", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("left out: a-library-001: question 2 itself says \"good1\""),
        "{}",
        stderr(&output)
    );
    let output = propose(&[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = fs::read_to_string(folder.join("out/mine.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 2);
    assert!(lines.contains("\"a-harbour-at-dawn-001\"") && lines.contains("E: None"));
    let count = stub.count();
    assert!(propose(&[]).status.success());
    assert_eq!(stub.count(), count, "nothing is asked twice");
    works(
        folder,
        &[
            "spatialgen",
            "prompts",
            "out/mine.jsonl",
            "-o",
            "prompts.jsonl",
        ],
    );
    refuses(
        folder,
        &["spatialgen", "propose", "scenes.txt", "-o", "x.jsonl"],
        &["required", "--judge <URL>"],
    );
    let help = works(folder, &["spatialgen", "propose", "--help"]);
    assert!(
        !help.contains("oracle") && !help.contains("--largest"),
        "{help}"
    );
}
