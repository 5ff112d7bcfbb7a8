//! The commands as a user meets them.

use std::fs;

use prepose::audit::labels::{self, Label};
use prepose::audit::table;
use prepose::check::json;
use prepose::check::spatialbench::{CheckerConfig, Verdict, write_records};
use serde_json::Value;

use super::{MARGINS, fixture, float, path, records, text};
use crate::program::{refuses, works};

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

/// Labels without a record and pictures without a label take no part.
#[test]
fn only_labels_that_take_part_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let there = |name: &str| folder.path().join(name);
    let all = labels::read(&text("labels_filled.json")).unwrap();
    let of = |some: &[Label]| {
        let mut records = records("calibrated");
        records.retain(|record| some.iter().any(|label| label.sample_id == record.sample_id));
        write_records(&records).unwrap()
    };
    let (ten, forty) = (&all[..10], &all[..40]);
    fs::write(there("ten.jsonl"), of(ten)).unwrap();
    fs::write(there("forty.jsonl"), of(forty)).unwrap();
    fs::write(there("forty.json"), serde_json::to_string(forty).unwrap()).unwrap();

    let labels = path("labels_filled.json");
    let printed = works(
        folder.path(),
        &[
            "audit",
            "calibrate",
            "--records",
            "ten.jsonl",
            "--labels",
            &labels,
            "--partial",
            "--out",
            "out",
        ],
    );
    let [pass, fail, undecidable] =
        [Verdict::Pass, Verdict::Fail, Verdict::Undecidable].map(|verdict| {
            let same = ten.iter().filter(|label| label.human_verdict == verdict);
            same.count()
        });
    let wanted =
        format!("10 pictures; people say {pass} PASS, {fail} FAIL, {undecidable} UNDECIDABLE;");
    assert!(printed.contains(&wanted), "{wanted}: {printed}");

    let sample = path("sample.csv");
    let printed = works(
        folder.path(),
        &[
            "audit",
            "analyze",
            "--records",
            "forty.jsonl",
            "--labels",
            "forty.json",
            "--sample",
            &sample,
            "--partial",
            "--out",
            "out",
            "--json",
        ],
    );
    let report: Value = serde_json::from_str(&printed).unwrap();
    let metrics = &report["margins"][0];
    assert_eq!(metrics["n_samples_with_human_labels"], 40);
    assert_eq!(metrics["confusion_matrix"]["total_samples"], 40);
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
    refuses(
        folder.path(),
        &label,
        &["not a picture that a browser shows"],
    );
}

/// `prepose check --manifest` writes its records elsewhere and says in its metrics where the pictures are.
#[test]
fn a_sample_knows_where_the_pictures_are() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("made/sd15_pos")).unwrap();
    fs::create_dir_all(folder.path().join("checked")).unwrap();
    let mut all = records("calibrated");
    all.truncate(3);
    all[1].sample_id = "file".into();
    all[2].sample_id += "_relation2";
    let whole = all[2].sample_id.trim_end_matches("_relation2");
    let text = write_records(&all).unwrap();
    fs::write(folder.path().join("checked/per_sample.jsonl"), text).unwrap();
    let manifest = format!(
        "{{\"sample_id\":\"{}\",\"image_path\":\"a.png\",\"prompt\":\"one\"}}\n\
         {{\"image_path\":\"file.png\"}}\n{{\"sample_id\":\"{whole}\",\"image_path\":\"c.png\"}}\n",
        all[0].sample_id
    );
    fs::write(folder.path().join("made/sd15_pos/manifest.jsonl"), manifest).unwrap();
    let metrics = r#"{"manifest": "made/sd15_pos/manifest.jsonl"}"#;
    fs::write(folder.path().join("checked/metrics.json"), metrics).unwrap();
    works(
        folder.path(),
        &[
            "audit",
            "sample",
            "--records",
            "checked/per_sample.jsonl",
            "--out",
            "sample.csv",
        ],
    );
    let mut rows =
        table::read(&fs::read_to_string(folder.path().join("sample.csv")).unwrap()).unwrap();
    rows.sort_by(|a, b| a.image_path.cmp(&b.image_path));
    let pictures: Vec<&str> = rows.iter().map(|row| row.image_path.as_str()).collect();
    assert_eq!(
        pictures,
        [
            "made/sd15_pos/a.png",
            "made/sd15_pos/c.png",
            "made/sd15_pos/file.png"
        ]
    );
    assert_eq!(
        (rows[0].prompt.as_str(), rows[0].method.as_str()),
        ("one", "pos")
    );
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
        refuse(&records, "twice.json", &["already has the label"]);
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
