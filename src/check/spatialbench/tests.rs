//! Planted pictures: each abstention for its own reason, and each step of the confidence by hand.

use super::config::DetectorConfig;
use super::*;
use crate::detection::{BoundingBox, Detection};
use prepose_scene::Relation;

fn found(label: &str, score: f64, [x0, y0, x1, y1]: [f64; 4]) -> Detection {
    Detection {
        label: label.into(),
        score,
        bbox: BoundingBox::new(x0, y0, x1, y1),
        mask: None,
    }
}

fn cat(score: f64, x: f64) -> Detection {
    found("cat", score, [x - 50.0, 200.0, x + 50.0, 300.0])
}

fn dog(score: f64, x: f64) -> Detection {
    found("dog", score, [x - 50.0, 200.0, x + 50.0, 300.0])
}

const SIZE: Size = [512, 512];

fn ask(relation: Relation) -> Question {
    Question {
        relation,
        object_a: "cat".into(),
        object_b: "Dog".into(),
    }
}

fn look(detections: &[Detection]) -> Look {
    let question = ask(Relation::LeftOf);
    Rule::default().look(&question, SIZE, detections).unwrap()
}

fn reason(detections: &[Detection]) -> String {
    let look = look(detections);
    assert_eq!(look.verdict, Verdict::Undecidable);
    look.reason.unwrap().to_string()
}

#[test]
fn a_plain_picture_passes_or_fails() {
    let detections = [cat(0.9, 100.0), dog(0.8, 400.0)];
    for (relation, verdict) in [
        (Relation::LeftOf, Verdict::Pass),
        (Relation::RightOf, Verdict::Fail),
        (Relation::Above, Verdict::Undecidable),
    ] {
        let look = Rule::default()
            .look(&ask(relation), SIZE, &detections)
            .unwrap();
        assert_eq!(look.verdict, verdict, "{relation}");
    }
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(reason(&[]), "missing: cat, Dog");
    assert_eq!(reason(&[dog(0.9, 100.0)]), "missing: cat");
    // Too uncertain, too small, something else.
    assert_eq!(reason(&[cat(0.19, 100.0), dog(0.9, 400.0)]), "missing: cat");
    let speck = found("dog", 0.9, [0.0, 0.0, 36.0, 36.0]);
    assert_eq!(reason(&[cat(0.9, 100.0), speck]), "missing: Dog");
    let hotdog = found("hot dog", 0.9, [0.0, 0.0, 100.0, 100.0]);
    assert_eq!(reason(&[cat(0.9, 100.0), hotdog]), "missing: Dog");
}

#[test]
fn two_of_a_kind_are_ambiguous() {
    let second = cat(0.85, 300.0);
    let detections = [cat(0.9, 100.0), dog(0.8, 400.0), second];
    assert_eq!(reason(&detections), "ambiguous: multiple cat");
    // Of both kinds, the subject comes first.
    let detections = [
        cat(0.9, 100.0),
        cat(0.9, 200.0),
        dog(0.8, 400.0),
        dog(0.8, 300.0),
    ];
    assert_eq!(reason(&detections), "ambiguous: multiple cat");
    let detections = [cat(0.9, 100.0), dog(0.8, 400.0), dog(0.71, 300.0)];
    assert_eq!(reason(&detections), "ambiguous: multiple Dog");
    // Even if they are two boxes around the same thing.
    let detections = [cat(0.9, 100.0), dog(0.8, 400.0), dog(0.75, 401.0)];
    assert_eq!(reason(&detections), "ambiguous: multiple Dog");
    // A much worse one does not matter.
    let detections = [cat(0.9, 100.0), dog(0.8, 400.0), dog(0.5, 300.0)];
    assert_eq!(look(&detections).verdict, Verdict::Pass);
}

#[test]
fn one_box_is_not_two_things_of_one_label() {
    let look = |relation, detections: &[Detection]| {
        let question = Question {
            object_a: "DOG".into(),
            ..ask(relation)
        };
        Rule::default().look(&question, SIZE, detections).unwrap()
    };
    let nothing = look(Relation::LeftOf, &[cat(0.9, 100.0)]);
    assert_eq!(nothing.reason.unwrap().to_string(), "missing: DOG, Dog");
    let one = [dog(0.9, 100.0)];
    let two = [dog(0.9, 100.0), dog(0.5, 400.0)];
    for relation in [Relation::LeftOf, Relation::Above] {
        for detections in [&one[..], &two] {
            let look = look(relation, detections);
            assert_eq!(look.verdict, Verdict::Undecidable);
            assert!(look.is_final() && look.selected.is_none() && look.geometry.is_none());
            let reason = look.reason.unwrap().to_string();
            assert_eq!(reason, "ambiguous: both are DOG to the detector");
        }
    }
}

#[test]
fn a_speck_makes_nothing_ambiguous_but_as_published() {
    let speck = found("cat", 0.89, [0.0, 0.0, 10.0, 10.0]);
    let detections = [cat(0.9, 100.0), dog(0.8, 400.0), speck];
    assert_eq!(look(&detections).verdict, Verdict::Pass);
    let published = Rule {
        published: true,
        ..Rule::default()
    };
    let look = published
        .look(&ask(Relation::LeftOf), SIZE, &detections)
        .unwrap();
    assert_eq!(look.reason, Some(Reason::Ambiguous("cat".into())));
}

#[test]
fn overlapping_things_have_no_left_and_right() {
    let inner = found("dog", 0.9, [0.0, 0.0, 300.0, 200.0]);
    let outer = found("cat", 0.9, [0.0, 0.0, 300.0, 300.0]);
    let detections = [inner, outer];
    assert_eq!(reason(&detections), "high_overlap: IoU=0.67 > 0.5");
    // Above and below are still to be seen.
    let above = ask(Relation::Below);
    let look = Rule::default().look(&above, SIZE, &detections).unwrap();
    assert_eq!(
        look.reason.map(|reason| reason.name()),
        Some("near_boundary")
    );
}

#[test]
fn level_things_are_near_the_boundary() {
    let detections = [cat(0.9, 200.0), dog(0.8, 220.0)];
    assert_eq!(
        Rule::default()
            .look(&ask(Relation::Above), SIZE, &detections)
            .unwrap()
            .reason
            .unwrap()
            .to_string(),
        "near_boundary (|delta|=0.000 <= margin=0.1)"
    );
    // The margin itself is not beyond the margin.
    let mut rule = Rule::default();
    rule.config.geometry.margin = 0.25;
    let detections = [cat(0.9, 100.0), dog(0.8, 228.0)];
    let look = rule
        .look(&ask(Relation::LeftOf), SIZE, &detections)
        .unwrap();
    assert_eq!(look.geometry.unwrap().delta, -0.25);
    assert_eq!(look.verdict, Verdict::Undecidable);
}

#[test]
fn a_diagonal_is_as_good_as_its_worse_axis() {
    let thing = |label, x, y| found(label, 0.9, [x - 50.0, y - 50.0, x + 50.0, y + 50.0]);
    let rule = Rule::default();
    for (x, y, verdict) in [
        (300.0, 400.0, Verdict::Pass),
        (400.0, 120.0, Verdict::Undecidable),
        (300.0, 60.0, Verdict::Fail),
    ] {
        let detections = [thing("cat", 100.0, 150.0), thing("dog", x, y)];
        let look = rule
            .look(&ask(Relation::AboveLeft), SIZE, &detections)
            .unwrap();
        assert_eq!(look.verdict, verdict, "{x} {y}");
    }
}

#[test]
fn what_two_boxes_do_not_show_is_refused_by_name() {
    for relation in [
        Relation::Near,
        Relation::Far,
        Relation::Between,
        Relation::InFrontOf,
        Relation::Behind,
    ] {
        let error = Rule::default().look(&ask(relation), SIZE, &[]).unwrap_err();
        assert!(error.to_string().contains(relation.as_str()), "{error}");
    }
}

#[test]
fn the_highest_score_counts_and_the_first_of_equals() {
    let detections = [
        cat(0.5, 100.0),
        dog(0.9, 400.0),
        dog(0.9, 50.0),
        cat(0.8, 10.0),
    ];
    let rule = Rule::default();
    assert_eq!(rule.best(SIZE, &detections, "dog"), Some(&detections[1]));
    assert_eq!(rule.best(SIZE, &detections, "CAT"), Some(&detections[3]));
}

#[test]
fn stability_is_the_share_of_equal_verdicts() {
    let question = ask(Relation::LeftOf);
    let look = look(&[cat(0.9, 100.0), dog(0.8, 400.0)]);
    let same = Some(vec![cat(0.9, 100.0), dog(0.8, 400.0)]);
    let turned = Some(vec![cat(0.9, 400.0), dog(0.8, 100.0)]);
    // Ambiguity is not asked for.
    let twice = Some(vec![cat(0.9, 100.0), cat(0.9, 100.0), dog(0.8, 400.0)]);
    let missing = Some(vec![dog(0.8, 400.0)]);
    let perturbed = [same, turned, missing, twice, None];
    let mut rule = Rule::default();
    assert_eq!(
        rule.stability(&question, SIZE, &look, &perturbed).unwrap(),
        0.4
    );
    assert_eq!(rule.stability(&question, SIZE, &look, &[]).unwrap(), 1.0);
    assert_eq!(
        rule.stability(&question, SIZE, &look, &[None]).unwrap(),
        0.0
    );
    // Half of that and half the mean overlap over those in which both were found: 4 of 6.
    rule.published = true;
    let published = rule.stability(&question, SIZE, &look, &perturbed).unwrap();
    assert_eq!(published, 0.5 * 0.4 + 0.5 * (4.0 / 6.0));
    assert_eq!(
        rule.stability(&question, SIZE, &look, &[None]).unwrap(),
        0.0
    );
}

#[test]
fn an_unstable_verdict_is_none() {
    let question = ask(Relation::LeftOf);
    let detections = [cat(0.9, 100.0), dog(0.8, 400.0)];
    let conclude = |rule: &Rule, stability| {
        let look = look(&detections);
        let secondary = Secondary::Found(&detections);
        rule.conclude(&question, SIZE, look, Some(stability), secondary)
            .unwrap()
    };
    let mut rule = Rule::default();
    let decision = conclude(&rule, 0.25);
    assert_eq!(decision.verdict, Verdict::Undecidable);
    let text = decision.reason.unwrap().to_string();
    assert_eq!(text, "unstable: stability=0.25 < 0.5");
    assert_eq!(decision.components.agreement, 1.0);
    assert_eq!(conclude(&rule, 0.5).verdict, Verdict::Pass);
    // As published the second detector disagrees with UNDECIDABLE.
    rule.published = true;
    assert_eq!(conclude(&rule, 0.25).components.agreement, 0.75);
    rule.config.stability.enabled = false;
    let decision = conclude(&rule, 0.25);
    assert_eq!(decision.verdict, Verdict::Pass);
    assert_eq!(decision.components.stability, 1.0);
}

#[test]
fn the_second_detector_moves_only_the_confidence() {
    let question = ask(Relation::LeftOf);
    let rule = Rule::default();
    let agreement = |secondary| {
        let look = look(&[cat(0.9, 100.0), dog(0.8, 400.0)]);
        let decision = rule
            .conclude(&question, SIZE, look, None, secondary)
            .unwrap();
        assert_eq!(decision.verdict, Verdict::Pass);
        decision.components.agreement
    };
    assert_eq!(agreement(Secondary::None), 1.0);
    assert_eq!(agreement(Secondary::Failed), 0.5);
    assert_eq!(agreement(Secondary::Known(0.3)), 0.3);
    assert_eq!(agreement(Secondary::Found(&[])), 0.5);
    let same = [cat(0.4, 100.0), dog(0.4, 400.0)];
    assert_eq!(agreement(Secondary::Found(&same)), 1.0);
    // Elsewhere, but on the same side: same verdict, same sign, no overlap.
    let apart = [cat(0.4, 250.0), dog(0.4, 505.0)];
    assert_eq!(agreement(Secondary::Found(&apart)), 0.5);
    let turned = [cat(0.4, 505.0), dog(0.4, 250.0)];
    assert_eq!(agreement(Secondary::Found(&turned)), 0.0);
    // The right way, but too close to say.
    let close = [cat(0.4, 280.0), dog(0.4, 300.0)];
    assert_eq!(agreement(Secondary::Found(&close)), 0.25);
}

#[test]
fn the_confidence_is_a_weighted_geometric_mean() {
    let mut rule = Rule::default();
    rule.config.detector.secondary = Some(DetectorConfig::default());
    let question = ask(Relation::LeftOf);
    let look = look(&[cat(0.9, 100.0), dog(0.4, 189.6)]);
    let decision = rule
        .conclude(&question, SIZE, look, Some(0.75), Secondary::Failed)
        .unwrap();
    let parts = decision.components;
    assert!((parts.detection - 0.6).abs() < 1e-12);
    assert!((parts.geometry - 0.5).abs() < 1e-12);
    assert_eq!((parts.stability, parts.agreement), (0.75, 0.5));
    let expected = 0.6f64.powf(0.4) * 0.5f64.powf(0.3) * 0.75f64.powf(0.2) * 0.5f64.powf(0.1);
    assert!((decision.confidence - expected).abs() < 1e-9);
    // Near the boundary it is almost nothing, and nothing where nothing was compared.
    let near = super::tests::look(&[cat(0.9, 200.0), dog(0.9, 210.0)]);
    assert_eq!(near.reason.as_ref().map(Reason::name), Some("high_overlap"));
    let decision = rule
        .conclude(&question, SIZE, near, Some(0.0), Secondary::None)
        .unwrap();
    assert_eq!(decision.confidence, 0.0);
    assert_eq!(decision.components, Components::default());
    let above = ask(Relation::Above);
    let near = rule
        .look(&above, SIZE, &[cat(1.0, 100.0), dog(1.0, 400.0)])
        .unwrap();
    let decision = rule
        .conclude(&above, SIZE, near, None, Secondary::None)
        .unwrap();
    assert!((decision.confidence - 1e-3).abs() < 1e-6);
}

/// What is said of one relation of a picture.
fn record(id: &str, prompt: &str, [relation, a, b]: [&str; 3], verdict: &str) -> Record {
    serde_json::from_value(serde_json::json!({
        "sample_id": id, "prompt_id": prompt, "relation": relation, "object_a": a, "object_b": b,
        "verdict_raw": verdict, "verdict_reason": null, "conf": 0.5,
        "conf_components": { "detection": 1.0, "geometry": 1.0, "stability": 1.0, "agreement": 1.0 },
        "detectors": { "primary": { "type": "toybox", "detections": [] } },
        "selected": {}, "geometry": { "delta": null, "margin": 0.1, "iou_ab": null }, "overlay_path": null,
    }))
    .unwrap()
}

#[test]
fn a_picture_of_several_relations_counts_once() {
    // In each of four pictures the dog is to the left of the cat, and not above the car.
    let of_picture = |seed: usize| {
        let id = move |number: usize| format!("m_p0_seed{seed:04}_relation{number}");
        [
            record(&id(1), "p0", ["left_of", "dog", "cat"], "PASS"),
            record(&id(2), "p0", ["above", "dog", "car"], "FAIL"),
        ]
    };
    let mut records: Vec<Record> = (0..4).flat_map(of_picture).collect();
    assert_eq!(prompts::pictures_per_prompt(&records), Some(4));
    let verdicts = prompts::PromptVerdicts::of(&records, 4);
    let expected = (Verdict::Fail, Verdict::Fail);
    assert_eq!((verdicts.best["p0"], verdicts.all["p0"]), expected);
    // Another prompt states the first of its relations the other way round, but does not say the same.
    let other = |seed: usize| {
        let id = format!("m_p1_seed{seed:04}");
        record(&id, "p1", ["right_of", "cat", "dog"], "PASS")
    };
    records.extend((0..4).map(other));
    let csv = tables::prompt_metrics(&[tables::Run::of(&records)]).to_csv();
    assert_eq!(csv.lines().nth(1), Some("\"m\",2,0.5000,0.5000"));
    assert_eq!(prompts::Counterfactual::of(&records).total(), 0);
    assert_eq!(prompts::Counterfactual::by_picture(&records).total(), 0);
}
