use crate::answers::{Beside, Rounds};
use crate::ask::Outcome;
use crate::question::{Answer, End, Form, Invalid, object};

#[test]
fn answers_are_read_strictly() {
    use Answer::{Digit, Letter, Yes};
    let other = Answer::Invalid(Invalid::Other);
    let digit = Form::Digit(3);
    for (text, answer) in [
        ("1", Digit(1)),
        (" 3\n", Digit(3)),
        ("<think>It could be 1.</think>\n2", Digit(2)),
        ("It could be 1.</think>\n\n2", Digit(2)),
        ("</think>2", Digit(2)),
        ("It could be 1.</think>", Answer::Invalid(Invalid::Empty)),
        ("4", other),
        ("0", other),
        ("12", other),
        ("1 2", other),
        ("The answer is 1", other),
        ("+1", other),
        ("", Answer::Invalid(Invalid::Empty)),
        ("<think>1", Answer::Invalid(Invalid::Thinking)),
    ] {
        assert_eq!(digit.read(text, End::Stop), answer, "{text:?}");
    }
    assert_eq!(digit.read("1", End::Length), Answer::Invalid(Invalid::Cut));
    assert_eq!(
        digit.read("", End::Length),
        Answer::Invalid(Invalid::Thinking)
    );
    assert_eq!(
        digit.read("1", End::Refused),
        Answer::Invalid(Invalid::Refused)
    );
    for (text, answer) in [
        ("Yes.", Yes(true)),
        ("no", Yes(false)),
        ("yes, it is", other),
        ("true", other),
    ] {
        assert_eq!(Form::YesNo.read(text, End::Stop), answer, "{text:?}");
    }
    for (text, answer) in [
        ("B", Letter(1)),
        ("(C)", Letter(2)),
        ("D) no visible relationship", Letter(3)),
        ("E", other),
        ("b", other),
        ("A boy", other),
        ("ABC", other),
    ] {
        assert_eq!(Form::Letter(4).read(text, End::Stop), answer, "{text:?}");
    }
}

/// Templates of models that always think begin the thoughts, so that only their end is in the answer.
#[test]
fn objects_come_after_thoughts_that_began_in_the_template() {
    let text = "An object {\"b\": 2} is asked for.\n</think>\n\n{\"a\": 1}";
    assert_eq!(Form::Object.read(text, End::Stop), Answer::Object);
    assert_eq!(object(text).unwrap()["a"], 1);
    // One block of thoughts, and no more; both say the same.
    for text in ["<think>{\"a\": 1}", "</think></think>{\"a\": 1}"] {
        assert!(object(text).is_none());
        assert_ne!(Form::Object.read(text, End::Stop), Answer::Object);
    }
}

fn said(answers: &[Answer]) -> Vec<Outcome> {
    answers.iter().copied().map(Outcome::Answered).collect()
}

#[test]
fn a_judge_that_always_says_the_same_is_told_as_such() {
    let kinds = ["object"; 30];
    for (answer, word) in [
        (Answer::Yes(true), "yes"),
        (Answer::Letter(2), "C"),
        (Answer::Digit(1), "1"),
    ] {
        let outcomes = [said(&[answer; 30])];
        let rounds = Rounds {
            kinds: &kinds,
            outcomes: &outcomes,
            beside: Beside::default(),
        };
        let notes = rounds.notes();
        let told = format!("the judge says \"{word}\" in 30 of 30 answers (object)");
        assert!(notes[0].starts_with(&told), "{notes:?}");
    }
    // Too few to tell, and one that says different things.
    let few = [said(&[Answer::Yes(true); 19])];
    let rounds = Rounds {
        kinds: &kinds[..19],
        outcomes: &few,
        beside: Beside::default(),
    };
    assert!(rounds.notes().is_empty());
}

#[test]
fn invalid_answers_and_rounds_are_counted() {
    let kinds = ["a", "a", "a", "b", "b"];
    let invalid = |why| Answer::Invalid(why);
    let first = [
        Answer::Yes(true),
        invalid(Invalid::Thinking),
        invalid(Invalid::Refused),
        Answer::Letter(1),
        Answer::Letter(1),
    ];
    let mut second = first;
    second[0] = Answer::Yes(false);
    second[1] = Answer::Yes(false);
    let mut outcomes = [said(&first), said(&second)];
    outcomes[0][4] = Outcome::Failed("no connection".into());
    let rounds = Rounds {
        kinds: &kinds,
        outcomes: &outcomes,
        beside: Beside::default(),
    };
    let table = rounds.table();
    let number = |row, column| super::number(&table, row, column);
    assert_eq!((number(0, "thinking"), number(0, "refused")), (1.0, 1.0));
    assert_eq!(
        (number(0, "questions"), number(1, "unanswered")),
        (3.0, 1.0)
    );
    assert_eq!(
        (number(0, "rounds_differ"), number(1, "rounds_differ")),
        (100.0, 0.0)
    );
    assert_eq!(number(0, "rounds_differ_high"), 100.0);
    let notes = rounds.notes().join("\n");
    assert!(
        notes.contains("2 of 3 answers are invalid and do not count (a): 1 thinking, 1 refused"),
        "{notes}"
    );
    assert!(
        notes.contains("thought until its tokens were gone, 1 of 10 times"),
        "{notes}"
    );
    assert!(notes.contains("--max-tokens") && notes.contains("because of this: no connection"));
}

/// What somebody else saw decides whether one answer nearly always is a habit.
#[test]
fn the_same_answer_is_told_only_if_there_was_another_to_give() {
    let kinds = ["object"; 40];
    let mut first = [Answer::Yes(true); 40];
    first[0] = Answer::Yes(false);
    let outcomes = [said(&first)];
    let notes = |beside: Beside<'_>| -> String {
        let rounds = Rounds {
            kinds: &kinds,
            outcomes: &outcomes,
            beside,
        };
        rounds.notes().join("\n")
    };
    let others =
        |no: std::ops::Range<usize>, unknown: std::ops::Range<usize>| -> Vec<Option<Answer>> {
            let of = |at| (!unknown.contains(&at)).then(|| Answer::Yes(!no.contains(&at)));
            (0..40).map(of).collect()
        };
    let told = |no, unknown| notes(Beside::Answers(&others(no, unknown)));
    assert!(notes(Beside::Nothing).contains("it may not look at the pictures"));
    assert_eq!(notes(Beside::Geometry), "");
    // Everything is there, and the one that is not was seen.
    assert_eq!(told(0..0, 0..0), "");
    assert_eq!(told(0..1, 0..0), "");
    // Half of what is not there was seen to be missing, and then less.
    assert_eq!(told(0..2, 0..0), "");
    assert!(told(0..3, 0..0).contains("also in 2 of 3 where boxes say something else"));
    assert!(told(10..40, 0..0).contains("also in 30 of 30"));
    // Of too few it is known.
    assert!(told(0..0, 0..21).ends_with("(object): it may not look at the pictures"));
    assert_eq!(told(0..0, 0..20), "");
}
