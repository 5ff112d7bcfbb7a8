//! Answers by boxes.

use super::*;

fn case(found: &[(&str, f64, f64, f64)]) -> Case {
    let detection = |(label, x, y, side): &(&str, f64, f64, f64)| Detection {
        label: (*label).to_owned(),
        score: 0.9,
        bbox: BoundingBox::new(*x, *y, x + side, y + side),
        mask: None,
    };
    Case {
        size: Some((400, 400)),
        detections: found.iter().map(detection).collect(),
        ..Case::default()
    }
}

#[test]
fn boxes_answer_what_boxes_decide() {
    let items = ten();
    let known: Vec<String> = [
        "dog", "cat", "car", "bird", "bowl", "horse", "cow", "bus", "couch",
    ]
    .map(str::to_owned)
    .to_vec();
    let yard = &items[0];
    // The dog on the left of the cat, a large car, and a bird and a bowl far from it.
    let seen = case(&[
        ("dog", 0.0, 200.0, 50.0),
        ("cat", 90.0, 205.0, 40.0),
        ("car", 150.0, 150.0, 150.0),
        ("bird", 10.0, 0.0, 20.0),
        ("bowl", 0.0, 370.0, 20.0),
    ]);
    let answer = |at: usize, case: &Case| {
        geometry::answer(Domain::ALL[at], &yard.questions[at], case, &known)
    };
    for at in [0, 2, 5, 6] {
        assert_eq!(answer(at, &seen), Some(yard.questions[at].right), "{at}");
    }
    for at in [1, 3, 4, 7, 8, 9] {
        assert_eq!(answer(at, &seen), None, "{at}: no box can tell");
    }
    // The other way round, without the dog, and with two of them.
    let turned = case(&[("dog", 300.0, 200.0, 50.0), ("cat", 90.0, 205.0, 40.0)]);
    let right = geometry::answer(Domain::Position, &yard.questions[2], &turned, &known).unwrap();
    assert_eq!(
        yard.questions[2].options[usize::from(right)],
        "to the right"
    );
    let gone = case(&[("cat", 90.0, 205.0, 40.0)]);
    assert_eq!(
        (answer(2, &gone), answer(0, &gone)),
        (Some(NONE_PLACE), Some(NONE_PLACE))
    );
    let two = case(&[
        ("dog", 0.0, 200.0, 50.0),
        ("dog", 300.0, 200.0, 50.0),
        ("cat", 90.0, 205.0, 40.0),
    ]);
    assert_eq!(
        answer(2, &two),
        None,
        "of two it is not clear which is meant"
    );
    assert_eq!(
        answer(5, &gone),
        None,
        "what is not there cannot be compared"
    );
    // What the other is placed by may be named first; where the words do not tell which it is, there is no answer.
    let asked = |stem: &str| {
        let question = Choice::new(
            stem,
            ["to the right", "above", "to the left", "below"].map(str::to_owned),
            2,
        );
        let place = geometry::answer(Domain::Position, &question, &seen, &known)?;
        Some(question.options[usize::from(place)].clone())
    };
    for (stem, expected) in [
        (
            "Where is the dog relative to the white cat?",
            Some("to the left"),
        ),
        (
            "What is the position of the dog in relation to the cat?",
            Some("to the left"),
        ),
        (
            "Is the dog to the left or right of the cat?",
            Some("to the left"),
        ),
        ("On which side of the cat is the dog?", Some("to the left")),
        ("On which side of the dog is the cat?", Some("to the right")),
        (
            "Relative to the brown dog, where is the cat?",
            Some("to the right"),
        ),
        ("How do the dog and the cat sit?", None),
        (
            "On which side of the picture is the dog relative to the cat?",
            None,
        ),
        ("From the dog, where is the cat?", None),
    ] {
        assert_eq!(asked(stem).as_deref(), expected, "{stem}");
    }
    // Words that are no labels leave the question open.
    let unknown = Choice::new(
        "Which things are in the image?",
        ["dog", "unicorn", "cat", "cow"].map(str::to_owned),
        0,
    );
    assert_eq!(
        geometry::answer(Domain::Object, &unknown, &seen, &known),
        None
    );
}
