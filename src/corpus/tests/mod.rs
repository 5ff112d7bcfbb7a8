//! Pairs in captions, and what is true of any bytes.

mod reading;
mod survey;

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use crate::pairs::{Why, pair};
use crate::read::Columns;

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
