//! `prepose judge`: the oracle, and a model on a server inside the test.

use std::fs;
use std::path::Path;

use prepose::remote::stub::{Reply, Stub};
use serde_json::{Value, json};

use crate::judge_runs::question;
use crate::program::{prepose, prepose_in, refuses, stderr, stdout, works};
use crate::support::fixture;

/// Pictures, cases and detections: in two of three the dog is on the left.
fn provide(folder: &Path) {
    fs::create_dir(folder.join("pictures")).unwrap();
    let (mut cases, mut boxes) = (String::new(), String::new());
    for number in 0..30u8 {
        let name = format!("{number}.png");
        let picture = image::RgbImage::from_pixel(8, 8, image::Rgb([number, 0, 0]));
        picture.save(folder.join("pictures").join(&name)).unwrap();
        let case = json!({"id": number.to_string(), "picture": name, "setting": "t2i_homogenization", "a": "dog", "b": "cat",
            "group": number.to_string()});
        cases += &format!("{case}\n");
        let [dog, cat] = if number % 3 > 0 { [0, 50] } else { [50, 0] };
        let one = |label: &str, x: i32| json!({"label": label, "score": 0.9, "box_xyxy": [x, 20, x + 30, 60]});
        let found = json!({"id": number.to_string(), "prompt": "a dog and a cat", "width": 100, "height": 100,
            "detections": [one("dog", dog), one("cat", cat)]});
        boxes += &format!("{found}\n");
    }
    fs::write(folder.join("cases.jsonl"), cases).unwrap();
    fs::write(folder.join("boxes.jsonl"), boxes).unwrap();
}

const OTS: [&str; 7] = [
    "judge",
    "pictures",
    "--benchmark",
    "ots",
    "--cases",
    "cases.jsonl",
    "--json",
];

fn read(output: &str) -> Value {
    serde_json::from_str(output).unwrap()
}

#[test]
fn the_oracle_says_what_the_rule_says() {
    let folder = tempfile::tempdir().unwrap();
    provide(folder.path());
    let args = [
        &OTS[..],
        &["--detections", "boxes.jsonl", "--out", "judged"],
    ]
    .concat();
    let found = read(&works(folder.path(), &args));
    let score = read(&works(
        folder.path(),
        &["score", "homogenization", "boxes.jsonl", "--json"],
    ));
    let row = &found["figures"][0];
    assert_eq!(
        (&row["first"], &row["second"], &row["invalid"]),
        (&json!(20), &json!(10), &json!(0))
    );
    let printed = score.to_string();
    assert!(printed.contains("33.3"), "{printed}");
    assert!((row["percent"].as_f64().unwrap() - 100.0 / 3.0).abs() < 1e-9);
    assert_eq!(found["bias"][0]["same"], 30);
    assert_eq!(found["published"].as_array().unwrap().len(), 9);
    // What it wrote is what `agree ots` reads.
    let judges = [
        "agree",
        "ots",
        "judged/judged.jsonl",
        "judged/judged.jsonl",
        "--json",
    ];
    let judges = read(&works(folder.path(), &judges));
    assert_eq!(judges["judges"][1]["kappa_to_first"], 1.0);
}

#[test]
fn a_model_is_asked_once_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    provide(folder.path());
    // Which questions get an answer of no use is a matter of the question: the order in which they arrive is nobody's choice.
    let stub = Stub::start(|asked| {
        let (picture, text) = question(asked);
        let dog_first = text.contains("Subject A: dog");
        match (asked.before, picture.get_pixel(0, 0).0[0] % 5) {
            (0, _) => Reply::busy(1),
            (_, 0) if dog_first => Reply::chat("The dog is on the left."),
            _ => Reply::chat("1"),
        }
    })
    .unwrap();
    let url = format!("{}/v1", stub.address);
    let judge = |out: &str, more: &[&str]| {
        let mut command = prepose();
        command.env("PREPOSE_JUDGE_KEY", "sk-SECRET").args(OTS);
        command.args(["--judge", &url, "--judge-model", "vlm", "--out", out]);
        command
            .args(more)
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let output = judge("judged", &["--price", "1,2", "--detections", "boxes.jsonl"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = read(&stdout(&output));
    assert_eq!(
        (&found["questions"], &found["asked_now"]),
        (&json!(60), &json!(60))
    );
    let cost = (60.0 * 7.0 + 60.0 * 3.0 * 2.0) / 1e6;
    assert!((found["cost"].as_f64().unwrap() - cost).abs() < 1e-12);
    let notes = found["notes"].to_string();
    assert!(
        notes.contains("6 of 60 answers are invalid and do not count (t2i_homogenization): 6 none of the answers"),
        "{notes}"
    );
    assert!(found["agreement"][0]["kappa"].as_f64().unwrap().abs() < 0.2);
    let count = stub.count();
    assert_eq!(
        stub.asked()[1].header("authorization"),
        Some("Bearer sk-SECRET")
    );

    // Again, it asks nothing, and says the same.
    let again = read(&stdout(&judge(
        "judged",
        &["--price", "1,2", "--detections", "boxes.jsonl"],
    )));
    assert_eq!(
        (&again["asked_now"], &again["figures"]),
        (&json!(0), &found["figures"])
    );
    assert_eq!(stub.count(), count);
    for entry in fs::read_dir(folder.path().join("judged")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains("SECRET"), "{text}");
    }
    // Another setting, and a changed picture.
    let other = read(&stdout(&judge(
        "judged",
        &["--max-tokens", "5", "--one-order"],
    )));
    assert_eq!(other["asked_now"], 30);
    image::RgbImage::new(9, 9)
        .save(folder.path().join("pictures/7.png"))
        .unwrap();
    let other = read(&stdout(&judge("judged", &[])));
    assert_eq!(other["asked_now"], 2);
}

#[test]
fn questions_that_fail_are_told_and_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    provide(folder.path());
    let stub = Stub::start(|asked| match asked.before {
        3 => Reply::error(400, "bad_request", "this picture is not to my taste"),
        _ => Reply::chat("2"),
    })
    .unwrap();
    let args = [
        &OTS[..],
        &[
            "--one-order",
            "--judge",
            &stub.address,
            "--judge-model",
            "vlm",
            "--out",
            "judged",
        ],
    ]
    .concat();
    let output = prepose_in(folder.path(), &args);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("1 questions have no answer; the same command asks them again")
    );
    assert!(stdout(&output).contains("not to my taste"));
    let found = read(&works(folder.path(), &args));
    assert_eq!(
        (&found["asked_now"], &found["unanswered"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(found["figures"][0]["second"], 30);
    assert!(
        found["notes"]
            .to_string()
            .contains("says \\\"2\\\" in 30 of 30")
    );
}

#[test]
fn scenes_are_scored() {
    let folder = tempfile::tempdir().unwrap();
    provide(folder.path());
    let graph = |number: u8| {
        json!({"id": number.to_string(), "objects": ["dog.1", "cat.1"],
            "relationships": [{"source": "dog.1", "target": "cat.1", "relation": "left of"}]})
    };
    let graphs: String = (0..30)
        .map(|number| format!("{}\n", graph(number)))
        .collect();
    // Other relations to choose from, of a picture that is not there.
    let other = json!({"id": "x", "objects": ["dog.1", "cat.1", "car.1"], "relationships": [
        {"source": "car.1", "target": "cat.1", "relation": "above"},
        {"source": "dog.1", "target": "car.1", "relation": "holding"}]});
    fs::write(
        folder.path().join("graphs.jsonl"),
        format!("{graphs}{other}\n"),
    )
    .unwrap();
    let args = [
        "judge",
        "pictures",
        "--benchmark",
        "scene",
        "--graphs",
        "graphs.jsonl",
        "--detections",
        "boxes.jsonl",
        "--out",
        "judged",
        "--json",
        "--partial",
    ];
    let found = read(&works(folder.path(), &args));
    let row = &found["sgscore"][0];
    assert_eq!(
        (&row["graphs"], &row["object_recall"]),
        (&json!(30), &json!(100.0))
    );
    // In a third the dog is on the right: both objects, and no relationship.
    assert!((row["relation_recall"].as_f64().unwrap() - 200.0 / 3.0).abs() < 1e-9);
    assert!((row["sgscore"].as_f64().unwrap() - 250.0 / 3.0).abs() < 1e-9);
    let lines = fs::read_to_string(folder.path().join("judged/judged.jsonl")).unwrap();
    let first = read(lines.lines().next().unwrap());
    assert_eq!(first["missing"]["relationships"][0]["relation"], "left of");
    assert!(
        fs::read_to_string(folder.path().join("judged/relations.csv"))
            .unwrap()
            .contains("\"left of\",30,20,66.67")
    );
}

#[test]
fn wrong_judgings_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    provide(folder.path());
    let at = folder.path();
    let with = |more: &[&'static str]| [&OTS[..], &["--out", "judged"], more].concat();
    refuses(
        at,
        &with(&["--judge", "http://127.0.0.1:9/v1"]),
        &["--judge-model"],
    );
    refuses(
        at,
        &with(&["--judge-model", "vlm"]),
        &["--judge with the address"],
    );
    refuses(
        at,
        &with(&["--judge", "nonsense", "--judge-model", "vlm"]),
        &["is not the address of a server"],
    );
    refuses(
        at,
        &with(&[
            "--judge",
            "http://h/v1",
            "--judge-model",
            "v",
            "--judge-key",
            "PREPOSE_NO_SUCH_KEY",
        ]),
        &["PREPOSE_NO_SUCH_KEY is not set"],
    );
    refuses(
        at,
        &with(&["--judge", "oracle", "--judge-key", "PREPOSE_NO_SUCH_KEY"]),
        &["PREPOSE_NO_SUCH_KEY is not set"],
    );
    refuses(
        at,
        &with(&["--detections", "cases.jsonl"]),
        &["cases.jsonl"],
    );
    refuses(
        at,
        &["judge", "pictures", "--benchmark", "ots", "--out", "judged"],
        &["no prompts.jsonl in pictures", "--cases"],
    );
    refuses(
        at,
        &[
            "judge",
            "pictures",
            "--benchmark",
            "scene",
            "--out",
            "judged",
        ],
        &["needs --graphs"],
    );
    // What another benchmark reads, even where it is what would hold anyway.
    for (more, benchmark) in [
        (["--gamma", "0"], "scene"),
        (["--graphs", "nowhere"], "scene"),
        (["--control", "shuffled"], "spatialgen"),
        (["--rounds", "5"], "spatialgen"),
    ] {
        let told = format!("{} is for --benchmark {benchmark}", more[0]);
        refuses(at, &with(&more), &[told.as_str()]);
    }
    let spatialgen = [
        "judge",
        "pictures",
        "--benchmark",
        "spatialgen",
        "--out",
        "judged",
    ];
    refuses(
        at,
        &[&spatialgen[..], &["--cases", "cases.jsonl"]].concat(),
        &["--cases is for --benchmark ots"],
    );
    refuses(
        at,
        &[&spatialgen[..], &["--judge-rounds", "3"]].concat(),
        &["--rounds says how many answers"],
    );
    refuses(
        at,
        &[
            "judge",
            ".",
            "--benchmark",
            "ots",
            "--cases",
            "cases.jsonl",
            "--out",
            "judged",
        ],
        &["30 of 30 pictures are not there"],
    );
    fs::remove_file(at.join("pictures/4.png")).unwrap();
    refuses(
        at,
        &with(&["--detections", "boxes.jsonl"]),
        &["1 of 30 pictures are not there", "--partial"],
    );
    let found = read(&works(
        at,
        &with(&["--detections", "boxes.jsonl", "--partial"]),
    ));
    assert_eq!(found["figures"][0]["pictures"], 29);
}

/// A language model that answers as asked, and once in words.
fn scribe() -> Stub {
    Stub::start(|asked| {
        let json = asked.json();
        let content = &json["messages"][0]["content"];
        let text = content.as_str().or_else(|| content[1]["text"].as_str()).unwrap_or_default();
        Reply::chat(if text.contains("Extract a structured") {
            r#"{"objects": ["dog", "cat"], "relationships": [{"source": "dog", "target": "cat", "relation": "chasing"}]}"#
        } else if text.contains("set of detected objects") {
            r#"{"relationships": [{"source": "dog.1", "target": "cat.1", "relation": "near"}]}"#
        } else if text.contains("image information") {
            r#"[{"image_id": "1", "level 1": "Non-People Centric", "level 2": "Nature"}]"#
        } else if text.contains("car.1") {
            "A car, I think."
        } else {
            "```json\n{\"description\": \"A dog runs by a cat.\"}\n```"
        })
    })
    .unwrap()
}

/// No box writes or reads texts.
#[test]
fn scenes_in_words_are_not_for_the_oracle() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["compose", "extract", "annotate", "classify", "attributes"] {
        let help = works(folder.path(), &["scene", command, "--help"]);
        assert!(
            help.contains("--judge <URL>") && !help.contains("oracle"),
            "{help}"
        );
    }
    let help = works(folder.path(), &["scene", "refine", "--help"]);
    assert!(help.contains("oracle"), "{help}");
    for (command, sends_pictures) in [
        ("compose", false),
        ("attributes", false),
        ("annotate", true),
    ] {
        let help = works(folder.path(), &["scene", command, "--help"]);
        assert_eq!(help.contains("--largest"), sends_pictures, "{help}");
    }
    fs::write(folder.path().join("categories.txt"), "apple\n").unwrap();
    let plain = ["scene", "attributes", "categories.txt", "--plain"];
    works(folder.path(), &plain);
    let judged = [&plain[..], &["--judge", "oracle"]].concat();
    refuses(folder.path(), &judged, &["cannot be used with"]);
}

/// A model that thinks for as long as it may has not written something else than was asked for.
#[test]
fn texts_without_room_are_told_with_what_helps() {
    let folder = tempfile::tempdir().unwrap();
    let graph = r#"{"id":"1","objects":["dog.1"],"relationships":[]}"#;
    fs::write(folder.path().join("graphs.jsonl"), graph).unwrap();
    let stub = Stub::start(|_| {
        let message = json!({"content": "", "reasoning_content": "hm"});
        Reply::Json(
            200,
            json!({"choices": [{"message": message, "finish_reason": "length"}]}),
        )
    })
    .unwrap();
    let args = [
        "scene",
        "compose",
        "graphs.jsonl",
        "--judge",
        &stub.address,
        "--judge-model",
        "m",
    ];
    let output = prepose_in(folder.path(), &args);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    for part in ["left out: 1: ", "(thinking)", "--max-tokens", "--thinking"] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(stub.asked()[0].json()["max_tokens"], 8192);
}

#[test]
fn scenes_go_into_words_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    provide(at);
    let graphs = r#"{"id":"1","objects":["dog.1","cat.1"],"relationships":[{"source":"dog.1","target":"cat.1","relation":"near"}]}
{"id":"2","objects":["car.1"],"relationships":[]}
"#;
    fs::write(at.join("graphs.jsonl"), graphs).unwrap();
    let printed = works(at, &["scene", "prompts", "graphs.jsonl"]);
    let first = r#"{"id":"1","prompt":"dog near cat","complexity":1.0,"level":"simple"}"#;
    assert!(printed.starts_with(first), "{printed}");

    let stub = scribe();
    let with = |args: &[&'static str]| -> Vec<String> {
        let model = ["--judge", stub.address.as_str(), "--judge-model", "m"];
        let args = ["scene"].iter().chain(args).chain(&model);
        args.map(ToString::to_string).collect()
    };
    let run = |args: &[&'static str]| prepose().args(with(args)).current_dir(at).output().unwrap();
    let output = run(&["compose", "graphs.jsonl", "-o", "texts/prompts.jsonl"]);
    assert_eq!(output.status.code(), Some(2));
    let told = stderr(&output);
    assert!(
        told.contains("1 of 2 answers can be used")
            && told.contains("left out: 2: the answer is not a JSON object"),
        "{told}"
    );
    let lines = fs::read_to_string(at.join("texts/prompts.jsonl")).unwrap();
    assert_eq!(
        lines,
        "{\"id\":\"1\",\"prompt\":\"A dog runs by a cat.\"}\n"
    );
    let count = stub.count();
    run(&["compose", "graphs.jsonl", "-o", "texts/prompts.jsonl"]);
    assert_eq!(stub.count(), count, "answers are kept, good or not");

    fs::write(at.join("captions.txt"), "a dog chasing a cat\n\n").unwrap();
    let line = read(&stdout(&run(&["extract", "captions.txt"])));
    assert_eq!(
        (&line["objects"], &line["caption"]),
        (&json!(["dog.1", "cat.1"]), &json!("a dog chasing a cat"))
    );

    let objects = r#"{"id":"p","picture":"pictures/0.png","objects":[{"object":"dog.1","bbox":[0,0,4,4]},{"object":"cat.1","bbox":[4,4,8,8]}]}"#;
    fs::write(at.join("objects.jsonl"), objects).unwrap();
    let output = run(&["annotate", "objects.jsonl"]);
    let line = read(&stdout(&output));
    assert_eq!(
        (&line["picture"], &line["relationships"][0]["relation"]),
        (&json!("pictures/0.png"), &json!("near"))
    );
    let asked = stub.asked().pop().unwrap().json();
    assert_eq!(asked["messages"][0]["content"][0]["type"], "image_url");
    // Photos are sent upright, and so are their sizes: 24 × 16 in the file, a quarter turn from that.
    fs::copy(fixture("training-data/turned.jpg"), at.join("turned.jpg")).unwrap();
    let turned = objects.replace("pictures/0.png", "turned.jpg");
    fs::write(at.join("objects.jsonl"), turned).unwrap();
    run(&["annotate", "objects.jsonl"]);
    let asked = stub.asked().pop().unwrap().json();
    let text = asked["messages"][0]["content"][1]["text"].as_str().unwrap();
    assert!(text.contains("are (16, 24)."), "{text}");

    fs::write(at.join("graphs.jsonl"), graphs.lines().next().unwrap()).unwrap();
    let line = read(&stdout(&run(&["classify", "graphs.jsonl"])));
    assert_eq!(
        (&line["theme"], &line["class"]),
        (&json!("Non-People Centric"), &json!("Nature"))
    );

    refuses(
        at,
        &["scene", "compose", "graphs.jsonl"],
        &["--judge needs the address of a server"],
    );
    fs::write(at.join("objects.jsonl"), objects.replace("cat.1", "dog.1")).unwrap();
    refuses(
        at,
        &["scene", "annotate", "objects.jsonl"],
        &["objects.jsonl: line 1", "is there twice"],
    );
    fs::write(at.join("objects.jsonl"), objects.replace("0.png", "99.png")).unwrap();
    refuses(at, &["scene", "annotate", "objects.jsonl"], &["99.png"]);
    refuses(
        at,
        &["scene", "prompts", "graphs.jsonl", "--gamma", "2"],
        &["--gamma is 2"],
    );
}
