//! `prepose bench` on the built-in toybox.

use std::path::Path;

use serde_json::Value;

use crate::program::{self, works};

/// A sheet of the toybox on the CPU, as JSON.
fn sheet(folder: &Path, args: &[&str]) -> Value {
    let output = [
        "--output",
        folder.to_str().unwrap(),
        "--device",
        "flex",
        "--json",
    ];
    let text = works(folder, &[&["bench", "sheet"], args, &output].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn rows(sheet: &Value) -> &Vec<Value> {
    sheet["rows"].as_array().unwrap()
}

#[track_caller]
fn refuses(args: &[&str], parts: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    program::refuses(folder.path(), args, parts);
}

/// Everything that a sheet can have, measured; then the same rows again.
#[test]
fn a_sheet_of_the_toybox() {
    let folder = tempfile::tempdir().unwrap();
    let options = [
        "--checkpoints",
        "toybox",
        "--batches",
        "1,2",
        "--size",
        "64",
        "--steps",
        "3",
        "--repeat",
        "2",
        "--guidance",
        "pos,layout",
        "--budget",
        "20m",
    ];
    let first = sheet(folder.path(), &options);
    assert_eq!(first["cuts"], serde_json::json!([]));
    let machine = &first["machine"];
    assert!(machine["cores"].as_u64().unwrap() >= 1 && machine["version"].is_string());
    for row in rows(&first) {
        assert!(row["problem"].is_null(), "{row}");
        let median = row["median"].as_f64().unwrap();
        assert!(median.is_finite() && median > 0.0, "{row}");
        assert!(row["seconds"].as_array().unwrap().len() <= 2, "{row}");
    }
    let count = |what: &str| {
        rows(&first)
            .iter()
            .filter(|row| row["what"] == what)
            .count()
    };
    let expected = [
        ("matmul", 1),
        ("load", 1),
        ("unet", 2),
        ("step", 1),
        ("decode", 1),
        ("text", 1),
        ("families", 2),
        ("guided", 5),
        ("picture", 2),
        ("search", 1),
        ("start", 2),
    ];
    for (what, number) in expected {
        assert_eq!(count(what), number, "{what}");
    }
    let find = |what: &str| rows(&first).iter().find(|row| row["what"] == what).unwrap();
    assert!(find("unet")["flops"].as_u64().unwrap() > 1_000_000);
    assert!(find("unet")["of_matmul"].as_f64().unwrap() > 0.0);
    assert!(find("guided")["of_plain_step"].as_f64().unwrap() > 0.0);
    assert!(find("picture")["pictures_per_second"].as_f64().unwrap() > 0.0);
    let families = find("families")["families"].as_array().unwrap();
    let counted: u64 = families
        .iter()
        .map(|family| family["flops"].as_u64().unwrap())
        .sum();
    assert_eq!(Some(counted), find("unet")["flops"].as_u64());
    assert!(families.last().unwrap()["family"] == "rest");

    // Both files are there, and the second sheet does not replace them.
    let files = || {
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    };
    let written = files();
    assert_eq!(written.len(), 2, "{written:?}");
    let table = std::fs::read_to_string(folder.path().join(&written[1])).unwrap();
    assert!(
        table.contains("| unet | toybox | 64² | f32 | 2 |"),
        "{table}"
    );
    let like = folder.path().join(&written[0]);
    let again = sheet(folder.path(), &["--like", like.to_str().unwrap()]);
    assert_eq!(rows(&again).len(), rows(&first).len());
    assert_eq!(files().len(), 4);
}

/// With no time at all, what is left out is named.
#[test]
fn what_does_not_fit_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let options = [
        "--checkpoints",
        "toybox",
        "--only",
        "matmul,unet,picture",
        "--budget",
        "1ms",
    ];
    let sheet = sheet(folder.path(), &options);
    let cuts = sheet["cuts"].as_array().unwrap();
    // The size, then three batches of two rows.
    assert_eq!(cuts.len(), 7, "{cuts:?}");
    let named = |index: usize, what: &str| cuts[index].as_str().unwrap().contains(what);
    assert!(named(0, "pictures of 64² instead of 128²"), "{cuts:?}");
    assert!(named(1, "unet toybox"), "{cuts:?}");
    assert!(
        sheet["order_of_cuts"]
            .as_str()
            .unwrap()
            .contains("fewer timed calls")
    );
}

/// A type that the device lacks, a checkpoint that breaks: a row that says so.
#[test]
fn random_weights_are_measured_and_mistakes_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("random");
    let weights = weights.to_str().unwrap();
    works(
        folder.path(),
        &[
            "bench", "weights", "toybox", "-o", weights, "--dtype", "f16",
        ],
    );
    let options = [
        "--checkpoints",
        weights,
        "--only",
        "unet,decode",
        "--repeat",
        "1",
        "--batches",
        "1",
    ];
    let sheet = sheet(folder.path(), &options);
    assert_eq!(rows(&sheet).len(), 2);
    assert!(
        rows(&sheet).iter().all(|row| row["problem"].is_null()),
        "{sheet}"
    );

    refuses(
        &["bench", "weights", "toybox", "-o", weights],
        &["not overwritten"],
    );
    refuses(
        &["bench", "weights", "nowhere", "-o", "x"],
        &["nowhere", "sd15 and sdxl"],
    );
    let sheet = ["bench", "sheet", "--checkpoints", "toybox"];
    let refused = |more: &[&str], parts: &[&str]| refuses(&[&sheet[..], more].concat(), parts);
    refused(&["--batches", "0"], &["--batches has a 0"]);
    refused(&["--repeat", "0"], &["--repeat is 0"]);
    refused(&["--steps", "0"], &["--steps is 0"]);
    refused(&["--budget", "0s"], &["--budget"]);
    refused(&["--budget", "soon"], &["--budget"]);
    refused(&["--size", "100"], &["multiple of"]);
    refused(&["--guidance", "magic"], &["magic", "attend-and-excite"]);
    refused(&["--only", "everything"], &["everything", "unet"]);
    refused(&["--device", "flex:9"], &["flex:9"]);
    refuses(
        &["bench", "sheet", "--checkpoints", "nowhere"],
        &["nowhere"],
    );
    refuses(
        &["bench", "sheet", "--like", "nowhere.json"],
        &["nowhere.json"],
    );
}

/// The launches of the toybox are those of a dry run (models/tests/flops.rs); a network twice as busy takes no more weights.
#[test]
fn rooflines_of_calls() {
    let folder = tempfile::tempdir().unwrap();
    let tables = |args: &[&str]| works(folder.path(), &[&["bench", "roofline"], args].concat());
    let both = tables(&["-c", "toybox,sdxl"]);
    for part in [
        "## toybox, 1 picture of 128²",
        "\n178 launches, ",
        "## sdxl, 1 picture of 1024²",
        "| norm | 51 |",
        "the worst 10 on T4",
        "the worst 10 on H100",
        "attention (tensor cores): 20 × 64, 32×32 to 77",
    ] {
        assert!(both.contains(part), "{part}: {both}");
    }
    let more = tables(&["-c", "sd15", "--size", "768", "-b", "4"]);
    assert!(more.contains("## sd15, 4 pictures of 768²"), "{more}");
    let refused = |more: &[&str], parts: &[&str]| {
        refuses(&[&["bench", "roofline"], more].concat(), parts);
    };
    refused(&["--batch", "0"], &["--batch is 0"]);
    refused(&["--size", "100"], &["--size is 100", "multiple of 8"]);
    refused(&["-c", "nowhere"], &["nowhere", "sd15 and sdxl"]);
}
