use prepose_check::rules::ots::{Code, Homogenization};
use prepose_check::rules::{Case as Boxes, Options, Rule};
use prepose_check::{BoundingBox, Detection};
use prepose_statistics::bootstrap::Bootstrap;
use serde_json::{Value, json};

use super::{both_orders, boxes, case, judged, manner, number, pairs, pictures};
use crate::ask::ask;
use crate::book::Book;
use crate::oracle::Oracle;
use crate::ots::{self, Case};
use crate::question::{Answer, Invalid};

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
            "line 3: there is already a case x",
        ),
    ] {
        let error = ots::read(&text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
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
}

/// Pictures changed by words, of which a detector of phrases says who does what: the oracle gives the figures by hand.
#[test]
fn the_oracle_knows_who_acts() {
    let folder = tempfile::tempdir().unwrap();
    let named = pictures(folder.path(), 6);
    let found = |labels: &[&str]| -> Vec<Detection> {
        let one = |label: &&str| Detection {
            label: (*label).into(),
            score: 0.9,
            bbox: BoundingBox::new(0.0, 0.0, 9.0, 9.0),
            mask: None,
        };
        labels.iter().map(one).collect()
    };
    let acting = [
        &["dog", "sleeping cat"][..],
        &["sleeping dog", "cat"],
        &["sleeping dog", "sleeping cat"],
        &["dog", "cat"],
        &["dog chasing", "cat"],
        &["chasing cat", "dog"],
    ];
    let boxes = acting.iter().enumerate().map(|(number, labels)| Boxes {
        id: number.to_string(),
        detections: found(labels),
        ..Boxes::default()
    });
    let oracle = Oracle::new(boxes, Options::default());
    let cases: Vec<Case> = (0..6)
        .map(|number: usize| {
            let mut line = json!({"id": number.to_string(), "picture": "x", "setting": "i2i_homogenization", "a": "cat", "b": "dog",
                "action": "sleeping"});
            if number > 3 {
                line["setting"] = json!("i2i_correctness");
                line["action"] = json!("chasing");
                line["expected"] = json!("the dog chases the cat");
                line["order"] = json!("aligned");
            }
            case(line)
        })
        .collect();
    let book = &mut Book::unkept();
    let asked = ask(&oracle, &named, &both_orders(&cases), book, &manner(1)).unwrap();
    let judged = judged(&cases, &asked);
    let table = ots::figures(&judged, &Bootstrap::default());
    for row in 0..3 {
        assert_eq!(number(&table, row, "first"), 1.0, "the cat alone");
        assert_eq!(number(&table, row, "second"), 1.0, "the dog alone");
        assert_eq!(number(&table, row, "invalid"), 2.0, "both, and neither");
        assert_eq!(number(&table, row, "percent"), 0.0);
        // Of correctness: the dog as it should, and the cat instead.
        assert_eq!(number(&table, 3 + row, "first"), 1.0);
        assert_eq!(number(&table, 3 + row, "second"), 1.0);
        assert_eq!(number(&table, 3 + row, "percent"), 50.0);
    }
    let bias = ots::bias(&judged);
    assert_eq!(number(&bias, 0, "same"), 2.0);
}
