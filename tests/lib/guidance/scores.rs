//! What a search rewards.

use burn::tensor::{Device, Tensor, TensorData};
use prepose::guidance::maps::MapGroup;
use prepose::guidance::score::{ScoreOptions, pos_scores};
use prepose::guidance::{Target, TargetObject};
use prepose::prompt::scene::StatedRelation;

#[test]
fn scores_follow_the_maps() {
    // Two maps of 4×6: the first object in the left half of the upper row, the second in the lower right corner.
    let mut maps = vec![1e-6f32; 24 * 3];
    for (cell, token) in [(0, 1), (1, 1), (22, 2), (23, 2)] {
        maps[cell * 3 + token] = 0.5;
    }
    let group = MapGroup {
        size: [4, 6],
        maps: Tensor::from_data(TensorData::new(maps, [1, 1, 24, 3]), &Device::flex()),
        selector: None,
        layers: vec![0],
        down: true,
        count: 1,
    };
    let score = |relation: &str| {
        let object = |position| TargetObject {
            positions: vec![position],
            bbox: None,
        };
        let target = Target {
            objects: vec![object(1), object(2)],
            relations: vec![StatedRelation {
                subject: 0,
                relation: relation.parse().unwrap(),
                objects: vec![1],
            }],
            text: vec![1, 2],
            ..Target::default()
        };
        let options = ScoreOptions {
            smoothing: false,
            ..ScoreOptions::default()
        };
        pos_scores(std::slice::from_ref(&group), &[target], options).unwrap()[0].unwrap()
    };
    for right in ["left of", "above", "above left of", "far from"] {
        assert!(score(right) > 0.99, "{right}: {}", score(right));
    }
    for wrong in ["right of", "below", "above right of", "near"] {
        assert!(score(wrong) < 0.01, "{wrong}: {}", score(wrong));
    }
}
