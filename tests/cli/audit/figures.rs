//! What Python makes of the same records.

use prepose::audit::agreement::Agreement;
use prepose::audit::curve::{ZeroCoverage, curve, every_threshold};
use prepose::audit::draw::{Candidate, draw};
use prepose::audit::grid::{Grid, best};
use prepose::audit::join::{Audit, JoinError};
use prepose::audit::redecide::{Redecider, Semantics, name_detectors};
use prepose::audit::{labels, table};
use prepose::check::spatialbench::CheckerConfig;
use prepose::check::spatialbench::record::relation_name;

use super::{MARGINS, expected, float, records, text};

fn audit(names: &[&str]) -> Audit {
    let labels = labels::read(&text("labels_filled.json")).unwrap();
    let rows = table::read(&text("sample.csv")).unwrap();
    let all = names.iter().flat_map(|name| records(name));
    Audit::new(all, &labels, Some(&rows), false).unwrap()
}

#[test]
fn draws_are_pythons() {
    let mut candidates = Vec::new();
    for (name, _) in MARGINS {
        candidates.extend(records(name).into_iter().map(|record| Candidate {
            method: name.into(),
            relation: relation_name(record.relation),
            verdict: record.verdict_raw,
            conf: record.conf,
        }));
    }
    for case in expected()["draws"].as_array().unwrap() {
        let (n, seed) = (case["n"].as_u64().unwrap(), case["seed"].as_u64().unwrap());
        let drawn = draw(&candidates, n as usize, seed);
        let expected: Vec<usize> = serde_json::from_value(case["drawn"].clone()).unwrap();
        assert_eq!(drawn, expected, "{n} with seed {seed}");
    }
}

#[test]
fn agreement_and_curves_are_pythons_to_the_last_digit() {
    let expected = expected();
    for (name, margin) in MARGINS {
        let judgements = audit(&["calibrated", "uncalibrated"]).judgements(margin);
        let agreement = serde_json::to_value(Agreement::of(&judgements)).unwrap();
        for (key, value) in expected["agreement"][name].as_object().unwrap() {
            assert_eq!(agreement[key], *value, "{name} {key}");
        }
        let thresholds = every_threshold(&judgements);
        let points = curve(
            &judgements,
            judgements.len(),
            &thresholds,
            ZeroCoverage::Safe,
        );
        let expected = expected["curves"][name].as_array().unwrap();
        assert_eq!(points.len(), expected.len());
        for (point, expected) in points.iter().zip(expected) {
            for (key, value) in expected.as_object().unwrap() {
                let ours = &serde_json::to_value(point).unwrap()[key];
                assert_eq!(float(ours), float(value), "{name} {key} at {}", point.tau);
            }
        }
    }
}

#[test]
fn grid_searches_are_pythons_to_the_last_digit() {
    let cases: [(&str, &[&str]); 3] = [
        ("calibrated", &["calibrated"]),
        ("uncalibrated", &["uncalibrated"]),
        ("both", &["calibrated", "uncalibrated"]),
    ];
    for (name, of) in cases {
        let expected = &expected()["grids"][name];
        let audit = audit(of);
        for semantics in [Semantics::Deployed, Semantics::Override] {
            for published in [true, false] {
                let mut config = CheckerConfig::default();
                name_detectors(&mut config, &audit.pictures);
                let mut redecider = Redecider::new(&audit.pictures, &config, published, semantics);
                let trials = Grid::default()
                    .trials(66, ZeroCoverage::Safe, |margin, score| {
                        redecider.judge(margin, score)
                    })
                    .unwrap();
                let numbers: Vec<[f64; 7]> = trials
                    .iter()
                    .map(|t| {
                        [
                            t.margin,
                            t.detection_score,
                            t.confidence_threshold,
                            t.false_pass_rate,
                            t.risk,
                            t.coverage,
                            t.score,
                        ]
                    })
                    .collect();
                let wanted: Vec<[f64; 7]> =
                    serde_json::from_value(expected["trials"].clone()).unwrap();
                assert_eq!(numbers, wanted, "{name} {semantics:?} {published}");
                let chosen = expected["best"].as_u64().unwrap() as usize;
                assert_eq!(best(&trials), Some(&trials[chosen]));
            }
        }
    }
}

/// A record that keeps detections of low scores tells the two meanings of the detection threshold apart.
#[test]
fn a_detection_threshold_has_two_meanings() {
    let mut audit = audit(&["calibrated"]);
    let mut config = CheckerConfig::default();
    config.detector.primary.params.score_threshold = Some(0.5);
    let decided = |audit: &Audit, semantics, t_det| {
        let mut redecider = Redecider::new(&audit.pictures, &config, false, semantics);
        let judgements = redecider.judge(0.1, t_det).unwrap();
        judgements.iter().filter(|j| j.is_decided(0.0)).count()
    };
    assert_eq!(decided(&audit, Semantics::Deployed, 0.2), 21);
    assert_eq!(decided(&audit, Semantics::Override, 0.2), 21);
    for picture in &mut audit.pictures {
        for detection in &mut picture.records[0].detectors.primary.detections {
            detection.score *= 0.5;
        }
    }
    assert_eq!(decided(&audit, Semantics::Deployed, 0.2), 0);
    assert!(decided(&audit, Semantics::Override, 0.2) > 15);
    assert_eq!(decided(&audit, Semantics::Override, 0.5), 0);
}

#[test]
fn labels_of_another_sample_are_refused() {
    let labels = labels::read(&text("labels_filled.json")).unwrap();
    let rows = table::read(&text("sample.csv")).unwrap();
    let refused = Audit::new(records("calibrated"), &labels, Some(&rows[..60]), true);
    assert!(matches!(
        refused,
        Err(JoinError::NotInSample {
            count: 6,
            total: 66,
            ..
        })
    ));
    // What nobody has labelled counts for the coverage and for nothing else.
    let some = Audit::new(records("calibrated"), &labels[..10], Some(&rows), false).unwrap();
    assert_eq!(some.pictures.len(), 66);
    assert_eq!(Agreement::of(&some.judgements(0.1)).total_samples, 10);
}

#[test]
fn the_released_table_is_written_as_it_was_read() {
    let released = text("sample.csv");
    let rows = table::read(&released).unwrap();
    assert_eq!(rows.len(), 66);
    assert_eq!(
        String::from_utf8(table::write(&rows).unwrap()).unwrap(),
        released
    );
}
