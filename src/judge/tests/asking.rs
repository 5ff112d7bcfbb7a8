use std::sync::atomic::{AtomicUsize, Ordering};

use prepose_remote::stub::{Reply as Said, Stub};
use prepose_statistics::bootstrap::Bootstrap;
use serde_json::{Value, json};

use super::{both_orders, judged, manner, model, number, pairs, pictures, text};
use crate::ask::{Made, Outcome, ask};
use crate::book::{Book, BookError, entries};
use crate::chat::Sampling;
use crate::ots;
use crate::picture::{InMemory, Named};
use crate::question::{Answer, Invalid, Question};

/// 400 questions to a server that is busy, fails and cuts its answers: each is answered once, and nothing is asked again.
#[test]
fn nothing_is_lost_or_asked_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (named, cases) = (pictures(folder.path(), 200), pairs(200));
    let good = std::sync::Arc::new(AtomicUsize::new(0));
    let answered = good.clone();
    let stub = Stub::start(move |heard| match heard.before % 7 {
        0 => Said::busy(1),
        1 => Said::error(500, "oops", "out of order"),
        2 => Said::Cut(90, Box::new(Said::chat("1"))),
        3 => Said::Close,
        number => {
            answered.fetch_add(1, Ordering::SeqCst);
            Said::chat(if number == 4 { "I think it is 1" } else { "2" })
        }
    })
    .unwrap();
    let questions = both_orders(&cases);
    let path = folder.path().join("answers.jsonl");
    let judge = model(&stub, "m", Sampling::default());
    let asked = ask(
        &judge,
        &named,
        &questions,
        &mut Book::open(&path).unwrap(),
        &manner(8),
    )
    .unwrap();
    assert_eq!((asked.new, asked.outcomes.len()), (400, 400));
    assert_eq!(good.load(Ordering::SeqCst), 400, "one answer each");
    assert!(stub.most_at_once() <= 8);
    assert_eq!((asked.prompt_tokens, asked.answer_tokens), (2800, 1200));
    let invalid = asked
        .outcomes
        .iter()
        .filter(|one| **one == Outcome::Answered(Answer::Invalid(Invalid::Other)));
    assert!(invalid.count() > 50);

    // All of it is in the book, in whatever order it came.
    let before = stub.count();
    let again = ask(
        &judge,
        &named,
        &questions,
        &mut Book::open(&path).unwrap(),
        &manner(3),
    )
    .unwrap();
    assert_eq!((again.new, &again.outcomes), (0, &asked.outcomes));
    assert_eq!(again.prompt_tokens, 2800);
    assert_eq!(stub.count(), before);

    // A kill in the middle of a line loses that line alone.
    let book = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &book[..book.len() - 40]).unwrap();
    let again = ask(
        &judge,
        &named,
        &questions,
        &mut Book::open(&path).unwrap(),
        &manner(3),
    )
    .unwrap();
    assert_eq!(again.new, 1);
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 400);
}

#[test]
fn what_an_answer_depends_on_is_asked_anew() {
    let folder = tempfile::tempdir().unwrap();
    let named = pictures(folder.path(), 2);
    let stub = Stub::start(|_| Said::chat("1")).unwrap();
    let path = folder.path().join("answers.jsonl");
    let new = |name: &str, sampling: Sampling, questions: &[Question]| {
        let mut book = Book::open(&path).unwrap();
        let judge = model(&stub, name, sampling);
        ask(&judge, &named, questions, &mut book, &manner(4))
            .unwrap()
            .new
    };
    let questions: Vec<Question> = pairs(2)
        .iter()
        .enumerate()
        .map(|(at, case)| case.question(at, false))
        .collect();
    assert_eq!(new("m", Sampling::default(), &questions), 2);
    assert_eq!(
        new("n", Sampling::default(), &questions),
        2,
        "another model"
    );
    let warm = Sampling {
        temperature: 0.5,
        ..Sampling::default()
    };
    assert_eq!(new("m", warm, &questions), 2, "another setting");
    let small = Sampling {
        largest: Some(16),
        ..Sampling::default()
    };
    assert_eq!(new("m", small, &questions), 2, "another size");
    let mut other = questions.clone();
    other[0].text += " Please.";
    assert_eq!(new("m", Sampling::default(), &other), 1, "another question");
    std::fs::copy(&named[1].path, &named[0].path).unwrap();
    assert_eq!(
        new("m", Sampling::default(), &questions),
        0,
        "the same picture under another name"
    );
    image::RgbImage::new(5, 5).save(&named[0].path).unwrap();
    assert_eq!(
        new("m", Sampling::default(), &questions),
        1,
        "another picture"
    );
    // The same question twice at once is asked once.
    std::fs::copy(&named[0].path, &named[1].path).unwrap();
    let twice: Vec<Question> = std::iter::repeat_n(&other[0], 50).cloned().collect();
    assert_eq!(new("m", Sampling::default(), &twice), 1);

    let lines = std::fs::read_to_string(&path).unwrap();
    let entry: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(
        entry["settings"],
        json!({"server": format!("{}/v1", stub.address), "request": {"model": "m", "temperature": 0.0, "max_tokens": 1024}})
    );
    assert_eq!(
        (&entry["answer"], &entry["prompt_tokens"]),
        (&json!("1"), &json!(7))
    );
    assert!(entry["text"].as_str().unwrap().starts_with("Role."));
}

#[test]
fn questions_show_the_picture_and_then_ask() {
    let folder = tempfile::tempdir().unwrap();
    let named = pictures(folder.path(), 1);
    let stub = Stub::start(|heard| {
        let url = heard
            .json()
            .pointer("/messages/0/content/0/image_url/url")
            .cloned()
            .unwrap_or_default();
        assert!(
            url.as_str()
                .is_some_and(|url| url.starts_with("data:image/png;base64,"))
        );
        // A judge that says that the one named first is on the left, whatever it sees.
        Said::chat(if text(heard).is_empty() { "3" } else { "1" })
    })
    .unwrap();
    let cases = pairs(1);
    let judge = model(&stub, "m", Sampling::default());
    let asked = ask(
        &judge,
        &named,
        &both_orders(&cases),
        &mut Book::unkept(),
        &manner(2),
    )
    .unwrap();
    let judged = judged(&cases, &asked);
    let bias = ots::bias(&judged);
    assert_eq!(number(&bias, 0, "first_both_times"), 1.0);
    assert_eq!(number(&bias, 0, "bias_percent"), 100.0);
    let table = ots::figures(&judged, &Bootstrap::default());
    assert_eq!(number(&table, 0, "percent"), 100.0);
    assert_eq!(
        number(&table, 2, "invalid"),
        1.0,
        "the two answers contradict each other"
    );
}

#[test]
fn books_are_not_shared_and_hold_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answers.jsonl");
    let first = Book::open(&path).unwrap();
    assert!(matches!(Book::open(&path), Err(BookError::InUse(_))));
    drop(first);
    std::fs::write(&path, "{\"id\": 1}\n").unwrap();
    let error = Book::open(&path).unwrap_err().to_string();
    assert!(error.contains("line 1 is not a judge's answer"), "{error}");
    assert!(Book::open(folder.path()).is_err());
}

/// Two servers may call different models the same.
#[test]
fn servers_do_not_share_answers() {
    let folder = tempfile::tempdir().unwrap();
    let named = pictures(folder.path(), 3);
    let servers = ["1", "2"].map(|answer| Stub::start(move |_| Said::chat(answer)).unwrap());
    let questions = both_orders(&pairs(3));
    let path = folder.path().join("answers.jsonl");
    let ask_with = |judge: &crate::chat::ChatJudge| {
        let mut book = Book::open(&path).unwrap();
        ask(judge, &named, &questions, &mut book, &manner(2)).unwrap()
    };
    for (server, digit) in servers.iter().zip([1, 2]) {
        let asked = ask_with(&model(server, "m", Sampling::default()));
        assert_eq!(asked.new, 6);
        assert_eq!(asked.outcomes[0], Outcome::Answered(Answer::Digit(digit)));
    }
    // One that moves has a name.
    let called = |server: &Stub| model(server, "m", Sampling::default()).called("ours");
    assert_eq!(ask_with(&called(&servers[0])).new, 6);
    assert_eq!(ask_with(&called(&servers[1])).new, 0);
    // Each round is an answer of its own.
    let again = Sampling {
        round: 1,
        ..Sampling::default()
    };
    assert_eq!(ask_with(&model(&servers[0], "m", again)).new, 6);
    assert_eq!(
        ask_with(&model(&servers[0], "m", Sampling::default())).new,
        0
    );
}

/// What a question costs besides its answer: connections are kept, each picture is read and encoded once, and questions are
/// made when it is their turn.
#[test]
fn little_is_done_twice() {
    const PICTURES: usize = 60;
    let folder = tempfile::tempdir().unwrap();
    let (named, cases) = (pictures(folder.path(), PICTURES), pairs(PICTURES));
    let stub = Stub::keeping(|heard| match heard.before % 10 {
        3 => Said::error(500, "oops", "out of order"),
        _ => Said::chat("1"),
    })
    .unwrap();
    let made = AtomicUsize::new(0);
    let questions = Made {
        count: 2 * PICTURES,
        make: |at: usize| {
            made.fetch_add(1, Ordering::SeqCst);
            cases[at / 2].question(at / 2, at % 2 == 1)
        },
    };
    let judge = model(&stub, "m", Sampling::default());
    let asked = ask(&judge, &named, &questions, &mut Book::unkept(), &manner(4)).unwrap();
    assert_eq!(asked.new, 2 * PICTURES);
    // One a worker, and some more where a machine is so slow that they grow old meanwhile.
    let connections = stub.connections();
    assert!(connections <= stub.count() / 4, "{connections} connections");
    assert_eq!(
        made.load(Ordering::SeqCst),
        stub.count(),
        "one for each try"
    );

    // One after the other, so that none waits for another try while others go on.
    let stub = Stub::keeping(|_| Said::chat("1")).unwrap();
    let judge = model(&stub, "m", Sampling::default());
    let all = both_orders(&cases);
    let asked = ask(&judge, &named, &all, &mut Book::unkept(), &manner(1)).unwrap();
    assert_eq!((asked.new, asked.reads), (2 * PICTURES, PICTURES));
}

/// While questions wait for their next try, others are asked: a server that answers nothing at first has all of them in the
/// end, and none is asked by more than are allowed at a time.
#[test]
fn others_are_asked_while_some_wait() {
    let folder = tempfile::tempdir().unwrap();
    let (named, cases) = (pictures(folder.path(), 20), pairs(20));
    let stub = Stub::keeping(|heard| match heard.before {
        0..10 => Said::error(503, "loading", "loading"),
        _ => Said::chat("2"),
    })
    .unwrap();
    let judge = model(&stub, "m", Sampling::default());
    let questions = both_orders(&cases);
    let asked = ask(&judge, &named, &questions, &mut Book::unkept(), &manner(3)).unwrap();
    assert_eq!((asked.new, stub.count()), (40, 50));
    assert!(stub.most_at_once() <= 3);
    let answered = Outcome::Answered(Answer::Digit(2));
    assert!(asked.outcomes.iter().all(|one| *one == answered));
}

#[test]
fn books_remember_places_and_not_answers() {
    let folder = tempfile::tempdir().unwrap();
    let named = pictures(folder.path(), 2);
    let path = folder.path().join("answers.jsonl");
    let long = format!("{{\"description\": \"{}\"}}", "x".repeat(100_000));
    let answer = long.clone();
    let stub = Stub::start(move |_| Said::chat(&answer)).unwrap();
    let mut question = pairs(1)[0].question(0, false);
    question.form = crate::question::Form::Object;
    let judge = model(&stub, "m", Sampling::default());
    for new in [1, 0] {
        let mut book = Book::open(&path).unwrap();
        let asked = ask(&judge, &named, &[question.clone()], &mut book, &manner(1)).unwrap();
        assert_eq!(
            (asked.new, asked.texts[0].as_deref()),
            (new, Some(long.as_str()))
        );
        assert_eq!(book.len(), 1);
    }
    // A line that somebody changes meanwhile is no answer any more.
    let book = Book::open(&path).unwrap();
    let all = entries(&std::fs::read(&path).unwrap()).unwrap();
    assert!(book.get(&all[0].key).is_some());
    std::fs::write(&path, "").unwrap();
    assert!(book.get(&all[0].key).is_none());
}

/// A disk that is full takes half a line; the next answer goes into its place.
#[test]
fn half_a_line_is_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let named = pictures(folder.path(), 4);
    let path = folder.path().join("answers.jsonl");
    let stub = Stub::start(|_| Said::chat("3")).unwrap();
    let judge = model(&stub, "m", Sampling::default());
    let questions = both_orders(&pairs(4));
    let mut book = Book::open(&path).unwrap();
    ask(&judge, &named, &questions[..4], &mut book, &manner(1)).unwrap();
    // As a write that failed may leave it.
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap();
    std::io::Write::write_all(&mut file, b"{\"key\":\"0").unwrap();
    ask(&judge, &named, &questions, &mut book, &manner(1)).unwrap();
    drop(book);
    let all = entries(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(all.len(), 8);
}

/// Candidates of a search are in no file.
#[test]
fn pictures_in_memory_are_asked_about() {
    let folder = tempfile::tempdir().unwrap();
    let named = pictures(folder.path(), 2);
    let held = |one: &Named| (one.clone(), std::fs::read(&one.path).unwrap());
    let held = InMemory(named.iter().map(held).collect());
    let stub = Stub::start(|_| Said::chat("1")).unwrap();
    let judge = model(&stub, "m", Sampling::default());
    let path = folder.path().join("answers.jsonl");
    let questions = both_orders(&pairs(2));
    let mut book = Book::open(&path).unwrap();
    assert_eq!(
        ask(&judge, &held, &questions, &mut book, &manner(2))
            .unwrap()
            .new,
        4
    );
    // The same pictures in files are the same.
    assert_eq!(
        ask(&judge, &named, &questions, &mut book, &manner(2))
            .unwrap()
            .new,
        0
    );
}
