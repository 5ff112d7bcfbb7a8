//! What a judge says of pictures of prompts, beside what a checker says of them.

use std::collections::BTreeMap;

use prepose_draw::table::{Cell, Table};
use prepose_statistics::agreement::{Weights, cohen_kappa, confusion};
use prepose_statistics::bootstrap::Bootstrap;
use serde_json::{Value, json};

use super::{Asking, Checked, OfPicture, judged};
use crate::answers::{Beside, Rounds};
use crate::ask::Outcome;
use crate::ots::{self, Judged};
use crate::question::Answer;
use crate::scene::score::{Found, mean_in_percent, with_scores};

/// What a judge said, for files and people.
#[derive(Clone, Debug)]
pub struct Told {
    /// In the order in which they are shown.
    pub tables: Vec<Table>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// A line for each picture.
    pub lines: Vec<Value>,
}

/// What came of the questions of each round; the first counts. `checked` has what the checker says of each picture, in their
/// order; `by_geometry` says that the answers are an oracle's.
pub fn told(
    asking: &Asking,
    rounds: &[Vec<Outcome>],
    checked: Option<&[Checked]>,
    by_geometry: bool,
    bootstrap: &Bootstrap,
) -> Told {
    let kinds = asking.kinds();
    let expected = checked.map(|checked| asking.answers_of(checked));
    let answers = Rounds {
        kinds: &kinds,
        outcomes: rounds,
        beside: match (by_geometry, &expected) {
            (true, _) => Beside::Geometry,
            (false, Some(expected)) => Beside::Answers(expected),
            (false, None) => Beside::Nothing,
        },
    };
    let results = asking.results(rounds.first().map_or(&[], Vec::as_slice));
    let cases = asking.cases();
    let judged = judged(&cases, &results);
    let mut tables = vec![
        scenes(asking, &results, bootstrap),
        relations(asking, &results),
    ];
    tables.push(ots::figures(&judged, bootstrap));
    tables.push(ots::bias(&judged));
    if let Some(checked) = checked {
        let boxes: Vec<Judged> = (cases.iter())
            .filter_map(|(at, case)| {
                let code = checked.get(*at)?.code?;
                Some(Judged {
                    case,
                    as_published: Outcome::Answered(Answer::Digit(code)),
                    exchanged: None,
                })
            })
            .collect();
        let mut by_boxes = ots::figures(&boxes, bootstrap);
        by_boxes.name = "figures_by_boxes";
        tables.push(by_boxes);
        tables.push(ots::agreement(&judged, &boxes, bootstrap));
        tables.push(beside(asking, &results, checked, bootstrap));
    }
    tables.push(answers.table());
    tables.retain(|table| !table.rows.is_empty());
    Told {
        tables,
        notes: answers.notes(),
        lines: lines(asking, &results, checked),
    }
}

/// What was asked and what it cost: one row.
pub fn cost(
    model: &str,
    rounds: usize,
    questions: usize,
    tokens: [u64; 2],
    cost: Option<f64>,
) -> Table {
    let count = |tokens: u64| Cell::Count(usize::try_from(tokens).unwrap_or(usize::MAX));
    let row = vec![
        Cell::Name(model.to_owned()),
        Cell::Count(rounds),
        Cell::Count(questions),
        count(tokens[0]),
        count(tokens[1]),
        cost.map_or(Cell::Empty, Cell::Mean),
    ];
    let columns = [
        "judge",
        "rounds",
        "questions",
        "question_tokens",
        "answer_tokens",
        "cost",
    ];
    Table::new("cost", &columns, std::iter::once(row))
}

/// Values of pictures in groups, of each method.
type Grouped = BTreeMap<String, BTreeMap<String, Vec<f64>>>;

/// Recall of objects and of relations, and SGScore (α = 0.5), of each method, in percent, with 95 % intervals over prompts.
fn scenes(asking: &Asking, results: &[OfPicture], bootstrap: &Bootstrap) -> Table {
    let figures: [fn(&Found) -> Option<f64>; 3] =
        [Found::object_recall, Found::relation_recall, |found| {
            found.sgscore(0.5)
        }];
    let mut counts: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    let mut values: [Grouped; 3] = Default::default();
    for (shown, result) in asking.shown().iter().zip(results) {
        let Some(found) = &result.found else { continue };
        let of = counts.entry(shown.method.clone()).or_default();
        of[0] += 1;
        of[1] += found.invalid();
        for (values, figure) in values.iter_mut().zip(figures) {
            if let Some(value) = figure(found) {
                let groups = values.entry(shown.method.clone()).or_default();
                groups
                    .entry(shown.prompt.prompt_id.clone())
                    .or_default()
                    .push(value);
            }
        }
    }
    let rows = counts.into_iter().map(|(method, [pictures, invalid])| {
        let mut row = vec![
            Cell::Name(method.clone()),
            Cell::Count(pictures),
            Cell::Count(invalid),
        ];
        for values in &values {
            let groups = values
                .get(&method)
                .map(|groups| groups.values().cloned().collect());
            let groups: Vec<Vec<f64>> = groups.unwrap_or_default();
            row.extend(mean_in_percent(&groups, bootstrap));
        }
        row
    });
    let columns = with_scores(["method", "pictures", "invalid"]);
    Table::new("scenes", &columns, rows)
}

/// How often each relation is found.
fn relations(asking: &Asking, results: &[OfPicture]) -> Table {
    let mut counts: BTreeMap<[String; 2], [usize; 2]> = BTreeMap::new();
    for (shown, result) in asking.shown().iter().zip(results) {
        let Some(found) = &result.found else { continue };
        let stated = shown
            .prompt
            .relations
            .iter()
            .filter(|one| one.two().is_some());
        for (stated, there) in stated.zip(&found.relationships) {
            if let Some(there) = there {
                let key = [shown.method.clone(), stated.relation.to_string()];
                let counts = counts.entry(key).or_default();
                counts[0] += 1;
                counts[1] += usize::from(*there);
            }
        }
    }
    let rows = counts
        .into_iter()
        .map(|([method, relation], [asked, there])| {
            let ends = prepose_statistics::bootstrap::wilson(there, asked);
            let percent = |share: Option<f64>| {
                share.map_or(Cell::Empty, |share| Cell::Percent(100.0 * share))
            };
            let share = Some(there as f64 / asked as f64);
            let mut row = vec![Cell::Name(method), Cell::Name(relation)];
            row.extend([Cell::Count(asked), Cell::Count(there)]);
            row.extend([share, ends.map(|[low, _]| low), ends.map(|[_, high]| high)].map(percent));
            row
        });
    let columns = [
        "method",
        "relation",
        "asked",
        "found",
        "recall",
        "recall_low",
        "recall_high",
    ];
    Table::new("relations", &columns, rows)
}

/// How far judge and checker agree on relations: both may say that one holds, that it does not, or nothing.
fn beside(
    asking: &Asking,
    results: &[OfPicture],
    checked: &[Checked],
    bootstrap: &Bootstrap,
) -> Table {
    let class = |holds: &Option<bool>| match holds {
        Some(true) => 0,
        Some(false) => 1,
        None => 2,
    };
    let mut methods: BTreeMap<&str, BTreeMap<&str, Vec<[usize; 2]>>> = BTreeMap::new();
    for ((shown, result), checked) in asking.shown().iter().zip(results).zip(checked) {
        let Some(found) = &result.found else { continue };
        for (judge, checker) in found.relationships.iter().zip(&checked.relations) {
            let prompts = methods.entry(&shown.method).or_default();
            let pairs = prompts.entry(&shown.prompt.prompt_id).or_default();
            pairs.push([class(judge), class(checker)]);
        }
    }
    let kappa = |groups: &[&Vec<[usize; 2]>]| {
        let pairs = groups.iter().flat_map(|group| group.iter());
        let (x, y): (Vec<usize>, Vec<usize>) = pairs.map(|[x, y]| (*x, *y)).unzip();
        cohen_kappa(&confusion(&x, &y, 3), Weights::None)
    };
    let rows = methods.into_iter().map(|(method, prompts)| {
        let groups: Vec<Vec<[usize; 2]>> = prompts.into_values().collect();
        let whole: Vec<&Vec<[usize; 2]>> = groups.iter().collect();
        let all: Vec<[usize; 2]> = groups.iter().flatten().copied().collect();
        let count = |is: fn(&[usize; 2]) -> bool| all.iter().filter(|pair| is(pair)).count();
        let mut row = vec![Cell::Name(method.to_owned()), Cell::Count(all.len())];
        row.extend(
            [
                count(|pair| *pair == [0, 0]),
                count(|pair| *pair == [1, 1]),
                count(|pair| *pair == [0, 1]),
                count(|pair| *pair == [1, 0]),
                count(|pair| pair[1] == 2 && pair[0] < 2),
                count(|pair| pair[0] == 2 && pair[1] < 2),
            ]
            .map(Cell::Count),
        );
        let ends = bootstrap.interval(&groups, kappa);
        let share = Some(count(|pair| pair[0] == pair[1]) as f64 / all.len() as f64);
        let [low, high] = [0, 1].map(|end| ends.map(|ends| ends[end]));
        let mean = |value: Option<f64>| value.map_or(Cell::Empty, Cell::Mean);
        row.extend([share, kappa(&whole), low, high].map(mean));
        row
    });
    let columns = [
        "method",
        "relations",
        "both_yes",
        "both_no",
        "judge_alone",
        "checker_alone",
        "undecidable",
        "judge_invalid",
        "agreement",
        "kappa",
        "kappa_low",
        "kappa_high",
    ];
    Table::new("agreement_relations", &columns, rows)
}

fn lines(asking: &Asking, results: &[OfPicture], checked: Option<&[Checked]>) -> Vec<Value> {
    let cases = asking.cases();
    let mut cases = cases.iter().peekable();
    let mut lines = Vec::with_capacity(results.len());
    for (at, (shown, result)) in asking.shown().iter().zip(results).enumerate() {
        let case = cases.next_if(|(of, _)| *of == at).map(|(_, case)| case);
        let code = |exchanged: bool| {
            let outcome = &result.ots.as_ref()?[usize::from(exchanged)];
            Some(case?.code(outcome.answer()?, exchanged).0)
        };
        let found = result.found.as_ref();
        lines.push(json!({
            "id": shown.id,
            "method": shown.method,
            "prompt_id": shown.prompt.prompt_id,
            "figure": case.map(ots::Case::figure),
            "code": code(false),
            "code_exchanged": code(true),
            "code_of_boxes": case.and_then(|_| checked?.get(at)?.code),
            "objects": found.map(|found| &found.objects),
            "relations": found.map(|found| &found.relationships),
            "object_recall": found.and_then(Found::object_recall),
            "relation_recall": found.and_then(Found::relation_recall),
            "sgscore": found.and_then(|found| found.sgscore(0.5)),
        }));
    }
    lines
}
