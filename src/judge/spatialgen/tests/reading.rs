//! Files of questions and answers of ten letters.

use super::*;

#[test]
fn our_ten_cases_are_fair() {
    let items = ten();
    assert_eq!(items.len(), 10);
    let mut key = [0; 5];
    for item in &items {
        assert_eq!(leaks(&item.questions), [], "{}", item.scene);
        for choice in &item.questions {
            key[usize::from(choice.right)] += 1;
        }
    }
    assert_eq!(key, [25, 25, 25, 25, 0], "no letter is right more often");
    let again: String = items.iter().map(|item| to_line(item) + "\n").collect();
    assert_eq!(read(&again).unwrap(), items);
}

#[test]
fn wrong_files_are_refused_with_one_message() {
    let first: Value = serde_json::from_str(TEN.lines().next().unwrap()).unwrap();
    let with = |pointer: &str, value: Value| {
        let mut line = first.clone();
        *line.pointer_mut(pointer).unwrap() = value;
        line.to_string()
    };
    let nine = |name: &str| {
        let mut line = first.clone();
        line[name].as_array_mut().unwrap().pop();
        line.to_string()
    };
    for (text, part) in [
        (String::new(), "there are no prompts in it"),
        ("{\"id\": \"1\"".into(), "line 1: EOF"),
        ("{\"id\": \"1\"}".into(), "missing field `prompt`"),
        (
            nine("questions"),
            "line 1: 000001: 9 questions, but there must be ten",
        ),
        (nine("answers"), "9 answers"),
        (nine("question_type"), "9 types of questions"),
        (
            with("/answers/3", json!("F")),
            "the answer to question 4 is \"F\", but the options are A to E",
        ),
        (
            with("/answers/0", json!("a")),
            "the answer to question 1 is \"a\"",
        ),
        (with("/answers/0", json!("")), "is \"\""),
        (with("/answers/0", json!(2)), "invalid type: integer"),
        (
            with("/question_type/2", json!("Place")),
            "question 3 is of type \"Place\", but must be of type \"Position\"",
        ),
        (
            with("/questions/1", json!("Which?")),
            "question 2 has no \"Options:\"",
        ),
        (
            with(
                "/questions/1",
                json!("Which? Options: A: 1, B: 2, D: 4, E: None"),
            ),
            "question 2 has no option C",
        ),
        (
            with(
                "/questions/1",
                json!("Which? Options: A: 1, B: 2, C: 3, D: 4, E: All"),
            ),
            "has \"All\" as option E",
        ),
        (
            with(
                "/questions/1",
                json!("Which? Options: A: 1, B: , C: 3, D: 4, E: None"),
            ),
            "has nothing as option B",
        ),
        (
            with(
                "/questions/1",
                json!(" Options: A: 1, B: 2, C: 3, D: 4, E: None"),
            ),
            "asks nothing",
        ),
        (
            with("/id", json!("../x")),
            "cannot be the name of a picture",
        ),
        (with("/id", json!("")), "cannot be the name of a picture"),
        (with("/prompt", json!(" ")), "the prompt is empty"),
        (
            format!("{first}\n\n{first}"),
            "line 3: the id \"000001\" is already that of line 1",
        ),
    ] {
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
    // Spaces before the options, and commas in them, are as the benchmark has them.
    let line = with(
        "/questions/1",
        json!("Which? Options: A: a, b, B: 2, C: 3: 4, D: 4, E: None"),
    );
    let choice = &read(&line).unwrap()[0].questions[1];
    assert_eq!(
        (
            choice.stem.as_str(),
            choice.options[0].as_str(),
            choice.options[2].as_str()
        ),
        ("Which?", "a, b", "3: 4")
    );
}

#[test]
fn ten_letters_are_read_strictly() {
    let read = |text: &str| Form::Ten(5).read(text, End::Stop);
    let places = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4];
    let plain = "A\nB\nC\nD\nE\nA\nB\nC\nD\nE";
    assert_eq!(read(plain), Answer::Ten(places));
    assert_eq!(read(&plain.replace('\n', "\n\n")), Answer::Ten(places));
    assert_eq!(
        read("1. A\n2) B\n3: C\n4. D)\nE: None\nA.\n(B)\n8) C\nD\n10. E"),
        Answer::Ten(places)
    );
    for text in [
        "A\nB\nC\nD\nE\nA\nB\nC\nD",
        "A\nB\nC\nD\nE\nA\nB\nC\nD\nE\nA",
        "A\nB\nC\nD\nF\nA\nB\nC\nD\nE",
        "A B C D E A B C D E",
        "2. A\nB\nC\nD\nE\nA\nB\nC\nD\nE",
        "A cat\nB\nC\nD\nE\nA\nB\nC\nD\nE",
    ] {
        assert_eq!(read(text), Answer::Invalid(Invalid::Other), "{text:?}");
    }
    assert_eq!(
        Form::Ten(5).read(plain, End::Length),
        Answer::Invalid(Invalid::Cut)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is in a file or an answer, it is read or refused, and what was read can be written.
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,120}", stem in "[a-zA-Z ,:?]{0,30}", options in proptest::array::uniform4("[a-zA-Z ,:]{0,12}"), right in 0u8..6) {
        let _ = read(&text);
        let _ = Form::Ten(5).read(&text, End::Stop);
        let _ = proposed("x", "y", &text, 0);
        let mut line: Value = serde_json::from_str(TEN.lines().next().unwrap()).unwrap();
        let [a, b, c, d] = options;
        line["questions"][4] = json!(format!("{stem} Options: A: {a}, B: {b}, C: {c}, D: {d}, E: None"));
        line["answers"][4] = json!(letter(right).to_string());
        if let Ok(items) = read(&line.to_string()) {
            prop_assert_eq!(&read(&to_line(&items[0])).unwrap(), &items);
            let _ = leaks(&items[0].questions);
        }
    }
}
