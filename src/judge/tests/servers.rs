use prepose_remote::RemoteError;
use prepose_remote::stub::{Asked as Heard, Reply as Said, Stub};
use serde_json::{Value, json};

use super::{both_orders, manner, model, pairs, pictures, text};
use crate::answers::{Beside, Rounds};
use crate::ask::{Judge, JudgeError, Outcome, Reply, ask};
use crate::book::{Book, entries};
use crate::chat::{ChatJudge, Sampling};
use crate::picture::{Named, Seen};
use crate::question::{Answer, End, Invalid, Question};

#[test]
fn what_cannot_be_answered_ends_early_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (named, cases) = (pictures(folder.path(), 100), pairs(100));
    let questions = both_orders(&cases);
    let try_with = |answer: fn(&Heard) -> Said| {
        let stub = Stub::start(answer).unwrap();
        let judge = model(&stub, "m", Sampling::default());
        let asked = ask(&judge, &named, &questions, &mut Book::unkept(), &manner(2));
        (asked, stub.count())
    };
    let (asked, count) = try_with(|_| Said::error(401, "invalid_api_key", "who are you?"));
    assert!(asked.unwrap_err().to_string().contains("asks for a key"));
    assert!(count <= 2);
    let (asked, count) =
        try_with(|_| Said::error(400, "no_images", "this model takes no pictures"));
    let error = asked.unwrap_err().to_string();
    assert!(error.contains("this model takes no pictures"), "{error}");
    assert!(count <= 10, "{count}");
    // One that fails among many that do not is told, and asked again next time.
    let (asked, _) = try_with(|heard| match heard.before {
        50 => Said::error(400, "bad", "not this one"),
        51 => Said::error(400, "content_policy_violation", "not this one"),
        _ => Said::chat("1"),
    });
    let asked = asked.unwrap();
    let failed = asked
        .outcomes
        .iter()
        .filter(|one| matches!(one, Outcome::Failed(_)))
        .count();
    let refused = Outcome::Answered(Answer::Invalid(Invalid::Refused));
    assert_eq!(
        (
            failed,
            asked.outcomes.iter().filter(|one| **one == refused).count()
        ),
        (1, 1)
    );
}

/// Whoever has answered before is no hopeless case, however many questions fail for good.
#[test]
fn what_always_fails_does_not_end_a_judging_that_is_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    let named = pictures(folder.path(), 32);
    let mut questions: Vec<Question> = (pairs(32).iter().enumerate())
        .map(|(at, case)| case.question(at, false))
        .collect();
    // The last 8, so that the first run has answers before it.
    for question in &mut questions[24..] {
        question.text += " Not this one.";
    }
    let stub = Stub::start(|heard| match text(heard).ends_with("Not this one.") {
        true => Said::error(400, "bad", "not this one"),
        false => Said::chat("1"),
    })
    .unwrap();
    let judge = model(&stub, "m", Sampling::default());
    let path = folder.path().join("answers.jsonl");
    for new in [24, 0] {
        let mut book = Book::open(&path).unwrap();
        let asked = ask(&judge, &named, &questions, &mut book, &manner(1)).unwrap();
        let failed = asked
            .outcomes
            .iter()
            .filter(|one| matches!(one, Outcome::Failed(_)));
        assert_eq!((asked.new, failed.count()), (new, 8));
    }
}

/// A server that answered yesterday and cannot be reached now.
struct Gone(ChatJudge);

impl Judge for Gone {
    fn model(&self) -> &str {
        self.0.model()
    }

    fn settings(&self) -> Value {
        self.0.settings()
    }

    fn reply(&self, _: &Question, _: Option<(&Named, &Seen)>) -> Result<Reply, JudgeError> {
        Err(JudgeError::Remote(RemoteError::NoAnswer {
            address: "http://gone".into(),
            attempts: 1,
            why: "connection refused".into(),
        }))
    }
}

#[test]
fn earlier_answers_say_nothing_of_a_server_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let named = pictures(folder.path(), 100);
    let questions: Vec<Question> = (pairs(100).iter().enumerate())
        .map(|(at, case)| case.question(at, false))
        .collect();
    let stub = Stub::start(|_| Said::chat("1")).unwrap();
    let judge = model(&stub, "m", Sampling::default());
    let mut book = Book::unkept();
    let first = ask(&judge, &named, &questions[..4], &mut book, &manner(1)).unwrap();
    assert_eq!(first.new, 4);
    let gone = ask(&Gone(judge), &named, &questions, &mut book, &manner(1));
    let error = gone.unwrap_err().to_string();
    assert!(error.contains("connection refused"), "{error}");
}

#[test]
fn broken_pictures_say_nothing_of_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let named = pictures(folder.path(), 11);
    for (number, one) in named[..10].iter().enumerate() {
        std::fs::write(&one.path, format!("no picture {number}")).unwrap();
    }
    let questions: Vec<Question> = (pairs(11).iter().enumerate())
        .map(|(at, case)| case.question(at, false))
        .collect();
    let stub = Stub::start(|_| Said::chat("1")).unwrap();
    let judge = model(&stub, "m", Sampling::default());
    let asked = ask(&judge, &named, &questions, &mut Book::unkept(), &manner(1)).unwrap();
    assert_eq!((asked.new, stub.count()), (1, 1));
    assert!(
        matches!(&asked.outcomes[9], Outcome::Failed(why) if why.contains("cannot be used as a picture"))
    );
}

/// Servers whose model has no eyes say so in many words, and some call it their own fault.
#[test]
fn a_model_without_eyes_ends_it_with_one_message() {
    let folder = tempfile::tempdir().unwrap();
    let (named, questions) = (pictures(folder.path(), 30), both_orders(&pairs(30)));
    for (status, message) in [
        (
            500,
            "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
        ),
        (400, "llama-3 is not a multimodal model"),
        (
            400,
            "Invalid content type. image_url is only supported by certain models.",
        ),
        (400, "At most 0 image(s) may be provided in one prompt."),
    ] {
        let stub = Stub::start(move |_| Said::error(status, "bad", message)).unwrap();
        let judge = model(&stub, "blind", Sampling::default());
        let asked = ask(&judge, &named, &questions, &mut Book::unkept(), &manner(2));
        let error = asked.unwrap_err();
        assert!(matches!(error, JudgeError::NoPictures { .. }), "{error}");
        let told = error.to_string();
        assert!(
            told.contains("the model blind at ") && told.contains("--judge-model"),
            "{told}"
        );
        assert!(stub.count() <= 2, "{} requests", stub.count());
    }
}

/// What breaks down while a server answers comes with status 200; and a word for an end that nobody knows is no refusal.
#[test]
fn answers_that_break_off_are_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let (named, questions) = (pictures(folder.path(), 3), both_orders(&pairs(3)));
    let ended =
        |reason: &str| json!({"choices": [{"message": {"content": "1"}, "finish_reason": reason}]});
    let stub = Stub::start(move |heard| {
        let said = match heard.before {
            0 => json!({"error": {"code": 502, "message": "Provider returned error"}}),
            1 => ended("error"),
            2 => ended("eos"),
            _ => ended("done"),
        };
        Said::Json(200, said)
    })
    .unwrap();
    let path = folder.path().join("answers.jsonl");
    let mut book = Book::open(&path).unwrap();
    let judge = model(&stub, "m", Sampling::default());
    let asked = ask(&judge, &named, &questions, &mut book, &manner(1)).unwrap();
    assert_eq!((asked.new, stub.count()), (6, 6 + 2));
    let answered = Outcome::Answered(Answer::Digit(1));
    assert!(asked.outcomes.iter().all(|one| *one == answered));
    let kept = entries(&std::fs::read(&path).unwrap()).unwrap();
    assert!(kept.len() == 6 && kept.iter().all(|entry| entry.end == End::Stop));
}

#[test]
fn thoughts_without_an_end_are_told_and_lost_for_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (named, questions) = (pictures(folder.path(), 10), both_orders(&pairs(10)));
    let stub = Stub::start(|heard| match heard.before % 2 {
        0 => Said::Json(200, json!({"choices": [{"message": {"content": "", "reasoning_content": "hm"}, "finish_reason": "length"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 1024}})),
        _ => Said::chat("<think>It is on the"),
    })
    .unwrap();
    let judge = model(&stub, "m", Sampling::default());
    let asked = ask(&judge, &named, &questions, &mut Book::unkept(), &manner(2)).unwrap();
    let thinking = Outcome::Answered(Answer::Invalid(Invalid::Thinking));
    assert!(asked.outcomes.iter().all(|one| *one == thinking));
    assert_eq!(asked.new, 20, "what was paid for is kept");
    let kinds = vec!["ots"; 20];
    let outcomes = [asked.outcomes];
    let rounds = Rounds {
        kinds: &kinds,
        outcomes: &outcomes,
        beside: Beside::default(),
    };
    let notes = rounds.notes().join("\n");
    assert!(
        notes.contains("thought until its tokens were gone, 20 of 20 times"),
        "{notes}"
    );
}
