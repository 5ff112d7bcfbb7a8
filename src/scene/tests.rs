//! Whatever is typed: readers of prompts give an answer or a message, and places that they name exist.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::neutral::{neutral, swapped};
use crate::words::words;
use crate::{ObjectName, Scene, schedule, weights};

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
        "BREAK", "photo", "犬", "é", "<x-y>",
    ]);
    let sign = prop::sample::select(vec![
        " ", " ", " ", " ", "(", ")", "[", "]", ":", "|", "\\", "1.3", "0.5", "7", ":1.2)",
        ":0.5]", ":1.25]", ":12]", "\n", "\u{0}", "<", ">",
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
    fn a_first_pass_is_the_beginning_of_both(prompt in prompt(), steps in 1usize..20, second in 1usize..20) {
        if let Ok(shown) = schedule::first_pass(&prompt, steps, second) {
            let segments = schedule::segments(&shown, steps);
            prop_assert!(segments.is_ok(), "{shown:?}");
            // Shares are of the first pass; whole numbers are as of one that is as long as both.
            if let (Ok(both), false) = (schedule::segments(&prompt, steps + second), prompt.contains('.')) {
                let begun: Vec<_> = both.into_iter().filter(|segment| segment.first_step < steps).collect();
                prop_assert_eq!(segments, Ok(begun));
            }
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

/// Textual inversion's words, which tokenizers match as a whole, are nouns.
#[test]
fn learned_words_are_nouns() {
    for (prompt, objects, relations) in [
        ("a <cat-toy> and a dog", "<cat-toy>, dog", 0),
        (
            "a red <Cat-Toy> to the left of a dog",
            "red <Cat-Toy>, dog",
            1,
        ),
        (
            "a dog to the left of a (<my_left_shoe>:1.2)",
            "dog, <my_left_shoe>",
            1,
        ),
        (
            "a <cat-toy> sitting on a red chair and a <s0><s1>",
            "<cat-toy>, <s0> <s1>",
            0,
        ),
        ("a <cat-toy> dog left of two <é1>", "<cat-toy> dog, <é1>", 1),
        // What stands after a known noun says how it looks.
        (
            "a dog <ink-style> left of a cat, <ink-style>",
            "dog, cat",
            1,
        ),
        // No words: marks that separate.
        ("a dog <-> a cat", "dog, cat", 0),
        ("a dog <3 a cat < a bird> <", "dog, cat, bird", 0),
    ] {
        let scene = Scene::parse(prompt).unwrap();
        let phrases: Vec<&str> = scene.objects.iter().map(|object| &*object.phrase).collect();
        assert_eq!(phrases.join(", "), objects, "{prompt}");
        assert_eq!(scene.relations.len(), relations, "{prompt}");
        let last = scene.objects.last().unwrap();
        assert_eq!(prompt[last.bytes.clone()].replace("><", "> <"), last.phrase);
    }
    let given = "<cat-toy> | left of | dog".parse().unwrap();
    let scene = Scene::with_relations("a red <cat-toy> and a dog", &[given]).unwrap();
    assert_eq!((scene.objects.len(), scene.relations[0].subject), (2, 0));
}

#[test]
fn names_have_numbers() {
    let read = |text| {
        let name = ObjectName::read(text);
        (name.phrase, name.number)
    };
    assert_eq!(read("dog#2"), ("dog", Some(2)));
    assert_eq!(read("red dog # 1"), ("red dog", Some(1)));
    for text in ["dog", "dog#0", "#1", "c# book", "dog#"] {
        assert_eq!(read(text), (text, None));
    }
}

#[test]
fn the_core_of_a_name_is_the_phrase_of_the_object() {
    for (name, core) in [
        ("dog", "dog"),
        ("a dog", "dog"),
        ("A Red Dog", "Red Dog"),
        ("the other dog#2", "dog"),
        ("two (red:1.2) dogs", "red dogs"),
        ("3 dogs", "dogs"),
        ("it", "it"),
        ("the", "the"),
        ("salt & pepper", "salt & pepper"),
    ] {
        assert_eq!(ObjectName::read(name).core().unwrap(), core, "{name}");
    }
    assert!(ObjectName::read("a (dog:1e9)").core().is_err());
    let scene = Scene::parse("two dogs and a red cat on a chair").unwrap();
    let named = |name| scene.named(&ObjectName::read(name).core().unwrap().to_lowercase());
    assert_eq!(
        ["two dogs", "a dog", "The Red Cat", "the cat", "a bird"].map(named),
        [vec![0], vec![0], vec![1], vec![1], vec![]]
    );
}
