//! `prepose check --records` against SpatialBench-UC's released records: a slice of them that is in `fixtures/`, and all of
//! them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use prepose::check::json;
use prepose::check::spatialbench::prompts::{Counterfactual, PromptVerdicts};
use prepose::check::spatialbench::tables::{self, Run};
use prepose::check::spatialbench::{CheckerConfig, Record, Rule, read_records};
use prepose::table::Cell;
use serde_json::Value;

use crate::program::prepose;
use crate::support::{fixture, released, root};

/// The released bundle.
fn bundle() -> PathBuf {
    released("spatialbench-uc")
}

/// The folders below `folder` that have records and the configuration that made them.
fn runs(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder).unwrap();
        let folders = entries.map(|entry| entry.unwrap().path());
        open.extend(folders.filter(|path| path.is_dir()));
        if folder.join("per_sample.jsonl").exists() {
            found.push(folder);
        }
    }
    found.sort();
    found
}

/// The configuration of a run; the calibrated one is not beside all of the released runs.
fn config(run: &Path) -> PathBuf {
    let beside = run.join("checker_config.yaml");
    if beside.exists() {
        return beside;
    }
    let bundle = run
        .ancestors()
        .find(|folder| folder.join("configs").exists());
    bundle.unwrap().join("configs/checker_v1.yaml")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn records(run: &Path) -> Vec<Record> {
    read_records(&read(&run.join("per_sample.jsonl"))).unwrap()
}

fn check(args: &[&Path]) -> Output {
    prepose().arg("check").args(args).output().unwrap()
}

fn redecide(run: &Path, out: &Path) -> Output {
    let records = run.join("per_sample.jsonl");
    let config = config(run);
    check(&[
        Path::new("--records"),
        &records,
        Path::new("--config"),
        &config,
        Path::new("--out"),
        out,
    ])
}

fn assert_done(output: &Output) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert_eq!(error, "");
}

/// Every file of the run comes out as it went in, to the byte, but for who computed the metrics and when.
fn comes_out_as_it_was(run: &Path) {
    let out = tempfile::tempdir().unwrap();
    assert_done(&redecide(run, out.path()));
    let (before, after) = (
        read(&run.join("per_sample.jsonl")),
        read(&out.path().join("per_sample.jsonl")),
    );
    for (line, (before, after)) in (1..).zip(before.lines().zip(after.lines())) {
        assert_eq!(before, after, "{} line {line}", run.display());
    }
    assert_eq!(before.len(), after.len());
    if run.join("checker_config.yaml").exists() {
        assert_eq!(
            read(&run.join("checker_config.yaml")),
            read(&out.path().join("checker_config.yaml"))
        );
    }
    if run.join("metrics.json").exists() {
        let numbers = |folder: &Path| {
            let text = read(&folder.join("metrics.json"));
            let end = text.find("  \"timestamp_utc\"").unwrap();
            text[..end].to_owned()
        };
        assert_eq!(numbers(run), numbers(out.path()), "{}", run.display());
        let manifest = |folder: &Path| {
            let text = read(&folder.join("metrics.json"));
            json::from_str::<Value>(&text).unwrap()["manifest"].clone()
        };
        assert_eq!(manifest(run), manifest(out.path()));
    }
}

#[test]
fn a_slice_of_the_released_records_comes_out_as_it_was() {
    let runs = runs(&fixture("spatialbench-uc"));
    assert_eq!(runs.len(), 3);
    for run in runs {
        comes_out_as_it_was(&run);
    }
}

#[test]
#[ignore = "needs PREPOSE_BENCHMARK_DATA"]
fn all_released_records_come_out_as_they_were() {
    let bundle = bundle();
    let runs = runs(&bundle.join("runs"));
    assert!(!runs.is_empty());
    for run in &runs {
        comes_out_as_it_was(run);
    }
    eprintln!("{} runs", runs.len());
}

/// Without the evaluator's bugs, and with the stability it measured, it would have said the same.
#[test]
#[ignore = "needs PREPOSE_BENCHMARK_DATA"]
fn no_released_verdict_hangs_on_a_bug() {
    let bundle = bundle();
    for run in runs(&bundle.join("runs")) {
        let rule = Rule {
            config: CheckerConfig::from_yaml(&read(&config(&run))).unwrap(),
            published: false,
        };
        for before in records(&run) {
            let again = before.redecide(&rule).unwrap();
            assert_eq!(again.record, before);
            assert!(!again.unmeasured);
        }
    }
}

/// What the paper and the released reports print of each run: the rows of tables 5 to 8, 10 and 11.
const PUBLISHED: &[(&str, &[(&str, &str)])] = &[
    (
        "sd15_promptonly/eval",
        &[
            ("main_results", "800,0.1175,0.2375,0.4947,0.3400,0.2059"),
            ("prompt_metrics", "200,0.3400,0.0100"),
            ("by_relation", "0.1650,0.1400,0.0750,0.0900"),
            ("counterfactual", "100,0.1900,0.0000,0.0000,0.8100,81"),
        ],
    ),
    (
        "sd15_boxdiff/eval",
        &[
            ("main_results", "800,0.4037,0.4250,0.9500,0.7600,0.3948"),
            ("prompt_metrics", "200,0.7600,0.0850"),
            ("by_relation", "0.4200,0.3850,0.4000,0.4100"),
            ("counterfactual", "100,0.6600,0.0000,0.0000,0.3400,34"),
        ],
    ),
    (
        "sd14_gligen/eval",
        &[
            ("main_results", "800,0.5162,0.5200,0.9928,0.7850,0.5059"),
            ("prompt_metrics", "200,0.7850,0.2150"),
            ("by_relation", "0.5250,0.4900,0.5150,0.5350"),
            ("counterfactual", "100,0.7400,0.0000,0.0000,0.2600,26"),
        ],
    ),
    (
        "sd15_promptonly/eval_precal_20260116_113552",
        &[
            ("main_results", "800,0.1450,0.2838,0.5110,0.4050,0.2458"),
            ("prompt_metrics", "200,0.4050,0.0100"),
        ],
    ),
    (
        "sd15_boxdiff/eval_precal_20260116_113552",
        &[
            ("main_results", "800,0.4113,0.4338,0.9481,0.7650,0.4099"),
            ("prompt_metrics", "200,0.7650,0.0850"),
        ],
    ),
    (
        "sd14_gligen/eval_precal_20260116_113552",
        &[
            ("main_results", "800,0.5175,0.5212,0.9928,0.7850,0.5065"),
            ("prompt_metrics", "200,0.7850,0.2150"),
        ],
    ),
];

#[test]
#[ignore = "needs PREPOSE_BENCHMARK_DATA"]
fn the_published_tables_come_out_of_released_records() {
    let bundle = bundle();
    let all: HashMap<String, Vec<Record>> = runs(&bundle.join("runs"))
        .into_iter()
        .map(|run| {
            let name: Vec<_> = run
                .iter()
                .rev()
                .take(2)
                .map(|part| part.to_string_lossy())
                .collect();
            (format!("{}/{}", name[1], name[0]), records(&run))
        })
        .collect();
    for (run, rows) in PUBLISHED {
        let Some(records) = all.get(*run) else {
            eprintln!("skipped: {run} is not there");
            continue;
        };
        let tables = tables::all(&[Run {
            name: "run",
            records,
        }]);
        for (name, row) in *rows {
            let table = tables.iter().find(|table| table.name == *name).unwrap();
            let csv = table.to_csv();
            assert_eq!(
                csv.lines().nth(1),
                Some(&*format!("\"run\",{row}")),
                "{run} {name}"
            );
        }
    }
    let calibrated = &all["sd15_promptonly/eval"];
    let table = tables::abstentions(&[Run {
        name: "run",
        records: calibrated,
    }]);
    let shares: Vec<f64> = table.rows[0]
        .iter()
        .filter_map(|cell| match cell {
            Cell::Rate(rate) => Some(*rate),
            _ => None,
        })
        .collect();
    assert_eq!(shares, [0.56, 0.09125, 0.10875, 0.0025, 0.0]);
    let counted = Counterfactual::by_picture(calibrated);
    assert_eq!(
        (counted.both_pass, counted.both_fail, counted.one_sided),
        (17, 22, 4)
    );
    assert_eq!(
        (counted.one_undecidable, counted.both_undecidable),
        (104, 253)
    );
    let changes = [
        ("sd15_promptonly", "-0.0275,-0.0463,-0.0163,-0.0399"),
        ("sd15_boxdiff", "-0.0075,-0.0088,+0.0019,-0.0152"),
        ("sd14_gligen", "-0.0013,-0.0013,-0.0000,-0.0007"),
    ];
    for (method, row) in changes {
        let run = |folder: &str| Some(&all.get(&format!("{method}/{folder}"))?[..]);
        let (Some(before), Some(after)) = (run("eval_precal_20260116_113552"), run("eval")) else {
            continue;
        };
        let run = |records| Run {
            name: "run",
            records,
        };
        let csv = tables::calibration_changes(&[(run(before), run(after))]).to_csv();
        assert_eq!(
            csv.lines().nth(1),
            Some(&*format!("\"run\",{row}")),
            "{method}"
        );
    }
}

#[test]
fn prompts_and_their_counterfactuals() {
    let folder = root().join("fixtures/spatialbench-uc/sd15_promptonly/eval");
    let records = records(&folder);
    let verdicts = PromptVerdicts::of(&records, 4);
    assert_eq!(verdicts.best.len(), 7);
    let few = PromptVerdicts::of(&records[..3], 4);
    assert_eq!(few.all_counts().undecidable, 1);
    // 0 with 1, 2 with 3, 80 with 81; 8 has no partner here.
    assert_eq!(Counterfactual::of(&records).total(), 3);
    assert_eq!(Counterfactual::by_picture(&records).total(), 12);
    let table = tables::main_results(&[Run::of(&records)]);
    assert!(table.to_csv().contains("\n\"sd15_promptonly\",28,"));
    assert!(table.to_markdown().starts_with("| run | samples |"));
}

#[test]
fn another_configuration_decides_anew() {
    let folder = root().join("fixtures/spatialbench-uc/sd15_promptonly");
    let out = tempfile::tempdir().unwrap();
    let records_file = folder.join("eval/per_sample.jsonl");
    let config = out.path().join("wide.yaml");
    fs::write(&config, "geometry: {margin: 0.9}\n").unwrap();
    let target = out.path().join("out");
    let output = check(&[
        Path::new("--records"),
        &records_file,
        Path::new("--config"),
        &config,
        Path::new("--out"),
        &target,
        Path::new("--json"),
    ]);
    assert_done(&output);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["metrics"]["coverage"], 0.0);
    let before = records(&folder.join("eval"));
    let decided = before
        .iter()
        .filter(|record| record.verdict_raw.is_decided());
    assert_eq!(summary["changed_verdicts"], decided.count());
    let metrics: Value = json::from_str(&read(&target.join("metrics.json"))).unwrap();
    assert_eq!(metrics["config"], config.display().to_string());
    assert!(target.join("tables/main_results.csv").exists());
}

#[test]
fn what_was_not_measured_is_warned_of() {
    let folder = root().join("fixtures/spatialbench-uc/sd15_promptonly/eval");
    let out = tempfile::tempdir().unwrap();
    let config = out.path().join("narrow.yaml");
    fs::write(&config, "geometry: {margin: 0.001}\n").unwrap();
    let output = check(&[
        Path::new("--records"),
        &folder.join("per_sample.jsonl"),
        Path::new("--config"),
        &config,
        Path::new("--out"),
        out.path(),
    ]);
    assert_eq!(output.status.code(), Some(0));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.starts_with("warning: "), "{error}");
}

/// Errors name the file and the line, and nothing is written.
#[test]
fn broken_records_are_refused_whole() {
    let folder = root().join("fixtures/spatialbench-uc/sd15_promptonly/eval");
    let good = read(&folder.join("per_sample.jsonl"));
    let lines: Vec<&str> = good.lines().collect();
    let place = tempfile::tempdir().unwrap();
    let cases = [
        (format!("{}\n{}\n", lines[0], &lines[1][..300]), "line 2: "),
        (
            format!("{}\n{}\n", lines[0], lines[0]),
            "is already on line 1",
        ),
        (
            lines[0].replace("\"relation\": \"left_of\", ", ""),
            "line 1: missing field `relation`",
        ),
        (lines[0].replace("left_of", "near"), "\"near\""),
        (String::new(), "no record"),
    ];
    for (number, (text, wanted)) in cases.into_iter().enumerate() {
        let file = place.path().join("records.jsonl");
        fs::write(&file, text).unwrap();
        let out = place.path().join(format!("out{number}"));
        let output = check(&[
            Path::new("--records"),
            &file,
            Path::new("--config"),
            &folder.join("checker_config.yaml"),
            Path::new("--out"),
            &out,
        ]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(wanted), "{error}");
        assert!(error.contains("records.jsonl"), "{error}");
        assert!(!out.exists());
    }
}

#[test]
fn other_wrong_input() {
    let folder = root().join("fixtures/spatialbench-uc/sd15_promptonly/eval");
    let records = folder.join("per_sample.jsonl");
    let place = tempfile::tempdir().unwrap();
    let config = place.path().join("config.yaml");
    let out = place.path().join("out");
    let flags = ["--records", "--config", "--out"].map(Path::new);
    let run = |records: &Path, config: &Path, out: &Path| {
        let output = check(&[flags[0], records, flags[1], config, flags[2], out]);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    fs::write(&config, "thresholds:\n  detection_scor: 0.3\n").unwrap();
    let error = run(&records, &config, &out);
    assert!(
        error.contains("config.yaml") && error.contains("`detection_scor`"),
        "{error}"
    );
    let judged: [&Path; 6] = [
        flags[0],
        &records,
        flags[2],
        &out,
        Path::new("--judge"),
        Path::new("oracle"),
    ];
    let output = check(&judged);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("nothing to ask --judge about"), "{error}");
    assert!(!out.exists());
    let error = run(
        &place.path().join("none.jsonl"),
        &folder.join("checker_config.yaml"),
        &out,
    );
    assert!(error.contains("none.jsonl"), "{error}");
    fs::write(place.path().join("latin.jsonl"), b"{}\n\xe9\n").unwrap();
    let error = run(
        &place.path().join("latin.jsonl"),
        &folder.join("checker_config.yaml"),
        &out,
    );
    assert!(error.contains("line 2 is not UTF-8"), "{error}");
    // Its own results.
    let copy = place.path().join("per_sample.jsonl");
    fs::copy(&records, &copy).unwrap();
    let error = run(&copy, &folder.join("checker_config.yaml"), place.path());
    assert!(error.contains("would be overwritten"), "{error}");
    assert_eq!(read(&copy), read(&records));
    // Without a configuration beside it.
    let output = check(&[flags[0], &copy, flags[2], &out]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("--config"), "{error}");
    assert!(!out.exists());
}
