//! Unfinished runs, shards, and several runs in one report.

use serde_json::{Value, json};

use super::made::{finished, write_run};
use super::{csv, data, page, write};
use crate::program::{prepose_in, refuses, stderr, works};

#[test]
fn an_unfinished_run_is_reported_as_far_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    // The first method is folded, the second has 3 of 8 pictures, the third none.
    write_run(&run, Value::Null, |index| index < 11, |method| method == 0);
    let output = prepose_in(folder.path(), &["report", "run", "-o", "out"]);
    let message = stderr(&output);
    assert!(output.status.success(), "{message}");
    assert!(
        message.contains("not finished")
            && message.contains("psg 3 of 8")
            && message.contains("best-of-4 0 of 8"),
        "{message}"
    );
    let out = folder.path().join("out");
    let html = page(&out);
    assert!(html.contains("psg 3 of 8"));
    assert_eq!(
        data(&html)["pictures"][8][14][0]["counts"],
        "Z4:f00000000000000fc0",
        "of a sample that is not folded"
    );
    assert_eq!(
        csv(&out, "main_results")[1][..2],
        ["psg", "3"].map(String::from)
    );
    assert_eq!(csv(&out, "main_results").len(), 2);
    // A sample that a power cut left empty is to be made again.
    write(run.join("psg/samples/000011.json"), "");
    let summary = works(folder.path(), &["report", "run", "-o", "out", "--json"]);
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["complete"], false);
    assert_eq!(
        summary["methods"][1],
        json!({"name": "psg", "pictures": 3, "planned": 8, "refused": 0, "checked": 3})
    );
    // A half-written one is not what this program leaves.
    write(run.join("psg/samples/000011.json"), "{\"index\": 11, \"man");
    refuses(
        folder.path(),
        &["report", "run", "-o", "out"],
        &["psg/samples/000011.json", "broken"],
    );
}

#[test]
fn shards_are_one_run() {
    let folder = tempfile::tempdir().unwrap();
    finished(&folder.path().join("whole"));
    for index in 0..3 {
        let run = folder.path().join(format!("parts/shard-00{index}-of-003"));
        let shard = if index == 0 {
            json!("0/3")
        } else {
            json!({"index": index, "count": 3})
        };
        write_run(&run, shard, |job| job % 3 == index, |method| method != 1);
    }
    works(folder.path(), &["report", "whole", "-o", "a"]);
    works(folder.path(), &["report", "parts", "-o", "b"]);
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    for table in [
        "main_results",
        "intervals",
        "visor",
        "rules",
        "costs",
        "counterfactual_by_picture",
    ] {
        assert_eq!(csv(&a, table), csv(&b, table), "{table}");
    }
    assert!(!page(&b).contains("Not finished"));
    refuses(
        folder.path(),
        &[
            "report",
            "parts/shard-000-of-003",
            "parts/shard-000-of-003",
            "-o",
            "c",
        ],
        &["prompt-only_p0_seed0000 is in", "and again in"],
    );
    let summary = works(
        folder.path(),
        &["report", "parts/shard-001-of-003", "-o", "c", "--json"],
    );
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(
        (&summary["complete"], &summary["pictures"]),
        (&json!(true), &json!(8))
    );
    // What a missing shard was to make is not there.
    std::fs::remove_dir_all(folder.path().join("parts/shard-001-of-003")).unwrap();
    let output = prepose_in(folder.path(), &["report", "parts", "-o", "d"]);
    let message = stderr(&output);
    assert!(output.status.success(), "{message}");
    assert!(
        message.contains("not finished")
            && message.contains("parts has 3 shards, and this report lacks no. 1."),
        "{message}"
    );
    assert!(page(&folder.path().join("d")).contains("Not finished"));
    let summary = works(folder.path(), &["report", "parts", "-o", "d", "--json"]);
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(
        (&summary["complete"], &summary["pictures"]),
        (&json!(false), &json!(16))
    );
    assert_eq!(summary["methods"][0]["planned"], 8);
}

#[test]
fn runs_with_methods_of_the_same_name_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    finished(&folder.path().join("one"));
    finished(&folder.path().join("two"));
    works(folder.path(), &["report", "one", "two/psg", "-o", "out"]);
    let rows = csv(&folder.path().join("out"), "main_results");
    let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(
        names,
        ["one/prompt-only", "one/psg", "one/best-of-4", "two/psg"]
    );
    // All methods of the runs, or none; of a shard the run's name; and more of the way to runs of the same name.
    finished(&folder.path().join("more/one"));
    let run = folder.path().join("parts/shard-000-of-002");
    write_run(&run, json!("0/2"), |job| job % 2 == 0, |_| true);
    let names = |runs: &[&str]| -> Vec<String> {
        works(folder.path(), &[&["report", "-o", "out"], runs].concat());
        let rows = csv(&folder.path().join("out"), "main_results");
        rows.into_iter().map(|mut row| row.remove(0)).collect()
    };
    assert_eq!(
        names(&["parts/shard-000-of-002", "one"])[..2],
        ["parts/prompt-only", "parts/psg"]
    );
    assert!(names(&["one", "more/one"])[3].ends_with("more/one/prompt-only"));
    assert_eq!(names(&["parts/shard-000-of-002"])[0], "prompt-only");
}
