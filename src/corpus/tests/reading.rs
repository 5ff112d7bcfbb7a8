//! Captions from Parquet, JSON and tables.

use std::fs;
use std::path::Path;

#[cfg(feature = "parquet")]
use proptest::prelude::*;

#[cfg(feature = "parquet")]
use super::fixtures;
use crate::read::{Columns, Form, Place, ReadError, Row, Source, open, sources};

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
fn parquet_rows_without_captions_are_rows_where_that_is_asked_for() {
    let path = fixtures().join("parquet/small-pages.parquet");
    let source = sources(&[path]).unwrap().remove(0);
    let all = |columns: &Columns| {
        let mut reader = open(&source, columns, Place::default()).unwrap();
        let mut rows = Vec::new();
        assert_eq!(reader.next(1000, &mut rows).unwrap(), 0);
        rows
    };
    let mut columns = Columns {
        uncaptioned: true,
        ..Columns::default()
    };
    let rows = all(&columns);
    let empty = rows.iter().filter(|row| row.caption.is_empty()).count();
    assert_eq!((rows.len(), empty), (300, 42));
    columns.caption = vec!["lost".into()];
    let rows = all(&columns);
    assert!(rows.len() == 300 && rows.iter().all(|row| row.caption.is_empty()));
    assert_eq!(rows[7].picture.as_deref(), Some("000000007"));
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
    assert!(error.contains("is not a file of captions"), "{error}");
}

#[test]
fn texts_are_found_whatever_writes_them() {
    let folder = tempfile::tempdir().unwrap();
    let texts = folder.path();
    for (name, text) in [
        ("IMG_1.TXT", "\u{feff}a dog and a cat\r\n"),
        ("IMG_1.JPG", ""),
        ("IMG_2.txt", "two"),
        ("IMG_2.WebP", ""),
        ("IMG_2.png", ""),
    ] {
        fs::write(texts.join(name), text).unwrap();
    }
    let (found, passed, _) = rows(texts, Place::default(), 10).unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|row| (row.caption.as_str(), row.picture.as_deref()))
        .collect();
    let expected = vec![
        ("a dog and a cat", Some("IMG_1.JPG")),
        ("two", Some("IMG_2.png")),
    ];
    assert_eq!((found, passed), (expected, 0));
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
