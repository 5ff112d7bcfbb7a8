//! The audit against what Python makes of the same records (`scripts/reference/cases/audit.py`), against SpatialBench-UC's
//! released audit where that is at hand, and as a user meets it, wrong input first.
//!
//! `fixtures/audit` has the audited pictures of one released run. The whole runs are read from `spatialbench-uc` in the folder
//! that `PREPOSE_SHARED_DATA` names, or in `../shared/data`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use prepose::audit::agreement::Agreement;
use prepose::audit::curve::{ZeroCoverage, curve, every_threshold};
use prepose::audit::draw::{Candidate, draw};
use prepose::audit::grid::{Grid, best};
use prepose::audit::join::{Audit, JoinError};
use prepose::audit::redecide::{Redecider, Semantics, name_detectors};
use prepose::audit::{labels, table};
use prepose::check::json;
use prepose::check::spatialbench::record::relation_name;
use prepose::check::spatialbench::{CheckerConfig, Record, read_records};
use serde_json::Value;

const MARGINS: [(&str, f64); 2] = [("calibrated", 0.1), ("uncalibrated", 0.05)];

fn fixture(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/audit");
    folder.join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(fixture(name)).unwrap()
}

fn path(name: &str) -> String {
    fixture(name).to_str().unwrap().to_owned()
}

fn records(name: &str) -> Vec<Record> {
    read_records(&text(&format!("{name}.jsonl"))).unwrap()
}

fn expected() -> Value {
    json::from_str(&text("expected.json")).unwrap()
}

fn audit(names: &[&str]) -> Audit {
    let labels = labels::read(&text("labels_filled.json")).unwrap();
    let rows = table::read(&text("sample.csv")).unwrap();
    let all = names.iter().flat_map(|name| records(name));
    Audit::new(all, &labels, Some(&rows), false).unwrap()
}

fn float(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn draws_are_pythons() {
    let mut candidates = Vec::new();
    for (name, _) in MARGINS {
        candidates.extend(records(name).into_iter().map(|record| Candidate {
            method: name.into(),
            relation: relation_name(record.relation),
            verdict: record.verdict_raw,
            conf: record.conf,
        }));
    }
    for case in expected()["draws"].as_array().unwrap() {
        let (n, seed) = (case["n"].as_u64().unwrap(), case["seed"].as_u64().unwrap());
        let drawn = draw(&candidates, n as usize, seed);
        let expected: Vec<usize> = serde_json::from_value(case["drawn"].clone()).unwrap();
        assert_eq!(drawn, expected, "{n} with seed {seed}");
    }
}

#[test]
fn agreement_and_curves_are_pythons_to_the_last_digit() {
    let expected = expected();
    for (name, margin) in MARGINS {
        let judgements = audit(&["calibrated", "uncalibrated"]).judgements(margin);
        let agreement = serde_json::to_value(Agreement::of(&judgements)).unwrap();
        for (key, value) in expected["agreement"][name].as_object().unwrap() {
            assert_eq!(agreement[key], *value, "{name} {key}");
        }
        let thresholds = every_threshold(&judgements);
        let points = curve(
            &judgements,
            judgements.len(),
            &thresholds,
            ZeroCoverage::Safe,
        );
        let expected = expected["curves"][name].as_array().unwrap();
        assert_eq!(points.len(), expected.len());
        for (point, expected) in points.iter().zip(expected) {
            for (key, value) in expected.as_object().unwrap() {
                let ours = &serde_json::to_value(point).unwrap()[key];
                assert_eq!(float(ours), float(value), "{name} {key} at {}", point.tau);
            }
        }
    }
}

#[test]
fn grid_searches_are_pythons_to_the_last_digit() {
    let cases: [(&str, &[&str]); 3] = [
        ("calibrated", &["calibrated"]),
        ("uncalibrated", &["uncalibrated"]),
        ("both", &["calibrated", "uncalibrated"]),
    ];
    for (name, of) in cases {
        let expected = &expected()["grids"][name];
        let audit = audit(of);
        for semantics in [Semantics::Deployed, Semantics::Override] {
            for published in [true, false] {
                let mut config = CheckerConfig::default();
                name_detectors(&mut config, &audit.pictures);
                let mut redecider = Redecider::new(&audit.pictures, &config, published, semantics);
                let trials = Grid::default()
                    .trials(66, ZeroCoverage::Safe, |margin, score| {
                        redecider.judge(margin, score)
                    })
                    .unwrap();
                let numbers: Vec<[f64; 7]> = trials
                    .iter()
                    .map(|t| {
                        [
                            t.margin,
                            t.detection_score,
                            t.confidence_threshold,
                            t.false_pass_rate,
                            t.risk,
                            t.coverage,
                            t.score,
                        ]
                    })
                    .collect();
                let wanted: Vec<[f64; 7]> =
                    serde_json::from_value(expected["trials"].clone()).unwrap();
                assert_eq!(numbers, wanted, "{name} {semantics:?} {published}");
                let chosen = expected["best"].as_u64().unwrap() as usize;
                assert_eq!(best(&trials), Some(&trials[chosen]));
            }
        }
    }
}

/// A record that keeps detections of low scores tells the two meanings of the detection threshold apart.
#[test]
fn a_detection_threshold_has_two_meanings() {
    let mut audit = audit(&["calibrated"]);
    let mut config = CheckerConfig::default();
    config.detector.primary.params.score_threshold = Some(0.5);
    let decided = |audit: &Audit, semantics, t_det| {
        let mut redecider = Redecider::new(&audit.pictures, &config, false, semantics);
        let judgements = redecider.judge(0.1, t_det).unwrap();
        judgements.iter().filter(|j| j.is_decided(0.0)).count()
    };
    assert_eq!(decided(&audit, Semantics::Deployed, 0.2), 21);
    assert_eq!(decided(&audit, Semantics::Override, 0.2), 21);
    for picture in &mut audit.pictures {
        for detection in &mut picture.records[0].detectors.primary.detections {
            detection.score *= 0.5;
        }
    }
    assert_eq!(decided(&audit, Semantics::Deployed, 0.2), 0);
    assert!(decided(&audit, Semantics::Override, 0.2) > 15);
    assert_eq!(decided(&audit, Semantics::Override, 0.5), 0);
}

#[test]
fn labels_of_another_sample_are_refused() {
    let labels = labels::read(&text("labels_filled.json")).unwrap();
    let rows = table::read(&text("sample.csv")).unwrap();
    let refused = Audit::new(records("calibrated"), &labels, Some(&rows[..60]), true);
    assert!(matches!(
        refused,
        Err(JoinError::NotInSample {
            count: 6,
            total: 66,
            ..
        })
    ));
    // What nobody has labelled counts for the coverage and for nothing else.
    let some = Audit::new(records("calibrated"), &labels[..10], Some(&rows), false).unwrap();
    assert_eq!(some.pictures.len(), 66);
    assert_eq!(Agreement::of(&some.judgements(0.1)).total_samples, 10);
}

#[test]
fn the_released_table_is_written_as_it_was_read() {
    let released = text("sample.csv");
    let rows = table::read(&released).unwrap();
    assert_eq!(rows.len(), 66);
    assert_eq!(
        String::from_utf8(table::write(&rows).unwrap()).unwrap(),
        released
    );
}

fn prepose(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_prepose"))
        .args(args)
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .output()
        .unwrap()
}

#[track_caller]
fn works(folder: &Path, args: &[&str]) -> String {
    let output = prepose(folder, args);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

/// The command fails with code 2 and one message that contains each of `parts`, and writes nothing.
#[track_caller]
fn refuses(folder: &Path, args: &[&str], parts: &[&str]) {
    let before = fs::read_dir(folder).unwrap().count();
    let output = prepose(folder, args);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(!message.contains("panicked"), "{message}");
    for part in parts {
        assert!(
            message.contains(part),
            "{args:?}: {message:?} lacks {part:?}"
        );
    }
    assert_eq!(
        fs::read_dir(folder).unwrap().count(),
        before,
        "{args:?} left something"
    );
}

#[test]
fn calibrate_prints_and_writes_what_it_chose() {
    let folder = tempfile::tempdir().unwrap();
    let (records, labels) = (path("calibrated.jsonl"), path("labels_filled.json"));
    let args = [
        "audit",
        "calibrate",
        "--records",
        &records,
        "--labels",
        &labels,
        "--out",
        "out",
    ];
    let printed = works(folder.path(), &args);
    assert!(
        printed.contains("chosen m = 0.05, t_det = 0.2, tau = 0.7, J = 0.3561"),
        "{printed}"
    );
    assert!(
        printed.contains("0.1    0.2   0.7   0.4318    0.1364   0.00000     0.00000"),
        "{printed}"
    );
    assert!(
        printed.contains("stability was never measured"),
        "{printed}"
    );

    let written = fs::read_to_string(folder.path().join("out/calibration.json")).unwrap();
    let report: Value = json::from_str(&written).unwrap();
    assert_eq!(report["best_parameters"]["margin"], 0.05);
    assert_eq!(report["best_parameters"]["detection_score"], 0.2);
    assert_eq!(report["best_parameters"]["confidence_threshold"], 0.7);
    assert_eq!(float(&report["best_metrics"]["score"]), 0.3560606060606061);
    assert_eq!(report["override"]["trials"].as_array().unwrap().len(), 36);
    let mut args = args.to_vec();
    args.push("--json");
    assert_eq!(
        json::from_str::<Value>(&works(folder.path(), &args)).unwrap(),
        report
    );

    let grid = fs::read_to_string(folder.path().join("out/grid.csv")).unwrap();
    assert_eq!(grid.lines().count(), 1 + 2 * 36);
    let yaml = fs::read_to_string(folder.path().join("out/checker_config.yaml")).unwrap();
    let config = CheckerConfig::from_yaml(&yaml).unwrap();
    assert_eq!(
        (config.geometry.margin, config.thresholds.detection_score),
        (0.05, 0.2)
    );
}

#[test]
fn analyze_writes_the_released_files() {
    let folder = tempfile::tempdir().unwrap();
    let labels = path("labels_filled.json");
    let [calibrated, uncalibrated] = MARGINS.map(|(name, _)| path(&format!("{name}.jsonl")));
    let args = [
        "audit",
        "analyze",
        "--labels",
        &labels,
        "--records",
        &calibrated,
    ];
    let printed = works(folder.path(), &[&args[..], &["--out", "one"]].concat());
    assert!(printed.contains("accuracy 0.9286"), "{printed}");
    let metrics = fs::read_to_string(folder.path().join("one/audit_metrics.json")).unwrap();
    let metrics: Value = json::from_str(&metrics).unwrap();
    assert_eq!(
        metrics["confusion_matrix"]["confusion_matrix"]["PASS"]["PASS"],
        6
    );
    assert_eq!(metrics["tau_sweep"]["strategy"], "unique");

    let both = [
        &args[..],
        &[
            &uncalibrated,
            "--out",
            "two",
            "--tau-step",
            "0.05",
            "--json",
        ],
    ]
    .concat();
    let report: Value = serde_json::from_str(&works(folder.path(), &both)).unwrap();
    assert_eq!(report["margins"][0]["tau_sweep"]["n_taus"], 21);
    let file = folder.path().join("two/margin-0.05/audit_metrics.json");
    let metrics: Value = json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(
        metrics["confusion_matrix"]["confusion_matrix"]["PASS"]["FAIL"],
        1
    );
    let csv = fs::read_to_string(folder.path().join("two/risk_coverage.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 2 * 21);
    let svg = fs::read_to_string(folder.path().join("two/risk_coverage.svg")).unwrap();
    assert!(svg.contains("margin 0.05") && svg.contains("margin 0.1"));
}

#[test]
fn a_sample_becomes_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("runs/sd15_my run");
    fs::create_dir_all(run.join("eval")).unwrap();
    fs::create_dir_all(run.join("images")).unwrap();
    fs::copy(
        fixture("calibrated.jsonl"),
        run.join("eval/per_sample.jsonl"),
    )
    .unwrap();
    let records = "runs/sd15_my run/eval/per_sample.jsonl";
    let out = ["--out", "audit/sample.csv"];
    let printed = works(
        folder.path(),
        &[
            &["audit", "sample", "--records", records, "-n", "12"],
            &out[..],
        ]
        .concat(),
    );
    assert!(printed.contains("12 of 66 pictures"), "{printed}");
    let rows =
        table::read(&fs::read_to_string(folder.path().join("audit/sample.csv")).unwrap()).unwrap();
    assert_eq!(rows.len(), 12);
    let first = &rows[0];
    assert_eq!(
        (first.run_id.as_str(), first.method.as_str()),
        ("sd15_my run", "my run")
    );
    assert_eq!(
        first.image_path,
        format!("../runs/sd15_my run/images/{}.png", first.sample_id)
    );

    let label = ["audit", "label", "--sample", "audit/sample.csv"];
    refuses(
        folder.path(),
        &label,
        &["12 of 12 pictures are not there", "--pictures"],
    );
    for row in &rows {
        let picture = image::RgbImage::from_pixel(4, 4, image::Rgb([9, 99, 199]));
        picture
            .save(folder.path().join("audit").join(&row.image_path))
            .unwrap();
    }
    works(folder.path(), &label);
    let page = fs::read_to_string(folder.path().join("audit/label.html")).unwrap();
    assert!(page.contains("../runs/sd15_my%20run/images/") && !page.contains("data:image/png"));
    let embedded = works(
        folder.path(),
        &[&label[..], &["--embed", "--out", "page.html", "--json"]].concat(),
    );
    assert_eq!(
        serde_json::from_str::<Value>(&embedded).unwrap()["samples"],
        12
    );
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert_eq!(page.matches("data:image/png;base64,").count(), 12);

    fs::write(
        folder.path().join("audit").join(&rows[3].image_path),
        "no picture",
    )
    .unwrap();
    refuses(folder.path(), &label, &["no picture that a browser shows"]);
}

#[test]
fn nonsense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let there = |name: &str| folder.path().join(name);
    let (records, labels) = (path("calibrated.jsonl"), path("labels_filled.json"));
    fs::write(there("empty.json"), "").unwrap();
    fs::write(there("latin.json"), b"[\xe9]").unwrap();
    fs::write(
        there("maybe.json"),
        r#"[{"sample_id":"a","human_verdict":"maybe"}]"#,
    )
    .unwrap();
    fs::write(
        there("other.json"),
        r#"[{"sample_id":"a","human_verdict":"PASS"}]"#,
    )
    .unwrap();
    let more = text("labels_filled.json").replacen(
        '[',
        r#"[{"sample_id":"a","human_verdict":"PASS"},"#,
        1,
    );
    fs::write(there("more.json"), more).unwrap();
    let twice = text("labels_filled.json");
    let entry = &twice[twice.find('{').unwrap()..=twice.find('}').unwrap()];
    fs::write(
        there("twice.json"),
        twice.replacen('[', &format!("[{entry},"), 1),
    )
    .unwrap();
    let broken = text("calibrated.jsonl").replacen("\"conf\"", "\"con\"", 1);
    fs::write(there("broken.jsonl"), broken).unwrap();

    for command in ["analyze", "calibrate"] {
        let refuse = |records: &str, labels: &str, parts: &[&str]| {
            let args = [
                "audit",
                command,
                "--records",
                records,
                "--labels",
                labels,
                "--out",
                "out",
            ];
            refuses(folder.path(), &args, parts);
        };
        refuse("gone.jsonl", &labels, &["gone.jsonl"]);
        refuse("broken.jsonl", &labels, &["broken.jsonl", "line 1", "conf"]);
        refuse("empty.json", &labels, &["empty.json", "no record"]);
        refuse(&records, "gone.json", &["gone.json"]);
        refuse(&records, "empty.json", &["empty.json", "no labels"]);
        refuse(&records, "latin.json", &["latin.json", "UTF-8"]);
        refuse(
            &records,
            "maybe.json",
            &["label 1 (a)", "maybe", "UNDECIDABLE"],
        );
        refuse(&records, "other.json", &["none of the 1 pictures"]);
        refuse(
            &records,
            "more.json",
            &["1 of 67 pictures", "first is a)", "--partial"],
        );
        refuse(&records, "twice.json", &["has a label already"]);
    }
    let base = [
        "audit",
        "calibrate",
        "--records",
        &records,
        "--labels",
        &labels,
        "--out",
        "out",
    ];
    refuses(
        folder.path(),
        &[&base[..], &["--margins", "0.1,2"]].concat(),
        &["--margins has 2"],
    );
    refuses(
        folder.path(),
        &[&base[..], &["--config", "empty.yaml"]].concat(),
        &["empty.yaml"],
    );
    refuses(
        folder.path(),
        &[
            "audit",
            "sample",
            "--records",
            &records,
            &records,
            "--out",
            "s.csv",
        ],
        &["record once"],
    );
    refuses(
        folder.path(),
        &["audit", "label", "--sample", "empty.json"],
        &["no samples"],
    );

    // Left out on request; a byte order mark and CR LF are nobody's fault.
    let partial = [
        "audit",
        "calibrate",
        "--records",
        &records,
        "--labels",
        "more.json",
        "--partial",
        "--out",
        "out",
    ];
    let printed = works(folder.path(), &partial);
    assert!(
        printed.contains("left out for want of a record: 1") && printed.contains("J = 0.3561"),
        "{printed}"
    );
    let windows = |name: &str| {
        format!(
            "\u{feff}{}",
            text(name).replace("\r\n", "\n").replace('\n', "\r\n")
        )
    };
    fs::write(there("w.jsonl"), windows("calibrated.jsonl")).unwrap();
    fs::write(there("w.json"), windows("labels_filled.json")).unwrap();
    fs::write(there("w.csv"), windows("sample.csv")).unwrap();
    let windows = [
        "audit",
        "calibrate",
        "--records",
        "w.jsonl",
        "--labels",
        "w.json",
        "--sample",
        "w.csv",
        "--out",
        "out",
    ];
    assert!(works(folder.path(), &windows).contains("J = 0.3561"));
}

/// The released runs, if they are at hand.
fn released() -> Option<PathBuf> {
    let shared = std::env::var_os("PREPOSE_SHARED_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        PathBuf::from,
    );
    let runs = shared.join("spatialbench-uc/runs/final_20260112_084335");
    if runs.is_dir() {
        return Some(runs);
    }
    println!(
        "skipped: {} is not there; PREPOSE_SHARED_DATA names its folder",
        runs.display()
    );
    None
}

/// The released draw took 66, 67 and 67 pictures of three runs. Of the third nothing is needed but how many strata it has and
/// that they are large enough: only these change the generator's state before the first run's turn.
#[test]
fn the_released_sample_is_drawn_again() {
    let Some(runs) = released() else { return };
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("runs/final_20260112_084335");
    for run in ["sd15_promptonly", "sd15_boxdiff", "sd14_gligen"] {
        let (from, to) = (runs.join(run), bundle.join(run));
        fs::create_dir_all(to.join("eval")).unwrap();
        let records = from.join("eval_precal_20260116_113552/per_sample.jsonl");
        let records = match run {
            "sd14_gligen" => stand_in(&runs),
            _ => fs::read_to_string(records).unwrap(),
        };
        fs::write(to.join("eval/per_sample.jsonl"), records).unwrap();
        if run != "sd14_gligen" {
            fs::copy(from.join("manifest.jsonl"), to.join("manifest.jsonl")).unwrap();
        }
    }
    let file = |run: &str| format!("runs/final_20260112_084335/{run}/eval/per_sample.jsonl");
    let files = ["sd15_promptonly", "sd15_boxdiff", "sd14_gligen"].map(file);
    let mut args = vec![
        "audit",
        "sample",
        "--out",
        "audits/v1/sample.csv",
        "--records",
    ];
    args.extend(files.iter().map(String::as_str));
    works(folder.path(), &args);
    let ours = fs::read_to_string(folder.path().join("audits/v1/sample.csv")).unwrap();
    let theirs = fs::read_to_string(runs.join("audits/v1/sample.csv")).unwrap();
    assert_eq!(ours.lines().count(), 201);
    assert_eq!(
        ours.lines()
            .filter(|line| line.ends_with(",boxdiff"))
            .count(),
        67
    );
    let rows = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| line.ends_with(",promptonly"))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(rows(&theirs).len(), 66);
    assert_eq!(rows(&ours), rows(&theirs));
}

/// Records of a run with ten strata, made from another run's.
fn stand_in(runs: &Path) -> String {
    let records = runs.join("sd15_promptonly/eval_precal_20260116_113552/per_sample.jsonl");
    fs::read_to_string(records)
        .unwrap()
        .lines()
        .filter(|line| {
            let of = |relation| line.contains(&format!("\"relation\": \"{relation}\""));
            !(line.contains("\"verdict_raw\": \"FAIL\"") && (of("above") || of("below")))
        })
        .map(|line| line.replace("sd15_promptonly", "sd14_gligen") + "\n")
        .collect()
}

/// The released records of the audited pictures give the committed slice's figures, from the whole runs.
#[test]
fn the_released_runs_are_analyzed() {
    let Some(runs) = released() else { return };
    let folder = tempfile::tempdir().unwrap();
    let in_runs = |name: &str| runs.join(name).to_str().unwrap().to_owned();
    let labels = in_runs("audits/v1/labels_filled.json");
    let sample = in_runs("audits/v1/sample.csv");
    let files = ["eval", "eval_precal_20260116_113552"]
        .map(|eval| in_runs(&format!("sd15_promptonly/{eval}/per_sample.jsonl")));
    let mut args = vec![
        "audit",
        "analyze",
        "--labels",
        &labels,
        "--sample",
        &sample,
        "--out",
        "out",
        "--json",
        "--records",
    ];
    args.extend(files.iter().map(String::as_str));
    let report: Value = json::from_str(&works(folder.path(), &args)).unwrap();
    let expected = expected();
    for (margins, (name, _)) in report["margins"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .zip(MARGINS)
    {
        for (key, value) in expected["agreement"][name].as_object().unwrap() {
            assert_eq!(margins["confusion_matrix"][key], *value, "{name} {key}");
        }
        assert_eq!(
            margins["risk_coverage_curve"], expected["curves"][name],
            "{name}"
        );
    }
}
