//! Prompts without an order of mention, and with the other one.

use prepose::prompt::neutral::{neutral, swapped};

#[test]
fn neutral_prompts() {
    for (prompt, expected) in [
        ("a man and a woman in a park", "two people in a park"),
        ("a cat and a truck", "two things"),
        ("a photo of a dog and a cat.", "a photo of two animals."),
        (
            "a cat is standing and a dog is standing",
            "two animals are standing",
        ),
        ("a cat sits and a dog sits", "two animals sit"),
        (
            "A physician is waving and a nurse is saluting, side by side",
            "Two people are waving and saluting, side by side",
        ),
        (
            "a photo of a dog and a cat, one above the other.",
            "a photo of two animals, one above the other.",
        ),
        ("a dog to the left of a cat", "two animals"),
        (
            "A photo of a cake to the left of a bed.",
            "A photo of two things.",
        ),
        ("A dog is to the left of a cat.", "Two animals."),
        ("To the left of a dog is a cat.", "Two animals."),
        ("There is a cat and a dog", "There are two animals"),
        (
            "a man with a hat and a woman with a scarf",
            "two people with a hat and with a scarf",
        ),
        ("a man with a hat and a woman", "two people, one with a hat"),
        ("a (dog:1.3) and a [cat] in a park", "two animals in a park"),
        (
            "(a dog and a cat:1.2), oil painting",
            "two animals, oil painting",
        ),
        ("two dogs and a cat", "three animals"),
        ("a mouse and a cat", "two animals"),
        ("a keyboard and a mouse", "two household items"),
        ("a mouse and a car", "two things"),
        ("dogs and cats in a field", "animals in a field"),
        ("a dog, a cat and a bird", "three animals"),
        (
            "a civil engineer and a chef in front of a house",
            "two people in front of a house",
        ),
        (
            "a man and a woman are walking in a park, sunset",
            "two people are walking in a park, sunset",
        ),
        (
            "a cat and a dog in a red and white room",
            "two animals in a red and white room",
        ),
        // The toybox's groups.
        ("a photo of a car and a boat.", "a photo of two vehicles."),
        ("a clock and a potted plant", "two household items"),
        ("a bottle and a pizza.", "two food items."),
        ("a teddy bear and a stop sign", "two objects"),
        ("a wizard and a dragon", "two things"),
    ] {
        assert_eq!(neutral(prompt).unwrap(), expected, "{prompt:?}");
    }
    for (prompt, part) in [
        ("a dog", "names one object"),
        ("a dog. A cat.", "several sentences"),
        ("a dog left of a cat. The dog is big.", "more than once"),
        ("a dog or a cat", "leaves open"),
        ("", "no object"),
    ] {
        let message = neutral(prompt).unwrap_err().to_string();
        assert!(
            message.contains(part) && message.contains("--neutral-prompt"),
            "{prompt:?}: {message}"
        );
    }
}

#[test]
fn swapped_prompts() {
    for (prompt, expected) in [
        ("a man and a woman in a park", "a woman and a man in a park"),
        ("A dog and an apple", "An apple and a dog"),
        (
            "a dog and a cat, one in front of the other",
            "a cat and a dog, one in front of the other",
        ),
        ("a (dog:1.3) and a [cat]", "a (cat:1.3) and a [dog]"),
        ("a (red:1.2) dog and a cat", "a cat and a (red:1.2) dog"),
        ("two dogs left of a red car.", "a red car left of two dogs."),
        (
            "a cat is standing and a dog is sitting",
            "a dog is standing and a cat is sitting",
        ),
    ] {
        assert_eq!(swapped(prompt).unwrap(), expected, "{prompt:?}");
        assert_eq!(swapped(&swapped(prompt).unwrap()).unwrap(), prompt);
    }
    let message = swapped("a (red dog and a cat:1.2)").map_err(|error| error.to_string());
    assert_eq!(message.unwrap(), "a (cat and a red dog:1.2)");
    let message = swapped("a red (dog and a:1.2) cat")
        .unwrap_err()
        .to_string();
    assert!(message.contains("brackets"), "{message}");
    let message = swapped("a dog, a cat and a car").unwrap_err().to_string();
    assert!(message.contains("3 objects"), "{message}");
}
