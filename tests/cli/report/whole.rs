//! Finished runs: the tables, plots and pictures of the page, and hostile text in it.

use std::fs;

use serde_json::{Value, json};

use super::made::{PROMPTS, SEEDS, finished, made};
use super::{HOSTILE, csv, data, page, png, write};
use crate::program::{prepose_in, stderr, works};

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
        ["0.7500", "0.7500", "1.0000"].map(String::from)
    );
    // No prompt has three pictures, so nothing can be right three times.
    assert_eq!(
        csv(&out, "visor")[1][6..],
        ["0.7500", "0.7500", "", ""].map(String::from)
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

    // psg passes 6 of 8 pictures and prompt-only 3, of the same prompts and seeds.
    let paired = csv(&out, "paired");
    assert_eq!(
        paired[0][..8],
        [
            "psg",
            "prompt-only",
            "pass_rate",
            "8",
            "4",
            "0.7500",
            "0.3750",
            "+0.3750"
        ]
        .map(String::from)
    );
    assert_eq!(paired.len(), 9, "three pairs by three measures");
    assert!(
        paired.iter().all(|row| row[11] == "no"),
        "four prompts are too few"
    );
    // The one prompt of which a cat is missing comes first.
    assert_eq!(
        csv(&out, "prompts")[0][1..],
        ["6", "0.0000", "0.0000", "0.0000", "0.0000", "0.0000"].map(String::from)
    );
    assert_eq!(
        csv(&out, "objects")[0][..6],
        ["cat", "24", "0.2500", "0.0000", "0.7500", "0.5000"].map(String::from)
    );
    assert_eq!(
        csv(&out, "object_pairs")[0][..2],
        ["cat + dog", "24"].map(String::from)
    );
    let copy = |ending: &str| {
        fs::read_to_string(out.join(format!("tables/main_results.{ending}"))).unwrap()
    };
    assert!(
        copy("md").contains("| psg | 8 | 75.0 % |"),
        "{}",
        copy("md")
    );
    assert!(copy("tex").contains("psg & 8 & 75.0 \\% &") && copy("tex").contains("\\toprule"));

    let html = page(&out);
    // What the page says first: pictures and results, and at last how they were made.
    let place = |id: &str| html.find(&format!("id=\"{id}\"")).unwrap();
    let order = [
        "overview",
        "first-look",
        "tables",
        "plots",
        "gallery",
        "settings",
    ]
    .map(place);
    assert!(order.is_sorted());
    assert!(!html.contains("<details open"));
    assert!(
        html.contains("<b>75.0 %</b> pass [") && html.contains("95 % bootstrap interval, prompts")
    );
    let data = data(&html);
    assert_eq!(data["pictures"].as_array().unwrap().len(), 24);
    assert_eq!(data["prompts"][0][1], HOSTILE);
    // A search is shown under the seed that was asked for.
    assert_eq!(data["pictures"][16][3], "0");
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
        "differences",
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
        let (_, figure) = html.split_once(&format!("id=\"plot-{plot}\"")).unwrap();
        let (figure, _) = figure.split_once("</figure>").unwrap();
        for width in [640, 340] {
            assert!(
                figure.contains(&format!("viewBox=\"0 0 {width} ")),
                "{plot} {width}"
            );
        }
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

/// A run of somebody else's that names files of this machine does not get them into a page that is sent away.
#[test]
fn secrets_are_not_taken_along() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir_all(at.join("private")).unwrap();
    fs::write(at.join("private/key"), "SECRET").unwrap();
    fs::write(at.join("private/photo.png"), png()).unwrap();
    fs::create_dir_all(at.join("run/images")).unwrap();
    fs::write(at.join("run/images/good.png"), png()).unwrap();
    fs::write(at.join("run/images/text.png"), "SECRET").unwrap();
    #[cfg(unix)]
    {
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(at.join(to), at.join("run/images").join(name)).unwrap();
        };
        link("private/photo.png", "link.png");
        link("private/key", "key.png");
        let pipe = at.join("run/images/pipe.png");
        let made = std::process::Command::new("mkfifo").arg(pipe).status();
        assert!(made.unwrap().success());
    }
    let whole = at.join("private/photo.png").display().to_string();
    let names = [
        "images/good.png",
        "images/text.png",
        "images/link.png",
        "images/key.png",
        "images/pipe.png",
        "../private/photo.png",
        &whole,
    ];
    let lines: Vec<String> = (names.iter().zip(0..))
        .map(|(name, i)| {
            json!({"image_path": name, "sample_id": format!("s{i}"), "prompt": "a dog"}).to_string()
        })
        .collect();
    fs::write(at.join("run/manifest.jsonl"), lines.join("\n")).unwrap();
    let mine = base64(&png());
    for how in ["--copy", "--embed", "--embed=thumbnails"] {
        let out = format!("out{how}");
        let output = prepose_in(at, &["report", "run", how, "-o", &out]);
        let message = stderr(&output);
        assert!(output.status.success(), "{message}");
        if cfg!(unix) {
            assert!(
                message.contains(
                    "6 files were not taken along; the first, images/text.png: it is not a picture"
                ),
                "{message}"
            );
        }
        let html = page(&at.join(&out));
        assert!(!html.contains("SECRET") && !html.contains("U0VDUkVU"));
        assert!(html.matches(&mine).count() <= 1);
        let copied = at.join(&out).join("pictures/run");
        if copied.exists() {
            let count = fs::read_dir(copied.join("images")).unwrap().count();
            assert_eq!((count, copied.join("_").exists()), (1, false));
        }
        // What the user names is taken.
        let output = prepose_in(
            at,
            &["report", "run", how, "-o", &out, "--pictures", "private"],
        );
        let message = stderr(&output);
        if cfg!(unix) {
            assert!(
                message.contains("3 files were not taken along"),
                "{message}"
            );
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    prepose::audit::page::embed(bytes).unwrap()
}

/// A folder with nothing but pictures and lines of their prompts, and what `prepose check --out` writes.
#[test]
fn other_programs_folders_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir_all(at.join("mine")).unwrap();
    for name in ["a.png", "b.png"] {
        fs::write(at.join("mine").join(name), png()).unwrap();
    }
    let lines = [
        json!({"file_name": "a.png", "text": "a dog to the left of a cat"}),
        json!({"file_name": "b.png", "text": "a dog to the left of a cat"}),
        json!({"file_name": "a.png", "text": "a dog above a cat"}),
    ];
    fs::write(at.join("mine/manifest.jsonl"), super::lines(&lines)).unwrap();
    works(at, &["report", "mine", "-o", "out"]);
    let data = data(&page(&at.join("out")));
    let prompts: Vec<&str> = (data["pictures"].as_array().unwrap().iter())
        .map(|picture| {
            data["prompts"][picture[2].as_u64().unwrap() as usize][1]
                .as_str()
                .unwrap()
        })
        .collect();
    assert_eq!(prompts, ["a dog to the left of a cat", "a dog above a cat"]);

    let made = super::made::made("psg", 1, 0);
    fs::create_dir_all(at.join("checked")).unwrap();
    let line = json!({"sample_id": made.id, "image_path": "../mine/a.png", "prompt": "a dog"});
    fs::write(at.join("checked/manifest.jsonl"), line.to_string()).unwrap();
    fs::write(at.join("checked/per_sample.jsonl"), made.record.to_string()).unwrap();
    works(at, &["report", "checked"]);
    assert_eq!(
        csv(&at.join("checked/report"), "main_results")[0][..2],
        ["checked", "1"].map(String::from)
    );
}

/// Names from outside are no formulas in a spreadsheet.
#[test]
fn tables_have_no_formulas() {
    let folder = tempfile::tempdir().unwrap();
    let method = folder.path().join("run/=1+cmd|x!A0");
    fs::create_dir_all(&method).unwrap();
    let made = super::made::made("psg", 1, 0);
    fs::write(method.join("manifest.jsonl"), made.manifest.to_string()).unwrap();
    super::write(
        method.join("eval/per_sample.jsonl"),
        made.record.to_string(),
    );
    works(folder.path(), &["report", "run", "-o", "out"]);
    let tables = fs::read_dir(folder.path().join("out/tables")).unwrap();
    for path in tables.map(|entry| entry.unwrap().path()) {
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            !text.contains("\"=1") && !text.contains("\n=1"),
            "{}: {text}",
            path.display()
        );
    }
}

/// JavaScript's numbers are whole up to 2^53, and seeds are larger.
#[test]
fn large_seeds_keep_their_digits() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let one = made("psg", 1, (1 << 53) + 1);
    write(at.join("psg/manifest.jsonl"), one.manifest.to_string());
    write(at.join(format!("psg/images/{}.png", one.id)), png());
    works(at, &["report", "psg", "-o", "out"]);
    let data = data(&page(&at.join("out")));
    let picture = &data["pictures"][0];
    // The page makes the name from the seed, and the picture's file from the name.
    assert_eq!([&picture[4], &picture[6]], [&json!(0), &json!(1)]);
    assert_eq!(picture[3], "9007199254740993");
}

/// Sources that make pictures elsewhere count no UNet calls.
#[test]
fn searches_without_unet_calls_are_drawn_by_candidates() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    finished(&run);
    let uncount = |method: &str| {
        let path = run.join(method).join("eval/scores.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let rows = text.lines().map(|line| {
            let mut row: Value = serde_json::from_str(line).unwrap();
            row["unet_calls"] = json!(0);
            row
        });
        write(path, super::lines(&rows.collect::<Vec<_>>()));
    };
    let plot = || {
        works(folder.path(), &["report", "run", "-o", "out"]);
        fs::read_to_string(folder.path().join("out/plots/scaling_pse.svg")).unwrap()
    };
    uncount("psg");
    let by_calls = plot();
    assert!(
        by_calls.contains("UNet calls for a picture") && !by_calls.contains(">psg</text>"),
        "{by_calls}"
    );
    uncount("prompt-only");
    uncount("best-of-4");
    let by_candidates = plot();
    assert!(
        by_candidates.contains("candidates for a picture")
            && by_candidates.contains(">psg</text>")
            && by_candidates.contains(">best-of-N</text>"),
        "{by_candidates}"
    );
    for svg in [by_calls, by_candidates] {
        for rest in svg.split(" cx=\"").skip(1) {
            let x: f64 = rest.split('"').next().unwrap().parse().unwrap();
            assert!((0.0..=640.0).contains(&x), "{x} is outside of the plot");
        }
    }
}
