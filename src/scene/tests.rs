//! Whatever is typed: readers of prompts give an answer or a message, and places that they name exist.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::neutral::{neutral, swapped};
use crate::words::words;
use crate::{Scene, schedule, weights};

/// The same cases each time.
fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::with_cases(2000)
    }
}

/// A prompt of words, brackets and numbers as they occur in prompts, in any order.
fn prompt() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "a", "the", "two", "dog", "cat", "red", "bench", "to", "left", "right", "of", "the", "on",
        "above", "below", "next", "between", "and", "is", "with", "it", "behind", "near", ".", ",",
        "BREAK", "photo", "犬", "é",
    ]);
    let sign = prop::sample::select(vec![
        " ", " ", " ", " ", "(", ")", "[", "]", ":", "|", "\\", "1.3", "0.5", "7", ":1.2)",
        ":0.5]", ":1.25]", ":12]", "\n", "\u{0}",
    ]);
    let piece = prop_oneof![3 => word, 2 => sign];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn pieces_come_from_the_prompt(prompt in prompt()) {
        for piece in weights::parse(&prompt).unwrap_or_default() {
            prop_assert_eq!(piece.origin.len(), piece.text.len() + 1);
            prop_assert!(piece.origin.is_sorted());
            prop_assert!(piece.origin.iter().all(|at| *at <= prompt.len()));
            prop_assert!(piece.weight.abs() <= weights::MAX_WEIGHT);
        }
    }

    #[test]
    fn segments_ascend_within_the_run(prompt in prompt(), steps in 1usize..60) {
        if let Ok(segments) = schedule::segments(&prompt, steps) {
            prop_assert_eq!(segments[0].first_step, 0);
            prop_assert!(segments.is_sorted_by(|a, b| a.first_step < b.first_step));
            prop_assert!(segments.iter().all(|segment| segment.first_step < steps));
        }
    }

    #[test]
    fn what_is_left_for_a_second_pass_is_a_prompt(prompt in prompt(), first in 1usize..20, steps in 1usize..20) {
        if let Ok(left) = schedule::second_pass(&prompt, first, steps) {
            prop_assert!(schedule::segments(&left, steps).is_ok(), "{left:?}");
        }
    }

    #[test]
    fn objects_lie_in_the_prompt(prompt in prompt()) {
        if let Ok(scene) = Scene::parse(&prompt) {
            for object in &scene.objects {
                prop_assert!(prompt.get(object.bytes.clone()).is_some(), "{object:?}");
            }
            for relation in &scene.relations {
                prop_assert!(relation.subject < scene.objects.len());
                prop_assert!(relation.objects.iter().all(|object| *object < scene.objects.len()));
            }
        }
        let _ = (Scene::unread(&prompt), neutral(&prompt), swapped(&prompt));
    }

    #[test]
    fn any_text_will_do(text in any::<String>()) {
        let _ = (weights::parse(&text), schedule::segments(&text, 20), Scene::parse(&text));
        let _ = (neutral(&text), swapped(&text));
    }
}

#[test]
fn contractions_are_cut_where_they_are_typed() {
    // In lower case these letters take fewer bytes, or more.
    for (stem, ending) in [
        ("ẞ", "n't"),
        ("İİ", "’re"),
        ("\u{212a}", "n't"),
        ("DO", "N’T"),
    ] {
        let prompt = format!("a dog {stem}{ending} here");
        let words = words(&prompt).unwrap();
        assert_eq!(words[2].text, stem.to_lowercase(), "{prompt}");
        assert_eq!(words[2].typed, stem, "{prompt}");
        assert_eq!(&prompt[words[2].bytes.clone()], stem);
        assert_eq!(&prompt[words[3].bytes.clone()], ending);
        let _ = (Scene::parse(&prompt), neutral(&prompt), swapped(&prompt));
    }
}

#[test]
fn compounds_of_place_are_cut_where_they_are_typed() {
    let prompt = "a dog (LEFT:1.0)-of a cat, in_Front_of it";
    let words = words(prompt).unwrap();
    let typed: Vec<&str> = words
        .iter()
        .map(|word| &prompt[word.bytes.clone()])
        .collect();
    let expected = [
        "a", "dog", "LEFT", "of", "a", "cat", ",", "in", "Front", "of", "it",
    ];
    assert_eq!(typed, expected);
}
