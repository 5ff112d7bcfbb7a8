//! Against SciPy, scikit-learn, statsmodels and `krippendorff`.

use serde_json::Value;

use crate::agreement::{
    Level, Weights, cohen_kappa, confusion, fleiss_kappa, krippendorff_alpha, majority,
};
use crate::binary::Confusion;
use crate::correlation::{kendall_tau_b, pearson, ranks, spearman};

fn cases(kind: &str) -> Vec<Value> {
    let text = include_str!("../../fixtures/statistics/cases.json");
    let mut cases: Value = serde_json::from_str(text).unwrap();
    match cases[kind].take() {
        Value::Array(cases) => cases,
        other => panic!("{kind}: {other}"),
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).unwrap()
}

fn places(value: &Value) -> Vec<usize> {
    serde_json::from_value(value.clone()).unwrap()
}

/// As printed by the reference, to 1e-12.
#[track_caller]
fn close(ours: Option<f64>, theirs: &Value) {
    let (ours, theirs) = (ours.unwrap(), theirs.as_f64().unwrap());
    assert!((ours - theirs).abs() < 1e-12, "{ours} and {theirs}");
}

#[test]
fn correlations_are_scipys() {
    let cases = cases("correlations");
    assert!(cases.len() > 15);
    for case in &cases {
        let (x, y) = (numbers(&case["x"]), numbers(&case["y"]));
        assert_eq!(ranks(&x), numbers(&case["ranks_x"]));
        close(pearson(&x, &y), &case["pearson"]);
        close(spearman(&x, &y), &case["spearman"]);
        close(kendall_tau_b(&x, &y), &case["kendall_tau_b"]);
        // Neither depends on who comes first.
        close(kendall_tau_b(&y, &x), &case["kendall_tau_b"]);
    }
}

#[test]
fn without_variation_there_is_no_correlation() {
    for correlate in [pearson, spearman, kendall_tau_b] {
        assert_eq!(correlate(&[], &[]), None);
        assert_eq!(correlate(&[1.0], &[1.0]), None);
        assert_eq!(correlate(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(correlate(&[1.0, 2.0, 3.0], &[0.0, -0.0, 0.0]), None);
        assert_eq!(correlate(&[1.0, f64::NAN], &[1.0, 2.0]), None);
        assert!(correlate(&[1.0, 2.0, 3.0], &[2.0, 3.0, 9.0]).unwrap() > 0.9);
    }
}

#[test]
fn two_annotators_agree_as_in_scikit_learn() {
    for case in cases("two") {
        let (first, second) = (places(&case["first"]), places(&case["second"]));
        let categories = case["categories"].as_u64().unwrap() as usize;
        let counts = confusion(&first, &second, categories);
        assert_eq!(serde_json::to_value(&counts).unwrap(), case["confusion"]);
        for (weights, name) in [
            (Weights::None, "none"),
            (Weights::Linear, "linear"),
            (Weights::Quadratic, "quadratic"),
        ] {
            close(cohen_kappa(&counts, weights), &case["kappa"][name]);
        }
        let pairs = first
            .iter()
            .zip(&second)
            .map(|(truth, said)| (*truth > 0, *said > 0));
        let counts = Confusion::of(pairs);
        close(counts.precision(), &case["precision"]);
        close(counts.recall(), &case["recall"]);
        close(counts.specificity(), &case["specificity"]);
        close(counts.f1(), &case["f1"]);
        close(counts.accuracy(), &case["accuracy"]);
    }
}

/// OTS-Bench's table 13 (arXiv 2603.03714): four judges against people, and the κ that is printed over each.
#[test]
fn the_printed_tables_give_the_printed_kappas() {
    let judges: [([[usize; 3]; 3], f64); 4] = [
        ([[224, 11, 4], [94, 1475, 30], [35, 56, 471]], 0.81),
        ([[207, 19, 13], [103, 1377, 119], [31, 178, 353]], 0.62),
        ([[209, 19, 11], [96, 1471, 32], [18, 154, 390]], 0.72),
        ([[183, 37, 19], [92, 1342, 165], [19, 281, 262]], 0.47),
    ];
    for (counts, printed) in judges {
        let counts: Vec<Vec<usize>> = counts.iter().map(|row| row.to_vec()).collect();
        let kappa = cohen_kappa(&counts, Weights::None).unwrap();
        assert!((kappa - printed).abs() < 0.005, "{kappa} and {printed}");
    }
}

#[test]
fn several_annotators_agree_as_in_the_references() {
    for case in cases("several") {
        let labels: Vec<Vec<Option<f64>>> = serde_json::from_value(case["labels"].clone()).unwrap();
        for (level, name) in [
            (Level::Nominal, "nominal"),
            (Level::Ordinal, "ordinal"),
            (Level::Interval, "interval"),
        ] {
            close(krippendorff_alpha(&labels, level), &case["alpha"][name]);
        }
        if !case["fleiss"].is_null() {
            let table: Vec<Vec<usize>> = serde_json::from_value(case["table"].clone()).unwrap();
            close(fleiss_kappa(&table), &case["fleiss"]);
        }
    }
}

#[test]
fn where_chance_explains_everything_there_is_no_kappa() {
    assert_eq!(cohen_kappa(&[], Weights::None), None);
    assert_eq!(cohen_kappa(&[vec![0, 0], vec![0, 0]], Weights::None), None);
    assert_eq!(
        cohen_kappa(&[vec![9, 0], vec![0, 0]], Weights::Linear),
        None
    );
    assert_eq!(fleiss_kappa(&[]), None);
    assert_eq!(fleiss_kappa(&[vec![3, 0], vec![3, 0]]), None);
    assert_eq!(
        fleiss_kappa(&[vec![3, 0], vec![1, 1]]),
        None,
        "three labels, then two"
    );
    assert_eq!(
        krippendorff_alpha(&[vec![Some(1.0), None]], Level::Nominal),
        None
    );
    assert_eq!(
        krippendorff_alpha(&[vec![Some(1.0), Some(1.0)]], Level::Interval),
        None
    );
    assert_eq!(Confusion::default().precision(), None);
}

#[test]
fn a_majority_is_more_than_half() {
    assert_eq!(majority(&[Some(1), Some(1), Some(0)]), Some(1));
    assert_eq!(majority(&[Some(1), Some(0)]), None);
    assert_eq!(majority(&[Some(2), None, None]), Some(2));
    assert_eq!(majority(&[None]), None);
}
