use super::*;
use crate::experiments::Compared;
use crate::testing::related;
use prepose_scene::StatedRelation;

/// A method by what a scaling curve goes by.
fn compared(guided: bool, best_of: usize) -> Compared {
    Compared {
        name: format!("{}{best_of}", if guided { "guided " } else { "" }),
        guided,
        searched: best_of > 1,
        opening: None,
    }
}

fn scores(each: &[bool], right: bool, pse: f64, candidates: usize) -> Scores {
    Scores {
        found: Some(each.iter().filter(|here| **here).count()),
        objects: each.len(),
        each_found: Some(each.to_vec()),
        centre: each.iter().all(|here| *here).then_some(right),
        pse: Some(pse),
        unet_calls: 20 * candidates,
        guided_calls: 5 * candidates,
        candidates,
        seconds: candidates as f64,
        ..Scores::default()
    }
}

fn value(table: &Table, row: usize, column: &str) -> String {
    let place = table
        .columns
        .iter()
        .position(|name| name == column)
        .expect("a column");
    table.rows[row][place].text()
}

#[test]
fn visor_by_method_relation_and_object() {
    let prompts = vec![
        related("p0", Relation::LeftOf, &["dog", "cat"]),
        related("p1", Relation::Above, &["dog", "cat"]),
        // Without a relation there is nothing to score.
        SuitePrompt {
            relations: Vec::new(),
            ..related("p2", Relation::Above, &["dog", "cat"])
        },
    ];
    let seen = vec![
        (0, scores(&[true, true], true, 1.0, 1)),
        (0, scores(&[true, true], false, 0.0, 1)),
        (1, scores(&[true, false], false, 0.0, 1)),
        (1, scores(&[true, true], true, 0.6, 1)),
        (2, scores(&[true, true], true, 0.6, 1)),
    ];
    let pictures = Pictures {
        steps: 20,
        prompts,
        methods: vec![(compared(false, 1), seen)],
    };
    let results = table(&pictures);
    let [all, split] = &results.tables[..] else {
        panic!("two tables");
    };
    for (column, expected) in [
        ("prompts", "2"),
        ("relations", "4"),
        ("OA", "75.00"),
        ("OA_first", "100.00"),
        ("OA_second", "75.00"),
        ("VISOR_uncond", "50.00"),
        ("VISOR_cond", "66.67"),
        ("VISOR_1", "100.00"),
        ("VISOR_2", "0.00"),
        ("PSE", "40.00"),
    ] {
        assert_eq!(value(all, 0, column), expected, "{column}");
    }
    let last = all.rows.len() - 1;
    assert_eq!(value(all, last, "run"), "published: SDXL + PSG (2)");
    assert_eq!(value(all, last, "VISOR_cond"), "96.60");
    assert_eq!(split.rows.len(), 2);
    assert_eq!(value(split, 1, "relation"), "above");
    assert_eq!(value(split, 1, "OA_second"), "50.00");
    for table in &results.tables {
        assert!(
            table
                .rows
                .iter()
                .all(|row| row.len() == table.columns.len())
        );
    }
}

#[test]
fn relations_of_a_prompt_count_one_by_one() {
    let stated = |relation, b| StatedRelation::of_two(0, relation, b);
    let three = SuitePrompt {
        relations: vec![stated(Relation::LeftOf, 1), stated(Relation::Above, 2)],
        ..related("p0", Relation::LeftOf, &["dog", "cat", "car"])
    };
    let seen = |seed, each: [bool; 3], centres: [Option<bool>; 2], pse: [f64; 2]| Scores {
        seed,
        each_centre: Some(centres.to_vec()),
        each_pse: Some(pse.map(Some).to_vec()),
        ..scores(&each, false, 0.0, 1)
    };
    let pictures = Pictures {
        steps: 20,
        prompts: vec![three],
        methods: vec![(
            compared(false, 1),
            vec![
                (
                    0,
                    seen(0, [true, true, false], [Some(true), None], [0.9, 0.0]),
                ),
                (0, seen(1, [true; 3], [Some(true), Some(false)], [0.5, 0.2])),
            ],
        )],
    };
    let results = table(&pictures);
    let [all, split] = &results.tables[..] else {
        panic!("two tables");
    };
    for (column, expected) in [
        ("prompts", "1"),
        ("pictures", "2"),
        ("relations", "4"),
        ("OA", "75.00"),
        ("OA_second", "75.00"),
        ("VISOR_uncond", "50.00"),
        ("VISOR_cond", "66.67"),
        ("VISOR_2", "50.00"),
        ("PSE", "40.00"),
    ] {
        assert_eq!(value(all, 0, column), expected, "{column}");
    }
    assert_eq!(all.rows.len(), 3);
    assert_eq!(value(all, 2, "VISOR_uncond"), "72.50");
    assert_eq!(value(all, 2, "PSE"), "63.80");
    assert_eq!(value(split, 1, "relation"), "above");
    assert_eq!(value(split, 1, "VISOR_uncond"), "0.00");
    assert!(
        results
            .tables
            .iter()
            .all(|t| t.rows.iter().all(|row| row.len() == t.columns.len()))
    );
}

/// Pictures of relations that VISOR scores, that PSE alone scores, and that neither does.
fn partly_scored() -> Pictures {
    let unscored = |each: &[bool]| Scores {
        centre: None,
        pse: None,
        ..scores(each, false, 0.0, 1)
    };
    Pictures {
        steps: 20,
        prompts: vec![
            related("p0", Relation::LeftOf, &["dog", "cat"]),
            related("p1", Relation::Near, &["dog", "cat"]),
            // The detector calls both a car: neither rule scores it, whether there is a car or not.
            related("p2", Relation::LeftOf, &["red car", "blue car"]),
            related("p3", Relation::AboveLeft, &["dog", "cat"]),
        ],
        methods: vec![(
            compared(false, 1),
            vec![
                (0, scores(&[true, true], true, 1.0, 1)),
                (1, unscored(&[true, true])),
                (2, unscored(&[true, true])),
                (2, unscored(&[false, false])),
                (
                    3,
                    Scores {
                        pse: Some(0.8),
                        ..unscored(&[true, true])
                    },
                ),
            ],
        )],
    }
}

#[test]
fn what_a_rule_does_not_score_is_not_wrong() {
    let pictures = partly_scored();
    let results = table(&pictures);
    let [all, split] = &results.tables[..] else {
        panic!("two tables");
    };
    for (column, expected) in [
        ("relations", "2"),
        ("OA", "100.00"),
        ("VISOR_uncond", "100.00"),
        ("VISOR_1", "100.00"),
        ("PSE", "90.00"),
    ] {
        assert_eq!(value(all, 0, column), expected, "{column}");
    }
    assert_eq!(split.rows.len(), 2);
    assert_eq!(value(split, 0, "relations"), "1");
    for (column, expected) in [("OA", ""), ("VISOR_uncond", ""), ("PSE", "80.00")] {
        assert_eq!(value(split, 1, column), expected, "{column}");
    }
    let point = &points(&pictures)[0];
    assert_eq!((point.pse, point.centre), (Some(0.9), Some(1.0)));
}

#[test]
fn curves_ascend_by_noises() {
    let methods = [false, true].map(|guided| [1, 2, 4].map(|best_of| (guided, best_of)));
    let names = ["1", "2", "4", "guided 1", "guided 2", "guided 4"];
    let seen = |number: usize| {
        vec![
            (0, scores(&[true, true], true, 0.8, number)),
            (0, scores(&[true, false], false, 0.0, number)),
        ]
    };
    let pictures = Pictures {
        steps: 20,
        prompts: vec![related("p0", Relation::LeftOf, &["dog", "cat"])],
        methods: (methods.as_flattened().iter().rev())
            .map(|&(guided, best_of)| (compared(guided, best_of), seen(best_of)))
            .collect(),
    };
    let points = points(&pictures);
    let order: Vec<&str> = points.iter().map(|point| point.method.as_str()).collect();
    assert_eq!(order, names);
    let best = &points[2];
    assert_eq!(
        (best.candidates, best.calls, best.pse, best.centre),
        (4, 100.0, Some(0.4), Some(0.5))
    );
    let results = scaling(&pictures);
    assert_eq!(results.tables[0].rows.len(), 6 + 10);
    assert_eq!(results.files().len(), 2 + 4);
    assert_eq!(value(&results.tables[0], 15, "centre_accuracy"), "95.00");
}
