//! `prepose agree`: what it says of invented people is what SciPy, scikit-learn and `krippendorff` say.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{prepose_in, refuses, stderr, stdout, works};
use crate::support::root;

fn study() -> std::path::PathBuf {
    root().join("fixtures/statistics/study")
}

fn expected() -> Value {
    let text = fs::read_to_string(study().join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What a command says as JSON.
#[track_caller]
fn json(args: &[&str]) -> Value {
    let args: Vec<&str> = args
        .iter()
        .copied()
        .chain(["--json", "--bootstrap", "200"])
        .collect();
    serde_json::from_str(&works(&study(), &args)).unwrap()
}

#[track_caller]
fn close(ours: &Value, theirs: &Value) {
    let (ours, theirs) = (ours.as_f64().unwrap(), theirs.as_f64().unwrap());
    assert!((ours - theirs).abs() < 1e-12, "{ours} and {theirs}");
}

const PEOPLE: [&str; 6] = [
    "--people", "anna.csv", "ben.csv", "cleo.csv", "--right", "right",
];

#[test]
fn metrics_are_compared_as_in_the_references() {
    let args: Vec<&str> = ["agree", "correlation"]
        .iter()
        .chain(&PEOPLE)
        .copied()
        .collect();
    let found = json(&[args.as_slice(), &["--metrics", "scores.jsonl"]].concat());
    for row in found["correlations"].as_array().unwrap() {
        let theirs = &expected()["correlation"][row["metric"].as_str().unwrap()];
        for name in ["spearman", "kendall", "pearson"] {
            close(&row[name], &theirs[name]);
            let [low, high] =
                ["low", "high"].map(|end| row[format!("{name}_{end}")].as_f64().unwrap());
            let value = row[name].as_f64().unwrap();
            assert!(low < value && value < high, "{row}");
        }
    }
    let args: Vec<&str> = ["agree", "decisions"]
        .iter()
        .chain(&PEOPLE)
        .copied()
        .collect();
    let found = json(
        &[
            args.as_slice(),
            &["--metrics", "scores.jsonl", "--threshold", "pse=0.5,0.1"],
        ]
        .concat(),
    );
    let rows = found["decisions"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        for (name, theirs) in expected()["decisions"][row["metric"].as_str().unwrap()]
            .as_object()
            .unwrap()
        {
            close(&row[name], theirs);
        }
    }
}

#[test]
fn people_agree_as_in_the_references() {
    let found = json(&[
        "agree",
        "labels",
        "anna.csv",
        "ben.csv",
        "cleo.csv",
        "--words",
        "missing,wrong,right",
    ]);
    let pairs = found["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 3);
    for row in pairs {
        let names = format!(
            "{} {}",
            row["rater"].as_str().unwrap(),
            row["and"].as_str().unwrap()
        );
        close(&row["kappa"], &expected()["kappa"][names]);
    }
    close(&found["krippendorff_alpha"], &expected()["alpha"]);
    assert_eq!(found["divided"], expected()["divided"]);

    let found = json(&["agree", "ratings", "ratings.csv", "--by", "model"]);
    for row in found["ratings"].as_array().unwrap() {
        let theirs = &expected()["ratings"][row["group"].as_str().unwrap()];
        close(&row["mean"], &theirs[0]);
        close(&row["deviation"], &theirs[1]);
    }

    let args = [
        "agree",
        "choices",
        "--people",
        "choices.csv",
        "--scores",
        "sgscores.csv",
        "--score",
        "sgscore",
    ];
    close(
        &json(&args)["pairs"][0]["agreement"],
        &expected()["choices"],
    );
}

/// Neither what most of them say nor the score is one more person.
#[test]
fn scores_and_majorities_are_no_people() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("a.csv", "id,choice\n1,x\n2,y\n3,x\n4,y\n");
    write("b.csv", "id,choice\n1,x\n2,y\n3,y\n4,x\n");
    write("c.csv", "id,choice\n1,y\n2,x\n3,x\n4,y\n");
    write(
        "scores.csv",
        "id,model,score\n1,x,1\n1,y,0\n2,x,0\n2,y,1\n3,x,1\n3,y,0\n4,x,0\n4,y,1\n",
    );
    let json = |args: &[&str]| -> Value {
        let more = ["--bootstrap", "10", "--json"];
        let printed = works(folder.path(), &[&["agree"][..], args, &more].concat());
        serde_json::from_str(&printed).unwrap()
    };
    let labels = json(&["labels", "a.csv", "b.csv", "c.csv"]);
    let of = ["choices", "--scores", "scores.csv", "--people"];
    let choices = json(&[&of[..], &["a.csv", "b.csv", "c.csv"]].concat());
    // Two of three agree on each item, and each word is said as often: (1/3 - 1/2) / (1 - 1/2).
    close(&choices["fleiss_kappa"], &Value::from(-1.0_f64 / 3.0));
    for name in ["fleiss_kappa", "krippendorff_alpha", "items", "divided"] {
        assert_eq!(choices[name], labels[name], "{name}");
    }
    // Five are compared with each other.
    assert_eq!(choices["pairs"].as_array().unwrap().len(), 10);
    let one = json(&[&of[..], &["a.csv"]].concat());
    assert_eq!(one["pairs"].as_array().unwrap().len(), 1);
    assert_eq!(one.get("fleiss_kappa"), None);
}

#[test]
fn tables_go_into_files() {
    let folder = tempfile::tempdir().unwrap();
    let printed = works(
        folder.path(),
        &["agree", "published", "ots-13", "-o", "kappa.csv"],
    );
    assert!(
        printed.contains("Qwen3-VL-8B-Instruct    2400     0.9042  0.8114         0.8100"),
        "{printed}"
    );
    let table = fs::read_to_string(folder.path().join("kappa.csv")).unwrap();
    assert!(
        table.contains("\"Qwen3-VL-8B-Instruct\",2400,0.9042,0.8114,0.8100\n"),
        "{table}"
    );
    // What truth and metric exchanged come to: people say yes equally often, whatever they are compared with.
    let table = works(folder.path(), &["agree", "published", "psg-2"]);
    assert_eq!(table.matches("35.6").count(), 4, "{table}");
}

#[test]
fn wrong_studies_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("people.csv", "id,label\na,right\nb,wrong\n");
    write("twice.csv", "id,label\na,right\na,wrong\n");
    write("strangers.csv", "id,pse\nx,1\ny,0\n");
    write("words.csv", "id,pse\na,high\nb,0\n");
    write("codes.csv", "id,figure,code\na,t2i_homogenization,7\n");
    write("empty.csv", "");
    let at: &Path = folder.path();
    let correlation = |metrics: &'static str, more: &'static [&'static str]| {
        let mut args = vec![
            "agree",
            "correlation",
            "--people",
            "people.csv",
            "--metrics",
            metrics,
        ];
        args.extend(more);
        args
    };
    refuses(
        at,
        &correlation("strangers.csv", &["--right", "right"]),
        &["no items in common", "\"a\" and \"x\""],
    );
    refuses(
        at,
        &correlation("words.csv", &["--right", "right"]),
        &["pse", "is not a number: \"high\""],
    );
    refuses(
        at,
        &correlation("strangers.csv", &[]),
        &["is not a number: \"right\"", "--right"],
    );
    refuses(
        at,
        &correlation("strangers.csv", &["--grades", "wrong"]),
        &["\"right\", which is not one of wrong"],
    );
    refuses(
        at,
        &correlation("empty.csv", &["--right", "right"]),
        &["empty.csv", "no rows"],
    );
    refuses(
        at,
        &correlation("none.csv", &["--right", "right"]),
        &["cannot read none.csv"],
    );
    refuses(
        at,
        &["agree", "labels", "twice.csv"],
        &["twice.csv", "rows 1 and 2 are both about a"],
    );
    refuses(
        at,
        &["agree", "labels", "people.csv"],
        &["only one rater, label"],
    );
    refuses(
        at,
        &["agree", "ots", "codes.csv"],
        &["code is \"7\", not 0, 1, 2 or 3"],
    );
    refuses(
        at,
        &["agree", "ratings", "people.csv"],
        &["no column that has only numbers"],
    );
    write("grades.csv", "id,code\na,2\nb,0\n");
    let decisions = |people: &'static str, more: &'static [&'static str]| {
        let args = [
            "agree",
            "decisions",
            "--people",
            people,
            "--metrics",
            "pse.csv",
        ];
        [&args[..], more].concat()
    };
    write("pse.csv", "id,pse\na,0.7\nb,0.2\n");
    refuses(
        at,
        &decisions("grades.csv", &[]),
        &["about a is \"2\", which is neither 0 nor 1", "--right"],
    );
    refuses(
        at,
        &decisions("people.csv", &["--grades", "wrong,right"]),
        &["--grades"],
    );
    refuses(
        at,
        &decisions("people.csv", &["--right", "wight"]),
        &["nobody says \"wight\"", "right, wrong"],
    );
    works(at, &decisions("grades.csv", &["--right", "2"]));
    let weighted = [
        "agree",
        "labels",
        "people.csv",
        "people.csv",
        "--weights",
        "linear",
    ];
    refuses(
        at,
        &weighted,
        &["right, wrong have none of their own", "--words"],
    );
    works(at, &[&weighted[..], &["--words", "wrong,right"]].concat());
    write("grades-too.csv", "id,code\na,0\nb,10\n");
    let numbers = ["agree", "labels", "grades.csv", "grades-too.csv"];
    works(at, &[&numbers[..], &["--weights", "quadratic"]].concat());
    let output = prepose_in(at, &["agree", "labels", "people.csv", "--words"]);
    assert_eq!(
        output.status.code(),
        Some(2),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
}

/// What the page exports, the other commands read; what is in it: `scripts/audit/study_page.mjs`.
#[test]
fn pages_ask_for_words_numbers_and_choices() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for name in ["a", "b", "a-sd", "a-xl", "b-sd", "b-xl"] {
        image::RgbImage::new(4, 4)
            .save(at.join(format!("{name}.png")))
            .unwrap();
    }
    fs::write(
        at.join("pictures.csv"),
        "id,picture,prompt,sd,xl\n1,a.png,a dog,a-sd.png,a-xl.png\n2,b.png,,b-sd.png,b-xl.png\n",
    )
    .unwrap();
    for (name, answers) in [
        ("--words", "missing,wrong,right"),
        ("--scales", "overall"),
        ("--choice", "sd,xl"),
    ] {
        let printed = works(
            at,
            &[
                "agree",
                "page",
                "pictures.csv",
                name,
                answers,
                "-o",
                "pages/label.html",
            ],
        );
        assert!(printed.contains("2 pictures to label"), "{printed}");
        let page = fs::read_to_string(at.join("pages/label.html")).unwrap();
        assert!(page.contains("\"../a.png\"") && page.contains("a dog"));
        assert_eq!(page.contains("\"../b-xl.png\""), name == "--choice");
    }
    works(
        at,
        &[
            "agree",
            "page",
            "pictures.csv",
            "--choice",
            "sd,xl",
            "--embed",
            "-o",
            "pages/label.html",
        ],
    );
    let page = fs::read_to_string(at.join("pages/label.html")).unwrap();
    assert_eq!(page.matches("data:image/png;base64,").count(), 6);
    let page = |more: &[&'static str]| {
        let mut args = vec!["agree", "page", "pictures.csv", "-o", "page.html"];
        args.extend(more);
        args
    };
    refuses(at, &page(&[]), &["--words"]);
    refuses(at, &page(&["--words", "right"]), &["only one answer"]);
    for name in [
        "id",
        "sample_id",
        "custom_id",
        "item",
        "notes",
        "timestamp",
        "prompt",
    ] {
        let told = format!("{name:?} cannot be an axis");
        refuses(at, &page(&["--scales", name]), &[&told, "something else"]);
    }
    refuses(at, &page(&["--scales", "overall,"]), &["it is empty"]);
    refuses(at, &page(&["--choice", "sd,sdxl"]), &["1 has no sdxl"]);
    fs::remove_file(at.join("b.png")).unwrap();
    refuses(at, &page(&["--words", "yes,no"]), &["cannot read", "b.png"]);

    let export = r#"[{"sample_id":"1","overall":5,"notes":"","timestamp":""},{"sample_id":"2","overall":7,"notes":"","timestamp":""}]"#;
    fs::write(at.join("labels_filled.json"), export).unwrap();
    assert!(works(at, &["agree", "ratings", "labels_filled.json"]).contains("6.0000"));
    // What made which picture is in the table, and not in the export.
    let by = ["agree", "ratings", "labels_filled.json", "--by", "model"];
    refuses(
        at,
        &by,
        &["no column \"model\" in labels_filled", "it has overall"],
    );
    fs::write(
        at.join("made.csv"),
        "id,picture,model\n1,a.png,plain\n2,b.png,tuned\n",
    )
    .unwrap();
    let with = ["agree", "ratings", "labels_filled.json", "made.csv"];
    let printed = works(at, &[&with[..], &["--by", "model"]].concat());
    assert!(
        printed.contains("plain") && printed.contains("7.0000") && !printed.contains("no model"),
        "{printed}"
    );
}

/// A run's own lines: of what is in them, scores are metrics.
#[test]
fn scores_of_a_run_are_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let line = |number: u64, pse: f64| {
        serde_json::json!({
            "sample_id": format!("psg_{number}_seed0000"), "prompt_id": format!("p{number}"), "seed": 0,
            "unet_calls": 20, "guided_calls": 0, "candidates": 1, "seconds": 0.5, "found": 2, "objects": 2,
            "each_found": [true, true], "centre": pse > 0.5, "each_centre": null, "geneval": pse > 0.4,
            "t2i": null, "hrs": null, "pse": pse, "each_pse": null, "side": "left", "level": null
        })
    };
    let (mut scores, mut people) = (String::new(), "id,label\n".to_owned());
    for number in 0..12 {
        let pse = (number * 7 % 12) as f64 / 12.0;
        scores += &format!("{}\n", line(number, pse));
        let word = if pse > 0.5 { "right" } else { "wrong" };
        people += &format!("psg_{number}_seed0000,{word}\n");
    }
    fs::write(folder.path().join("scores.jsonl"), scores).unwrap();
    fs::write(folder.path().join("anna.csv"), people).unwrap();
    let args = [
        "agree",
        "correlation",
        "--people",
        "anna.csv",
        "--grades",
        "missing,wrong,right",
        "--metrics",
        "scores.jsonl",
        "--json",
    ];
    let found: Value = serde_json::from_str(&works(folder.path(), &args)).unwrap();
    let rows = found["correlations"].as_array().unwrap();
    let names: Vec<&str> = (rows.iter())
        .map(|row| row["metric"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["centre", "geneval", "pse"]);
    close(&rows[0]["spearman"], &Value::from(1.0));
    refuses(
        folder.path(),
        &[&args[..], &["--columns", "side"]].concat(),
        &["\"left\"", "--columns"],
    );
}
