//! HRS-Bench as published and by default.

use prepose::check::Detection;
use prepose::check::rules::{Case, Outcome, hrs};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{PLAIN, PUBLISHED, close, figure, fixture, read, score};

#[derive(Deserialize)]
struct HrsCases {
    pictures: Vec<HrsPicture>,
    whole: Vec<usize>,
    levels: [f64; 3],
}

#[derive(Deserialize)]
struct HrsPicture {
    objs: Vec<String>,
    relations: Vec<String>,
    detections: Vec<Detection>,
    right: Value,
}

impl HrsPicture {
    /// What its sentence says: "a car and banana over a horse and beneath a cat".
    fn case(&self) -> Case {
        let names: Vec<&str> = self.objs.iter().map(String::as_str).collect();
        let says = |subject: &str, at: usize, object: &str| {
            format!("{subject} | {} | {object}", self.relations[at])
        };
        let relations = match (names.as_slice(), self.relations.len()) {
            ([a, b], _) => vec![says(a, 0, b)],
            ([a, b, c], 1) => vec![says(a, 0, &format!("{b} | {c}"))],
            ([a, b, c], _) => vec![says(a, 0, b), says(a, 1, c)],
            ([a, b, c, d], 1) => {
                let both = format!("{c} | {d}");
                vec![says(a, 0, &both), says(b, 0, &both)]
            }
            ([a, b, c, d], _) => {
                vec![says(a, 0, c), says(b, 0, c), says(a, 1, d), says(b, 1, d)]
            }
            _ => panic!("{names:?}"),
        };
        read(&json!({"objects": names, "relations": relations, "detections": self.detections}))
    }
}

#[test]
fn hrs_as_published() {
    let fixture: HrsCases = fixture("hrs");
    let cases: Vec<Case> = fixture.pictures.iter().map(HrsPicture::case).collect();
    for (i, (picture, case)) in fixture.pictures.iter().zip(&cases).enumerate() {
        let outcome = hrs::judge_as_published(case, case, &PLAIN).unwrap();
        match &picture.right {
            Value::Bool(right) => {
                assert_eq!(outcome.score, Some(f64::from(u8::from(*right))), "{i}")
            }
            // The original stops with a KeyError.
            _ => assert_eq!(outcome.score, None, "{i}"),
        }
    }
    let whole: Vec<Case> = fixture.whole.iter().map(|i| cases[*i].clone()).collect();
    let report = score("hrs", &whole, &PUBLISHED);
    for (name, theirs) in ["easy", "medium", "hard"].into_iter().zip(fixture.levels) {
        close(figure(&report, name).unwrap(), theirs, name);
    }
    // By default the pictures are their own.
    let report = score("hrs", &whole, &PLAIN);
    let right = |(case, outcome): (&Case, &Result<Outcome, _>)| {
        let own = hrs::judge(case, &PLAIN).unwrap();
        assert_eq!(outcome.as_ref().unwrap(), &own);
    };
    whole.iter().zip(&report.outcomes).for_each(right);
}

#[test]
fn hrs_by_default_is_the_original_where_that_makes_sense() {
    let fixture: HrsCases = fixture("hrs");
    let mut compared = 0;
    for (i, picture) in fixture.pictures.iter().enumerate() {
        let Value::Bool(right) = picture.right else {
            continue;
        };
        let labels: Vec<&str> = picture
            .detections
            .iter()
            .map(|d| d.label.as_str())
            .collect();
        let once = picture
            .objs
            .iter()
            .all(|name| labels.iter().filter(|l| *l == name).count() <= 1);
        let confused = picture.objs.len() == 4 && picture.relations.len() == 2;
        if once && !confused {
            let outcome = hrs::judge(&picture.case(), &PLAIN).unwrap();
            assert_eq!(outcome.score, Some(f64::from(u8::from(right))), "{i}");
            compared += 1;
        }
    }
    assert!(compared >= 30, "{compared}");
}
