//! Captions of corpora, and the questions of SpatialGenEval.

use std::io::Write as _;

use prepose_corpus::pairs::pair;
use prepose_corpus::read::{Columns, Form, Place, Source, line, open};
use prepose_judge::question::{End, Form as Answers};
use prepose_judge::spatialgen::leaks::leaks;
use prepose_judge::spatialgen::propose::proposed;
use prepose_judge::spatialgen::{read, to_line};

use crate::text_of;

/// A line of JSON, and a caption as it is.
pub fn captions(bytes: &[u8]) {
    let row = line(bytes, &Columns::default());
    let caption = row.ok().map(|row| row.caption);
    for text in [caption.as_deref(), text_of(bytes)].into_iter().flatten() {
        if let Ok(pair) = pair(text) {
            assert_ne!(pair.nouns[0], pair.nouns[1]);
        }
    }
}

/// A whole file in each of the forms, read in parts of any size: all parts together are what one part is.
pub fn files(bytes: &[u8]) {
    let [size, bytes @ ..] = bytes else { return };
    let Ok(mut file) = tempfile::NamedTempFile::new() else {
        return;
    };
    if file.write_all(bytes).is_err() {
        return;
    }
    for form in [Form::Parquet, Form::Lines, Form::Table] {
        let source = Source {
            path: file.path().to_owned(),
            form,
        };
        let all = |most: usize| {
            let mut rows = open(&source, &Columns::default(), Place::default()).ok()?;
            let (mut all, mut part) = (Vec::new(), Vec::new());
            loop {
                let passed = rows.next(most, &mut part).ok()?;
                if part.is_empty() && passed == 0 {
                    return Some(all);
                }
                all.append(&mut part);
            }
        };
        let (once, parts) = (all(1 << 16), all(1 + usize::from(*size)));
        if let (Some(once), Some(parts)) = (once, parts) {
            assert_eq!(once, parts);
        }
    }
}

/// The benchmark's file, a judge's ten letters, and a proposal.
pub fn spatialgen(bytes: &[u8]) {
    let Some(text) = text_of(bytes) else { return };
    let _ = Answers::Ten(5).read(text, End::Stop);
    if let Ok(items) = read(text) {
        let written: String = items.iter().map(|item| to_line(item) + "\n").collect();
        assert_eq!(read(&written).expect("what was written is read"), items);
        for item in &items {
            let _ = leaks(&item.questions);
        }
    }
    if let Ok(item) = proposed("fuzz", "a scene", text, 0) {
        let written = to_line(&item);
        assert_eq!(read(&written).expect("a proposal is read"), [item]);
    }
}
