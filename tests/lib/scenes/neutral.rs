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
            "Two people, one saluting and one waving, side by side",
        ),
        (
            "a photo of a dog and a cat, one above the other.",
            "a photo of two animals, one above the other.",
        ),
        (
            "a cat is standing and a dog is sitting",
            "two animals, one sitting and one standing",
        ),
        (
            "a dog is sitting and a cat is standing",
            "two animals, one sitting and one standing",
        ),
        (
            "two dogs are sitting and a cat runs",
            "three animals, two sitting and one that runs",
        ),
        (
            "One desk occupied and one boat clean.",
            "Two things, one clean and one occupied.",
        ),
        (
            "a boy is chasing a girl",
            "two people, one chasing the other",
        ),
        (
            "a man riding a horse on a beach",
            "two living beings, one riding the other on a beach",
        ),
        (
            "a cat on a chair and a dog on a table",
            "two animals, one on a chair and one on a table",
        ),
        (
            "a dog is sitting to the left of a cat in a park",
            "two animals in a park, one sitting, one to the left of the other",
        ),
        // Both orders have the same neutral form.
        (
            "a dog to the left of a cat",
            "two animals, one to the left of the other",
        ),
        (
            "a cat to the right of a dog",
            "two animals, one to the left of the other",
        ),
        (
            "The chef is patting the model on the shoulder.",
            "Two people, one patting the other on the shoulder.",
        ),
        (
            "a hamster is covered in dirt and a hedgehog is clean and groomed",
            "two animals, one clean and groomed and one covered in dirt",
        ),
        (
            "two dogs to the right of a car",
            "three things, one to the left of the others",
        ),
        ("a car below a bird", "two things, one above the other"),
        ("a dog next to a cat", "two animals near each other"),
        (
            "a dog behind a cat",
            "two animals, one in front of the other",
        ),
        (
            "a dog on the left and a cat on the right",
            "two animals, one to the left of the other",
        ),
        (
            "a dog between a cat and a bird",
            "three animals, one between another and a third",
        ),
        (
            "a dog to the left of a cat and above a car",
            "three things, one to the left of another, the first above a third",
        ),
        (
            "A photo of a cake to the left of a bed.",
            "A photo of two things, one to the left of the other.",
        ),
        (
            "A dog is to the left of a cat.",
            "Two animals, one to the left of the other.",
        ),
        (
            "To the left of a dog is a cat.",
            "Two animals, one to the left of the other.",
        ),
        ("There is a cat and a dog", "There are two animals"),
        // What introduces the other is not said of the one before.
        (
            "to the left of the car there is a dog",
            "two things, one to the left of the other",
        ),
        (
            "on the left there's a dog and on the right there is a cat",
            "two animals, one to the left of the other",
        ),
        (
            "a dog over there left of a cat",
            "two animals, one over there, one to the left of the other",
        ),
        (
            "a man with a hat and a woman with a scarf",
            "two people, one with a hat and one with a scarf",
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
        (
            "two dogs left of a red car.",
            "a red car right of two dogs.",
        ),
        (
            "a cat is standing and a dog is sitting",
            "a dog is sitting and a cat is standing",
        ),
        (
            "One desk occupied and one boat clean.",
            "One boat clean and one desk occupied.",
        ),
        ("a dog to the left of a cat", "a cat to the right of a dog"),
        ("A dog is above two cats.", "Two cats are below a dog."),
        ("a dog right above a cat", "a cat right below a dog"),
        (
            "To the left of a dog is a cat.",
            "To the right of a cat is a dog.",
        ),
        (
            "a dog above and to the left of a cat",
            "a cat below and to the right of a dog",
        ),
        ("a dog in front of a cat", "a cat behind a dog"),
        (
            "a dog next to a cat in a park",
            "a cat next to a dog in a park",
        ),
        (
            "a dog on the left and a cat on the right",
            "a cat on the right and a dog on the left",
        ),
        (
            "On the left a dog, on the right a cat.",
            "On the right a cat, on the left a dog.",
        ),
        ("a dog, a cat to its left", "a cat, a dog to its right"),
        (
            "A hamster is covered in dirt and a hedgehog is clean and groomed.",
            "A hedgehog is clean and groomed and a hamster is covered in dirt.",
        ),
        ("a boy is chasing a girl", "a girl is being chased by a boy"),
        ("two boys hugging a girl", "a girl hugged by two boys"),
        (
            "The chef is pointing at the nurse.",
            "The nurse is being pointed at by the chef.",
        ),
        (
            "a dog is playing with a cat in a park",
            "a cat is playing with a dog in a park",
        ),
        (
            "a man with a hat and a woman",
            "a woman and a man with a hat",
        ),
        (
            "a man and a woman with a hat",
            "a woman with a hat and a man",
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
    // One way only: what comes back says the same in other words.
    for (prompt, expected) in [
        ("a dog on top of a cat", "a cat below a dog"),
        (
            "a dog is sitting to the left of a cat in a park",
            "a cat is to the right of a dog sitting in a park",
        ),
        ("a dog follows two cats", "two cats are followed by a dog"),
        ("a dog beneath a cat", "a cat above a dog"),
        ("a bird can fly above a car", "a car below a bird can fly"),
    ] {
        assert_eq!(swapped(prompt).unwrap(), expected, "{prompt:?}");
    }
    let message = swapped("a dog running from a cat").unwrap_err().to_string();
    assert!(message.contains("\"reverse\""), "{message}");
    let message = swapped("a dog, a cat and a car").unwrap_err().to_string();
    assert!(message.contains("3 objects"), "{message}");
}

/// The page of derived texts, which people have read, is what is derived.
#[test]
fn the_page_of_texts() {
    let page = crate::support::root().join("docs/experiments/ots-texts.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let mut count = 0;
    for row in rows.skip(2) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [prompt, reversed, without] = cells[..] else {
            panic!("{row}")
        };
        assert_eq!(swapped(prompt).unwrap(), reversed, "{prompt:?}");
        assert_eq!(neutral(prompt).unwrap(), without, "{prompt:?}");
        count += 1;
    }
    assert_eq!(count, 50);
}
