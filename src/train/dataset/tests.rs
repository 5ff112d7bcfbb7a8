//! Data sets as people have them, and as they should not be.

use std::fs;
use std::path::{Path, PathBuf};

use prepose_optimizer::draws::Draws;
use prepose_scene::Relation;
use serde_json::Value;

use crate::bucket::{Buckets, Fit, Sizes};
use crate::look::{Looked, look};
use crate::objects::Object;
use crate::order::{Flips, Order, items};
use crate::pairs::{Pair, lines, with_relation};
use crate::sides::{SideWords, names_a_side, swapped};
use crate::{Dataset, DatasetError, Layout, Options, Place, open};

fn fixture(name: &str) -> PathBuf {
    let root = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../fixtures/training-data"
    );
    PathBuf::from(root).join(name)
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn png(shade: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    image::RgbImage::from_pixel(8, 6, image::Rgb([shade, 0, 0]))
        .write_to(
            &mut std::io::Cursor::new(&mut bytes),
            image::ImageFormat::Png,
        )
        .unwrap();
    bytes
}

/// Names and captions of what can be trained on, and names of what cannot.
fn told(dataset: &Dataset) -> (Vec<(&str, &str)>, Vec<&str>) {
    let samples = dataset.samples.iter();
    (
        samples
            .map(|one| (one.name.as_str(), one.caption.as_str()))
            .collect(),
        dataset
            .skipped
            .iter()
            .map(|one| one.name.as_str())
            .collect(),
    )
}

fn looked(path: &Path) -> Result<(Vec<Looked>, Vec<crate::Skipped>), DatasetError> {
    let options = Options::default();
    look(path, open(path, &options)?, options.most_skipped, &|| {})
}

#[test]
fn an_image_folder_has_what_its_metadata_list() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for name in ["a.png", "b.png", "in/c.png", "not-listed.png"] {
        write(&path.join(name), png(1));
    }
    let lines = [
        r#"{"file_name": "a.png", "text": "an a"}"#,
        r#"{"file_name": "in/c.png", "text": " a c "}"#,
        r#"{"file_name": "../a.png", "text": "out"}"#,
        r#"{"file_name": "lost.png", "text": "lost"}"#,
        r#"{"file_name": "b.png", "text": ""}"#,
        r#"{"text": "no picture"}"#,
    ];
    write(&path.join("metadata.jsonl"), lines.join("\n"));
    let dataset = open(path, &Options::default()).unwrap();
    assert_eq!(dataset.layout, Layout::Listed);
    let (samples, skipped) = told(&dataset);
    assert_eq!(samples, [("a.png", "an a"), ("in/c.png", "a c")]);
    assert_eq!(skipped, ["../a.png", "lost.png", "b.png", "no picture"]);

    fs::remove_file(path.join("metadata.jsonl")).unwrap();
    write(
        &path.join("metadata.csv"),
        "file_name,about\nb.png,\"a b, said\"\n",
    );
    let named = Options {
        caption_column: Some("about".into()),
        ..Options::default()
    };
    let dataset = open(path, &named).unwrap();
    assert_eq!(told(&dataset).0, [("b.png", "a b, said")]);
    let error = open(path, &Options::default()).unwrap_err().to_string();
    assert!(
        error.contains("--caption-column") && error.contains("about"),
        "{error}"
    );
}

#[test]
fn pictures_name_others_that_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (name, shade) in [("a.png", 1), ("b.png", 2), ("c.png", 3)] {
        write(&path.join(name), png(shade));
    }
    let wanted = Options {
        shown: true,
        ..Options::default()
    };
    let shown = |options: &Options| {
        let samples = open(path, options).unwrap().samples;
        samples
            .into_iter()
            .map(|sample| sample.shown)
            .collect::<Vec<_>>()
    };
    let expected = [Some(Place::File(path.join("c.png"))), None];
    let lines = r#"{"file_name": "a.png", "text": "an a", "ip_picture": "c.png"}
{"file_name": "b.png", "text": "a b"}
"#;
    write(&path.join("metadata.jsonl"), lines);
    assert_eq!(shown(&wanted), expected);
    assert_eq!(shown(&Options::default()), [None, None]);
    let (found, _) = look(path, open(path, &wanted).unwrap(), 0.1, &|| {}).unwrap();
    let of = |name| found.iter().find(|one| one.sample.name == name).unwrap();
    let sha256 = of("a.png").shown_sha256.clone().unwrap();
    assert_ne!(sha256, of("a.png").sha256);
    assert_eq!(of("b.png").shown_sha256, None);

    fs::remove_file(path.join("metadata.jsonl")).unwrap();
    let table = "file_name,text,ip_picture\na.png,an a,c.png\nb.png,a b,\n";
    write(&path.join("metadata.csv"), table);
    assert_eq!(shown(&wanted), expected);
    // One that cannot be read is of no use to its own.
    write(&path.join("c.png"), b"torn");
    let (found, skipped) = look(path, open(path, &wanted).unwrap(), 0.5, &|| {}).unwrap();
    assert_eq!(found.len(), 1);
    assert!(skipped[0].name == "a.png" && skipped[0].why.contains("is shown for it"));
}

#[test]
fn captions_lie_beside_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for name in ["b.png", "a.jpg", "in/c.PNG", "none.png"] {
        write(&path.join(name), png(1));
    }
    write(&path.join("a.txt"), "\u{feff}an a\nmore of it\n");
    write(&path.join("b.caption"), "a b");
    write(&path.join("in/c.txt"), "a c");
    let dataset = open(path, &Options::default()).unwrap();
    assert_eq!(dataset.layout, Layout::Beside);
    let (samples, skipped) = told(&dataset);
    assert_eq!(
        samples,
        [("a.jpg", "an a"), ("b.png", "a b"), ("in/c.PNG", "a c")]
    );
    assert_eq!(skipped, ["none.png"]);
    let given = Options {
        caption: Some("a thing".into()),
        ..Options::default()
    };
    assert_eq!(open(path, &given).unwrap().samples[2].caption, "a thing");
}

#[test]
fn kohya_folders_say_how_often() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(&path.join("3_sks dog/x.png"), png(1));
    write(&path.join("1_dog/y.png"), png(2));
    write(&path.join("1_dog/y.txt"), "a dog that sits");
    write(&path.join("0_never/z.png"), png(3));
    write(&path.join("other/w.png"), png(3));
    let dataset = open(path, &Options::default()).unwrap();
    assert_eq!(dataset.layout, Layout::Kohya);
    let found: Vec<_> = (dataset.samples.iter())
        .map(|one| (one.caption.as_str(), one.repeats))
        .collect();
    assert_eq!(found, [("a dog that sits", 1), ("sks dog", 3)]);
    let (good, _) = looked(path).unwrap();
    assert_eq!(items(&good, Flips::None).len(), 4);
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files_hold_pictures() {
    let path = fixture("pictures.parquet");
    let dataset = open(&path, &Options::default()).unwrap();
    assert_eq!(dataset.layout, Layout::Parquet);
    let (samples, skipped) = told(&dataset);
    let names: Vec<_> = samples.iter().map(|(_, caption)| *caption).collect();
    assert_eq!(names, ["picture 0", "picture 1", "picture 3", "picture 4"]);
    assert_eq!(skipped, ["pictures.parquet:2"]);
    for sample in &dataset.samples {
        let picture = sample.picture().unwrap();
        let number: u8 = sample
            .caption
            .trim_start_matches("picture ")
            .parse()
            .unwrap();
        assert_eq!(picture.rgb[3..6], [40 * number, 10, 20]);
    }
}

#[test]
fn members_of_a_tar_belong_together() {
    let dataset = open(&fixture("shard.tar"), &Options::default()).unwrap();
    assert_eq!(dataset.layout, Layout::Webdataset);
    let captions: Vec<_> = dataset
        .samples
        .iter()
        .map(|one| one.caption.as_str())
        .collect();
    assert_eq!(
        captions,
        ["a red one", "a green one", "a blue one", "a long one"]
    );
    assert_eq!(dataset.skipped[0].name, "shard.tar:shard/0003");
    let shades: Vec<u8> = (dataset.samples.iter())
        .map(|sample| *sample.picture().unwrap().rgb.last().unwrap())
        .collect();
    assert!(
        shades
            .iter()
            .zip([1u8, 2, 4, 5])
            .all(|(a, b)| a.abs_diff(b) <= 1),
        "{shades:?}"
    );
}

#[test]
fn a_run_gives_what_its_checker_was_content_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(
        &path.join("run.json"),
        r#"{"methods": [{"name": "psg"}, {"name": "plain"}]}"#,
    );
    for method in ["psg", "plain"] {
        let line = |id: &str, prompt: &str| {
            format!(
                r#"{{"sample_id": "{id}", "image_path": "images/{id}.png", "prompt": "{prompt}"}}"#
            )
        };
        let manifest = ["one", "two", "three"].map(|id| line(id, &format!("{method} {id}")));
        write(
            &path.join(method).join("manifest.jsonl"),
            manifest.join("\n"),
        );
        for id in ["one", "two", "three"] {
            write(&path.join(method).join(format!("images/{id}.png")), png(1));
        }
        // The third has two relations, one of which does not hold.
        let verdicts = [
            ("one", "PASS"),
            ("two", "FAIL"),
            ("three", "PASS"),
            ("three", "FAIL"),
        ];
        let verdicts = verdicts
            .map(|(id, verdict)| format!(r#"{{"sample_id": "{id}", "verdict_raw": "{verdict}"}}"#));
        write(
            &path.join(method).join("eval/per_sample.jsonl"),
            verdicts.join("\n"),
        );
    }
    let with = |verdicts: &[&str], methods: &[&str]| Options {
        verdicts: verdicts.iter().map(ToString::to_string).collect(),
        methods: methods.iter().map(ToString::to_string).collect(),
        ..Options::default()
    };
    let captions = |options: &Options| -> Vec<String> {
        let samples = open(path, options).unwrap().samples;
        samples.into_iter().map(|one| one.caption).collect()
    };
    assert_eq!(captions(&Options::default()), ["psg one", "plain one"]);
    assert_eq!(captions(&with(&["FAIL"], &["psg"])), ["psg two"]);
    assert_eq!(
        captions(&with(&[], &["plain"])),
        ["plain one", "plain two", "plain three"]
    );
    let error = open(path, &with(&[], &["none"])).unwrap_err().to_string();
    assert!(error.contains("psg, plain"), "{error}");
    fs::remove_file(path.join("psg/eval/per_sample.jsonl")).unwrap();
    let error = open(path, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("--verdicts all"), "{error}");
}

#[test]
fn pictures_are_seen_upright() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jpg");
    fs::copy(fixture("turned.jpg"), &path).unwrap();
    write(&path.with_extension("txt"), "turned");
    let (good, _) = looked(folder.path()).unwrap();
    // 24 × 16 in the file.
    assert_eq!(good[0].size, [16, 24]);
    assert_eq!(good[0].sha256.len(), 64);
}

#[test]
fn what_cannot_be_read_is_named_counted_and_at_last_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for number in 0..20 {
        write(&path.join(format!("{number:02}.png")), png(number));
        write(&path.join(format!("{number:02}.txt")), "a thing");
    }
    write(&path.join("05.png"), b"no picture");
    let mut cut = png(7);
    cut.truncate(cut.len() / 2);
    write(&path.join("11.png"), cut);
    let (good, skipped) = looked(path).unwrap();
    assert_eq!(good.len(), 18);
    let names: Vec<_> = skipped.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["05.png", "11.png"]);
    assert!(
        skipped[0].why.contains("not a readable PNG"),
        "{}",
        skipped[0].why
    );

    write(&path.join("12.png"), b"");
    let error = looked(path).unwrap_err();
    assert!(matches!(
        error,
        DatasetError::Skipped {
            skipped: 3,
            all: 20,
            ..
        }
    ));
    let error = error.to_string();
    assert!(
        error.contains("10 %") && error.contains("05.png"),
        "{error}"
    );
}

#[test]
fn nothing_to_train_on_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let empty = open(path, &Options::default()).unwrap_err().to_string();
    assert!(empty.contains("metadata.jsonl"), "{empty}");
    write(&path.join("a.png"), png(1));
    let without = open(path, &Options::default()).unwrap_err().to_string();
    assert!(without.contains("a.png: it has no caption"), "{without}");
    write(&path.join("notes.docx"), "x");
    let form = open(&path.join("notes.docx"), &Options::default()).unwrap_err();
    assert!(matches!(form, DatasetError::Form(_)));
    assert!(matches!(
        open(&path.join("lost"), &Options::default()),
        Err(DatasetError::Io { .. })
    ));
    write(
        &path.join("x.tar"),
        "this is no archive, whatever its name says".repeat(30),
    );
    assert!(open(&path.join("x.tar"), &Options::default()).is_err());
    write(&path.join("x.parquet"), "PAR1 nor is this a table PAR1");
    assert!(open(&path.join("x.parquet"), &Options::default()).is_err());
}

#[test]
fn buckets_are_kohyas() {
    let cases: Vec<Value> =
        serde_json::from_slice(&fs::read(fixture("buckets.json")).unwrap()).unwrap();
    let number = |value: &Value| value.as_u64().unwrap() as usize;
    let size = |value: &Value| [number(&value[0]), number(&value[1])];
    for case in &cases {
        for no_upscale in [false, true] {
            let side = number(&case["resolution"]);
            let sizes = Sizes {
                resolution: [side, side],
                buckets: Some(Buckets {
                    shortest: number(&case["shortest"]),
                    longest: number(&case["longest"]),
                    step: number(&case["step"]),
                    no_upscale,
                }),
            };
            let chooser = sizes.chooser();
            let expected: Vec<_> = case["sizes"].as_array().unwrap().iter().map(size).collect();
            assert_eq!(chooser.buckets(), expected);
            let fits = case["fits"].as_array().unwrap().iter();
            let mut tried = 0;
            for fit in fits.filter(|fit| fit["no_upscale"].as_bool() == Some(no_upscale)) {
                let found = chooser.fit(size(&fit["size"])).unwrap();
                let expected = (size(&fit["resized"]), size(&fit["bucket"]));
                assert_eq!((found.resized, found.size), expected, "{fit}");
                tried += 1;
            }
            assert_eq!(tried, 40);
        }
    }
    let one = Sizes {
        resolution: [128, 128],
        buckets: None,
    };
    let expected = Fit {
        resized: [192, 128],
        offset: [32, 0],
        size: [128, 128],
    };
    assert_eq!(one.chooser().fit([300, 200]), Some(expected));
}

#[test]
fn sides_are_words() {
    for caption in [
        "a dog to the left of a cat",
        "the right-hand side",
        "Leftmost chair",
        "turning clockwise",
    ] {
        assert!(names_a_side(caption), "{caption}");
    }
    for caption in [
        "a bright light",
        "a dog and a cat",
        "leftovers on a plate",
        "copyright",
    ] {
        assert!(!names_a_side(caption), "{caption}");
    }
    assert_eq!(
        swapped("A dog to the left of a cat; Right-hand, LEFT. Leftovers"),
        "A dog to the right of a cat; Left-hand, RIGHT. Leftovers"
    );
}

fn samples(captions: &[&str]) -> Vec<Looked> {
    let sample = |caption: &&str| Looked {
        sample: crate::Sample {
            name: (*caption).into(),
            place: crate::Place::File("x".into()),
            caption: (*caption).into(),
            repeats: 1,
            objects: Vec::new(),
            shown: None,
        },
        sha256: String::new(),
        shown_sha256: None,
        size: [8, 8],
    };
    captions.iter().map(sample).collect()
}

#[test]
fn mirror_images_do_not_lie() {
    let both = samples(&["a dog and a cat", "a dog to the left of a cat"]);
    let told = |flips| -> Vec<(usize, bool, String)> {
        let items = items(&both, flips);
        items
            .into_iter()
            .map(|item| (item.sample, item.flipped, item.caption))
            .collect()
    };
    let [neutral, side] = ["a dog and a cat", "a dog to the left of a cat"].map(str::to_owned);
    assert_eq!(
        told(Flips::None),
        [(0, false, neutral.clone()), (1, false, side.clone())]
    );
    assert_eq!(
        told(Flips::Both(SideWords::LeaveOut)),
        [
            (0, false, neutral.clone()),
            (0, true, neutral.clone()),
            (1, false, side.clone())
        ]
    );
    let swapped = told(Flips::Both(SideWords::Swap));
    assert_eq!(
        swapped[3],
        (1, true, "a dog to the right of a cat".to_owned())
    );
    assert_eq!(
        told(Flips::Both(SideWords::Keep))[3],
        (1, true, side.clone())
    );
    // In the other order the same is said of the same picture.
    let [other, turned] = ["a cat and a dog", "a cat to the right of a dog"].map(str::to_owned);
    assert_eq!(
        told(Flips::Exchange),
        [
            (0, false, neutral),
            (0, false, other),
            (1, false, side),
            (1, false, turned)
        ]
    );
    // One thing has no other order.
    assert_eq!(items(&samples(&["a dog"]), Flips::Exchange).len(), 1);
}

#[test]
fn an_epoch_has_everything_once_in_batches_of_one_size() {
    let sizes: Vec<_> = (0..23)
        .map(|i| if i % 3 == 0 { [64, 96] } else { [64, 64] })
        .collect();
    let order = Order::new(Draws(5), 4, sizes.clone());
    // 8 of the one size, 15 of the other.
    assert_eq!(order.batches(), 2 + 4);
    let first = order.epoch(0);
    assert_eq!(first.len(), order.batches());
    let mut all = first.concat();
    all.sort_unstable();
    assert_eq!(all, (0..23).collect::<Vec<_>>());
    assert!(
        first
            .iter()
            .all(|batch| batch.iter().all(|item| sizes[*item] == sizes[batch[0]]))
    );
    assert_eq!(first, Order::new(Draws(5), 4, sizes.clone()).epoch(0));
    assert_ne!(first, order.epoch(1));
    assert_ne!(first, Order::new(Draws(6), 4, sizes).epoch(0));
}

#[test]
fn pairs_say_which_is_where() {
    let pair = |file: &str, caption: &str, first_is_left| Pair {
        file: file.into(),
        caption: caption.into(),
        first_is_left,
    };
    let pairs = [
        pair("0.png", "a photo of a cat and a dog.", true),
        pair("1.png", "a photo of a cat and a dog.", true),
        pair("2.png", "An apple and two red cars", false),
        pair("3.png", "one desk is occupied and one boat is clean", false),
    ];
    let said = |with_sides| -> Vec<(String, String)> {
        let lines = lines(&pairs, with_sides).into_iter();
        lines.map(|line| (line.file_name, line.text)).collect()
    };
    assert_eq!(said(false).len(), 4);
    let sides: Vec<_> = (said(true).into_iter())
        .filter(|line| !said(false).contains(line))
        .collect();
    let expected = [
        ("0.png", "a photo of a cat to the left of a dog."),
        ("0.png", "a photo of a dog to the right of a cat."),
        ("1.png", "a photo of a cat to the left of a dog."),
        ("1.png", "a photo of a dog to the right of a cat."),
        ("2.png", "An apple to the right of two red cars"),
        ("2.png", "Two red cars to the left of an apple"),
    ];
    // The last cannot say it by rule.
    assert_eq!(
        sides,
        expected.map(|(file, text)| (file.to_owned(), text.to_owned()))
    );
    assert_eq!(with_relation("a dog and a cat", Relation::Above), None);
    assert_eq!(with_relation("a dog left of a cat", Relation::LeftOf), None);
    assert_eq!(with_relation("a dog", Relation::LeftOf), None);
}

#[test]
fn objects_come_from_lines_and_from_what_a_run_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for name in ["a.png", "b.png", "c.png", "d.png", "e.png"] {
        write(&path.join(name), png(1));
    }
    let line = |name: &str, objects: &str| {
        format!(r#"{{"file_name": "{name}.png", "text": "{name}"{objects}}}"#)
    };
    let lines = [
        line(
            "a",
            r#", "objects": [{"phrase": " a dog ", "box": [0, 0.25, 0.5, 1], "more": 1}]"#,
        ),
        line("b", ""),
        line("c", r#", "objects": []"#),
        line(
            "d",
            r#", "objects": [{"phrase": "a dog", "box": [0, 32, 64, 128]}]"#,
        ),
        line(
            "e",
            r#", "objects": [{"phrase": "a dog", "box": [0, 0.5, 1]}]"#,
        ),
    ];
    write(&path.join("metadata.jsonl"), lines.join("\n"));
    let wanted = Options {
        objects: true,
        ..Options::default()
    };
    let dataset = open(path, &wanted).unwrap();
    let dog = |corners| Object {
        phrase: "a dog".into(),
        corners,
    };
    assert_eq!(dataset.samples.len(), 1);
    assert_eq!(dataset.samples[0].objects, [dog([0.0, 0.25, 0.5, 1.0])]);
    let mut whys: Vec<(&str, &str)> = (dataset.skipped.iter())
        .map(|one| (one.name.as_str(), one.why.as_str()))
        .collect();
    whys.sort_unstable();
    let parts = [
        "no phrases with boxes",
        "no phrases",
        "from 0 to 1",
        "four numbers",
    ];
    for ((name, why), (expected, part)) in whys.iter().zip(["b", "c", "d", "e"].iter().zip(parts)) {
        assert_eq!(*name, format!("{expected}.png"));
        assert!(why.contains(part), "{name}: {why}");
    }
    // Whoever does not want them is not bothered by them.
    let plain = open(path, &Options::default()).unwrap();
    assert!(plain.samples.len() == 5 && plain.samples[0].objects.is_empty());

    let run = tempfile::tempdir().unwrap();
    let path = run.path();
    write(&path.join("run.json"), r#"{"methods": [{"name": "psg"}]}"#);
    let manifest = r#"{"sample_id": "one", "image_path": "images/one.png", "prompt": "one"}"#;
    write(&path.join("psg/manifest.jsonl"), manifest);
    write(&path.join("psg/images/one.png"), png(1));
    let without = open(path, &wanted).unwrap_err().to_string();
    assert!(without.contains("prepose check"), "{without}");
    let record = |verdict: &str| {
        format!(
            r#"{{"sample_id": "one", "verdict_raw": "{verdict}", "detectors": {{"primary": {{"type": "x", "detections": [
            {{"label": "dog", "score": 0.9, "box_xyxy": [-1.0, 32.0, 100.0, 64.0]}}]}}}}, "image_size": [200, 128]}}"#
        )
        .replace('\n', "")
    };
    let records = [record("PASS"), record("PASS")].join("\n");
    write(&path.join("psg/eval/per_sample.jsonl"), records);
    let dataset = open(path, &wanted).unwrap();
    assert_eq!(dataset.samples[0].objects, [dog([0.0, 0.25, 0.5, 0.5])]);
}

#[test]
fn boxes_are_cut_and_mirrored_with_their_pictures() {
    let object = |phrase: &str, corners| Object {
        phrase: phrase.into(),
        corners,
    };
    let objects = [
        object("small", [0.45, 0.4, 0.55, 0.49]),
        object("left", [0.0, 0.0, 0.5, 0.5]),
        object("all", [0.0, 0.0, 1.0, 1.0]),
        object("outside", [0.0, 0.2, 0.25, 0.4]),
    ];
    // The middle half of a picture of twice the width.
    let fit = Fit {
        resized: [128, 64],
        offset: [32, 0],
        size: [64, 64],
    };
    let placed = fit.place(&objects, false, 30);
    let expected = [
        object("all", [0.0, 0.0, 1.0, 1.0]),
        object("left", [0.0, 0.0, 0.5, 0.5]),
        object("small", [0.4, 0.4, 0.6, 0.49]),
    ];
    let near = |a: &[Object], b: &[Object]| {
        let same = |(a, b): (&Object, &Object)| {
            let mut edges = a.corners.iter().zip(b.corners);
            a.phrase == b.phrase && edges.all(|(a, b)| (a - b).abs() < 1e-12)
        };
        a.len() == b.len() && a.iter().zip(b).all(same)
    };
    assert!(near(&placed, &expected), "{placed:?}");
    let flipped = fit.place(&objects, true, 2);
    let expected = [
        object("all", [0.0, 0.0, 1.0, 1.0]),
        object("left", [0.5, 0.0, 1.0, 0.5]),
    ];
    assert!(near(&flipped, &expected), "{flipped:?}");
}
