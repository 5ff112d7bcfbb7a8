//! PSE of masks, boxes and depths.

use std::sync::Arc;

use prepose::check::Mask;
use prepose::check::rules::depth::DepthMap;
use prepose::check::rules::{Case, pse, pse_depth};
use prepose::prompt::scene::Relation;
use serde::Deserialize;

use super::{PLAIN, PUBLISHED, case_of, close, detection, fixture, mask_of};
use prepose::check::Detection;

#[derive(Deserialize)]
struct PseCase {
    size: [usize; 2],
    a: Vec<[usize; 4]>,
    b: Vec<[usize; 4]>,
    relation: Option<String>,
    score: Option<f64>,
    right: Option<f64>,
    missing: Option<String>,
    score_f32: Option<f64>,
    depth: Option<Vec<f64>>,
    front: Option<f64>,
    behind: Option<f64>,
    histograms: Option<[std::collections::BTreeMap<usize, usize>; 2]>,
    #[serde(default)]
    skipped: bool,
}

impl PseCase {
    fn masks(&self) -> [Mask; 2] {
        let [width, height] = self.size;
        [&self.a, &self.b].map(|parts| mask_of(parts, width, height))
    }

    /// The masks as detections of a and b.
    fn case(&self, relation: Relation) -> Case {
        let masked = |(label, mask): (&str, Mask)| Detection {
            mask: Some(Arc::new(mask)),
            ..detection(label, 0.9, [0.0; 4])
        };
        let masks = ["a", "b"].into_iter().zip(self.masks());
        case_of("a", relation, "b", masks.map(masked).collect())
    }
}

#[test]
fn pse_of_masks() {
    for (i, fixture) in fixture::<Vec<PseCase>>("pse").iter().enumerate() {
        let relation = fixture.relation.as_ref().unwrap().parse().unwrap();
        let case = fixture.case(relation);
        let outcome = pse::of_case(&case, &PLAIN).unwrap();
        let score = outcome.score.unwrap();
        close(score, fixture.score.unwrap(), &format!("{i}"));
        let missing = match fixture.missing.as_deref() {
            Some("no-obj1") => Some("a"),
            Some(_) => Some("b"),
            None => None,
        };
        assert_eq!(outcome.missing.first().map(String::as_str), missing);
        // Of boolean masks the published metric forms sums of 32 bits.
        if let Some(theirs) = fixture.score_f32 {
            assert!((score - theirs).abs() < 1e-6, "{i}");
        }
        if let Some(right) = fixture.right {
            assert!(
                outcome.note.starts_with(&format!("right {right:.4}")),
                "{i}: {}",
                outcome.note
            );
        }
    }
}

#[test]
fn pse_of_boxes_is_that_of_their_pixels() {
    for fixture in fixture::<Vec<PseCase>>("pse") {
        let relation = fixture.relation.as_ref().unwrap().parse().unwrap();
        let boxed = |(label, parts): (&str, &Vec<[usize; 4]>)| {
            let detection = |part: &[usize; 4]| detection(label, 0.9, part.map(|edge| edge as f64));
            parts.iter().map(detection).collect::<Vec<_>>()
        };
        let detections = [("a", &fixture.a), ("b", &fixture.b)]
            .into_iter()
            .flat_map(boxed);
        let mut case = case_of("a", relation, "b", detections.collect());
        let score = |case: &Case| pse::of_case(case, &PLAIN).unwrap().score.unwrap();
        // Whether or not the size of the picture is known.
        close(score(&case), fixture.score.unwrap(), "boxes");
        case.size = Some((fixture.size[0], fixture.size[1]));
        close(
            score(&case),
            fixture.score.unwrap(),
            "boxes of a known size",
        );
    }
}

#[test]
fn pse_of_a_diagonal_and_of_several_relations_is_the_worst() {
    let boxes = vec![
        detection("dog", 0.9, [0.0, 0.0, 10.0, 10.0]),
        detection("cat", 0.9, [20.0, 5.0, 30.0, 15.0]),
    ];
    let score = |relation| {
        let case = case_of("dog", relation, "cat", boxes.clone());
        pse::of_case(&case, &PLAIN).unwrap().score.unwrap()
    };
    assert_eq!(score(Relation::LeftOf), 1.0);
    let above = score(Relation::Above);
    assert!(0.5 < above && above < 1.0);
    assert_eq!(score(Relation::AboveLeft), above);
    assert_eq!(score(Relation::BelowRight), 0.0);
    let mut both = case_of("dog", Relation::LeftOf, "cat", boxes.clone());
    let mut second = both.relations[0].clone();
    second.relation = Relation::Above;
    both.relations.push(second);
    assert_eq!(pse::of_case(&both, &PLAIN).unwrap().score, Some(above));
}

#[test]
fn pse_of_depth() {
    for (i, fixture) in fixture::<Vec<PseCase>>("pse_depth").iter().enumerate() {
        let [width, height] = fixture.size;
        let depth = DepthMap::new(width, height, fixture.depth.clone().unwrap()).unwrap();
        let [a, b] = fixture.masks();
        if let Some(theirs) = &fixture.histograms {
            let ours = pse_depth::quantized(&depth, [&a, &b], true).unwrap();
            let plain = pse_depth::quantized(&depth, [&a, &b], false).unwrap();
            let mut dropped = 0;
            for ((ours, theirs), plain) in ours.iter().zip(theirs).zip(plain) {
                let full = ours.iter().enumerate().filter(|(_, count)| **count > 0.0);
                let full = full.map(|(bin, count)| (bin, *count as usize)).collect();
                assert_eq!(*theirs, full, "{i}");
                dropped += (plain[0] - ours[0]) as usize;
                assert_eq!(plain[1..], ours[1..]);
            }
            // Somebody has the least depth.
            assert!(dropped > 0, "{i}");
        }
        let found = pse_depth::nearer(&depth, [&a, &b], true);
        match (fixture.front, fixture.behind) {
            (Some(front), Some(behind)) => {
                let found = found.unwrap();
                close(found.right, front, "front");
                close(found.wrong, behind, "behind");
                let mut case = fixture.case(Relation::InFrontOf);
                case.depth = Some(Arc::new(depth));
                let score =
                    |case: &Case| pse_depth::of_case(case, &PUBLISHED).unwrap().score.unwrap();
                close(score(&case), (front - behind).max(0.0), "in front");
                case.relations[0].relation = Relation::Behind;
                close(score(&case), (behind - front).max(0.0), "behind");
            }
            _ => assert_eq!(found, None, "{i}"),
        }
        assert!(!fixture.skipped || fixture.front.is_none());
    }
}

#[test]
fn objects_at_one_depth_are_neither_nearer() {
    let flat = DepthMap::new(2, 1, vec![3.0, 3.0]).unwrap();
    let (a, b) = (
        mask_of(&[[0, 0, 1, 1]], 2, 1),
        mask_of(&[[1, 0, 2, 1]], 2, 1),
    );
    assert_eq!(pse_depth::nearer(&flat, [&a, &b], true), None);
    let nearer = pse_depth::nearer(&flat, [&a, &b], false).unwrap();
    assert_eq!((nearer.right, nearer.wrong, nearer.pse()), (1.0, 1.0, 0.0));
}
