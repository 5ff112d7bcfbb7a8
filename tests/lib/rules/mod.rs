//! The scoring rules against what their authors' own code says (`fixtures/rules`, `scripts/reference/cases/rules.py`).

mod geneval;
mod hrs;
mod pse;
mod t2i;
mod visor;

use std::path::Path;

use prepose::check::rules::opse::{Clock, Opse, OpseError};
use prepose::check::rules::read::{Reader, RunLengths};
use prepose::check::rules::{Case, Options, RULES, Report, Wanted, by_name};
use prepose::check::{Detection, Mask};
use prepose::prompt::scene::{Relation, StatedRelation};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const PLAIN: Options = Options {
    published: false,
    min_score: None,
};
const PUBLISHED: Options = Options {
    published: true,
    min_score: None,
};

fn fixture<T: DeserializeOwned>(name: &str) -> T {
    let path = Path::new("fixtures/rules")
        .join(name)
        .with_extension("json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[track_caller]
fn close(ours: f64, theirs: f64, what: &str) {
    assert!((ours - theirs).abs() <= 1e-12, "{what}: {ours} {theirs}");
}

/// A mask of rectangles [x0, y0, x1, y1], ends excluded.
fn mask_of(parts: &[[usize; 4]], width: usize, height: usize) -> Mask {
    let inside = |x, y| {
        let covers =
            |[x0, y0, x1, y1]: &[usize; 4]| (*x0..*x1).contains(&x) && (*y0..*y1).contains(&y);
        parts.iter().any(covers)
    };
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    Mask::new(width, height, pixels.map(|(x, y)| inside(x, y)).collect()).unwrap()
}

fn detection(label: &str, score: f64, bbox: [f64; 4]) -> Detection {
    Detection {
        label: label.to_owned(),
        score,
        bbox: bbox.into(),
        mask: None,
    }
}

/// Two objects and a relation between them.
fn case_of(first: &str, relation: Relation, second: &str, detections: Vec<Detection>) -> Case {
    Case {
        objects: vec![Wanted::one(first), Wanted::one(second)],
        relations: vec![StatedRelation {
            subject: 0,
            relation,
            objects: vec![1],
        }],
        detections,
        ..Case::default()
    }
}

fn score(rule: &str, cases: &[Case], options: &Options) -> Report {
    let mut cases = cases.iter().cloned();
    by_name(rule).unwrap().score(&mut cases, options)
}

fn figure(report: &Report, name: &str) -> Option<f64> {
    let figure = report.figures.iter().find(|figure| figure.name == name);
    figure.unwrap_or_else(|| panic!("no {name}")).value.number()
}

fn read(value: &Value) -> Case {
    let (reader, text) = (Reader::default(), value.to_string());
    let (_, case) = reader.read(Path::new("test.jsonl"), &text).next().unwrap();
    case.unwrap()
}

/// Instead of what the prompt states, which need not state any.
#[test]
fn a_given_relation_counts() {
    let stated = |line: Value| {
        let case = read(&line);
        let names: Vec<String> = case.objects.into_iter().map(|one| one.name).collect();
        (names.join(", "), case.relations)
    };
    let left = vec![StatedRelation::of_two(0, Relation::LeftOf, 1)];
    for prompt in ["a dog to the right of a cat", "a dog and a cat"] {
        let line = json!({"prompt": prompt, "relation": "left_of", "detections": []});
        assert_eq!(stated(line), ("dog, cat".to_owned(), left.clone()));
    }
    let file = json!({"file": "a dog on the right of a cat_000012.png", "relation": "left of", "detections": []});
    assert_eq!(stated(file), ("dog, cat".to_owned(), left));
    let neutral = json!({"prompt": "a dog left of a cat", "relation": "and", "detections": []});
    assert_eq!(stated(neutral), ("dog, cat".to_owned(), vec![]));

    let refused = |line: Value| {
        let (reader, text) = (Reader::default(), line.to_string());
        let (_, case) = reader.read(Path::new("d.jsonl"), &text).next().unwrap();
        case.unwrap_err().to_string()
    };
    let three =
        json!({"prompt": "a dog, a cat and a bird", "relation": "left of", "detections": []});
    assert!(refused(three).contains("two objects, not 3"));
    let both =
        json!({"relation": "left of", "relations": ["dog | left of | cat"], "detections": []});
    assert!(refused(both).contains("both \"relation\" and \"relations\""));
}

/// VISOR's files and those of GenEval's evaluation say no size.
#[test]
fn files_without_a_size_have_the_given_one() {
    let visor = json!({"1_0": {"classes": ["dog"], "centroid": [[4.0, 4.0]], "recall": 1, "sra": 0, "text": "a dog above a cat"}});
    let metadata = json!({"tag": "single_object", "include": [{"class": "dog", "count": 1}], "prompt": "a dog"});
    let geneval = json!({"filename": "x.png", "metadata": metadata.to_string(), "details": "{}"});
    let own = json!({"prompt": "a dog", "detections": []});
    for file in [&visor, &geneval, &own] {
        let size = |given: Option<(usize, usize)>| {
            let mut reader = Reader::default();
            reader.size = given;
            let text = file.to_string();
            let (_, case) = reader.read(Path::new("d.jsonl"), &text).next().unwrap();
            case.map(|case| case.size)
        };
        assert_eq!(size(None).unwrap(), None, "{file}");
        assert_eq!(size(Some((640, 480))).unwrap(), Some((640, 480)), "{file}");
        assert!(size(Some((0, 480))).is_err(), "{file}");
    }
    let sized = json!({"prompt": "a dog", "width": 64, "height": 32, "detections": []});
    assert_eq!(read(&sized).size, Some((64, 32)));
}

#[derive(Deserialize)]
struct OpseRun {
    scores: Vec<Vec<f64>>,
    chosen: Vec<usize>,
    means: Vec<f64>,
}

#[test]
fn opse_as_published() {
    for run in fixture::<Vec<OpseRun>>("opse") {
        let mut drawn = vec![0; run.scores.len()];
        let opse = Opse {
            clock: Clock::Published,
            ..Opse::default()
        };
        let next = |model: usize| {
            drawn[model] += 1;
            let scores = &run.scores[model];
            Ok::<f64, OpseError>(scores[(drawn[model] - 1) % scores.len()])
        };
        let comparison = opse.compare(run.scores.len(), next).unwrap();
        assert_eq!(comparison.chosen, run.chosen);
        for (ours, theirs) in comparison.standings.iter().zip(run.means) {
            close(ours.mean, theirs, "mean");
        }
    }
}

#[test]
fn cocos_masks() {
    #[derive(Deserialize)]
    struct Encoded {
        parts: Vec<[usize; 4]>,
        mask: RunLengths,
    }
    for encoded in fixture::<Vec<Encoded>>("masks") {
        let [height, width] = encoded.mask.size;
        assert_eq!(
            encoded.mask.unpack(),
            Ok(mask_of(&encoded.parts, width, height))
        );
    }
}

#[test]
fn every_rule_has_a_name_of_its_own_and_survives_nothing() {
    for rule in RULES {
        let same = RULES.iter().filter(|other| other.name() == rule.name());
        assert_eq!(same.count(), 1);
        for options in [PLAIN, PUBLISHED] {
            let report = score(rule.name(), &[], &options);
            assert!(report.outcomes.is_empty());
            let zero_or_none = |figure: &prepose::check::rules::Figure| {
                figure.value.number().is_none_or(|number| number == 0.0)
            };
            assert!(report.figures.iter().all(zero_or_none), "{report:?}");
            // A picture of which nothing is known is no reason to stop either.
            let report = score(rule.name(), &[Case::default()], &options);
            assert_eq!(report.outcomes.len(), 1);
        }
    }
}
