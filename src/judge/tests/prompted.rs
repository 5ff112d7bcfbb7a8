use std::collections::HashSet;

use prepose_check::prompt::SuitePrompt;
use prepose_check::rules::{Case as Boxes, Options};
use prepose_check::spatialbench::Record;
use prepose_check::{BoundingBox, Detection};
use prepose_draw::table::Table;
use prepose_scene::{Relation, Scene, StatedRelation};
use prepose_statistics::bootstrap::Bootstrap;
use serde_json::json;

use super::{manner, number, pictures};
use crate::ask::{Outcome, Questions, ask};
use crate::book::Book;
use crate::oracle::Oracle;
use crate::prompted::{Asking, Checked, OfPicture, Shown, Which, graph, of_scene, reward, told};
use crate::question::Answer;
use crate::scene::questions::Rules;
use crate::scene::score::Found;

fn shown(id: usize, relations: Vec<StatedRelation>) -> Shown {
    Shown {
        id: id.to_string(),
        method: "m".into(),
        prompt: SuitePrompt {
            prompt_id: format!("p{}", id / 2),
            prompt: "a dog and a cat".into(),
            objects: ["dog", "cat"].map(String::from).to_vec(),
            relations,
            ..SuitePrompt::default()
        },
    }
}

fn found(labels: &[(&str, f64)]) -> Vec<Detection> {
    let one = |&(label, x): &(&str, f64)| Detection {
        label: label.into(),
        score: 0.9,
        bbox: BoundingBox::new(x, 10.0, x + 10.0, 20.0),
        mask: None,
    };
    labels.iter().map(one).collect()
}

/// Four pictures of "a dog to the left of a cat", and two of "a dog and a cat": as stated, the other way round, without a
/// cat, and empty.
#[test]
fn the_oracle_gives_what_can_be_counted_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let named = pictures(folder.path(), 6);
    let left = || vec![StatedRelation::of_two(0, Relation::LeftOf, 1)];
    let mut all: Vec<Shown> = (0..4).map(|id| shown(id, left())).collect();
    all.extend([4, 5].map(|id| shown(id, Vec::new())));
    let right = [("dog", 0.0), ("cat", 50.0)];
    let wrong = [("dog", 50.0), ("cat", 0.0)];
    let boxes = [&right[..], &wrong, &right[..1], &[], &right, &wrong];
    let cases = boxes.iter().enumerate().map(|(id, labels)| Boxes {
        id: id.to_string(),
        size: Some((100, 100)),
        detections: found(labels),
        ..Boxes::default()
    });
    let oracle = Oracle::new(cases, Options::default());
    let asking = Asking::new(all, Which::All, Rules::default());
    let questions = asking.questions();
    // Two of OTS-Bench, two about objects, and one about a relation.
    assert_eq!(questions.count(), 4 * 5 + 2 * 4);
    let asked = ask(&oracle, &named, &questions, &mut Book::unkept(), &manner(1)).unwrap();
    let results = asking.results(&asked.outcomes);
    let rewards: Vec<Option<f64>> = results.iter().map(reward).collect();
    let [good, half, one, none] = [1.0, 0.5, 0.25, 0.0].map(Some);
    assert_eq!(rewards, [good, half, one, none, good, good]);

    let says = |code, relation| Checked {
        code: Some(code),
        relations: vec![relation],
        objects: Vec::new(),
    };
    let mut checked = vec![
        says(1, Some(true)),
        says(2, Some(false)),
        says(3, None),
        says(3, None),
    ];
    checked.extend([1, 2].map(|code| Checked {
        code: Some(code),
        ..Checked::default()
    }));
    let told = told(
        &asking,
        &[asked.outcomes],
        Some(&checked),
        true,
        &Bootstrap::default(),
    );
    let table = |name: &str| -> &Table { told.tables.iter().find(|one| one.name == name).unwrap() };
    let scenes = table("scenes");
    assert_eq!(number(scenes, 0, "pictures"), 6.0);
    assert_eq!(number(scenes, 0, "object_recall"), 100.0 * 9.0 / 12.0);
    assert_eq!(number(scenes, 0, "relation_recall"), 25.0);
    // The box rule's own table, and no contradiction.
    let (figures, by_boxes) = (table("figures"), table("figures_by_boxes"));
    for (row, box_row) in [(0, 0), (3, 1)] {
        for column in ["first", "second", "invalid"] {
            assert_eq!(
                number(figures, row, column),
                number(by_boxes, box_row, column),
                "{column}"
            );
        }
    }
    assert_eq!(number(table("agreement"), 0, "kappa"), 1.0);
    let beside = table("agreement_relations");
    assert_eq!(
        (number(beside, 0, "both_yes"), number(beside, 0, "both_no")),
        (1.0, 1.0)
    );
    // What the checker does not decide, the oracle calls no visible relationship.
    assert_eq!(number(beside, 0, "undecidable"), 2.0);
    assert_eq!(told.lines.len(), 6);
    assert_eq!(told.lines[1]["code"], 2);
    assert_eq!(told.lines[4]["figure"], "t2i_homogenization");
    assert_eq!(asking.kinds().len(), questions.count());
}

/// Two objects and a relation, α = 0.5: tables leave invalid answers out, searches take them for nothing seen.
#[test]
fn no_picture_gains_by_an_invalid_answer() {
    let scores = |objects: [Option<bool>; 2], relation| {
        let found = Found {
            objects: objects.to_vec(),
            relationships: vec![relation],
        };
        let result = OfPicture {
            found: Some(found.clone()),
            ..OfPicture::default()
        };
        (found.sgscore(0.5), reward(&result))
    };
    let [yes, no] = [true, false].map(Some);
    let by_hand = |objects: f64, relation: f64| Some(0.5 * objects / 2.0 + 0.5 * relation);
    assert_eq!(scores([yes, None], yes), (Some(1.0), by_hand(1.0, 1.0)));
    assert_eq!(scores([yes, yes], yes), (Some(1.0), by_hand(2.0, 1.0)));
    assert_eq!(scores([yes, yes], None), (None, by_hand(2.0, 0.0)));
    assert_eq!(scores([yes, no], no), (Some(0.25), by_hand(1.0, 0.0)));
    assert_eq!(scores([None; 2], None), (None, Some(0.0)));
    assert_eq!(reward(&OfPicture::default()), None);
}

#[test]
fn wrong_options_cannot_hold_beside_the_right_one() {
    let asking = |relation| {
        let one = shown(0, vec![StatedRelation::of_two(0, relation, 1)]);
        let asking = Asking::new(vec![one], Which::Scene, Rules::default());
        let questions = asking.questions();
        questions.question(2).unwrap().text.clone()
    };
    let near = asking(Relation::Near);
    assert!(
        near.contains("far from") && !near.contains("left"),
        "{near}"
    );
    let left = asking(Relation::LeftOf);
    assert!(
        !left.contains("near") && left.matches(") ").count() >= 3,
        "{left}"
    );
    // All pictures of a prompt are asked the same.
    let stated = || vec![StatedRelation::of_two(0, Relation::Above, 1)];
    let both = Asking::new(
        vec![shown(0, stated()), shown(1, stated())],
        Which::Scene,
        Rules::default(),
    );
    let questions = both.questions();
    let text = |at| questions.question(at).unwrap().text.clone();
    assert_eq!(text(2), text(5));
}

#[test]
fn prompts_become_graphs() {
    let objects = ["dog", "dog", "cat"].map(String::from);
    let stated = [
        StatedRelation::of_two(0, Relation::LeftOf, 2),
        StatedRelation::of_two(0, Relation::LeftOf, 2),
        StatedRelation {
            subject: 0,
            relation: Relation::Between,
            objects: vec![1, 2],
        },
    ];
    let graph = graph("x", &objects, &stated).unwrap();
    assert_eq!(graph.objects, ["dog.1", "dog.2", "cat.1"]);
    assert_eq!(
        graph.relationships.len(),
        1,
        "twice is once, and three are left out"
    );
    assert!(super::super::prompted::graph("x", &[], &[]).is_none());
    let scene = Scene::parse("a dog to the left of a cat").unwrap();
    let shown = of_scene("0", "a dog to the left of a cat", &scene);
    assert_eq!(shown.prompt.objects, ["dog", "cat"]);
}

/// The checker's record of a picture: only what was found in it matters here.
fn record(id: usize, found: &[Detection]) -> Record {
    let detections: Vec<_> = (found.iter())
        .map(|one| {
            let BoundingBox { x0, y0, x1, y1 } = one.bbox;
            json!({"label": one.label, "score": one.score, "box_xyxy": [x0, y0, x1, y1]})
        })
        .collect();
    serde_json::from_value(json!({
        "sample_id": id.to_string(), "prompt_id": "p", "relation": "left_of", "object_a": "dog", "object_b": "cat",
        "verdict_raw": "PASS", "verdict_reason": null, "conf": 0.5,
        "conf_components": {"detection": 1.0, "geometry": 1.0, "stability": 1.0, "agreement": 1.0},
        "detectors": {"primary": {"type": "toybox", "detections": detections}},
        "selected": {}, "geometry": {"delta": null, "margin": 0.1, "iou_ab": null}, "overlay_path": null,
        "image_size": [100, 100],
    }))
    .unwrap()
}

/// Things anywhere, some above each other, some on each other, some twice: what the gate calls invalid is so for both.
#[test]
fn the_oracle_equals_the_boxes_of_a_run_gate_included() {
    let folder = tempfile::tempdir().unwrap();
    let count = 200;
    let named = pictures(folder.path(), count);
    let left = || vec![StatedRelation::of_two(0, Relation::LeftOf, 1)];
    let all: Vec<Shown> = (0..count).map(|id| shown(id, left())).collect();
    let mut noise = 1u64;
    let mut random = |below: u64| {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (noise >> 33) % below
    };
    let boxes: Vec<Vec<Detection>> = (0..count)
        .map(|_| {
            let mut found = Vec::new();
            for label in ["dog", "cat", "dog"]
                .iter()
                .take(1 + random(12).min(1) as usize + random(6) as usize / 5)
            {
                let (x, y) = (random(60) as f64, random(60) as f64);
                found.push(Detection {
                    label: (*label).into(),
                    score: 0.4 + random(6) as f64 / 10.0,
                    bbox: BoundingBox::new(x, y, x + 30.0, y + 30.0),
                    mask: None,
                });
            }
            found
        })
        .collect();
    let cases = boxes.iter().enumerate().map(|(id, found)| Boxes {
        id: id.to_string(),
        size: Some((100, 100)),
        detections: found.clone(),
        ..Boxes::default()
    });
    let oracle = Oracle::new(cases, Options::default());
    let checked: Vec<Checked> = (boxes.iter().enumerate())
        .map(|(id, found)| Checked::of_records(&all[id].prompt, [&record(id, found)]))
        .collect();
    let codes: HashSet<_> = checked.iter().map(|one| one.code).collect();
    assert_eq!(codes, [1, 2, 3].map(Some).into(), "each is there");
    let asking = Asking::new(all, Which::Ots, Rules::default());
    let questions = asking.questions();
    let asked = ask(&oracle, &named, &questions, &mut Book::unkept(), &manner(1)).unwrap();
    let answers: Vec<_> = asked.outcomes.iter().map(Outcome::answer).collect();
    assert_eq!(asking.answers_of(&checked), answers);
    let told = told(
        &asking,
        &[asked.outcomes],
        Some(&checked),
        true,
        &Bootstrap::default(),
    );
    let table = |name: &str| -> &Table { told.tables.iter().find(|one| one.name == name).unwrap() };
    let (figures, by_boxes) = (table("figures"), table("figures_by_boxes"));
    // As published, exchanged, and where both agree: all the same.
    for row in 0..3 {
        for column in [
            "pictures",
            "first",
            "second",
            "invalid",
            "unanswered",
            "percent",
            "percent_low",
            "percent_high",
        ] {
            assert_eq!(
                number(figures, row, column),
                number(by_boxes, 0, column),
                "{row} {column}"
            );
        }
    }
    assert_eq!(number(table("agreement"), 0, "kappa"), 1.0);
    assert!(told.notes.is_empty(), "{:?}", told.notes);
}

#[test]
fn what_was_found_is_what_there_is_to_say() {
    let all: Vec<Shown> = (0..30).map(|id| shown(id, Vec::new())).collect();
    let asking = Asking::new(all, Which::Scene, Rules::default());
    let yes = vec![Outcome::Answered(Answer::Yes(true)); asking.questions().count()];
    let note = |found: &dyn Fn(usize) -> [bool; 2]| {
        let checked: Vec<Checked> = (asking.shown().iter().enumerate())
            .map(|(at, shown)| Checked::default().with_objects(&shown.prompt, &found(at)))
            .collect();
        let told = told(
            &asking,
            std::slice::from_ref(&yes),
            Some(&checked),
            false,
            &Bootstrap::default(),
        );
        told.notes.join("\n")
    };
    assert_eq!(note(&|_| [true, true]), "");
    let told = note(&|at| [true, at % 2 == 0]);
    assert!(
        told.contains("says \"yes\" in 60 of 60 answers (object): also in 15 of 15 where boxes say something else"),
        "{told}"
    );
    // A second one of the same name may be there or not.
    let mut twice = shown(0, Vec::new()).prompt;
    twice.objects = ["dog", "cat", "dog"].map(String::from).to_vec();
    let checked = Checked::default().with_objects(&twice, &[true, false, true]);
    assert_eq!(checked.objects, [Some(true), Some(false), None]);
}
