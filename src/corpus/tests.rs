use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use prepose_check::rules::Options;
use proptest::prelude::*;

use crate::layout::{self, Boxes, Seen, Usable};
use crate::pairs::{Why, pair};
use crate::rates::Tally;
use crate::read::{Columns, Form, Place, ReadError, Row, Source, open, sources};
use crate::survey::{Counts, Found, PAIRS, SurveyError, survey};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/corpus")
}

#[test]
fn captions_of_two_joined_things_are_pairs() {
    for (caption, first, second, link) in [
        ("a photo of a cat and a dog.", "cat", "dog", "and"),
        ("A Red Car near a small house", "car", "house", "near"),
        ("a dog next to the bicycle", "dog", "bicycle", "next to"),
        ("a teddy bear beside a lamp", "teddy bear", "lamp", "beside"),
        ("woman with a dog", "woman", "dog", "with"),
        (
            "a golden retriever and a kitten",
            "retriever",
            "kitten",
            "and",
        ),
    ] {
        let found = pair(caption).unwrap_or_else(|why| panic!("{caption}: {why:?}"));
        let nouns = found.nouns.each_ref().map(String::as_str);
        assert_eq!((nouns, found.link), ([first, second], link), "{caption}");
    }
}

#[test]
fn other_captions_are_none_and_it_is_said_why() {
    let mut wrong = Vec::new();
    for (caption, why) in [
        ("cat", Why::Length),
        (&"a cat and a dog ".repeat(12), Why::Length),
        ("a cat and a dog #cute", Why::Meta),
        ("IMG_2034.jpg cat and dog", Why::Meta),
        ("a cat and a dog for sale now", Why::Spam),
        ("cat and dog stock photo", Why::Spam),
        ("cat and dog 10234 55 66 7789 2020", Why::Language),
        ("кот и собака cat and dog", Why::Language),
        ("a cat on a mat", Why::NoPair),
        ("love and happiness of a cat", Why::NoPair),
        ("two cats and a dog", Why::NoPair),
        ("a cat, a dog and a horse", Why::NotTwo),
        ("a cat or a dog and a horse", Why::NotRead),
        (
            "a cat and a dog, the cat to the left of the dog",
            Why::Placed,
        ),
        ("a cat and another cat", Why::Same),
    ] {
        let found = pair(caption);
        if found != Err(why) {
            wrong.push(format!("{caption}: {found:?} instead of {why:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// All rows of a source from a place on, read in parts of `most`.
fn rows(path: &Path, from: Place, most: usize) -> Result<(Vec<Row>, u64, Place), ReadError> {
    let source = sources(&[path.to_owned()])?.remove(0);
    let mut reader = open(&source, &Columns::default(), from)?;
    let (mut all, mut part, mut passed) = (Vec::new(), Vec::new(), 0);
    loop {
        let unreadable = reader.next(most, &mut part)?;
        passed += unreadable;
        if part.is_empty() && unreadable == 0 {
            return Ok((all, passed, reader.place()));
        }
        all.append(&mut part);
    }
}

/// What `scripts/reference/cases/parquet_files.py` wrote.
#[cfg(feature = "parquet")]
fn written() -> Vec<Row> {
    (0..300u32)
        .filter(|i| i % 7 != 6)
        .map(|i| Row {
            caption: format!("caption {i} – ü"),
            picture: Some(format!("{i:09}")),
            url: (i % 5 != 4).then(|| format!("https://example.org/{i}")),
            size: (i % 3 != 2).then_some([i + 1, 2 * i + 1]),
            objects: None,
            shown: None,
        })
        .collect()
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_is_read_as_it_was_written() {
    let names = [
        "snappy-dictionary",
        "gzip-plain",
        "gzip-pages-v2",
        "none-delta",
        "small-pages",
    ];
    for name in names {
        let path = fixtures().join(format!("parquet/{name}.parquet"));
        for most in [1000, 37] {
            let (found, passed, end) = rows(&path, Place::default(), most).unwrap();
            assert_eq!((found, passed, end.row), (written(), 42, 300), "{name}");
        }
        // From any row on, whether it begins a group or not.
        for row in [1, 64, 99, 100, 150, 203, 299, 300] {
            let (found, ..) = rows(&path, Place { row, byte: 0 }, 50).unwrap();
            let before = (0..row).filter(|i| i % 7 != 6).count();
            assert_eq!(found, written()[before..], "{name} from {row}");
        }
    }
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_that_cannot_be_used_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(fixtures().join("parquet/gzip-plain.parquet")).unwrap();
    let bad = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        rows(&path, Place::default(), 100).unwrap_err().to_string()
    };
    for (message, part) in [
        (
            bad("cut.parquet", &whole[..whole.len() / 2]),
            "cut.parquet cannot be read as Parquet",
        ),
        (bad("empty.parquet", b""), "cannot be read as Parquet"),
        (
            bad("text.parquet", b"caption\na cat and a dog\n"),
            "cannot be read as Parquet",
        ),
    ] {
        assert!(message.contains(part), "{message}");
    }
    let refused = |name: &str| {
        let path = fixtures().join(format!("parquet/{name}.parquet"));
        rows(&path, Place::default(), 100).unwrap_err().to_string()
    };
    assert!(
        refused("lists").contains("--caption-column"),
        "{}",
        refused("lists")
    );
    assert!(
        refused("brotli").to_lowercase().contains("brotli"),
        "{}",
        refused("brotli")
    );
}

#[test]
fn lines_are_read_and_what_is_none_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("captions.jsonl");
    let long = format!("{{\"caption\": \"{}\"}}", "x".repeat(1 << 21));
    let text = format!(
        "\u{feff}{{\"text\": \"second choice\", \"caption\": \"first\", \"key\": 12, \"width\": 10, \"height\": 20.0}}\n\n{{\"url\": null, \"TEXT\": \"ü\"}}\r\n{{\n{long}\n{{\"other\": 1}}\n{{\"prompt\": \"last\"}}"
    );
    fs::write(&path, &text).unwrap();
    let (found, passed, end) = rows(&path, Place::default(), 2).unwrap();
    let captions: Vec<&str> = found.iter().map(|row| row.caption.as_str()).collect();
    assert_eq!((captions, passed), (vec!["first", "ü", "last"], 3));
    assert_eq!(
        (found[0].picture.as_deref(), found[0].size),
        (Some("12"), Some([10, 20]))
    );
    assert_eq!(end.byte, text.len() as u64);
    // A place says where to go on.
    let source = Source {
        path: path.clone(),
        form: Form::Lines,
    };
    let mut reader = open(&source, &Columns::default(), Place::default()).unwrap();
    let mut part = Vec::new();
    reader.next(1, &mut part).unwrap();
    let (rest, ..) = rows(&path, reader.place(), 10).unwrap();
    assert_eq!(rest, found[1..]);

    fs::write(&path, "{\"words\": \"a\", \"id\": 3}\n").unwrap();
    let error = rows(&path, Place::default(), 10).unwrap_err().to_string();
    assert!(
        error.contains("line 1: none of its keys is called caption")
            && error.contains("it has words, id"),
        "{error}"
    );
}

#[test]
fn tables_and_folders_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metadata.csv");
    fs::write(
        &path,
        "file_name,text,width\n1.png,\"a cat, and\na dog\",7\n2.png,b,\n3.png\n",
    )
    .unwrap();
    let (found, passed, end) = rows(&path, Place::default(), 1).unwrap();
    assert_eq!((found.len(), passed, end.row), (2, 1, 3));
    assert_eq!(found[0].caption, "a cat, and\na dog");
    let source = sources(std::slice::from_ref(&path)).unwrap().remove(0);
    let mut reader = open(&source, &Columns::default(), Place::default()).unwrap();
    let mut part = Vec::new();
    reader.next(1, &mut part).unwrap();
    let (rest, ..) = rows(&path, reader.place(), 5).unwrap();
    assert_eq!(rest, found[1..]);
    fs::write(&path, "a,b\n1,2\n").unwrap();
    let error = rows(&path, Place::default(), 1).unwrap_err().to_string();
    assert!(error.contains("it has a, b"), "{error}");

    let texts = folder.path().join("texts");
    fs::create_dir_all(texts.join("more")).unwrap();
    for (name, text) in [
        ("2.txt", "two"),
        ("1.txt", "one\n"),
        ("1.jpg", ""),
        ("more/3.txt", "three"),
    ] {
        fs::write(texts.join(name), text).unwrap();
    }
    fs::write(texts.join("4.txt"), [0xff, 0xfe]).unwrap();
    let all = sources(std::slice::from_ref(&texts)).unwrap();
    assert_eq!(all.len(), 2);
    let (found, passed, _) = rows(&texts, Place::default(), 1).unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|row| (row.caption.as_str(), row.picture.as_deref()))
        .collect();
    assert_eq!(
        (found, passed),
        (vec![("one", Some("1.jpg")), ("two", None)], 1)
    );
    let error = sources(&[folder.path().join("nothing")])
        .unwrap_err()
        .to_string();
    assert!(error.contains("cannot read"), "{error}");
    fs::create_dir(folder.path().join("empty")).unwrap();
    let error = sources(&[folder.path().join("empty")])
        .unwrap_err()
        .to_string();
    assert!(error.contains("there are no captions in"), "{error}");
    fs::write(folder.path().join("a.txt"), "").unwrap();
    let error = sources(&[folder.path().join("a.txt")])
        .unwrap_err()
        .to_string();
    assert!(error.contains("is no file of captions"), "{error}");
}

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
    assert!(error.contains("is of other files or columns"), "{error}");
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever is in a line or a caption, it is read or refused.
    #[test]
    fn any_line_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "\\PC{0,80}") {
        let _ = crate::read::line(&bytes, &Columns::default());
        let _ = pair(&text);
        let line = serde_json::json!({"caption": text, "url": null}).to_string();
        let row = crate::read::line(line.as_bytes(), &Columns::default()).unwrap();
        prop_assert_eq!(row.caption, text);
    }

    /// A caption of two known things is the pair of them, in their order.
    #[test]
    fn named_things_are_found_in_order(a in 0usize..6, b in 0usize..6, link in 0usize..8) {
        let names = ["cat", "dog", "bicycle", "potted plant", "pizza", "guitar"];
        let (first, second, link) = (names[a], names[b], crate::pairs::LINKS[link].0);
        let found = pair(&format!("a {first} {link} a {second}"));
        if a == b {
            prop_assert_eq!(found, Err(Why::Same));
        } else {
            let found = found.unwrap();
            prop_assert_eq!(found.nouns, [first, second].map(str::to_owned));
            prop_assert_eq!(found.link, link);
        }
    }
}

#[cfg(feature = "parquet")]
proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A damaged Parquet file gives rows or one error.
    #[test]
    fn damaged_parquet_is_read_or_refused(at in 0usize..5600, with in any::<u8>(), which in 0usize..2) {
        let name = ["gzip-plain", "small-pages"][which];
        let mut bytes = fs::read(fixtures().join(format!("parquet/{name}.parquet"))).unwrap();
        bytes[at] ^= with;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged.parquet");
        fs::write(&path, bytes).unwrap();
        let _ = rows(&path, Place::default(), 100);
    }
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
