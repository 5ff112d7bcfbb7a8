use std::io::Cursor;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use image::{DynamicImage, ImageFormat, RgbaImage};
use prepose_check::rules::ots::{Code, Homogenization};
use prepose_check::rules::{Case as Boxes, Options, Rule, Wanted};
use prepose_check::{BoundingBox, Detection};
use prepose_draw::table::{Cell, Table};
use prepose_remote::chat::{Chat, Dialect};
use prepose_remote::stub::{Asked as Heard, Reply as Said, Stub};
use prepose_remote::{Client, Retry, Settings, Timeouts};
use prepose_statistics::bootstrap::Bootstrap;
use prepose_statistics::python_random::PythonRandom;
use serde_json::{Value, json};

use crate::ask::{Asked, JudgeError, Manner, Outcome, ask};
use crate::book::{Book, BookError};
use crate::chat::{ChatJudge, Sampling};
use crate::oracle::Oracle;
use crate::ots::{self, Case, Judged};
use crate::picture::{self, Named};
use crate::question::{Answer, End, Form, Invalid, Question};
use crate::scene::graph::{self, Level};
use crate::scene::questions::{Part, Rules, questions, vocabulary};
use crate::scene::score;

#[test]
fn answers_are_read_strictly() {
    use Answer::{Digit, Letter, Yes};
    let other = Answer::Invalid(Invalid::Other);
    let digit = Form::Digit(3);
    for (text, answer) in [
        ("1", Digit(1)),
        (" 3\n", Digit(3)),
        ("<think>It could be 1.</think>\n2", Digit(2)),
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

fn case(line: Value) -> Case {
    ots::read(&line.to_string()).unwrap().remove(0)
}

#[test]
fn questions_are_the_papers() {
    let one = case(
        json!({"id": "x", "picture": "x.png", "setting": "t2i_homogenization", "a": "dog {subject_B}", "b": "cat"}),
    );
    let text = one.question(0, false).text;
    assert!(text.starts_with("Role. You are a professional image analysis assistant for spatial relationship verification."));
    assert!(
        text.contains("Subject A: dog {subject_B}\nSubject B: cat\n"),
        "names are no places"
    );
    assert!(
        text.ends_with("Do not include any explanations, reasoning steps, or additional text.")
    );
    let text = one.question(0, true).text;
    assert!(text.contains("Subject A: cat\nSubject B: dog {subject_B}\n"));

    let placed = case(
        json!({"id": "x", "picture": "x.png", "setting": "t2i_correctness", "a": "digit 9", "b": "digit 3", "order": "reverse"}),
    );
    let text = placed.question(0, false).text;
    assert!(text.contains("Subject A: digit 9 (expected position: LEFT according"));
    assert!(
        text.contains("(Subject A on RIGHT, Subject B on LEFT), indicating Order-to-Space bias.")
    );
    let text = placed.question(0, true).text;
    assert!(text.contains("Subject A: digit 3 (expected position: RIGHT according"));

    let edited = case(
        json!({"id": "x", "picture": "x.png", "setting": "i2i_correctness", "a": "dog", "b": "cat", "order": "aligned",
        "action": "chasing", "expected": "the dog chases the cat", "a_description": "brown"}),
    );
    let text = edited.question(0, false).text;
    assert!(text.contains("Subject A: dog (brown)\nSubject B: cat (as in the seed image)\n"));
    assert!(text.contains("Expected attribution: the dog chases the cat\n"));
    assert!(!text.contains('{'));
}

#[test]
fn codes_are_turned_back() {
    let which = case(
        json!({"id": "x", "picture": "x", "setting": "t2i_homogenization", "a": "dog", "b": "cat"}),
    );
    let codes = |case: &Case, exchanged| {
        [1, 2, 3].map(|digit| case.code(Answer::Digit(digit), exchanged).0)
    };
    assert_eq!(
        (codes(&which, false), codes(&which, true)),
        ([1, 2, 3], [2, 1, 3])
    );
    let right = case(
        json!({"id": "x", "picture": "x", "setting": "i2i_correctness", "a": "dog", "b": "cat", "order": "aligned", "action": "x", "expected": "y"}),
    );
    assert_eq!(
        codes(&right, true),
        [1, 2, 3],
        "correct is correct in either order"
    );
    assert_eq!(right.counts(Code(1)), Some(false), "1 is reversed");
    assert_eq!(right.counts(Code(2)), Some(true));
    assert_eq!(which.code(Answer::Invalid(Invalid::Other), false), Code(3));
}

#[test]
fn what_is_no_case_is_refused() {
    let good = json!({"id": "x", "picture": "x.png", "setting": "t2i_homogenization", "a": "dog", "b": "cat"});
    let with = |name: &str, value: Value| {
        let mut line = good.clone();
        line[name] = value;
        line.to_string()
    };
    for (text, part) in [
        (String::new(), "no cases"),
        ("{".into(), "line 1: "),
        (with("b", json!("Dog")), "both subjects are \"dog\""),
        (
            with("setting", json!("t2v")),
            "line 1: unknown variant `t2v`",
        ),
        (with("sitting", json!(1)), "unknown field `sitting`"),
        (with("setting", json!("t2i_correctness")), "needs \"order\""),
        (
            with("setting", json!("i2i_homogenization")),
            "needs \"action\"",
        ),
        (
            format!("{good}\n\n{good}"),
            "line 3: there is a case x already",
        ),
    ] {
        let error = ots::read(&text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

/// Boxes of a dog and a cat, some of them not found, beside each other or not.
fn boxes(count: usize) -> Vec<Boxes> {
    let mut random = PythonRandom::new(7);
    (0..count)
        .map(|number| {
            let mut detections = Vec::new();
            for label in ["dog", "cat", "dog"] {
                let [x, y] = [0, 1].map(|_| f64::from(random.below(80)));
                let score = f64::from(random.below(100)) / 100.0;
                detections.push(Detection {
                    label: label.into(),
                    score,
                    bbox: BoundingBox::new(x, y, x + 20.0, y + 20.0),
                    mask: None,
                });
            }
            detections.sort_by(|a, b| b.score.total_cmp(&a.score));
            Boxes {
                id: number.to_string(),
                prompt_id: number.to_string(),
                size: Some((100, 100)),
                objects: ["dog", "cat"].map(Wanted::one).to_vec(),
                detections,
                ..Boxes::default()
            }
        })
        .collect()
}

fn pictures(folder: &Path, count: usize) -> Vec<Named> {
    (0..count)
        .map(|number| {
            let path = folder.join(format!("{number}.png"));
            let shade = [number as u8, (number >> 8) as u8, 9, 255];
            RgbaImage::from_pixel(3, 2, image::Rgba(shade))
                .save(&path)
                .unwrap();
            Named {
                id: number.to_string(),
                path,
            }
        })
        .collect()
}

fn pairs(count: usize) -> Vec<Case> {
    let of = |number: usize| {
        case(
            json!({"id": number.to_string(), "picture": format!("{number}.png"), "setting": "t2i_homogenization", "a": "dog", "b": "cat",
            "group": (number / 2).to_string()}),
        )
    };
    (0..count).map(of).collect()
}

fn both_orders(cases: &[Case]) -> Vec<Question> {
    let each =
        |(at, case): (usize, &Case)| [false, true].map(|exchanged| case.question(at, exchanged));
    cases.iter().enumerate().flat_map(each).collect()
}

fn judged<'a>(cases: &'a [Case], asked: &Asked) -> Vec<Judged<'a>> {
    let outcomes = asked.outcomes.chunks(2);
    (cases.iter().zip(outcomes))
        .map(|(case, outcomes)| Judged {
            case,
            as_published: outcomes[0].clone(),
            exchanged: Some(outcomes[1].clone()),
        })
        .collect()
}

fn manner(concurrency: usize) -> Manner<'static> {
    static GO_ON: AtomicBool = AtomicBool::new(false);
    Manner {
        concurrency,
        progress: &|_| (),
        stop: &GO_ON,
    }
}

fn number(table: &Table, row: usize, column: &str) -> f64 {
    let at = table
        .columns
        .iter()
        .position(|name| name == column)
        .unwrap();
    match &table.rows[row][at] {
        Cell::Mean(number) | Cell::Percent(number) => *number,
        Cell::Count(count) => *count as f64,
        other => panic!("{column}: {other:?}"),
    }
}

/// The oracle asks the paper's questions of boxes, so its table is the box rule's.
#[test]
fn the_oracle_is_the_box_rule() {
    let folder = tempfile::tempdir().unwrap();
    let (named, boxes, cases) = (pictures(folder.path(), 300), boxes(300), pairs(300));
    let oracle = Oracle::new(boxes.clone(), Options::default());
    let asked = ask(
        &oracle,
        &named,
        &both_orders(&cases),
        &mut Book::unkept(),
        &manner(2),
    )
    .unwrap();
    let judged = judged(&cases, &asked);
    let table = ots::figures(&judged, &Bootstrap::default());
    let rule = Homogenization.score(&mut boxes.into_iter(), &Options::default());
    let figure = |name: &str| {
        let figure = rule.figures.iter().find(|figure| figure.name == name);
        figure.unwrap().value.number().unwrap()
    };
    for row in 0..3 {
        assert_eq!(number(&table, row, "first"), figure("first-mentioned left"));
        assert_eq!(
            number(&table, row, "second"),
            figure("first-mentioned right")
        );
        assert_eq!(number(&table, row, "invalid"), figure("invalid"));
        assert_eq!(number(&table, row, "percent"), figure("homogenization"));
    }
    assert!(figure("invalid") > 10.0 && figure("first-mentioned left") > 10.0);
    let bias = ots::bias(&judged);
    assert_eq!(number(&bias, 0, "first_both_times"), 0.0);
    assert_eq!(number(&bias, 0, "bias_percent"), 0.0);
    let agreement = ots::agreement(&judged, &judged, &Bootstrap::default());
    assert_eq!(number(&agreement, 0, "kappa"), 1.0);
    assert!(ots::notes(&judged).is_empty());
}

fn model(stub: &Stub, name: &str, sampling: Sampling) -> ChatJudge {
    let settings = Settings {
        retry: Retry {
            attempts: 60,
            first: Duration::from_millis(1),
            longest: Duration::from_millis(4),
            ..Retry::default()
        },
        timeouts: Timeouts::default(),
        ..Settings::default()
    };
    let client = Client::new(&format!("{}/v1", stub.address), None, settings).unwrap();
    ChatJudge::new(Chat::new(client, name, Dialect::Plain), sampling)
}

/// The question's text, of a request.
fn text(heard: &Heard) -> String {
    let json = heard.json();
    let parts = json
        .pointer("/messages/0/content")
        .and_then(Value::as_array)
        .unwrap();
    assert_eq!(parts[0]["type"], "image_url", "the picture comes first");
    parts[1]["text"].as_str().unwrap().to_owned()
}

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
        json!({"model": "m", "temperature": 0.0, "max_tokens": 1024})
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
    let many: Vec<Judged> = std::iter::repeat_n(&judged[0], 10).cloned().collect();
    assert!(
        ots::notes(&many)[0].contains("says \"1\" in 20 of 20"),
        "{:?}",
        ots::notes(&many)
    );
}

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

#[test]
fn books_are_not_shared_and_hold_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answers.jsonl");
    let first = Book::open(&path).unwrap();
    assert!(matches!(Book::open(&path), Err(BookError::InUse(_))));
    drop(first);
    std::fs::write(&path, "{\"id\": 1}\n").unwrap();
    let error = Book::open(&path).unwrap_err().to_string();
    assert!(error.contains("line 1 is no answer of a judge"), "{error}");
    assert!(Book::open(folder.path()).is_err());
}

#[test]
fn pictures_are_sent_as_every_server_takes_them() {
    let folder = tempfile::tempdir().unwrap();
    let sent = |name: &str, picture: &DynamicImage, format: ImageFormat, largest| {
        let path = folder.path().join(name);
        let mut bytes = Vec::new();
        picture
            .write_to(&mut Cursor::new(&mut bytes), format)
            .unwrap();
        std::fs::write(&path, &bytes).unwrap();
        let seen = picture::read(&path).unwrap();
        let sent = seen.sent(&path, largest).unwrap();
        (sent == bytes, image::load_from_memory(&sent).unwrap())
    };
    let plain = DynamicImage::ImageRgb8(image::RgbImage::from_pixel(40, 20, image::Rgb([9, 8, 7])));
    assert!(sent("a.png", &plain, ImageFormat::Png, None).0, "as it is");
    assert!(sent("a.jpg", &plain, ImageFormat::Jpeg, Some(40)).0);
    let (same, webp) = sent("a.webp", &plain, ImageFormat::WebP, None);
    assert!(!same && webp.to_rgb8() == plain.to_rgb8());
    let (_, small) = sent("b.png", &plain, ImageFormat::Png, Some(20));
    assert_eq!((small.width(), small.height()), (20, 10));
    let clear = DynamicImage::ImageRgba8(RgbaImage::from_pixel(4, 4, image::Rgba([0, 0, 0, 51])));
    let (_, white) = sent("c.png", &clear, ImageFormat::Png, None);
    assert_eq!(white.to_rgba8().get_pixel(0, 0).0, [204, 204, 204, 255]);
    let path = folder.path().join("d.png");
    std::fs::write(&path, "no picture").unwrap();
    let error = picture::read(&path).unwrap().sent(&path, None).unwrap_err();
    assert!(matches!(JudgeError::from(error), JudgeError::Picture(_)));
}

const GRAPHS: &str = r#"{"id":"kick","objects":["person.1","person.2","sports ball.1"],"relationships":[{"source":"person.2","target":"sports ball.1","relation":"kicking"},{"source":"person.2","target":"person.1","relation":"near"}]}
{"objects":["umbrella.1"],"relationships":[]}
{"id":"sides","objects":["dog.1","cat.1","car.1","bird.1"],"relationships":[{"source":"dog.1","target":"cat.1","relation":"left of"},{"source":"cat.1","target":"dog.1","relation":"right of"},{"source":"bird.1","target":"car.1","relation":"above"},{"source":"dog.1","target":"car.1","relation":"holding"}]}"#;

#[test]
fn graphs_have_prompts_levels_and_questions() {
    let graphs = graph::read(GRAPHS).unwrap();
    assert_eq!(
        graphs[0].prompt(),
        "person kicking sports ball, person near person"
    );
    assert_eq!(graphs[1].prompt(), "umbrella");
    assert_eq!(
        (graphs[1].id.as_str(), graphs[1].picture().as_str()),
        ("2", "2.png")
    );
    let levels: Vec<Level> = graphs
        .iter()
        .map(|graph| Level::of(graph.complexity(0.0)))
        .collect();
    assert_eq!(levels, [Level::Simple, Level::Trivial, Level::Medium]);
    assert_eq!(graphs[0].complexity(0.25), 0.25 * 3.0 + 0.75 * 2.0);

    let words = vocabulary(&graphs);
    let asked = questions(&graphs, &words, &Rules::default());
    assert_eq!(asked.len(), 3 + 2 + 1 + 4 + 4);
    assert_eq!(
        asked[1].question.text,
        "Is there a second person in the image? Answer with Yes or No only."
    );
    assert_eq!(
        asked[2].question.text,
        "Is there a sports ball in the image? Answer with Yes or No only."
    );
    assert_eq!(
        asked[5].question.text,
        "Is there an umbrella in the image? Answer with Yes or No only."
    );
    for one in &asked {
        let Part::Relationship(at, right) = one.part else {
            continue;
        };
        let crate::question::About::Relation(_, options, _) = &one.question.about else {
            panic!("{one:?}");
        };
        assert_eq!(
            options[usize::from(right)],
            graphs[one.graph].relationships[at].relation
        );
        assert_eq!(options.len(), 4);
        assert_eq!(options[3], "no visible relationship");
        let mut each = options.clone();
        each.sort();
        each.dedup();
        assert_eq!(each.len(), 4, "no option twice: {options:?}");
    }
    let dog = asked
        .iter()
        .find(|one| one.question.id == "sides#relationship-1")
        .unwrap();
    assert!(
        dog.question
            .text
            .starts_with("What is the relationship between the dog and the cat in the image? A) ")
    );
    assert!(
        !dog.question.text.contains("right of"),
        "what the graph says the other way round is not wrong"
    );
    // The rest of the file does not matter to a question.
    let alone = questions(&graphs[..1], &words, &Rules::default());
    assert_eq!(alone[..], asked[..5]);
    let other = questions(
        &graphs,
        &words,
        &Rules {
            seed: 1,
            ..Rules::default()
        },
    );
    assert_ne!(other, asked);
}

#[test]
fn what_is_no_graph_is_refused() {
    for (text, part) in [
        ("", "no scene graphs"),
        ("[]", "no scene graphs"),
        ("{\"objects\":[]}", "missing field `relationships`"),
        (
            "{\"objects\":[],\"relationships\":[]}",
            "graph 1 (1): it has no objects",
        ),
        (
            r#"{"objects":["dog"],"relationships":[]}"#,
            "\"dog\" is not like \"person.2\"",
        ),
        (
            r#"{"objects":["dog.1","dog.1"],"relationships":[]}"#,
            "is there twice",
        ),
        (
            r#"{"objects":["dog.1"],"relationships":[{"source":"dog.1","target":"cat.1","relation":"near"}]}"#,
            "a relationship is of \"cat.1\", which is none of its objects",
        ),
        (
            r#"{"objects":["dog.1"],"relationships":[{"source":"dog.1","target":"dog.1","relation":"near"}]}"#,
            "\"dog.1\" is related to itself",
        ),
        (
            "{\"id\":\"a\",\"objects\":[\"dog.1\"],\"relationships\":[]}\n{\"id\":\"a\",\"objects\":[\"dog.1\"],\"relationships\":[]}",
            "graph 2 (a): its id is that of an earlier one",
        ),
    ] {
        let error = graph::read(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

/// Boxes for the third graph, of which some things were left out: the score is what can be computed by hand.
#[test]
fn planted_omissions_give_the_score_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let graphs = graph::read(GRAPHS).unwrap().split_off(2);
    let asked = questions(
        &graphs,
        &["left of", "right of", "above", "below", "holding"].map(String::from),
        &Rules::default(),
    );
    let named = pictures(folder.path(), 1);
    let named = [Named {
        id: "sides".into(),
        ..named[0].clone()
    }];
    let things: Vec<Question> = asked.iter().map(|one| one.question.clone()).collect();
    let score = |labels: &[(&str, f64, f64)]| {
        let found = |&(label, x, y): &(&str, f64, f64)| Detection {
            label: label.into(),
            score: 0.9,
            bbox: BoundingBox::new(x, y, x + 10.0, y + 10.0),
            mask: None,
        };
        let boxes = Boxes {
            id: "sides".into(),
            detections: labels.iter().map(found).collect(),
            ..Boxes::default()
        };
        let oracle = Oracle::new([boxes], Options::default());
        let answers = ask(&oracle, &named, &things, &mut Book::unkept(), &manner(1)).unwrap();
        score::found(&graphs, &asked, &answers.outcomes).remove(0)
    };
    let all = [
        ("dog", 0.0, 50.0),
        ("cat", 50.0, 50.0),
        ("car", 50.0, 80.0),
        ("bird", 55.0, 0.0),
    ];
    // "Holding" cannot be seen in boxes: 3 of 4 relationships at best.
    let found = score(&all);
    assert_eq!(found.object_recall(), Some(1.0));
    assert_eq!(found.relationships[..3], [Some(true); 3]);
    assert_eq!(found.sgscore(0.5), Some(0.5 + 0.5 * 0.75));
    // Without the cat both of its relationships go as well.
    let found = score(&[all[0], all[2], all[3]]);
    assert_eq!(
        found.objects,
        [Some(true), Some(false), Some(true), Some(true)]
    );
    assert_eq!(found.sgscore(0.25), Some(0.25 * 0.75 + 0.75 * 0.25));
    let missing = found.missing(&graphs[0]);
    assert_eq!(missing.objects, ["dog.1", "cat.1", "car.1"]);
    assert_eq!(missing.relationships.len(), 3);
    // The bird below the car.
    let found = score(&[all[0], all[1], all[2], ("bird", 55.0, 90.0)]);
    assert_eq!(found.relationships[2], Some(false));

    let table = score::by_level(&graphs, &[found], 0.0, 0.5, &Bootstrap::default());
    assert_eq!(number(&table, 0, "sgscore"), 100.0 * (0.5 + 0.5 * 0.5));
    assert_eq!(table.rows.len(), 2);
}

#[test]
fn invalid_answers_are_not_wrong() {
    let graphs = graph::read(GRAPHS).unwrap();
    let asked = questions(&graphs, &vocabulary(&graphs), &Rules::default());
    let outcomes: Vec<Outcome> = (asked.iter())
        .map(|one| match one.part {
            Part::Object(0) => Outcome::Answered(Answer::Yes(true)),
            Part::Object(_) => Outcome::Answered(Answer::Invalid(Invalid::Other)),
            Part::Relationship(..) => Outcome::Failed("no connection".into()),
        })
        .collect();
    let found = score::found(&graphs, &asked, &outcomes);
    assert_eq!(found[0].object_recall(), Some(1.0));
    assert_eq!(
        (found[0].relation_recall(), found[0].sgscore(0.5)),
        (None, None)
    );
    assert_eq!(found[1].sgscore(0.5), Some(1.0), "objects alone");
    let yes: Vec<Outcome> = vec![Outcome::Answered(Answer::Yes(true)); 30];
    assert!(score::notes(&yes)[0].contains("says \"yes\" in 30 of 30"));
}

#[test]
fn language_models_write_and_read_scenes() {
    use crate::scene::language::{
        Placed, annotate, annotated, classified, classify, compose, composed, extract, extracted,
    };
    let graphs = graph::read(GRAPHS).unwrap();
    let text = compose(&graphs[1]).text;
    assert!(text.starts_with("You are an AI assistant tasked with converting scene graphs"));
    assert!(
        text.ends_with("```json {\"objects\":[\"umbrella.1\"],\"relationships\":[]} ```\nOutput:"),
        "{text}"
    );
    assert_eq!(
        composed("```json\n{\"description\": \" An umbrella. \"}\n```").unwrap(),
        "An umbrella."
    );
    assert!(
        composed("{\"text\": \"x\"}")
            .unwrap_err()
            .contains("description")
    );
    assert!(composed("An umbrella.").is_err());

    assert!(
        extract("1", "a {dog}")
            .text
            .contains("Sentence: \"a {dog}\"")
    );
    let read = extracted(
        "1",
        r#"{"objects": ["dog", "cat", "dog"], "relationships": [{"source": "dog", "target": "cat", "relation": "near"}]}"#,
    );
    let read = read.unwrap();
    assert_eq!(read.objects, ["dog.1", "cat.1"]);
    assert_eq!(read.prompt(), "dog near cat");
    let error = extracted(
        "1",
        r#"{"objects": ["dog"], "relationships": [{"source": "dog", "target": "moon", "relation": "near"}]}"#,
    );
    assert!(
        error
            .unwrap_err()
            .contains("\"moon\", which is none of its objects")
    );

    let placed = [
        ("person.2", [116.0, 49.4, 309.0, 491.0]),
        ("sports ball.1", [312.0, 360.0, 370.0, 417.0]),
    ];
    let placed = placed.map(|(object, bbox)| Placed {
        object: object.into(),
        bbox,
    });
    let asked = annotate("x", 0, &placed, [640, 480]);
    assert!(asked.text.contains("Now, objects are [\"person.2:[116, 49, 309, 491]\",\"sports ball.1:[312, 360, 370, 417]\"]."), "{}", asked.text);
    assert!(asked.text.contains("image are (640, 480)."));
    let answer = r#"{"relationships": [{"source": "person.2", "target": "sports ball.1", "relation": "kicking"}]}"#;
    assert_eq!(
        annotated("x", &placed, answer).unwrap().prompt(),
        "person kicking sports ball"
    );
    assert!(
        annotated("x", &placed, &answer.replace("ball.1", "ball.2"))
            .unwrap_err()
            .contains("ball.2")
    );

    assert!(
        classify(&graphs[0])
            .text
            .starts_with("Now, we have a list of image information like [{\"image_id\":\"kick\"")
    );
    let answer = r#"[{"image_id": "kick", "file_name": "kick.png", "level 1": "People-Centric", "level 2": "Sports and Recreation"}]"#;
    assert!(
        classified(answer)
            .unwrap_err()
            .contains("no class of People-Centric scenes")
    );
    let answer = answer.replace(" and ", " & ");
    assert_eq!(
        classified(&answer).unwrap(),
        ["People-Centric", "Sports & Recreation"]
    );
}
