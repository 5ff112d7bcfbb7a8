use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use prepose_check::rules::Case;
use prepose_check::{BoundingBox, Detection};
use prepose_draw::table::{Cell, Table};
use prepose_statistics::bootstrap::Bootstrap;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::leaks::{Leak, leaks};
use super::propose::{proposed, question};
use super::read::letter;
use super::rounds::{Rules, Votes, vote};
use super::tables::{Judged, domains, figures, letters, notes};
use super::{Choice, Control, Domain, Item, NONE_PLACE, QUESTIONS, geometry, read, to_line};
use crate::ask::{Judge, JudgeError, Manner, Reply};
use crate::book::Book;
use crate::picture::{Named, Seen};
use crate::question::{Answer, End, Form, Invalid, Question};

const TEN: &str = include_str!("../../../fixtures/spatialgen/ten.jsonl");

fn ten() -> Vec<Item> {
    read(TEN).unwrap()
}

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
            "line 1: 000001: 9 questions, and there must be ten",
        ),
        (nine("answers"), "9 answers"),
        (nine("question_type"), "9 types of questions"),
        (
            with("/answers/3", json!("F")),
            "the answer to question 4 is \"F\", and the options are A to E",
        ),
        (
            with("/answers/0", json!("a")),
            "the answer to question 1 is \"a\"",
        ),
        (with("/answers/0", json!("")), "is \"\""),
        (with("/answers/0", json!(2)), "invalid type: integer"),
        (
            with("/question_type/2", json!("Place")),
            "question 3 is of type \"Place\", and must be of type \"Position\"",
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
            "line 3: the id \"000001\" is that of line 1 already",
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

/// Somebody who answers by the question's text and how often they were asked.
struct Says<F>(F, AtomicUsize);

impl<F: Fn(&Question, usize, bool) -> String + Sync> Judge for Says<F> {
    fn model(&self) -> &str {
        "somebody"
    }

    fn settings(&self) -> Value {
        json!({ "temperature": 1.0 })
    }

    fn reply(
        &self,
        question: &Question,
        shown: Option<(&Named, &Seen)>,
    ) -> Result<Reply, JudgeError> {
        let count = self.1.fetch_add(1, Ordering::SeqCst);
        Ok(Reply {
            text: (self.0)(question, count, shown.is_some()),
            ..Reply::default()
        })
    }
}

fn says<F: Fn(&Question, usize, bool) -> String + Sync>(answer: F) -> Says<F> {
    Says(answer, AtomicUsize::new(0))
}

fn lines(letters: impl IntoIterator<Item = char>) -> String {
    letters
        .into_iter()
        .map(|letter| format!("{letter}\n"))
        .collect()
}

fn pictures(folder: &Path, items: &[Item]) -> Vec<Named> {
    let picture = |(number, item): (usize, &Item)| {
        let path = folder.join(format!("{}.png", item.id));
        image::RgbImage::from_pixel(2, 2, image::Rgb([number as u8; 3]))
            .save(&path)
            .unwrap();
        Named {
            id: item.id.clone(),
            path,
        }
    };
    items.iter().enumerate().map(picture).collect()
}

/// What a judge says of the ten, in each of the ways of asking.
fn judged<'a>(
    items: &'a [Item],
    judge: &dyn Judge,
    controls: &[Control],
    rules: &Rules,
    book: &mut Book,
) -> Vec<Judged<'a>> {
    let folder = tempfile::tempdir().unwrap();
    let named = pictures(folder.path(), items);
    let all: Vec<(&Item, Control)> = controls
        .iter()
        .flat_map(|control| items.iter().map(|item| (item, *control)))
        .collect();
    let questions: Vec<Question> = (all.iter().enumerate())
        .map(|(at, (item, control))| item.question(&item.id, at % items.len(), *control, 0))
        .collect();
    let manner = Manner {
        concurrency: 1,
        progress: &|_| (),
        stop: &AtomicBool::new(false),
    };
    let voted = vote(judge, &named, &questions, book, &manner, rules).unwrap();
    (all.into_iter().zip(voted.votes))
        .map(|((item, control), votes)| {
            Judged::of_votes(item, item.id.clone(), None, control, votes, rules, 0)
        })
        .collect()
}

fn cell(table: &Table, row: usize, column: &str) -> Cell {
    let at = table
        .columns
        .iter()
        .position(|name| name == column)
        .unwrap();
    table.rows[row][at].clone()
}

/// The key of the item whose questions are in a text, in the order in which its options stand.
fn key(items: &[Item], text: &str) -> Vec<char> {
    let item = items.iter().find(|item| {
        text.contains(item.questions[0].stem.as_str())
            && text.contains(item.questions[8].stem.as_str())
            && text.contains(item.questions[9].stem.as_str())
    });
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("Options:"))
        .collect();
    let of = |(choice, line): (&Choice, &&str)| {
        let answer = choice.answer().unwrap();
        let place = (0..4).find(|place| line.contains(&format!("{}: {answer},", letter(*place))));
        letter(place.unwrap())
    };
    item.unwrap().questions.iter().zip(&lines).map(of).collect()
}

#[test]
fn who_knows_all_is_right_however_it_is_asked() {
    let items = ten();
    let judge = says(|question, _, _| lines(key(&items, &question.text)));
    let all = [Control::AsPublished, Control::Shuffled, Control::NoPicture];
    let judged = judged(&items, &judge, &all, &Rules::default(), &mut Book::unkept());
    assert!(
        judged
            .iter()
            .all(|one| one.right == [Some(true); QUESTIONS])
    );
    let table = figures(&judged, &Bootstrap::default());
    for row in 0..3 {
        assert_eq!(cell(&table, row, "overall"), Cell::Percent(100.0));
        assert_eq!(cell(&table, row, "Causal"), Cell::Percent(100.0));
    }
    assert_eq!(cell(&table, 3, "asked"), Cell::Name("always A".into()));
    assert_eq!(cell(&table, 3, "overall"), Cell::Percent(25.0));
    let shuffled = items[0].question("x", 0, Control::Shuffled, 0).text;
    assert_ne!(
        shuffled,
        items[0].question("x", 0, Control::AsPublished, 0).text
    );
    assert_ne!(
        shuffled,
        items[0].question("x", 0, Control::Shuffled, 1).text
    );
    let asked = items[0].question("x", 0, Control::AsPublished, 0);
    assert!(
        !asked.text.contains(&items[0].prompt),
        "the prompt is hidden"
    );
    assert!(
        asked
            .text
            .contains(&format!("3. {}", items[0].questions[2].text))
    );
    assert_eq!(
        asked.system.as_deref(),
        Some("You are a professional image critic.")
    );
    assert_eq!(
        items[0].question("x", 0, Control::NoPicture, 0).picture,
        None
    );
}

#[test]
fn four_of_five_valid_rounds_decide() {
    let items = &ten()[..1];
    let key: Vec<char> = items[0]
        .questions
        .iter()
        .map(|choice| letter(choice.right))
        .collect();
    // The first two rounds are of no use; then the first question is right in four of five, the second in three.
    let judge = says(|_, count, _| {
        let mut answer = key.clone();
        match count {
            0 => return "I think A.".into(),
            1 => return lines(key[..9].iter().copied()),
            2 => (answer[0], answer[1]) = ('E', 'E'),
            3 => answer[1] = 'E',
            _ => {}
        }
        lines(answer)
    });
    let one = judged(
        items,
        &judge,
        &[Control::AsPublished],
        &Rules::default(),
        &mut Book::unkept(),
    )
    .remove(0);
    let mut right = [Some(true); QUESTIONS];
    right[1] = Some(false);
    assert_eq!(one.right, right);
    let votes = one.votes.as_ref().unwrap();
    assert_eq!((votes.valid.len(), votes.invalid[&Invalid::Other]), (5, 2));
    assert_eq!(
        (one.unanimous[0], one.unanimous[1], one.unanimous[2]),
        (false, false, true)
    );
    let told = notes(&[one], &Rules::default()).join("\n");
    assert!(
        told.contains("2 answers are not ten letters from A to E"),
        "{told}"
    );
}

#[test]
fn after_25_rounds_a_picture_is_given_up() {
    let items = ten();
    let judge = says(|question, _, _| {
        match question.text.contains("harbour") || question.text.contains("hooves") {
            true => "no".into(),
            false => lines("CCCCCCCCCC".chars()),
        }
    });
    let judged = judged(
        &items,
        &judge,
        &[Control::AsPublished, Control::NoPicture],
        &Rules::default(),
        &mut Book::unkept(),
    );
    assert_eq!(judge.1.load(Ordering::SeqCst), 2 * (9 * 5 + 25));
    let table = figures(&judged, &Bootstrap::default());
    assert_eq!(
        (cell(&table, 0, "pictures"), cell(&table, 0, "dropped")),
        (Cell::Count(9), Cell::Count(1))
    );
    let told = notes(&judged, &Rules::default()).join("\n");
    for part in [
        "asked as published, the judge says 'C' in 450 of 450 answers",
        "whoever always says the same can be right on 25.0 %",
        "2 pictures have fewer than 5 valid answers of 25",
        "without a picture it is right on",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let table = letters(&judged);
    assert_eq!(cell(&table, 2, "as published"), Cell::Count(450));
    assert_eq!(cell(&table, 2, "key"), Cell::Count(25));
}

/// A judge that always says C is right by the order of options alone, and shuffling them shows it.
#[test]
fn shuffling_takes_away_what_the_key_gives() {
    let mut items = ten();
    for choice in items.iter_mut().flat_map(|item| &mut item.questions) {
        let (right, at) = (
            choice.answer().unwrap().to_owned(),
            usize::from(choice.right),
        );
        let mut options = choice.options.clone();
        options.swap(at, 2);
        assert_eq!(options[2], right);
        *choice = Choice::new(&choice.stem, options, 2);
    }
    let judge = says(|_, _, _| lines("CCCCCCCCCC".chars()));
    let judged = judged(
        &items,
        &judge,
        &[Control::AsPublished, Control::Shuffled],
        &Rules::default(),
        &mut Book::unkept(),
    );
    let table = figures(&judged, &Bootstrap::default());
    assert_eq!(cell(&table, 0, "overall"), Cell::Percent(100.0));
    let Cell::Percent(shuffled) = cell(&table, 1, "overall") else {
        panic!()
    };
    assert!((10.0..45.0).contains(&shuffled), "{shuffled}");
    assert_eq!(cell(&table, 2, "asked"), Cell::Name("always C".into()));
    assert_eq!(domains(&judged, &Bootstrap::default()).rows.len(), 2 * 15);
}

#[test]
fn nothing_is_asked_twice() {
    let items = ten();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answers.jsonl");
    let judge = says(|_, count, _| match count % 4 {
        0 => "nonsense".into(),
        _ => lines("ABCDABCDAB".chars()),
    });
    let all = [Control::AsPublished];
    let first = judged(
        &items,
        &judge,
        &all,
        &Rules::default(),
        &mut Book::open(&path).unwrap(),
    );
    let count = judge.1.load(Ordering::SeqCst);
    assert!(count > 50);
    let again = judged(
        &items,
        &judge,
        &all,
        &Rules::default(),
        &mut Book::open(&path).unwrap(),
    );
    assert_eq!(judge.1.load(Ordering::SeqCst), count);
    let right = |judged: &[Judged]| -> Vec<_> { judged.iter().map(|one| one.right).collect() };
    assert_eq!(right(&first), right(&again));
    // More rounds ask for the missing ones alone.
    let more = Rules {
        rounds: 7,
        ..Rules::default()
    };
    judged(&items, &judge, &all, &more, &mut Book::open(&path).unwrap());
    assert!(judge.1.load(Ordering::SeqCst) >= count + 20);
    assert!(judge.1.load(Ordering::SeqCst) <= count + 40);
}

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
            "no JSON object",
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

#[test]
fn votes_of_a_failed_server_are_not_whole() {
    let rules = Rules::default();
    let votes = Votes {
        valid: vec![[0; 10]; 4],
        ..Votes::default()
    };
    assert_eq!(
        (votes.is_whole(&rules), votes.is_right(0, 0, &rules)),
        (false, None)
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
