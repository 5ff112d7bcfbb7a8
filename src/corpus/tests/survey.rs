//! Surveys of captions, and where boxes say that things are.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use prepose_check::rules::Options;

use super::fixtures;
use crate::layout::{self, Boxes, Seen, Usable};
use crate::rates::Tally;
use crate::read::{Columns, Source, sources};
use crate::survey::{Counts, Found, PAIRS, SurveyError, survey};

/// Captions of which a third are pairs, some of them twice.
fn captions(path: &Path, count: usize) {
    let names = ["cat", "dog", "horse", "car", "chair"];
    let line = |i: usize| {
        let (a, b) = (names[i % 5], names[i / 5 % 5]);
        let text = match i % 3 {
            0 => format!("a {a} and a {b}"),
            1 => format!("a {a} to the left of a {b}"),
            _ => format!("a {a} in a park"),
        };
        format!(
            "{{\"caption\": \"{text}\", \"url\": \"https://example.org/{}\"}}\n",
            i / 2 * 2 % 9973
        )
    };
    fs::write(path, (0..count).map(line).collect::<String>()).unwrap();
}

fn run(source: &[Source], folder: &Path, stop_after: u64) -> Result<(Counts, bool), SurveyError> {
    let stop = AtomicBool::new(false);
    let mut progress = |done: u64| stop.store(done >= stop_after, Ordering::Relaxed);
    survey(source, &Columns::default(), folder, &mut progress, &stop)
}

#[test]
fn a_survey_that_was_stopped_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("captions.jsonl");
    captions(&path, 100_000);
    let all = sources(&[path.clone(), fixtures().join("captions.jsonl")]).unwrap();
    let at = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    };
    let (whole, done) = run(&all, &at("whole"), u64::MAX).unwrap();
    assert!(done && whole.repeated > 0 && whole.pairs > 0);
    assert_eq!((whole.captions, whole.unreadable), (101_000, 0));
    assert_eq!(
        whole.pairs + whole.repeated + whole.refused.values().sum::<u64>(),
        whole.captions
    );
    let mut stops = 0;
    let counts = loop {
        let (counts, done) = run(&all, &at("parts"), 1).unwrap();
        if done {
            break counts;
        }
        stops += 1;
        // What was written behind the last place is of a part that was killed.
        let path = at("parts").join(PAIRS);
        let mut text = fs::read(&path).unwrap();
        text.extend(b"{\"caption\": \"half a l");
        fs::write(&path, text).unwrap();
    };
    assert!(stops >= 4, "{stops}");
    assert_eq!(counts, whole);
    let read = |name: &str| fs::read(at(name).join(PAIRS)).unwrap();
    assert!(
        read("parts") == read("whole"),
        "the pairs are the same to the byte"
    );

    let error = run(&all[..1], &at("whole"), 1).unwrap_err().to_string();
    assert!(
        error.contains("belongs to other files or columns"),
        "{error}"
    );
    fs::write(at("whole").join(PAIRS), "").unwrap();
    let error = run(&all, &at("whole"), 1).unwrap_err().to_string();
    assert!(error.contains("is damaged"), "{error}");
}

/// The captions that the toybox was trained on name the left one first in 95 of 100 cases (`scripts/toybox/world.py`), where the
/// two are side by side and no relation is said; boxes are where things were drawn.
#[test]
fn the_toyboxs_planted_share_is_found() {
    const PLANTED: f64 = 95.0;
    let folder = tempfile::tempdir().unwrap();
    let all = sources(&[fixtures().join("captions.jsonl")]).unwrap();
    let (counts, _) = run(&all, folder.path(), u64::MAX).unwrap();
    let mut boxes = Boxes::open(&[fixtures().join("boxes.jsonl")], None).unwrap();
    let mut tally = Tally::default();
    for found in layout::pairs(folder.path()).unwrap() {
        let found = found.unwrap();
        let seen = match layout::fault(&found, None, &Usable::default()) {
            Some(fault) => fault,
            None => boxes.side(&found, None, &Options::default()).unwrap(),
        };
        tally.add(&found, seen);
    }
    let rate = tally.all();
    let [low, high] = rate.interval().unwrap();
    assert!(
        low <= PLANTED && PLANTED <= high,
        "{rate:?}: {low} to {high}"
    );
    // Side by side and neutral are 0.8 · 0.64 · 0.55 of all scenes.
    assert!((200..=340).contains(&rate.valid), "{rate:?} of {counts:?}");
    let funnel = crate::rates::funnel(&counts, Some(&tally));
    assert!(funnel.to_csv().contains("above each other"));
    let table = tally.table().to_csv();
    assert!(
        table.contains("coordination") && !table.contains("preposition"),
        "{table}"
    );
}

fn two(first: &str, second: &str, picture: &str) -> Found {
    let of = |text: &str| text.to_owned();
    Found {
        caption: format!("a {first} and a {second}"),
        first: of(first),
        second: of(second),
        phrases: [of(first), of(second)],
        link: of("and"),
        kinds: ["animals", "animals"].map(of),
        folder: PathBuf::new(),
        picture: Some(of(picture)),
        url: None,
        size: Some([200, 200]),
    }
}

#[test]
fn boxes_answer_behind_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let one = |label: &str, x: f64, y: f64| {
        format!(
            "{{\"label\": \"{label}\", \"score\": 0.9, \"box_xyxy\": [{x}, {y}, {}, {}]}}",
            x + 40.0,
            y + 40.0
        )
    };
    let lines = [
        (
            "left",
            vec![one("dog", 0.0, 50.0), one("couch", 120.0, 60.0)],
        ),
        (
            "right",
            vec![one("dog", 120.0, 50.0), one("couch", 0.0, 60.0)],
        ),
        (
            "stacked",
            vec![one("dog", 50.0, 0.0), one("couch", 60.0, 120.0)],
        ),
        ("alone", vec![one("dog", 50.0, 0.0)]),
        (
            "twice",
            vec![
                one("dog", 0.0, 0.0),
                one("dog", 50.0, 0.0),
                one("couch", 120.0, 0.0),
            ],
        ),
        (
            "over",
            vec![one("dog", 50.0, 50.0), one("couch", 54.0, 50.0)],
        ),
    ];
    let text: String = lines
        .iter()
        .map(|(name, found)| format!("{{\"id\": \"{name}\", \"file\": \"p/{name}.jpg\", \"width\": 200, \"height\": 200, \"detections\": [{}]}}\n", found.join(",")))
        .collect();
    let path = folder.path().join("found.jsonl");
    fs::write(&path, text).unwrap();
    let mut boxes = Boxes::open(std::slice::from_ref(&path), Some(Path::new("p"))).unwrap();
    let mut seen = |name: &str| {
        let found = two("dog", "sofa", name);
        boxes.side(&found, None, &Options::default()).unwrap()
    };
    for (name, wanted) in [
        ("right.jpg", Seen::Right),
        ("left", Seen::Left),
        ("stacked.jpg", Seen::Stacked),
        ("p/alone.jpg", Seen::Missing),
        ("twice.jpg", Seen::Several),
        ("over.jpg", Seen::Overlap),
        ("other.jpg", Seen::Unseen),
    ] {
        assert_eq!(seen(name), wanted, "{name}");
    }
    fs::write(&path, "{\"id\": 1}\n").unwrap();
    let error = Boxes::open(&[path], None).unwrap_err().to_string();
    assert!(error.contains("found.jsonl: line 1: "), "{error}");
}

/// A line of `prepose detect` with a dog on the left of a sofa.
fn line(id: &str, file: &str) -> String {
    let line = serde_json::json!({"id": id, "file": file, "width": 200, "height": 200, "detections": [
        {"label": "dog", "score": 0.9, "box_xyxy": [0, 50, 40, 90]},
        {"label": "couch", "score": 0.9, "box_xyxy": [120, 60, 160, 100]},
    ]});
    format!("{line}\n")
}

#[test]
fn boxes_of_a_picture_called_the_same_are_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for part in ["train", "test"] {
        fs::create_dir(at(part)).unwrap();
        fs::write(at(part).join("0001.png"), "").unwrap();
    }
    let seen = |lines: &[String], part: &str, pictures: Option<&Path>| {
        fs::write(at("found.jsonl"), lines.concat()).unwrap();
        let mut boxes = Boxes::open(&[at("found.jsonl")], pictures).unwrap();
        let mut found = two("dog", "sofa", "0001.png");
        found.folder = at(part);
        let file = layout::file(&found, pictures);
        boxes
            .side(&found, file.as_deref(), &Options::default())
            .unwrap()
    };
    let written = |part: &str| at(part).join("0001.png").display().to_string();
    let train = [line("0001", &written("train"))];
    assert_eq!(seen(&train, "train", None), Seen::Left);
    assert_eq!(seen(&train, "test", None), Seen::Unseen);
    // Both, written in another way.
    let other = |part: &str| format!("{}/./{part}/0001.png", folder.path().display());
    let nothing = line("0001-2", &other("test")).replace("dog", "cat");
    let both = [line("0001", &other("train")), nothing];
    assert_eq!(seen(&both, "train", None), Seen::Left);
    assert_eq!(seen(&both, "test", None), Seen::Missing);
    // Looked at elsewhere, or before the folder was moved.
    let moved = [line("0001", "old/train/0001.png")];
    assert_eq!(seen(&moved, "train", None), Seen::Left);
    assert_eq!(seen(&moved, "test", None), Seen::Unseen);
    assert_eq!(seen(&moved, "test", Some(&at("test"))), Seen::Left);
    let two_of_them = [&moved[..], &[line("0001-2", "old/more/0001.png")]].concat();
    assert_eq!(seen(&two_of_them, "train", None), Seen::Unseen);
    // Pictures that are not there, with keys for names.
    let keyed = |lines: &[String], key: &str| {
        fs::write(at("found.jsonl"), lines.concat()).unwrap();
        let mut boxes = Boxes::open(&[at("found.jsonl")], None).unwrap();
        let found = two("dog", "sofa", key);
        boxes.side(&found, None, &Options::default()).unwrap()
    };
    let lines = [line("000000012", "laion/00000/000000012.jpg")];
    assert_eq!(keyed(&lines, "000000012"), Seen::Left);
    assert_eq!(keyed(&lines, "00000/000000012"), Seen::Left);
    assert_eq!(keyed(&lines, "00001/000000012"), Seen::Unseen);
    let by_id = line("mine", "x").replace("\"file\":\"x\",", "");
    assert_eq!(keyed(&[by_id], "a/mine.png"), Seen::Left);
}

#[test]
fn endings_may_be_in_capitals() {
    let folder = tempfile::tempdir().unwrap();
    image::RgbImage::new(120, 110)
        .save(folder.path().join("small.jpg"))
        .unwrap();
    fs::rename(
        folder.path().join("small.jpg"),
        folder.path().join("IMG_1.JPG"),
    )
    .unwrap();
    let found = two("dog", "sofa", "IMG_1");
    let file = layout::file(&found, Some(folder.path()));
    assert!(file.is_some());
    assert_eq!(
        layout::fault(&found, file.as_deref(), &Usable::default()),
        None
    );
}

#[test]
fn a_survey_notices_that_its_captions_changed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    };
    let survey = |source: &Path, out: &str| {
        let all = sources(&[source.to_owned()]).unwrap();
        run(&all, &at(out), u64::MAX)
    };
    let changed = |result: Result<(Counts, bool), SurveyError>| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("they have changed since"), "{error}");
    };
    let set = |path: &Path, seconds: u64| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(time).unwrap();
    };
    let texts = at("texts");
    for (name, text) in [("1.txt", "a dog and a cat"), ("2.txt", "a cat and a dog")] {
        fs::write(texts.join(name), text).unwrap();
        set(&texts.join(name), 1000);
    }
    assert_eq!(survey(&texts, "of-texts").unwrap().0.pairs, 2);
    assert_eq!(survey(&texts, "of-texts").unwrap().0.pairs, 2);
    // Of the same length, at another time.
    fs::write(texts.join("2.txt"), "a cow and a dog").unwrap();
    set(&texts.join("2.txt"), 1001);
    changed(survey(&texts, "of-texts"));
    survey(&texts, "of-three").unwrap();
    fs::write(texts.join("3.txt"), "a car and a dog").unwrap();
    changed(survey(&texts, "of-three"));
    survey(&texts, "of-pictures").unwrap();
    fs::write(texts.join("3.png"), "").unwrap();
    changed(survey(&texts, "of-pictures"));

    let lines = folder.path().join("captions.jsonl");
    captions(&lines, 30);
    set(&lines, 1000);
    survey(&lines, "of-lines").unwrap();
    survey(&lines, "of-lines").unwrap();
    set(&lines, 1001);
    changed(survey(&lines, "of-lines"));
    // One that an earlier prepose began knows no times.
    let progress = at("of-lines").join("survey.json");
    let text = fs::read_to_string(&progress).unwrap();
    let mut earlier: serde_json::Value = serde_json::from_str(&text).unwrap();
    let source = earlier["sources"][0].as_object_mut().unwrap();
    assert!(source.remove("modified").is_some_and(|time| time.is_u64()));
    source.remove("texts");
    fs::write(&progress, earlier.to_string()).unwrap();
    survey(&lines, "of-lines").unwrap();
}

#[test]
fn pictures_that_are_of_no_use_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    for (name, width, height) in [
        ("good.png", 120, 100),
        ("small.png", 200, 99),
        ("long.png", 400, 120),
    ] {
        image::RgbImage::new(width, height)
            .save(folder.path().join(name))
            .unwrap();
    }
    fs::write(folder.path().join("broken.png"), b"\x89PNG").unwrap();
    for (name, wanted) in [
        ("good", None),
        ("small.png", Some(Seen::Small)),
        ("long.png", Some(Seen::Long)),
        ("broken.png", Some(Seen::Broken)),
    ] {
        let mut found = two("cat", "dog", name);
        found.size = None;
        let file = layout::file(&found, Some(folder.path()));
        assert_eq!(
            layout::fault(&found, file.as_deref(), &Usable::default()),
            wanted,
            "{name}"
        );
    }
    let mut gone = two("cat", "dog", "gone.png");
    gone.size = None;
    assert_eq!(layout::file(&gone, Some(folder.path())), None);
    assert_eq!(
        layout::fault(&gone, None, &Usable::default()),
        Some(Seen::NoPicture)
    );
}

/// How fast a file of one's own is surveyed: `PREPOSE_CAPTIONS=FILE cargo test --release -p prepose-corpus -- --ignored --nocapture`.
#[test]
#[ignore = "needs a large file of captions, named by PREPOSE_CAPTIONS"]
fn a_large_file_is_surveyed() {
    let path = std::env::var_os("PREPOSE_CAPTIONS").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let all = sources(&[path.into()]).unwrap();
    let start = std::time::Instant::now();
    let (counts, whole) = run(&all, folder.path(), u64::MAX).unwrap();
    assert!(whole && counts.captions > 0);
    let seconds = start.elapsed().as_secs_f64();
    println!("{counts:?}");
    println!(
        "{:.0} captions a minute, {seconds:.1} s",
        60.0 * counts.captions as f64 / seconds
    );
}
