//! `prepose report` on SpatialBench-UC's released files, and on runs made up here: finished, unfinished, in shards, hostile and broken.
//!
//! The whole released runs are read from `$PREPOSE_SPATIALBENCH_UC`, or else from `../shared/data/spatialbench-uc`, where they are at hand.
//! The page itself is used in a browser by `scripts/report/browser.sh`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use prepose::check::spatialbench::tables::{self, Run};
use prepose::check::spatialbench::{Record, read_records};
use serde_json::{Value, json};

const HOSTILE: &str =
    "</script><script>alert(1)</script> <!-- \"quoted\" & 'single' 🐶 {{DATA}} \u{2028}";

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

/// The command fails with code 2 and one message that contains each of `parts`.
#[track_caller]
fn refuses(folder: &Path, args: &[&str], parts: &[&str]) {
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
}

fn write(path: PathBuf, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

fn png() -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let picture =
        image::RgbImage::from_fn(32, 32, |x, y| image::Rgb([x as u8 * 8, y as u8 * 8, 90]));
    picture
        .write_to(&mut bytes, image::ImageFormat::Png)
        .unwrap();
    bytes.into_inner()
}

/// The data of a page's pictures.
fn data(html: &str) -> Value {
    let start = "<script type=\"application/json\" id=\"data\">";
    let (_, after) = html.split_once(start).unwrap();
    serde_json::from_str(after.split_once("</script>").unwrap().0).unwrap()
}

fn page(out: &Path) -> String {
    fs::read_to_string(out.join("report.html")).unwrap()
}

/// The rows of a table, without its head.
fn csv(out: &Path, name: &str) -> Vec<Vec<String>> {
    let mut reader = csv::Reader::from_path(out.join(format!("tables/{name}.csv"))).unwrap();
    let rows = reader
        .records()
        .map(|row| row.unwrap().iter().map(Into::into).collect());
    rows.collect()
}

const METHODS: [&str; 3] = ["prompt-only", "psg", "best-of-4"];
const PROMPTS: usize = 4;
const SEEDS: u64 = 2;

/// Everything about one picture of the made-up run.
struct Made {
    id: String,
    manifest: Value,
    record: Value,
    scores: Value,
}

fn made(method: &str, prompt: usize, seed: u64) -> Made {
    let id = format!("{method}_p{prompt}_seed{seed:04}");
    let relation = ["left_of", "right_of"][prompt % 2];
    let (a, b) = [("dog", "cat"), ("cat", "dog")][prompt % 2];
    let passes = method == "psg" || seed == 0;
    let decided = prompt != 3;
    let verdict = match (decided, passes) {
        (false, _) => "UNDECIDABLE",
        (true, true) => "PASS",
        (true, false) => "FAIL",
    };
    let boxes = [[2.0, 8.0, 12.0, 20.0], [18.0, 8.0, 30.0, 20.0]];
    let text = if prompt == 0 {
        HOSTILE
    } else {
        "a dog to the left of a cat"
    };
    Made {
        manifest: json!({
            "sample_id": id, "run_id": method, "prompt_id": format!("p{prompt}"), "image_path": format!("images/{id}.png"),
            "model": {"pipeline": "txt2img", "model_id": "toybox", "revision": null},
            "gen_params": {"seed": if method == "best-of-4" { seed + 100 } else { seed }, "height": 32, "width": 32, "num_inference_steps": 4, "guidance_scale": 7.5, "scheduler": "ddim", "negative_prompt": null},
            "prompt": text, "relation": relation, "object_a": a, "object_b": b, "timestamp_utc": "2026-01-01T00:00:00Z",
            "code_version": {"prepose": "0", "burn": "0", "device": "flex", "git_commit": null}}),
        record: json!({
            "sample_id": id, "prompt_id": format!("p{prompt}"), "relation": relation, "object_a": a, "object_b": b,
            "verdict_raw": verdict, "verdict_reason": if decided { Value::Null } else { json!("missing: cat") },
            "conf": if decided { 0.75 } else { 0.0 },
            "conf_components": {"detection": 0.9, "geometry": 1.0, "stability": 1.0, "agreement": 1.0},
            "detectors": {"primary": {"type": "toybox", "detections": [
                {"label": a, "score": 0.9, "box_xyxy": boxes[0], "segmentation": {"size": [32, 32], "counts": "Z4:f00000000000000fc0"}}, {"label": b, "score": 0.8, "box_xyxy": boxes[1]}]}},
            "selected": {"box_a_xyxy": boxes[0], "box_b_xyxy": boxes[1], "score_a": 0.9, "score_b": 0.8},
            "geometry": {"delta": -0.5, "margin": 0.1, "iou_ab": 0.0}, "overlay_path": null, "image_size": [32, 32]}),
        scores: json!({
            "sample_id": id, "prompt_id": format!("p{prompt}"), "seed": seed, "unet_calls": if method == "best-of-4" { 16 } else { 4 },
            "guided_calls": 0, "candidates": if method == "best-of-4" { 4 } else { 1 }, "seconds": 0.5, "found": 1 + usize::from(decided),
            "objects": 2, "each_found": [true, decided], "centre": if decided { json!(passes) } else { Value::Null }, "geneval": decided && passes,
            "t2i": 0.5, "hrs": null, "pse": 0.75, "side": null, "level": null}),
        id,
    }
}

fn jobs() -> impl Iterator<Item = (usize, usize, usize, u64)> {
    let each = (0..METHODS.len())
        .flat_map(|m| (0..PROMPTS).flat_map(move |p| (0..SEEDS).map(move |s| (m, p, s))));
    each.enumerate()
        .map(|(index, (method, prompt, seed))| (index, method, prompt, seed))
}

fn write_head(run: &Path, shard: Value) {
    let methods: Vec<Value> = METHODS.iter().map(|name| json!({"name": name})).collect();
    let config = json!({"suite": {"name": "made", "version": "1", "sha256": "0"}, "prompts": PROMPTS, "seeds": (0..SEEDS).collect::<Vec<_>>(),
        "methods": methods, "checkpoint": {"name": HOSTILE, "sha256": "0"}, "shard": shard});
    write(run.join("run.json"), config.to_string());
    let prompts: Vec<Value> = (0..PROMPTS)
        .map(|p| {
            let manifest = made("psg", p, 0).manifest;
            json!({"prompt_id": format!("p{p}"), "prompt": manifest["prompt"], "objects": [manifest["object_a"], manifest["object_b"]],
                "relations": [{"relation": manifest["relation"], "a": 0, "b": 1}]})
        })
        .collect();
    write(run.join("prompts.jsonl"), lines(&prompts));
    write(
        run.join("provenance/1.json"),
        json!({"command": ["prepose", HOSTILE]}).to_string(),
    );
}

/// A run with the pictures of `done`; those of `folded` methods are in the released files and the others still apart.
fn write_run(
    run: &Path,
    shard: Value,
    done: impl Fn(usize) -> bool,
    folded: impl Fn(usize) -> bool,
) {
    write_head(run, shard);
    for (m, method) in METHODS.iter().enumerate() {
        let all: Vec<(usize, Made)> = jobs()
            .filter(|(index, job, ..)| *job == m && done(*index))
            .map(|(index, _, prompt, seed)| (index, made(method, prompt, seed)))
            .collect();
        let folder = run.join(method);
        for (index, one) in &all {
            write(folder.join(format!("images/{}.png", one.id)), png());
            if !folded(m) {
                let sample = json!({"index": index, "manifest": one.manifest, "records": [one.record], "scores": one.scores});
                write(
                    folder.join(format!("samples/{index:06}.json")),
                    sample.to_string(),
                );
            }
        }
        if folded(m) {
            let of = |part: fn(&Made) -> &Value| {
                lines(
                    &all.iter()
                        .map(|(_, one)| part(one).clone())
                        .collect::<Vec<_>>(),
                )
            };
            write(folder.join("manifest.jsonl"), of(|one| &one.manifest));
            write(folder.join("eval/per_sample.jsonl"), of(|one| &one.record));
            write(folder.join("eval/scores.jsonl"), of(|one| &one.scores));
        }
    }
}

fn finished(run: &Path) {
    write_run(run, Value::Null, |_| true, |_| true);
}

#[test]
fn a_finished_run_is_reported_whole() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a run");
    finished(&run);
    let id = made("psg", 1, 0).id;
    write(run.join(format!("psg/maps/{id}-dog.png")), png());
    fs::remove_file(run.join(format!("psg/images/{}.png", made("psg", 2, 1).id))).unwrap();
    let summary: Value =
        serde_json::from_str(&works(folder.path(), &["report", "a run", "--json"])).unwrap();
    assert_eq!(summary["complete"], true);
    assert_eq!(summary["pictures"], 24);
    assert_eq!(summary["tables"]["main_results"][1]["pass_rate"], 0.75);
    let out = run.join("report");
    for file in summary["files"].as_array().unwrap() {
        assert!(out.join(file.as_str().unwrap()).is_file(), "{file}");
    }
    assert_eq!(
        csv(&out, "main_results")[1][..4],
        ["psg", "8", "0.7500", "0.7500"].map(String::from)
    );
    // 6 of 8 pictures show both objects; of psg's these are all right.
    assert_eq!(
        csv(&out, "visor")[1][3..6],
        ["75.00", "75.00", "100.00"].map(String::from)
    );
    assert_eq!(
        csv(&out, "visor")[1][6..],
        ["75.00", "75.00", "0.00", "0.00"].map(String::from)
    );
    assert_eq!(
        csv(&out, "rules")[0],
        ["prompt-only", "8", "0.3750", "0.5000", "", "0.7500"].map(String::from)
    );
    assert_eq!(
        csv(&out, "costs")[2][2..5],
        ["16.0000", "0.0000", "4.0000"].map(String::from)
    );
    let scaling = csv(&out, "scaling");
    assert_eq!(
        scaling[0][..3],
        ["prompt-only", "best-of-N", "1"].map(String::from)
    );
    assert_eq!(
        scaling[1][..3],
        ["best-of-4", "best-of-N", "4"].map(String::from)
    );
    let by_picture = csv(&out, "counterfactual_by_picture");
    assert_eq!(by_picture[2][1], "4");
    let intervals = csv(&out, "intervals");
    let [value, low, high] = [2, 3, 4].map(|i| intervals[1][i].parse::<f64>().unwrap());
    assert!(low <= value && value <= high && low < high);

    let html = page(&out);
    let data = data(&html);
    assert_eq!(data["pictures"].as_array().unwrap().len(), 24);
    assert_eq!(data["prompts"][0][1], HOSTILE);
    // A search is shown under the seed that was asked for.
    assert_eq!(data["pictures"][16][3], 0);
    assert_eq!(data["bases"][1], "../psg/");
    let picture = |id: (usize, u64)| {
        let at = PROMPTS * SEEDS as usize + id.0 * SEEDS as usize + id.1 as usize;
        data["pictures"][at].clone()
    };
    assert_eq!(picture((1, 0))[6], 1);
    assert_eq!(
        picture((1, 0))[11],
        json!([["dog", format!("maps/{id}-dog.png")]])
    );
    assert_eq!(picture((2, 1))[6], 0, "a picture that is gone");
    let word = |text: &str| {
        let words = data["words"].as_array().unwrap();
        json!(words.iter().position(|word| word == text))
    };
    let boxes = json!([
        word("cat"),
        0.9,
        2,
        8,
        12,
        20,
        word("dog"),
        0.8,
        18,
        8,
        30,
        20
    ]);
    assert_eq!(picture((1, 0))[10], boxes);
    assert_eq!(
        picture((1, 0))[14],
        json!([{"size": [32, 32], "counts": "Z4:f00000000000000fc0"}, null])
    );
    // Other methods stand beside the searches.
    let scaling = fs::read_to_string(out.join("plots/scaling_pse.svg")).unwrap();
    assert!(
        scaling.contains(">psg</text>") && scaling.contains(">best-of-N</text>"),
        "{scaling}"
    );
    for plot in [
        "pass_rate",
        "coverage_accuracy",
        "abstentions",
        "counterfactual",
        "confidence_coverage",
        "confidence_histogram",
        "scaling_pse",
    ] {
        let svg = fs::read_to_string(out.join(format!("plots/{plot}.svg"))).unwrap();
        assert!(
            svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
            "{plot}"
        );
        let png = image::open(out.join(format!("plots/{plot}.png"))).unwrap();
        assert_eq!(png.width(), 1280);
        assert!(html.contains(&format!("id=\"plot-{plot}\"")));
    }
}

#[test]
fn hostile_text_stays_text() {
    let folder = tempfile::tempdir().unwrap();
    finished(&folder.path().join("run"));
    works(
        folder.path(),
        &["report", "run", "-o", "out", "--title", HOSTILE],
    );
    let html = page(&folder.path().join("out"));
    assert!(!html.contains("<script>alert"));
    // The data and the script, and nothing else.
    assert_eq!(html.matches("<script").count(), 2);
    assert_eq!(html.matches("</script").count(), 2);
    // The title in the head and on the page, and the settings, as text.
    assert!(html.matches("&lt;script&gt;alert(1)").count() >= 4);
    for outside in ["http://", "https://", "//cdn", "@import", "url("] {
        let without_svg = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!without_svg.contains(outside), "{outside}");
    }
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn an_unfinished_run_is_reported_as_far_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    // The first method is folded, the second has 3 of 8 pictures, the third none.
    write_run(&run, Value::Null, |index| index < 11, |method| method == 0);
    let output = prepose(folder.path(), &["report", "run", "-o", "out"]);
    let message = String::from_utf8_lossy(&output.stderr);
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
        json!({"name": "psg", "pictures": 3, "planned": 8, "checked": 3})
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
}

#[test]
fn runs_with_methods_of_the_same_name_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    finished(&folder.path().join("one"));
    finished(&folder.path().join("two"));
    works(folder.path(), &["report", "one", "two/psg", "-o", "out"]);
    let rows = csv(&folder.path().join("out"), "main_results");
    let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, ["prompt-only", "one/psg", "best-of-4", "psg/psg"]);
}

#[test]
fn pictures_can_be_taken_along() {
    let folder = tempfile::tempdir().unwrap();
    finished(&folder.path().join("run"));
    works(folder.path(), &["report", "run", "-o", "copied", "--copy"]);
    let html = page(&folder.path().join("copied"));
    assert_eq!(data(&html)["bases"][1], "pictures/psg/");
    let copy = folder
        .path()
        .join("copied/pictures/psg/images")
        .join(made("psg", 0, 0).id + ".png");
    assert_eq!(fs::read(copy).unwrap(), png());
    for embed in ["--embed", "--embed=thumbnails"] {
        works(folder.path(), &["report", "run", "-o", "embedded", embed]);
        let data = data(&page(&folder.path().join("embedded")));
        let address = data["pictures"][0][6].as_str().unwrap();
        assert!(address.starts_with("data:image/png;base64,"), "{address}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    finished(&at.join("run"));
    refuses(at, &["report"], &["<RUN>"]);
    refuses(at, &["report", "nowhere"], &["nowhere", "not there"]);
    refuses(
        at,
        &["report", "run/run.json"],
        &["run/run.json", "give the folder"],
    );
    refuses(at, &["report", "."], &["one in run below it"]);
    refuses(
        at,
        &["report", "run", "--bootstrap", "0"],
        &["--bootstrap is 0"],
    );
    refuses(
        at,
        &["report", "run", "--labels", "missing.json"],
        &["missing.json"],
    );
    write(at.join("taken"), "a file");
    refuses(at, &["report", "run", "-o", "taken"], &["taken"]);
    write(
        at.join("half/psg/manifest.jsonl"),
        "{\"sample_id\": \"x\"\n",
    );
    refuses(at, &["report", "half"], &["psg/manifest.jsonl", "line 1"]);
    write(at.join("odd/run.json"), "{\"methods\": 3}");
    refuses(at, &["report", "odd"], &["run.json", "methods"]);
    write(
        at.join("empty/run.json"),
        "{\"methods\": [{\"name\": \"psg\"}], \"prompts\": 1, \"seeds\": [0]}",
    );
    refuses(at, &["report", "empty"], &["no picture is finished yet"]);
    let twice = lines(&[made("psg", 0, 0).manifest, made("psg", 0, 0).manifest]);
    write(at.join("twice/manifest.jsonl"), twice);
    refuses(
        at,
        &["report", "twice"],
        &["manifest.jsonl", "is in it twice"],
    );
    let broken = made("psg", 0, 0)
        .record
        .to_string()
        .replace("PASS", "MAYBE");
    write(at.join("verdict/eval/per_sample.jsonl"), broken);
    refuses(
        at,
        &["report", "verdict"],
        &["eval/per_sample.jsonl", "line 1", "MAYBE"],
    );
    // Unless it is root's.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let locked = at.join("locked");
        fs::create_dir(&locked).unwrap();
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
        if fs::write(locked.join("x"), "").is_err() {
            refuses(
                at,
                &["report", "run", "-o", "locked"],
                &["locked", "another with -o"],
            );
        }
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn records_alone_are_enough() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/spatialbench-uc");
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
fn the_released_bundle_gives_the_papers_tables() {
    let data = std::env::var_os("PREPOSE_SPATIALBENCH_UC").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/spatialbench-uc"),
        PathBuf::from,
    );
    let runs = data.join("runs/final_20260112_084335");
    if !runs.is_dir() {
        println!(
            "skipped: {} is not there; PREPOSE_SPATIALBENCH_UC names the bundle",
            runs.display()
        );
        return;
    }
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
    // People's labels lie beside the methods' folders; 66 of the 200 are of this one's pictures.
    assert_eq!(summary["labels"], 66);
    assert!(out.join("plots/risk_coverage.svg").is_file());
    let html = page(&out);
    assert_eq!(self::data(&html)["pictures"].as_array().unwrap().len(), 800);
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
