//! Rounds, controls, and what is kept.

use super::*;

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
