//! SpatialBench-UC's released records, whose tables are the paper's.

use std::fs;
use std::path::Path;

use prepose::check::spatialbench::tables::{self, Run};
use prepose::check::spatialbench::{Record, read_records};
use serde_json::{Value, json};

use super::made::finished;
use super::{csv, data, page};
use crate::program::{refuses, works};
use crate::support::{fixture, released};

#[test]
fn records_alone_are_enough() {
    let fixture = fixture("spatialbench-uc");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    works(
        folder.path(),
        &[
            "report",
            fixture.join("sd15_promptonly").to_str().unwrap(),
            "-o",
            "out",
        ],
    );
    same_tables(&fixture, &out, &["sd15_promptonly"]);
    assert!(!page(&out).contains("{{") && !page(&out).contains("class=\"notice\" role=\"note\""));
    // Of the other method only the records with another margin are there.
    works(
        folder.path(),
        &["report", fixture.to_str().unwrap(), "-o", "out"],
    );
    assert!(page(&out).contains("sd15_boxdiff 0.05, sd15_promptonly 0.1"));
}

/// The report's tables are those of [`tables`], with all methods as rows.
fn same_tables(runs: &Path, out: &Path, methods: &[&str]) {
    let records = |method: &&str| -> Vec<Record> {
        let file = runs.join(method).join("eval/per_sample.jsonl");
        read_records(&fs::read_to_string(file).unwrap()).unwrap()
    };
    let all: Vec<Vec<Record>> = methods.iter().map(records).collect();
    let runs: Vec<Run> = methods
        .iter()
        .zip(&all)
        .map(|(name, records)| Run { name, records })
        .collect();
    let expected = tables::all(&runs);
    assert_eq!(expected.len(), 6);
    for table in expected {
        let written = fs::read_to_string(out.join(format!("tables/{}.csv", table.name))).unwrap();
        assert_eq!(written, table.to_csv(), "{}", table.name);
    }
}

#[test]
#[ignore = "needs PREPOSE_BENCHMARK_DATA"]
fn the_released_bundle_gives_the_papers_tables() {
    let runs = released("spatialbench-uc/runs/final_20260112_084335");
    let folder = tempfile::tempdir().unwrap();
    let methods = ["sd15_promptonly", "sd15_boxdiff"];
    let given: Vec<String> = methods
        .iter()
        .map(|method| runs.join(method).display().to_string())
        .collect();
    let summary = works(folder.path(), &["report", &given[0], "-o", "out", "--json"]);
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let out = folder.path().join("out");
    same_tables(&runs, &out, &methods[..1]);
    let main = fs::read_to_string(out.join("tables/main_results.csv")).unwrap();
    assert!(
        main.contains("\"sd15_promptonly\",800,0.1175,0.2375,0.4947,0.3400,0.2059"),
        "{main}"
    );
    let changes = fs::read_to_string(out.join("tables/calibration_changes.csv")).unwrap();
    assert!(
        changes.contains("-0.0275,-0.0463,-0.0163,-0.0399"),
        "{changes}"
    );
    // Beside the paper the released records say what it says, to the digit.
    for table in 5..=11 {
        let rows = csv(&out, &format!("spatialbench_uc_{table}"));
        let head = fs::read_to_string(out.join(format!("tables/spatialbench_uc_{table}.csv")));
        let head = head.unwrap();
        let columns = head.lines().next().unwrap().split(',').enumerate().skip(2);
        for (column, name) in
            columns.filter(|(_, name)| !name.ends_with("_low") && !name.ends_with("_high"))
        {
            assert_eq!(rows[0][column], rows[1][column], "table {table}: {name}");
        }
    }
    // People's labels lie beside the methods' folders; 66 of the 200 are of this one's pictures.
    assert_eq!(summary["labels"], 66);
    assert!(out.join("plots/risk_coverage.svg").is_file());
    let html = page(&out);
    assert_eq!(data(&html)["pictures"].as_array().unwrap().len(), 800);
    assert!(html.len() < 700_000, "{}", html.len());
    // Before the calibration, both methods.
    let before = "eval_precal_20260116_113552";
    works(
        folder.path(),
        &[
            "report", &given[0], &given[1], "-o", "before", "--eval", before,
        ],
    );
    let main = fs::read_to_string(folder.path().join("before/tables/main_results.csv")).unwrap();
    assert!(
        main.contains("\"sd15_promptonly\",800,0.1450,0.2838,0.5110,0.4050,0.2458"),
        "{main}"
    );
    assert!(
        main.contains("\"sd15_boxdiff\",800,0.4113,0.4338,0.9481,0.7650,0.4099"),
        "{main}"
    );
    refuses(
        folder.path(),
        &["report", &given[0], "-o", "x", "--eval", "evil"],
        &["no method has a folder evil"],
    );
}

#[test]
fn the_papers_tables_stand_beside_runs_of_its_prompts() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    finished(&run);
    works(folder.path(), &["report", "run"]);
    assert!(!run.join("report/spatialbench-uc.html").exists());
    let config = fs::read_to_string(run.join("run.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["suite"]["name"] = "spatialbench-uc".into();
    config["methods"][1]["guide"] = json!({"method": "pos"});
    config["methods"][2]["search"] = json!({"candidates": 4});
    fs::write(run.join("run.json"), config.to_string()).unwrap();
    works(folder.path(), &["report", "run", "--out", "again"]);
    let out = folder.path().join("again");
    assert!(page(&out).contains("<a href=\"spatialbench-uc.html\">"));
    let html = fs::read_to_string(out.join("spatialbench-uc.html")).unwrap();
    assert!(!html.contains("{{") && html.contains("published: SD 1.4 + GLIGEN"));
    // What is not in the paper is below, without a counterpart; a table that the run has nothing for is left out.
    let main = csv(&out, "spatialbench_uc_5");
    let names: Vec<[&str; 2]> = main.iter().map(|row| [&*row[0], &*row[1]]).collect();
    assert_eq!(
        names,
        [
            ["prompt-only", "SD 1.5"],
            ["published: SD 1.5", ""],
            ["published: SD 1.5 + BoxDiff", ""],
            ["published: SD 1.4 + GLIGEN", ""],
            ["psg", ""],
            ["best-of-4", ""],
        ]
    );
    assert!(!out.join("tables/spatialbench_uc_8.csv").exists());
    let markdown = fs::read_to_string(out.join("spatialbench-uc.md")).unwrap();
    assert!(markdown.contains("## Table 11: counterfactuals"));
    assert!(out.join("tables/spatialbench_uc_11.tex").is_file());
}
