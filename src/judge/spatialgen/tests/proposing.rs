//! Leaks, and tests that a language model proposes.

use super::*;

fn choice(stem: &str, options: [&str; 4], right: u8) -> Choice {
    Choice::new(stem, options.map(str::to_owned), right)
}

#[test]
fn leaks_are_found_by_the_rule() {
    let colour = choice(
        "What colour is the cat?",
        ["red", "blue", "green", "white"],
        0,
    );
    let fine = choice(
        "Where is the cat?",
        ["on a bed", "on a rug", "on a car", "on a wall"],
        0,
    );
    assert_eq!(leaks(&[colour.clone(), fine.clone()]), []);
    let itself = choice(
        "Where on the rug is the cat?",
        ["on a bed", "on a rug", "on a car", "on a wall"],
        1,
    );
    let words = "rug".to_owned();
    assert_eq!(leaks(&[itself]), [Leak::Itself { question: 1, words }]);
    let other = choice(
        "Where does the red cat sit?",
        ["on a bed", "on a rug", "on a car", "on a wall"],
        0,
    );
    let words = "red".to_owned();
    assert_eq!(
        leaks(&[other, colour.clone()]),
        [Leak::Other {
            question: 2,
            by: 1,
            words
        }]
    );
    // The word alone, of something else, tells nothing.
    let elsewhere = choice(
        "Where does the red car stand?",
        ["here", "there", "beyond", "behind"],
        0,
    );
    assert_eq!(leaks(&[elsewhere, colour]), []);
    let long = choice(
        "Why?",
        [
            "because it has rained all night long",
            "snow",
            "fire",
            "wind",
        ],
        0,
    );
    assert_eq!(leaks(&[long]), [Leak::Length { question: 1 }]);
}

/// An answer of a model that can be used.
fn answer() -> Value {
    let questions: Vec<Value> = (0..10)
        .map(|number| {
            json!({"question": format!("What is thing number {number}?"), "right": format!("good{number}"),
                "wrong": [format!("bad{number}"), format!("worse{number}"), format!("worst{number}")]})
        })
        .collect();
    json!({"prompt": "a cat and a dog in a park under a tree ".repeat(6), "questions": questions})
}

#[test]
fn proposals_are_checked_and_their_keys_drawn() {
    let text = format!("```json\n{}\n```", answer());
    let mut key = [0; 5];
    for number in 0..40 {
        let item = proposed(&format!("park-{number:03}"), "a park", &text, 0).unwrap();
        for choice in &item.questions {
            assert!(choice.answer().unwrap().starts_with("good"));
            key[usize::from(choice.right)] += 1;
        }
        assert_eq!(read(&to_line(&item)).unwrap(), [item]);
    }
    assert!(
        key[..4].iter().all(|count| (70..130).contains(count)) && key[4] == 0,
        "{key:?}"
    );
    let with = |pointer: &str, value: Value| {
        let mut answer = answer();
        *answer.pointer_mut(pointer).unwrap() = value;
        proposed("x", "y", &answer.to_string(), 0)
            .unwrap_err()
            .join("; ")
    };
    for (faults, part) in [
        (
            proposed("x", "y", "Here you are!", 0)
                .unwrap_err()
                .join("; "),
            "not a JSON object",
        ),
        (with("/prompt", json!("a cat")), "the prompt had 2 words"),
        (with("/questions", json!([])), "there were 0 questions"),
        (
            with("/questions/0/wrong", json!(["a"])),
            "question 1 must have three wrong options",
        ),
        (
            with("/questions/0/wrong", json!(["a", "b", "Good0"])),
            "had the option \"Good0\" twice",
        ),
        (
            with("/questions/1/right", json!("none")),
            "had None among its options",
        ),
        (
            with("/questions/1/right", json!("A: cat")),
            "a letter with a colon",
        ),
        (
            with("/questions/2/question", json!("What is good2?")),
            "question 3 itself says \"good2\"",
        ),
        (with("/questions/2", json!({"q": 1})), "of another form"),
    ] {
        assert!(faults.contains(part), "{part}: {faults}");
    }
    let asked = question(
        "x",
        "a {kinds} park",
        2,
        &["question 3 itself says it".into()],
    );
    assert!(
        asked.text.contains("scene: a {kinds} park.")
            && asked.text.contains("- question 3 itself says it")
    );
    assert!(asked.text.contains("10. Causal") && asked.text.contains("number 2 of this scene"));
}
