use prepose_remote::stub::{Asked as Heard, Reply as Said, Stub};
use serde_json::json;

use super::{both_orders, manner, model, pairs, pictures};
use crate::answers::{Beside, Rounds};
use crate::ask::{JudgeError, Outcome, ask};
use crate::book::Book;
use crate::chat::Sampling;
use crate::question::{Answer, Invalid};

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
