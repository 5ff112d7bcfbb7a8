#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use super::*;
use crate::read;
use prepose_draw::table::{Cell, Table};

fn fixture(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/spatialbench-uc");
    folder.join(name).display().to_string()
}

fn table<'a>(beside: &'a Beside, name: &str) -> &'a Table {
    let mut tables = beside.tables.iter().map(|titled| &titled.table);
    tables.find(|table| table.name == name).unwrap()
}

#[test]
fn the_published_figures_are_those_of_the_abstract() {
    // arXiv:2601.13462: passes, decided, passes of the decided, in percent.
    let abstracts = [[11.8, 23.8, 49.5], [40.4, 42.5, 95.0], [51.6, 52.0, 99.3]];
    let published = data::published().unwrap();
    assert_eq!(published.methods.len(), abstracts.len());
    for (method, percent) in published.methods.iter().zip(abstracts) {
        let checked = &method.calibrated;
        for (share, percent) in [checked.pass_rate, checked.coverage, checked.pass_rate_cond]
            .into_iter()
            .zip(percent)
        {
            assert!(
                (100.0 * share - percent).abs() <= 0.05 + 1e-9,
                "{share} {percent}"
            );
        }
        for checked in [checked, &method.uncalibrated] {
            // Table 6: they sum to what is undecided.
            let undecided: f64 = checked.abstentions.values().sum();
            assert!((undecided + checked.coverage - 1.0).abs() < 1e-12);
            let pairs =
                checked.both_pass + checked.one_sided + checked.both_fail + checked.undecidable;
            assert!((pairs - 1.0).abs() < 1e-12);
            let relations: f64 = checked.by_relation.values().sum();
            assert!((relations / 4.0 - checked.pass_rate).abs() < 1e-12);
        }
    }
}

#[test]
fn rows_stand_above_what_they_are_compared_with() {
    let report = read(&[fixture("sd15_promptonly")], Vec::new(), None).unwrap();
    let beside = beside(&report, &Bootstrap::default()).unwrap();
    let names: Vec<&str> = beside
        .tables
        .iter()
        .map(|titled| titled.table.name)
        .collect();
    assert_eq!(
        names,
        [
            "spatialbench_uc_5",
            "spatialbench_uc_6",
            "spatialbench_uc_7",
            "spatialbench_uc_8",
            "spatialbench_uc_9",
            "spatialbench_uc_10",
            "spatialbench_uc_11",
            "spatialbench_uc_settings"
        ]
    );
    let csv = table(&beside, "spatialbench_uc_5").to_csv();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(
        lines[1].starts_with("\"sd15_promptonly\",\"SD 1.5\",28,7,"),
        "{csv}"
    );
    assert!(
        lines[2].starts_with(
            "\"published: SD 1.5\",\"\",800,200,0.1175,,,0.2375,,,0.4947,,,0.3400,,,0.2059,,"
        ),
        "{csv}"
    );
    assert_eq!(lines.len(), 5, "{csv}");
    // The interval holds the figure, and the figure is the checker's own.
    let counts = prepose_check::spatialbench::Counts::of(
        report.methods[0]
            .records
            .iter()
            .map(|record| record.verdict_raw),
    );
    let Cell::Within(value, [low, high]) = &table(&beside, "spatialbench_uc_5").rows[0][4] else {
        panic!("{csv}");
    };
    assert_eq!(**value, Cell::Rate(counts.pass_rate()));
    assert!(low < high && *low <= counts.pass_rate() && counts.pass_rate() <= *high);
    // Both settings of the checker are there.
    let changes = table(&beside, "spatialbench_uc_9").to_csv();
    assert!(
        changes.contains("\"published: SD 1.5\",\"\",-0.0275,,,-0.0463,,,-0.0163,,,-0.0399,,"),
        "{changes}"
    );
    let markdown = beside.markdown();
    assert!(
        markdown.contains("compared with SD 1.5, and differs from it in prompts (7 for 200)"),
        "{markdown}"
    );
}

/// Of pictures that were made elsewhere.
#[test]
fn what_was_asked_of_a_source_is_compared() {
    let mut report = read(&[fixture("sd15_promptonly")], Vec::new(), None).unwrap();
    report.runs[0].config = Some(serde_json::json!({
        "suite": {"name": "spatialbench-uc"},
        "methods": [{"name": "sd15_promptonly"}],
        "source": {
            "kind": "endpoint", "name": "elsewhere",
            "wishes": {"size": [512, 768], "steps": 30, "guidance_scale": 7.5},
        },
    }));
    let beside = beside(&report, &Bootstrap::default()).unwrap();
    let csv = table(&beside, "spatialbench_uc_settings").to_csv();
    let row = csv.lines().nth(1).unwrap();
    assert!(
        row.contains("\"elsewhere\",,\"30\",\"7.5\",\"512x768\""),
        "{csv}"
    );
}

#[test]
fn the_checkers_settings_decide_the_table() {
    // Of this method only the records of the uncalibrated checker are in the fixture.
    let report = read(&[fixture("sd15_boxdiff")], Vec::new(), None).unwrap();
    let beside = beside(&report, &Bootstrap::default()).unwrap();
    let names: Vec<&str> = beside
        .tables
        .iter()
        .map(|titled| titled.table.name)
        .collect();
    assert_eq!(names, ["spatialbench_uc_8", "spatialbench_uc_settings"]);
    let csv = table(&beside, "spatialbench_uc_8").to_csv();
    assert!(
        csv.lines()
            .nth(2)
            .unwrap()
            .starts_with("\"sd15_boxdiff\",\"SD 1.5 + BoxDiff\",20,5,"),
        "{csv}"
    );
}
