use super::*;
use crate::experiments::{Compared, Moment, Pictures};
use prepose_check::prompt::SuitePrompt;
use prepose_draw::table::Table;
use prepose_scene::neutral::Opening;

fn compared(name: &str, opening: Option<(Opening, usize)>) -> Compared {
    Compared {
        name: name.into(),
        guided: false,
        searched: false,
        opening: opening.map(|(with, steps)| (with, Moment::steps(steps, 20))),
    }
}

/// `pairs` pairs of prompts; `side(method, prompt, seed)` is where the first-mentioned object is.
fn pictures(
    pairs: usize,
    methods: Vec<Compared>,
    side: impl Fn(&Compared, usize, u64) -> &'static str,
) -> Pictures {
    let prompts: Vec<SuitePrompt> = (0..2 * pairs)
        .map(|number| SuitePrompt {
            prompt_id: format!("p{number}"),
            prompt: "a photo of a dog and a cat.".into(),
            objects: vec!["dog".into(), "cat".into()],
            relations: Vec::new(),
            counterpart: Some(format!("p{}", number ^ 1)),
            tags: vec![if number < pairs { "one" } else { "other" }.into()],
            ..SuitePrompt::default()
        })
        .collect();
    let seen = |method: &Compared| {
        let each = (0..prompts.len()).flat_map(|prompt| [0, 1].map(|seed| (prompt, seed)));
        each.map(|(prompt, seed)| {
            let scores = Scores {
                prompt_id: format!("p{prompt}"),
                seed,
                found: Some(2),
                objects: 2,
                side: Some(side(method, prompt, seed).into()),
                level: Some("invalid".into()),
                ..Scores::default()
            };
            (prompt, scores)
        })
        .collect()
    };
    Pictures {
        steps: 20,
        methods: methods.iter().map(|m| (m.clone(), seen(m))).collect(),
        prompts,
    }
}

fn row<'a>(table: &'a Table, first: &str, second: &str) -> Vec<(&'a str, String)> {
    let found = table
        .rows
        .iter()
        .find(|row| row[0].text() == first && row[1].text() == second);
    let texts = found.expect("there is such a row").iter().map(Cell::text);
    table
        .columns
        .iter()
        .map(String::as_str)
        .zip(texts)
        .collect()
}

fn cell(row: &[(&str, String)], column: &str) -> String {
    row.iter()
        .find(|(name, _)| *name == column)
        .expect("a column")
        .1
        .clone()
}

#[test]
fn homogenization_counts_what_is_valid() {
    // Four pairs, two seeds: 16 pictures. The first pair lacks objects.
    let shown = |_: &Compared, prompt: usize, seed: u64| match (prompt, seed) {
        (0 | 1, _) => "invalid",
        // The same object on the left in both orders.
        (2, _) => "left",
        (3, _) => "right",
        // The order decides, one way and the other.
        (4 | 5, _) => "left",
        (_, 0) => "left",
        _ => "right",
    };
    let pictures = pictures(4, vec![compared("prompt-only", None)], shown);
    let results = homogenization(&pictures, Direction::Sides);
    let all = row(&results.tables[0], "prompt-only", "all");
    for (column, expected) in [
        ("pictures", "16"),
        ("left", "8"),
        ("right", "4"),
        ("invalid", "4"),
        ("invalid_percent", "25.00"),
        ("homogenization", "33.33"),
        ("pairs", "6"),
        ("first_left_in_both", "3"),
        ("first_right_in_both", "1"),
        ("same_object_in_both", "2"),
    ] {
        assert_eq!(cell(&all, column), expected, "{column}");
    }
    assert_eq!(
        cell(&row(&results.tables[0], "prompt-only", "other"), "pictures"),
        "8"
    );
    let flux = row(&results.tables[0], "published: FLUX-dev", "all");
    assert_eq!(cell(&flux, "homogenization"), "88.80");
    // The levels are all invalid here.
    let results = homogenization(&pictures, Direction::Levels);
    let all = row(&results.tables[0], "prompt-only", "all");
    assert_eq!(
        (cell(&all, "invalid"), cell(&all, "homogenization")),
        ("16".into(), String::new())
    );
    let files = results.files();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "homogenization.md",
            "homogenization.csv",
            "homogenization-places.svg"
        ]
    );
}

#[test]
fn a_switch_succeeds_if_the_final_order_is_followed() {
    let methods = vec![
        compared("prompt-only", None),
        compared("swapped-order-1", Some((Opening::Swapped, 1))),
        compared("swapped-order-2", Some((Opening::Swapped, 2))),
        compared("delayed-order-1", Some((Opening::Neutral, 1))),
        compared("delayed-order-2", Some((Opening::Neutral, 2))),
    ];
    let shown = |method: &Compared, prompt: usize, seed: u64| match method.name.as_str() {
        // The second pair does not follow the order at the base with seed 1.
        "prompt-only" if prompt == 2 && seed == 1 => "right",
        "prompt-only" => "left",
        // A2B ends with the odd prompts.
        "swapped-order-1" if prompt == 1 => "left",
        "swapped-order-1" if prompt == 3 => "right",
        "swapped-order-1" => "invalid",
        "swapped-order-2" => "right",
        "delayed-order-1" if prompt.is_multiple_of(2) => "left",
        _ => ["left", "right"][seed as usize],
    };
    let pictures = pictures(2, methods, shown);
    let switched = switched(&pictures, Direction::Sides);
    let of = |setting: &str, step: usize| {
        let found = switched
            .iter()
            .find(|row| row.setting == setting && row.moment.text == step.to_string());
        found.expect("there is such a row").clone()
    };
    let tally = |first, second, invalid| Tally {
        first,
        second,
        invalid,
    };
    // At the base what is selected follows the order, by construction.
    assert_eq!(of("A2B", 0).biased.sum(), tally(3, 0, 0));
    assert_eq!(of("B2A", 0).biased.sum(), tally(3, 0, 0));
    assert_eq!(of("B2A", 0).all.sum(), tally(3, 1, 0));
    assert_eq!(of("A2B", 1).biased.sum(), tally(2, 1, 0));
    assert_eq!(of("A2B", 1).all.sum(), tally(2, 2, 0));
    assert_eq!(of("B2A", 1).biased.sum(), tally(0, 0, 3));
    assert_eq!(of("A2B", 2).biased.sum().success(), Some(0.0));
    assert_eq!(of("N2A", 1).all.sum().homogenization(), Some(100.0));
    assert_eq!(of("N2B", 1).all.sum().homogenization(), Some(0.0));
    let results = switch(&pictures, Direction::Sides);
    let row = row(&results.tables[0], "A2B", "1");
    for (column, expected) in [
        ("share_of_steps", "0.0500"),
        ("pictures", "3"),
        ("success", "66.67"),
        ("success_of_all", "50.00"),
        ("homogenization", ""),
        ("published_FLUX-dev", "25.00"),
    ] {
        assert_eq!(cell(&row, column), expected, "{column}");
    }
    let csv = results.tables[0].to_csv();
    assert_eq!(csv.lines().count(), 1 + 4 * 3, "{csv}");
    // Nothing is published of levels.
    assert!(
        !switch(&pictures, Direction::Levels)
            .markdown()
            .contains("25.00")
    );
}
