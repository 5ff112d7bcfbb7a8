//! `--judge` in `run`, `check` and `score`: a detector's geometry, and a model on a server inside the test.

use std::fs;
use std::path::Path;

use prepose::remote::stub::{Asked, Reply, Stub};
use serde_json::{Value, json};

use crate::program::{prepose, prepose_in, refuses, stderr, stdout, works};

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Two prompts, and three pictures of each, told apart by their colour.
fn provide(folder: &Path) {
    let line =
        |(id, prompt): (&str, &str)| format!("{}\n", json!({"prompt_id": id, "prompt": prompt}));
    let lines = [
        ("p0", "a dog to the left of a cat"),
        ("p1", "a car and a bus"),
    ]
    .map(line);
    fs::write(folder.join("mine.jsonl"), lines.concat()).unwrap();
    fs::create_dir(folder.join("pictures")).unwrap();
    for prompt in 0..2u8 {
        for number in 0..4u8 {
            let picture =
                image::RgbImage::from_pixel(8, 8, image::Rgb([prompt * 100, number * 50, 9]));
            let name = format!("pictures/p{prompt}_{number}.png");
            picture.save(folder.join(name)).unwrap();
        }
    }
}

/// A model that sees everything in pictures whose green is 150 or more, and nothing in others.
fn seer() -> Stub {
    Stub::keeping(|asked| {
        let (picture, text) = question(asked);
        let sees = picture.get_pixel(0, 0).0[1] >= 150;
        Reply::chat(if text.starts_with("Is there") {
            if sees { "Yes" } else { "No" }
        } else if text.starts_with("What is the relationship") {
            let options = [(") left of", ()), (") no visible", ())];
            let (wanted, ()) = options[usize::from(!sees)];
            let at = text.find(wanted).unwrap();
            &text[at - 1..at]
        } else {
            if sees { "1" } else { "3" }
        })
    })
    .unwrap()
}

/// The picture and the text of what a model is asked.
pub fn question(asked: &Asked) -> (image::RgbImage, String) {
    let json = asked.json();
    let content = &json["messages"][0]["content"];
    let url = content[0]["image_url"]["url"].as_str().unwrap_or_default();
    let bytes = prepose::remote::images::decode_picture(url).unwrap();
    let picture = image::load_from_memory(&bytes).unwrap().to_rgb8();
    let text = content[1]["text"].as_str().unwrap_or_default();
    (picture, text.to_owned())
}

/// A search on pictures from elsewhere keeps the one that the judge sees most in, and the finished pictures are judged; the
/// second run asks nothing.
#[test]
fn a_model_chooses_and_judges() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    provide(at);
    let stub = seer();
    let url = format!("{}/v1", stub.address);
    let run = |more: &[&str]| {
        let args = [
            "run",
            "mine.jsonl",
            "--method",
            "prompt-only,best-of-4-judge",
            "--pictures",
            "pictures",
            "--name-template",
            "{prompt_id}_{index}.png",
            "--seeds",
            "0",
            "--checker",
            "none",
            "--judge",
            &url,
            "--judge-model",
            "vlm",
            "--out",
            "r",
            "--json",
            "--price",
            "1,1",
        ];
        let args = [&args, more].concat();
        let mut command = prepose();
        command.args(args).current_dir(at).output().unwrap()
    };
    let output = run(&["--report"]);
    // A report goes without --json.
    assert_eq!(output.status.code(), Some(2));
    let output = run(&[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let told: Value = serde_json::from_str(stdout(&output).lines().last().unwrap()).unwrap();
    let scenes = told["scenes"].as_array().unwrap();
    let row = |method: &str| scenes.iter().find(|row| row["method"] == method).unwrap();
    assert_eq!(row("prompt-only")["sgscore"], 0.0);
    assert_eq!(row("best-of-4-judge")["sgscore"], 100.0);
    assert_eq!(row("best-of-4-judge")["relation_recall"], 100.0);
    // Both prompts have OTS-Bench's questions; a judge that says 1 in both orders is told by its bias.
    let bias = told["bias"].as_array().unwrap();
    let biased = bias
        .iter()
        .find(|row| row["method"] == "best-of-4-judge" && row["setting"] == "t2i_homogenization");
    assert_eq!(biased.unwrap()["first_both_times"], 1);
    assert!(told["cost"].as_f64().unwrap() > 0.0);
    let count = stub.count();
    let output = run(&[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let again: Value = serde_json::from_str(stdout(&output).lines().last().unwrap()).unwrap();
    assert_eq!(
        (&again["asked_now"], &again["scenes"]),
        (&json!(0), &told["scenes"])
    );
    assert_eq!(stub.count(), count);

    // The same by the folder alone, and the page has it all.
    let score = [
        "score",
        "judge",
        "r",
        "--judge",
        &url,
        "--judge-model",
        "vlm",
        "--json",
    ];
    let scored: Value = serde_json::from_str(&works(at, &score)).unwrap();
    assert_eq!(
        (&scored["asked_now"], &scored["scenes"]),
        (&json!(0), &told["scenes"])
    );
    works(at, &["-q", "report", "r"]);
    let page = fs::read_to_string(at.join("r/report/report.html")).unwrap();
    for name in [
        "judge_scenes",
        "judge_figures",
        "judge_bias",
        "judge_answers",
        "judge_cost",
    ] {
        assert!(page.contains(&format!("id=\"table-{name}\"")), "{name}");
    }
    assert!(page.contains("Judged by vlm."));

    // A finished run that was judged is as it was written.
    works(at, &["-q", "verify", "r"]);
}

/// Candidates of one method are all chosen by one judge, wherever it listens; methods that need none come and go.
#[test]
fn another_judge_of_candidates_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    provide(at);
    let stubs = [seer(), seer()];
    let urls = stubs.each_ref().map(|stub| format!("{}/v1", stub.address));
    let run = |method: &str, seeds: &str, judge: &[&str]| {
        let args = [
            "-q",
            "run",
            "mine.jsonl",
            "--pictures",
            "pictures",
            "--name-template",
            "{prompt_id}_{index}.png",
            "--checker",
            "none",
            "--out",
            "r",
            "--method",
            method,
            "--seeds",
            seeds,
        ];
        prepose_in(at, &[&args[..], judge].concat())
    };
    let search = "best-of-2-judge";
    let succeeds = |output: std::process::Output| {
        assert!(output.status.success(), "{}", stderr(&output));
    };
    let fails = |output: std::process::Output, why: &str| {
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(why), "{error}");
    };
    succeeds(run("prompt-only", "0", &[]));
    assert_eq!(read(&at.join("r/run.json"))["judge"], Value::Null);
    succeeds(run(
        search,
        "0",
        &["--judge", &urls[0], "--judge-model", "vlm"],
    ));
    let judge = read(&at.join("r/run.json"))["judge"].clone();
    assert_eq!(judge["model"], "vlm");
    assert_eq!(judge["settings"]["server"], "http://127.0.0.1/v1");
    fails(
        run(
            search,
            "0-1",
            &["--judge", &urls[1], "--judge-model", "other"],
        ),
        "judge.model: \"vlm\" there, \"other\" asked for",
    );
    fails(
        run(
            search,
            "0-1",
            &[
                "--judge",
                &urls[1],
                "--judge-model",
                "vlm",
                "--temperature",
                "0.5",
            ],
        ),
        "temperature: 0.0 there, 0.5 asked for",
    );
    succeeds(run("prompt-only", "0-1", &[]));
    succeeds(run(
        search,
        "0-1",
        &["--judge", &urls[1], "--judge-model", "vlm"],
    ));
    assert_eq!(read(&at.join("r/run.json"))["judge"], judge);
}

/// The oracle sees what the checker sees, so that both agree about what is decided.
#[test]
fn the_oracle_agrees_with_the_checker() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(
        at.join("mine.txt"),
        "a dog to the left of a cat\na car above a bus\na cow and a horse\n",
    )
    .unwrap();
    let args = [
        "-q",
        "run",
        "mine.txt",
        "--method",
        "prompt-only,best-of-2-judge",
        "--seeds",
        "0-1",
        "--steps",
        "6",
        "--judge",
        "oracle",
        "--out",
        "r",
        "--report",
        "--device",
        "flex",
    ];
    works(at, &args);
    let judged = read(&at.join("r/judged/judged.json"));
    let table = |name: &str| {
        let tables = judged["tables"].as_array().unwrap();
        tables
            .iter()
            .find(|table| table["name"] == name)
            .cloned()
            .unwrap_or_default()
    };
    let beside = table("agreement_relations");
    let columns = beside["columns"].as_array().unwrap();
    let of = |row: &Value, name: &str| {
        row[columns.iter().position(|column| column == name).unwrap()]["count"].clone()
    };
    for row in beside["rows"].as_array().unwrap() {
        // What the checker calls a pass is what the oracle sees.
        assert_eq!(of(row, "checker_alone"), 0, "{beside}");
        assert_eq!(of(row, "relations"), 4);
    }
    let lines = fs::read_to_string(at.join("r/judged/judged.jsonl")).unwrap();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["code"], line["code_of_boxes"], "{line}");
    }
    let page = fs::read_to_string(at.join("r/report/report.html")).unwrap();
    assert!(
        page.contains("table-judge_agreement_relations")
            && page.contains("table-judge_figures_by_boxes")
    );
}

#[test]
fn one_picture_is_judged_beside_the_checker() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    provide(at);
    let stub = seer();
    let picture = at.join("pictures/p0_3.png");
    let args = [
        "check",
        picture.to_str().unwrap(),
        "--prompt",
        "a dog to the left of a cat",
        "--judge",
        &stub.address,
        "--judge-model",
        "vlm",
        "--out",
        "checked",
    ];
    let printed = works(at, &args);
    assert!(
        printed.contains("2 of 2 objects, 1 of 1 relations, SGScore 1.00, t2i_aligned 1"),
        "{printed}"
    );
    assert!(
        printed.contains("UNDECIDABLE"),
        "the checker's word stands beside: {printed}"
    );
    let count = stub.count();
    assert_eq!(count, 5);
    let json = works(at, &[&args[..], &["--json"]].concat());
    let line = json.lines().find(|line| line.contains("sgscore")).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(
        (&line["sgscore"], &line["rule"]),
        (&json!(1.0), &json!("judge"))
    );
    assert_eq!(stub.count(), count, "it was asked once");
    let beside = fs::read_to_string(at.join("checked/judged/agreement_relations.csv")).unwrap();
    assert!(
        beside
            .lines()
            .nth(1)
            .unwrap()
            .starts_with("\"pictures\",1,0,0,0,0,1"),
        "{beside}"
    );
}

#[test]
fn judges_that_cannot_work_are_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    provide(at);
    let run = |more: &[&'static str]| {
        [&["run", "mine.jsonl", "--seeds", "0", "--out"][..], more].concat()
    };
    refuses(
        at,
        &run(&["r", "--method", "best-of-2-judge"]),
        &["best-of-2-judge scores candidates by a judge: name one with --judge"],
    );
    refuses(
        at,
        &run(&["r", "--judge", "http://127.0.0.1:9/v1"]),
        &["--judge-model"],
    );
    refuses(
        at,
        &run(&["r", "--judge-model", "m"]),
        &["--judge with the address"],
    );
    refuses(
        at,
        &run(&["s3://bucket/r", "--judge", "oracle"]),
        &["object store", "prepose score judge"],
    );
    refuses(
        at,
        &run(&[
            "r",
            "--method",
            "best-of-2-judge",
            "--judge",
            "oracle",
            "--checker",
            "none",
        ]),
        &["--checker none"],
    );
    refuses(
        at,
        &run(&[
            "r",
            "--method",
            "best-of-2-judge-pruned",
            "--judge",
            "oracle",
        ]),
        &["without pruning"],
    );
    refuses(
        at,
        &["score", "judge", "pictures"],
        &["pictures is not a run's folder"],
    );
    refuses(
        at,
        &["score", "pse", "mine.jsonl", "--judge", "oracle"],
        &["--judge is for prepose score judge"],
    );
    // How somebody is asked says nothing where nobody is.
    refuses(at, &run(&["r", "--judge-rounds", "3"]), &["--judge <URL"]);
    for more in [["--judge-asks", "ots"], ["--price", "1,2"]] {
        let check = [
            "check",
            "pictures/p0_0.png",
            "--prompt",
            "a dog left of a cat",
        ];
        refuses(at, &[&check[..], &more].concat(), &["--judge <URL"]);
    }
    refuses(
        at,
        &[
            "check",
            "pictures/p0_0.png",
            "--prompt",
            "a dog left of a cat",
            "--judge",
            "nonsense",
            "--judge-model",
            "m",
        ],
        &["is not the address of a server"],
    );
    refuses(
        at,
        &run(&["r", "--judge", "oracle", "--judge-asks", "all of it"]),
        &["there are ots, scene and all"],
    );
}

/// A server that is down ends it with one message, and what was made is kept.
#[test]
fn a_server_that_is_gone_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    provide(at);
    let stub =
        Stub::start(|_| Reply::error(500, "bad", "image input is not supported - hint: mmproj"))
            .unwrap();
    let args = [
        "-q",
        "run",
        "mine.jsonl",
        "--pictures",
        "pictures",
        "--name-template",
        "{prompt_id}_{index}.png",
        "--seeds",
        "0",
        "--checker",
        "none",
        "--judge",
        &stub.address,
        "--judge-model",
        "blind",
        "--out",
        "r",
    ];
    let output = prepose_in(at, &args);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains("the model blind at") && told.contains("does not take pictures"),
        "{told}"
    );
    assert!(at.join("r/prompt-only/manifest.jsonl").is_file());
    // Another judge goes on with the same run.
    let good = Stub::start(|_| Reply::chat("1")).unwrap();
    let mut args = args;
    args[12] = &good.address;
    let output = prepose_in(at, &args);
    assert!(output.status.success(), "{}", stderr(&output));
    let judged = read(&at.join("r/judged/judged.json"));
    assert!(
        judged["notes"].to_string().contains("invalid"),
        "a digit is no letter: {judged}"
    );
}
