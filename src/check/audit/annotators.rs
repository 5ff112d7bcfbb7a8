//! Several people who labelled the same pictures.

use std::collections::{BTreeMap, HashMap};

use prepose_statistics::agreement::{Level, krippendorff_alpha};
use prepose_statistics::bootstrap::Interval;
use serde::Serialize;

use super::agreement::{Agreement, Judgement, place};
use super::labels::Label;
use crate::spatialbench::Verdict;

/// How far two people agree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Between {
    /// Who they are: their places in the list of labels, from 0.
    pub annotators: [usize; 2],
    /// Pictures that both labelled.
    pub pictures: usize,
    /// The same verdict of the three.
    pub agreement: f64,
    /// Its 95 % interval.
    pub agreement_interval: Option<Interval>,
    /// Cohen's κ of the three verdicts.
    pub kappa: Option<f64>,
    /// Its 95 % interval.
    pub kappa_interval: Option<Interval>,
}

/// Each two people who labelled some of the same pictures.
pub fn between(all: &[Vec<Label>]) -> Vec<Between> {
    let mut pairs = Vec::new();
    for second in 1..all.len() {
        for first in 0..second {
            let theirs: HashMap<&str, Verdict> = (all[second].iter())
                .map(|label| (label.sample_id.as_str(), label.human_verdict))
                .collect();
            let judgements: Vec<Judgement> = (all[first].iter())
                .filter_map(|label| {
                    let other = theirs.get(label.sample_id.as_str())?;
                    Some(Judgement {
                        verdict: label.human_verdict,
                        conf: 1.0,
                        human: Some(*other),
                    })
                })
                .collect();
            if judgements.is_empty() {
                continue;
            }
            let found = Agreement::of(&judgements);
            pairs.push(Between {
                annotators: [first, second],
                pictures: found.total_samples,
                agreement: found.agreement,
                agreement_interval: found.intervals.agreement,
                kappa: found.kappa,
                kappa_interval: found.intervals.kappa,
            });
        }
    }
    pairs
}

/// Krippendorff's α of all people together, over the pictures that at least two of them labelled; none where there are no
/// such pictures, or one verdict is all that anybody gave.
pub fn alpha(all: &[Vec<Label>]) -> Option<f64> {
    let mut units: BTreeMap<&str, Vec<Option<f64>>> = BTreeMap::new();
    for (person, labels) in all.iter().enumerate() {
        for label in labels {
            let unit = units
                .entry(&label.sample_id)
                .or_insert_with(|| vec![None; all.len()]);
            unit[person] = Some(place(label.human_verdict) as f64);
        }
    }
    let units: Vec<Vec<Option<f64>>> = units.into_values().collect();
    krippendorff_alpha(&units, Level::Nominal)
}

/// What most people say of each picture, in the order of the pictures' first labels; UNDECIDABLE where as many say
/// something else.
pub fn consensus(all: Vec<Vec<Label>>) -> Vec<Label> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut of_picture: Vec<Vec<Label>> = Vec::new();
    for label in all.into_iter().flatten() {
        let place = *places.entry(label.sample_id.clone()).or_insert_with(|| {
            of_picture.push(Vec::new());
            of_picture.len() - 1
        });
        of_picture[place].push(label);
    }
    of_picture.into_iter().filter_map(together).collect()
}

fn together(mut labels: Vec<Label>) -> Option<Label> {
    let mut votes: BTreeMap<&str, (usize, Verdict)> = BTreeMap::new();
    for label in &labels {
        let verdict = label.human_verdict;
        votes.entry(verdict.as_str()).or_insert((0, verdict)).0 += 1;
    }
    let most = votes.values().map(|(count, _)| *count).max()?;
    let mut winners = votes.values().filter(|(count, _)| *count == most);
    let verdict = match (winners.next(), winners.next()) {
        (Some((_, verdict)), None) => *verdict,
        _ => Verdict::Undecidable,
    };
    let notes: Vec<String> = (labels.iter())
        .map(|label| label.notes.clone())
        .filter(|note| !note.is_empty())
        .collect();
    let timestamp = labels.iter().map(|label| label.timestamp.clone()).max()?;
    Some(Label {
        human_verdict: verdict,
        notes: notes.join("; "),
        timestamp,
        ..labels.swap_remove(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Fail, Pass, Undecidable};

    fn labels(of: &[(&str, Verdict)]) -> Vec<Label> {
        let label = |&(id, verdict): &(&str, Verdict)| Label {
            sample_id: id.into(),
            human_verdict: verdict,
            notes: id.into(),
            timestamp: String::new(),
        };
        of.iter().map(label).collect()
    }

    #[test]
    fn what_most_say_counts() {
        let all = vec![
            labels(&[("a", Pass), ("b", Pass), ("c", Fail)]),
            labels(&[("b", Fail), ("a", Pass), ("d", Pass)]),
            labels(&[("c", Fail), ("a", Undecidable)]),
        ];
        let said: Vec<_> = (consensus(all).into_iter())
            .map(|label| (label.sample_id, label.human_verdict, label.notes))
            .collect();
        let expected = [
            ("a", Pass, "a; a; a"),
            ("b", Undecidable, "b; b"),
            ("c", Fail, "c; c"),
            ("d", Pass, "d"),
        ];
        assert_eq!(
            said,
            expected.map(|(id, verdict, notes)| (id.to_owned(), verdict, notes.to_owned()))
        );
    }

    #[test]
    fn alpha_takes_all_people_together() {
        let all = vec![
            labels(&[("a", Pass), ("b", Pass), ("c", Fail), ("d", Fail)]),
            labels(&[
                ("a", Pass),
                ("b", Pass),
                ("c", Fail),
                ("d", Fail),
                ("e", Pass),
            ]),
            labels(&[("a", Pass), ("b", Fail), ("c", Fail)]),
        ];
        // 11 labels of pictures with two or more: 5 PASS, 6 FAIL; of b's three pairs two disagree.
        let expected = 1.0 - 10.0 * 2.0 / (2.0 * 5.0 * 6.0);
        assert!((alpha(&all).unwrap() - expected).abs() < 1e-12);
        assert_eq!(
            alpha(&[labels(&[("a", Pass)]), labels(&[("b", Pass)])]),
            None
        );
    }

    #[test]
    fn people_are_compared_where_both_looked() {
        let ids: Vec<String> = (0..50).map(|i| i.to_string()).collect();
        let of = |verdict: fn(usize) -> Verdict| -> Vec<Label> {
            let all: Vec<(&str, Verdict)> = ids
                .iter()
                .enumerate()
                .map(|(i, id)| (id.as_str(), verdict(i)))
                .collect();
            labels(&all)
        };
        // Cohen's own example: 20 and 15 agree of 50, κ = 0.4.
        let first = of(|i| if i < 25 { Pass } else { Fail });
        let second = of(|i| {
            if i < 20 || (25..35).contains(&i) {
                Pass
            } else {
                Fail
            }
        });
        let none = labels(&[("x", Pass)]);
        let pairs = between(&[first, second, none]);
        assert_eq!(pairs.len(), 1);
        assert_eq!(
            (pairs[0].annotators, pairs[0].pictures, pairs[0].agreement),
            ([0, 1], 50, 0.7)
        );
        assert!((pairs[0].kappa.unwrap() - 0.4).abs() < 1e-12);
        let [low, high] = pairs[0].kappa_interval.unwrap();
        assert!(
            (0.1..0.2).contains(&low) && (0.6..0.7).contains(&high),
            "{low} {high}"
        );
    }
}
