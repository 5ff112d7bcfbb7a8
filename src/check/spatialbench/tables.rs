//! The tables of the paper, from records: data first, then CSV or Markdown.

use super::metrics::{Buckets, Counts, Metrics, share};
use super::prompts::{Counterfactual, PICTURES_PER_PROMPT, PromptVerdicts, pictures_per_prompt};
use super::record::{Record, relation_name};
use prepose_draw::table::{Cell, Table};
use prepose_scene::Relation;

/// The records of one run, under the name that its row gets.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// For instance the method's.
    pub name: &'a str,
    /// All of them.
    pub records: &'a [Record],
}

impl<'a> Run<'a> {
    /// A run with the name that its records' `sample_id`s begin with.
    pub fn of(records: &'a [Record]) -> Self {
        let name = records.first().and_then(|record| {
            // A short prompt_id may occur in the name as well.
            let named = format!("_{}_", record.prompt_id);
            let id = &record.sample_id;
            let found = id
                .rsplit_once(&named)
                .or_else(|| id.split_once(&record.prompt_id));
            let (name, _) = found?;
            Some(name.trim_end_matches('_')).filter(|name| !name.is_empty())
        });
        Self {
            name: name.unwrap_or("run"),
            records,
        }
    }

    fn cell(&self) -> Cell {
        Cell::Name(self.name.into())
    }

    fn metrics(&self) -> Metrics {
        Metrics::of(self.records, Buckets::Name)
    }
}

/// Tables 5 and 8: pass rate, coverage, pass rate of what is decided, best of four, mean confidence.
pub fn main_results(runs: &[Run]) -> Table {
    let columns = [
        "run",
        "samples",
        "pass_rate",
        "coverage",
        "pass_rate_cond",
        "prompt_pass_rate",
        "mean_conf",
    ];
    let rows = runs.iter().map(|run| {
        let metrics = run.metrics();
        let prompts = PromptVerdicts::of(run.records, PICTURES_PER_PROMPT);
        vec![
            run.cell(),
            Cell::Count(metrics.counts.total()),
            Cell::Rate(metrics.counts.pass_rate()),
            Cell::Rate(metrics.counts.coverage()),
            Cell::Rate(metrics.counts.pass_rate_conditional()),
            Cell::Rate(prompts.best_counts().pass_rate()),
            Cell::Mean(metrics.mean_confidence),
        ]
    });
    Table::new("main_results", &columns, rows)
}

/// Table 7: prompts with one good picture of all that were made of them (of four in the benchmark), and with nothing else.
pub fn prompt_metrics(runs: &[Run]) -> Table {
    let columns = [
        "run",
        "total_prompts",
        "best_of_k_pass_rate",
        "all_of_k_pass_rate",
    ];
    let rows = runs.iter().map(|run| {
        let pictures = pictures_per_prompt(run.records).unwrap_or(PICTURES_PER_PROMPT);
        let prompts = PromptVerdicts::of(run.records, pictures);
        vec![
            run.cell(),
            Cell::Count(prompts.best.len()),
            Cell::Rate(prompts.best_counts().pass_rate()),
            Cell::Rate(prompts.all_counts().pass_rate()),
        ]
    });
    Table::new("prompt_metrics", &columns, rows)
}

/// Table 6: why nothing was said, as shares of all pictures.
pub fn abstentions(runs: &[Run]) -> Table {
    let reasons = [
        "missing",
        "ambiguous",
        "near_boundary",
        "high_overlap",
        "unstable",
    ];
    let mut columns = vec!["run"];
    columns.extend(reasons);
    let rows = runs.iter().map(|run| {
        let metrics = run.metrics();
        let rate = |reason: &str| {
            let counted = metrics.undecidable_reasons.iter();
            let count = counted
                .filter(|(name, _)| name == reason)
                .map(|(_, count)| count)
                .sum();
            Cell::Rate(share(count, metrics.counts.total()))
        };
        let mut row = vec![run.cell()];
        row.extend(reasons.map(rate));
        row
    });
    Table::new("abstentions", &columns, rows)
}

/// Table 10: the pass rate of each relation, in the order of their names.
pub fn by_relation(runs: &[Run]) -> Table {
    let metrics: Vec<Metrics> = runs.iter().map(Run::metrics).collect();
    let mut relations: Vec<(String, Relation)> = Relation::ALL
        .into_iter()
        .filter(|relation| {
            let counted = metrics.iter().flat_map(|metrics| &metrics.by_relation);
            counted.map(|(counted, _)| counted).any(|r| r == relation)
        })
        .map(|relation| (relation_name(relation), relation))
        .collect();
    relations.sort_by(|a, b| a.0.cmp(&b.0));
    let rows = runs.iter().zip(&metrics).map(|(run, metrics)| {
        let mut row = vec![run.cell()];
        row.extend(relations.iter().map(|(_, relation)| {
            let mut counted = metrics.by_relation.iter();
            counted
                .find(|(counted, _)| counted == relation)
                .map_or(Cell::Empty, |(_, counts)| Cell::Rate(counts.pass_rate()))
        }));
        row
    });
    let mut table = Table::new("by_relation", &["run"], rows);
    let columns = relations
        .iter()
        .map(|(name, _)| format!("{name}_pass_rate"));
    table.columns.extend(columns);
    table
}

/// Table 11: prompts and their counterfactuals, by their best pictures.
pub fn counterfactual(runs: &[Run]) -> Table {
    let columns = [
        "run",
        "pairs",
        "both_pass_rate",
        "one_sided_rate",
        "both_fail_rate",
        "undecidable_rate",
        "undecidable_count",
    ];
    let rows = runs.iter().map(|run| {
        let counted = Counterfactual::of(run.records);
        let rate = |count| Cell::Rate(share(count, counted.total()));
        vec![
            run.cell(),
            Cell::Count(counted.total()),
            rate(counted.both_pass),
            rate(counted.one_sided),
            rate(counted.both_fail),
            rate(counted.undecidable()),
            Cell::Count(counted.undecidable()),
        ]
    });
    Table::new("counterfactual", &columns, rows)
}

/// Not in the paper: single pictures of prompts and their counterfactuals, with the same seed.
pub fn counterfactual_by_picture(runs: &[Run]) -> Table {
    let columns = [
        "run",
        "pairs",
        "both_pass",
        "one_sided",
        "both_fail",
        "one_undecidable",
        "both_undecidable",
    ];
    let rows = runs.iter().map(|run| {
        let counted = Counterfactual::by_picture(run.records);
        vec![
            run.cell(),
            Cell::Count(counted.total()),
            Cell::Count(counted.both_pass),
            Cell::Count(counted.one_sided),
            Cell::Count(counted.both_fail),
            Cell::Count(counted.one_undecidable),
            Cell::Count(counted.both_undecidable),
        ]
    });
    Table::new("counterfactual_by_picture", &columns, rows)
}

/// Table 9: what calibration changes. Each pair is a run before and after it; the row has the name of the one after.
pub fn calibration_changes(runs: &[(Run, Run)]) -> Table {
    let columns = [
        "run",
        "pass_rate",
        "coverage",
        "pass_rate_cond",
        "mean_conf",
    ];
    let rows = runs.iter().map(|(before, after)| {
        let (old, new) = (before.metrics(), after.metrics());
        let change = |of: fn(&Counts) -> f64| Cell::Change(of(&new.counts) - of(&old.counts));
        vec![
            after.cell(),
            change(Counts::pass_rate),
            change(Counts::coverage),
            change(Counts::pass_rate_conditional),
            Cell::MeanChange(new.mean_confidence - old.mean_confidence),
        ]
    });
    Table::new("calibration_changes", &columns, rows)
}

/// All tables that one configuration's runs give.
pub fn all(runs: &[Run]) -> Vec<Table> {
    vec![
        main_results(runs),
        prompt_metrics(runs),
        abstentions(runs),
        by_relation(runs),
        counterfactual(runs),
        counterfactual_by_picture(runs),
    ]
}
