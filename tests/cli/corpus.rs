//! `prepose corpus`: captions, boxes and judges.

use std::fs;
use std::path::Path;

use prepose::remote::stub::{Reply, Stub};
use serde_json::{Value, json};

use crate::program::{prepose, refuses, stderr, stdout, works};
use crate::support::root;

fn read(output: &str) -> Value {
    serde_json::from_str(output).unwrap()
}

fn fixture(name: &str) -> String {
    root()
        .join("fixtures/corpus")
        .join(name)
        .display()
        .to_string()
}

#[test]
fn the_toyboxs_captions_name_the_left_one_first() {
    let folder = tempfile::tempdir().unwrap();
    let (captions, boxes) = (fixture("captions.jsonl"), fixture("boxes.jsonl"));
    let text = read(&works(
        folder.path(),
        &["corpus", &captions, "--out", "text", "--json"],
    ));
    assert_eq!(text["funnel"][0]["count"], 1000);
    assert_eq!(
        text["alignment"],
        Value::Null,
        "nobody has looked at pictures"
    );
    let args = [
        "corpus",
        &captions,
        "--detections",
        &boxes,
        "--out",
        "boxes",
        "--json",
    ];
    let found = read(&works(folder.path(), &args));
    let all = &found["alignment"][0];
    let [low, high] = ["percent_low", "percent_high"].map(|end| all[end].as_f64().unwrap());
    assert!(low <= 95.0 && 95.0 <= high, "{all}");
    assert_eq!(found["published"][0]["percent"], 89.2);
    assert_eq!(works(folder.path(), &args), works(folder.path(), &args));
    let lines = fs::read_to_string(folder.path().join("boxes/layouts.jsonl")).unwrap();
    assert!(lines.contains("\"seen\":\"first on the left\""));
    assert!(works(folder.path(), &args[..6]).contains("written to boxes"));
}

/// Pictures with texts beside them.
fn provide(folder: &Path) {
    fs::create_dir(folder.join("photos")).unwrap();
    for number in 0..12u8 {
        let picture = image::RgbImage::from_pixel(120, 110, image::Rgb([number, 0, 0]));
        picture
            .save(folder.join(format!("photos/{number:02}.png")))
            .unwrap();
        fs::write(
            folder.join(format!("photos/{number:02}.txt")),
            "a dog and a cat",
        )
        .unwrap();
    }
    image::RgbImage::new(90, 90)
        .save(folder.join("photos/00.png"))
        .unwrap();
}

#[test]
fn a_judge_is_asked_in_two_stages_and_both_orders() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    // One picture does not pass the gate, one answer is of no use, and "A" is said in both orders of one.
    let stub = Stub::start(|asked| {
        let body = asked.json();
        let text = body["messages"][0]["content"][1]["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let url = body["messages"][0]["content"][0]["image_url"]["url"]
            .as_str()
            .unwrap_or_default();
        let hash: usize = url.bytes().map(usize::from).sum();
        let gate = |topology: bool| {
            json!({"existence": true, "separation": true, "topology": topology}).to_string()
        };
        Reply::chat(
            &match (text.contains("Entity A: dog"), text.contains("A: dog")) {
                (true, _) => gate(hash.is_multiple_of(2)),
                (false, true) => "A".into(),
                (false, false) => "B".into(),
            },
        )
    })
    .unwrap();
    let url = format!("{}/v1", stub.address);
    let run = || {
        let args = [
            "corpus",
            "photos",
            "--out",
            "survey",
            "--json",
            "--judge",
            &url,
            "--judge-model",
            "vlm",
        ];
        let output = prepose().args(args).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        read(&stdout(&output))
    };
    let found = run();
    let count = |what: &str| {
        let rows = found["funnel"].as_array().unwrap();
        let row = rows.iter().find(|row| row["what"] == what);
        row.map_or(0, |row| row["count"].as_u64().unwrap())
    };
    assert_eq!(count("small picture"), 1);
    let (gated, left) = (
        count("not side by side, says the judge"),
        count("first on the left"),
    );
    assert_eq!(gated + left, 11);
    assert_eq!(found["questions"].as_u64().unwrap(), 11 + 2 * left);
    let all = &found["alignment"][0];
    assert_eq!(
        (all["samples"].as_u64(), all["aligned"].as_u64()),
        (Some(left), Some(left))
    );
    let notes = found["notes"].to_string();
    assert!(
        left == 0 || notes.contains(&format!("says the same of {left} of {left} pairs")),
        "{notes}"
    );
    let before = stub.count();
    assert_eq!(run()["asked_now"], 0);
    assert_eq!(stub.count(), before);
}

#[test]
fn questions_without_an_answer_are_told_and_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    let stub = Stub::start(|asked| match asked.before {
        3 => Reply::error(400, "bad_request", "this picture is not to my taste"),
        _ => Reply::chat(r#"{"existence": true, "separation": true, "topology": false}"#),
    })
    .unwrap();
    let args = [
        "corpus",
        "photos",
        "--out",
        "survey",
        "--json",
        "--judge",
        &stub.address,
        "--judge-model",
        "vlm",
    ];
    let output = prepose().args(args).current_dir(folder).output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains("1 questions have no answer; the same command asks them again"),
        "{told}"
    );
    let found = read(&stdout(&output));
    assert_eq!(
        (&found["asked_now"], &found["unanswered"]),
        (&json!(10), &json!(1))
    );
    assert!(found["notes"].to_string().contains("not to my taste"));
    let found = read(&works(folder, &args));
    assert_eq!(
        (&found["asked_now"], &found["unanswered"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(found["notes"], json!([]));
}

/// Rates of some of the pairs would look like those of all.
#[cfg(unix)]
#[test]
fn tables_are_of_all_pairs_or_not_written() {
    use std::io::{BufRead, BufReader, Read};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::time::Duration;

    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    let asker = Arc::new(AtomicU32::new(0));
    let heard = Arc::new(AtomicBool::new(false));
    let (to_stop, was_heard) = (Arc::clone(&asker), Arc::clone(&heard));
    let stub = Stub::start(move |asked| {
        let until = |done: &dyn Fn() -> bool| {
            while !done() {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        if asked.before == 3 {
            until(&|| to_stop.load(Ordering::SeqCst) > 0);
            let id = to_stop.swap(0, Ordering::SeqCst).to_string();
            let kill = std::process::Command::new("kill")
                .args(["-INT", &id])
                .status();
            assert!(kill.unwrap().success());
            // What is answered after it was heard is the last.
            until(&|| was_heard.load(Ordering::SeqCst));
        }
        Reply::chat(r#"{"existence": true, "separation": true, "topology": false}"#)
    })
    .unwrap();
    let args = [
        "corpus",
        "photos",
        "--out",
        "survey",
        "--json",
        "--judge",
        &stub.address,
        "--judge-model",
        "vlm",
        "--concurrency",
        "1",
    ];
    let mut child = prepose()
        .args(args)
        .current_dir(folder)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    asker.store(child.id(), Ordering::SeqCst);
    let mut told = String::new();
    let mut says = BufReader::new(child.stderr.take().unwrap());
    while !told.contains("interrupt again") && says.read_line(&mut told).unwrap() > 0 {}
    heard.store(true, Ordering::SeqCst);
    says.read_to_string(&mut told).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert!(
        told.contains("stopped after 0 of 12 pairs, and no table was written; answers are kept"),
        "{told}"
    );
    assert_eq!(stdout(&output), "");
    for name in [
        "funnel.csv",
        "alignment.csv",
        "layouts.jsonl",
        "layouts.jsonl.part",
    ] {
        assert!(!folder.join("survey").join(name).exists(), "{name}");
    }
    // One picture is too small to ask about.
    let found = read(&works(folder, &args));
    assert_eq!(
        (&found["asked_now"], &found["unanswered"]),
        (&json!(7), &json!(0))
    );
    let lines = fs::read_to_string(folder.join("survey/layouts.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 12);
}

/// What the detector saw in one folder is not said of pictures called the same in another.
#[test]
fn boxes_are_those_of_the_picture_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for part in ["data/train", "data/test"] {
        fs::create_dir_all(folder.join(part)).unwrap();
        let picture = image::RgbImage::new(200, 200);
        picture.save(folder.join(part).join("0001.png")).unwrap();
        fs::write(folder.join(part).join("0001.txt"), "a dog and a cat").unwrap();
    }
    let line = json!({"id": "0001", "file": "./data/train/0001.png", "width": 200, "height": 200, "detections": [
        {"label": "dog", "score": 0.9, "box_xyxy": [0, 50, 40, 90]},
        {"label": "cat", "score": 0.9, "box_xyxy": [120, 60, 160, 100]},
    ]});
    fs::write(folder.join("found.jsonl"), format!("{line}\n")).unwrap();
    let args = [
        "corpus",
        "data",
        "--detections",
        "found.jsonl",
        "--out",
        "survey",
        "--json",
    ];
    let found = read(&works(folder, &args));
    let count = |what: &str| {
        let rows = found["funnel"].as_array().unwrap();
        let row = rows.iter().find(|row| row["what"] == what);
        row.map_or(0, |row| row["count"].as_u64().unwrap())
    };
    assert_eq!((count("first on the left"), count("not looked at")), (1, 1));
}

#[test]
fn wrong_input_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    fs::create_dir(folder.join("empty")).unwrap();
    fs::write(folder.join("words.csv"), "a,b\n1,2\n").unwrap();
    fs::write(folder.join("bad.parquet"), "PAR1").unwrap();
    fs::write(folder.join("boxes.jsonl"), "{\"id\": \"1\"}\n").unwrap();
    let with = |more: &[&'static str]| [&["corpus"], more, &["--out", "survey"]].concat();
    for (args, parts) in [
        (&["nowhere"][..], &["cannot read nowhere"][..]),
        (&["empty"], &["there are no captions in empty"]),
        (&["photos/01.png"], &["is not a file of captions"]),
        (&["photos", "--ratio", "0.5"], &["--ratio is 0.5"]),
        (
            &["photos", "--detections", "boxes.jsonl"],
            &["boxes.jsonl: line 1: no detections"],
        ),
        (
            &["photos", "--judge-model", "x"],
            &["--judge-model needs --judge"],
        ),
        (&["photos", "--judge", "oracle"], &["--detections"]),
    ] {
        refuses(folder, &with(args), parts);
    }
    for (args, part) in [
        (["words.csv"], "--caption-column"),
        (["bad.parquet"], "bad.parquet cannot be read as Parquet"),
    ] {
        let output = prepose()
            .args(with(&args))
            .current_dir(folder)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
    works(folder, &["corpus", "photos", "--out", "mine"]);
    refuses(
        folder,
        &["corpus", "words.csv", "--out", "mine"],
        &["belongs to other files or columns"],
    );
}
