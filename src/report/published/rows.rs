//! The tables: rows of this run, and below each the published row that it is compared with.

use super::Row;
use super::data::{self, Checked, Published};
use super::measured::{self, CONFIDENCE, DECIDED, PASS, PASS_OF_DECIDED};
use super::settings::Settings;
use crate::bootstrap::Bootstrap;
use crate::titled::{Tables, Titled, name};
use prepose_check::spatialbench::Record;
use prepose_draw::table::{Cell, Table};
use prepose_scene::Relation;

const REASONS: [&str; 5] = [
    "missing",
    "ambiguous",
    "near_boundary",
    "high_overlap",
    "unstable",
];
const RELATIONS: [(&str, &str, Relation); 4] = [
    ("above", "above_pass_rate", Relation::Above),
    ("below", "below_pass_rate", Relation::Below),
    ("left_of", "left_of_pass_rate", Relation::LeftOf),
    ("right_of", "right_of_pass_rate", Relation::RightOf),
];

/// Tables 5 to 11, as far as the run has what they are of, and the settings.
pub(super) fn tables(
    rows: &[Row],
    settings: &[Settings],
    published: &Published,
    bootstrap: &Bootstrap,
) -> Vec<Titled> {
    let beside = Tabled {
        rows,
        published,
        bootstrap,
    };
    let mut tables = Tables::default();
    tables.add(
        "Table 5: main results",
        "Passes of all pictures, decided pictures, passes of the decided, prompts with at least one pass, mean confidence over \
         all pictures.",
        beside.main("spatialbench_uc_5", |row| row.calibrated, |one| &one.calibrated),
    );
    tables.add(
        "Table 6: abstentions",
        "Why nothing was decided, as shares of all pictures.",
        beside.abstentions(),
    );
    tables.add(
        "Table 7: best and all of a prompt",
        "Prompts with one pass among their pictures, and with nothing but passes: four pictures each in the paper, here as many as \
         stand in pictures_per_prompt.",
        beside.prompts(),
    );
    tables.add(
        "Table 8: main results, uncalibrated checker",
        "As table 5, of pictures that were checked with the smaller margin too.",
        beside.main(
            "spatialbench_uc_8",
            |row| row.uncalibrated,
            |one| &one.uncalibrated,
        ),
    );
    tables.add(
        "Table 9: what calibration changes",
        "Table 5 minus table 8.",
        beside.calibration(),
    );
    tables.add(
        "Table 10: relations",
        "The pass rate of each relation.",
        beside.relations(),
    );
    tables.add(
        "Table 11: counterfactuals",
        "Pairs of prompts that say the same the other way round, by the best picture of each.",
        beside.pairs(),
    );
    tables.add(
        "Settings",
        "What the figures are of; empty where the records do not say it.",
        beside.settings(settings),
    );
    tables.into_all()
}

/// What all tables are made of.
struct Tabled<'a> {
    rows: &'a [Row<'a>],
    published: &'a Published,
    bootstrap: &'a Bootstrap,
}

impl Tabled<'_> {
    /// A table whose columns follow the row's name. `ours` is asked about each row by its number; a table without any row of
    /// this run has none of the paper either.
    fn table(
        &self,
        table: &'static str,
        columns: &[&str],
        ours: impl Fn(usize, &Row) -> Option<Vec<Cell>>,
        theirs: impl Fn(&data::Method) -> Vec<Cell>,
    ) -> Table {
        let columns = [&["run", "compared_with"], columns].concat();
        let measured: Vec<(&Row, Vec<Cell>)> = (self.rows.iter().enumerate())
            .filter_map(|(number, row)| Some((row, ours(number, row)?)))
            .collect();
        if measured.is_empty() {
            return Table::new(table, &columns, std::iter::empty());
        }
        let line = |(row, cells): &(&Row, Vec<Cell>)| {
            let beside = row.beside.map(|beside| beside.name.clone());
            let first = [name(row.method), Cell::Name(beside.unwrap_or_default())];
            first.into_iter().chain(cells.iter().cloned()).collect()
        };
        let mut rows: Vec<Vec<Cell>> = Vec::new();
        for method in &self.published.methods {
            let own = |(row, _): &&(&Row, Vec<Cell>)| {
                row.beside.is_some_and(|beside| beside.run == method.run)
            };
            rows.extend(measured.iter().filter(own).map(line));
            let first = [
                Cell::Name(format!("published: {}", method.name)),
                Cell::Name(String::new()),
            ];
            rows.push(first.into_iter().chain(theirs(method)).collect());
        }
        let alone = measured.iter().filter(|(row, _)| row.beside.is_none());
        rows.extend(alone.map(line));
        Table::new(table, &columns, rows.into_iter())
    }

    fn mean(
        &self,
        records: &[Record],
        kind: fn(f64) -> Cell,
        value: impl Fn(&Record) -> Option<f64>,
    ) -> Cell {
        let figure = measured::mean(records, self.bootstrap, value);
        figure.map_or(Cell::Empty, |figure| figure.cell(kind))
    }

    /// Tables 5 and 8.
    fn main(
        &self,
        table: &'static str,
        ours: for<'r> fn(&Row<'r>) -> Option<&'r [Record]>,
        theirs: fn(&data::Method) -> &Checked,
    ) -> Table {
        let columns = [
            "samples",
            "prompts",
            "pass_rate",
            "coverage",
            "pass_rate_cond",
            "prompt_pass_rate",
            "mean_conf",
        ];
        let measured = |_, row: &Row| {
            let records = ours(row)?;
            let [best, _] = measured::of_prompts(records);
            Some(vec![
                Cell::Count(records.len()),
                Cell::Count(measured::prompts(records)),
                self.mean(records, Cell::Rate, PASS),
                self.mean(records, Cell::Rate, DECIDED),
                self.mean(records, Cell::Rate, PASS_OF_DECIDED),
                best,
                self.mean(records, Cell::Mean, CONFIDENCE),
            ])
        };
        self.table(table, &columns, measured, |method| {
            let checked = theirs(method);
            vec![
                Cell::Count(checked.samples),
                Cell::Count(checked.prompts),
                Cell::Rate(checked.pass_rate),
                Cell::Rate(checked.coverage),
                Cell::Rate(checked.pass_rate_cond),
                Cell::Rate(checked.best_of_k),
                Cell::Mean(checked.mean_conf),
            ]
        })
    }

    /// Table 6.
    fn abstentions(&self) -> Table {
        let columns = [&["samples"], &REASONS[..]].concat();
        let measured = |_, row: &Row| {
            let records = row.calibrated?;
            let share = |reason: &&str| {
                let is = |record: &Record| Some(f64::from(measured::reason(record) == *reason));
                self.mean(records, Cell::Rate, is)
            };
            let shares = REASONS.iter().map(share);
            Some(
                std::iter::once(Cell::Count(records.len()))
                    .chain(shares)
                    .collect(),
            )
        };
        self.table("spatialbench_uc_6", &columns, measured, |method| {
            let Checked {
                samples,
                abstentions,
                ..
            } = &method.calibrated;
            let rates = REASONS.iter().map(|reason| rate(abstentions.get(*reason)));
            std::iter::once(Cell::Count(*samples))
                .chain(rates)
                .collect()
        })
    }

    /// Table 7.
    fn prompts(&self) -> Table {
        let columns = [
            "total_prompts",
            "pictures_per_prompt",
            "best_of_k_pass_rate",
            "all_of_k_pass_rate",
        ];
        let measured = |_, row: &Row| {
            let records = row.calibrated?;
            let counts = [
                measured::prompts(records),
                measured::pictures_per_prompt(records),
            ];
            let rates = measured::of_prompts(records);
            Some(counts.map(Cell::Count).into_iter().chain(rates).collect())
        };
        self.table("spatialbench_uc_7", &columns, measured, |method| {
            let checked = &method.calibrated;
            vec![
                Cell::Count(checked.prompts),
                Cell::Count(method.seeds.len()),
                Cell::Rate(checked.best_of_k),
                Cell::Rate(checked.all_of_k),
            ]
        })
    }

    /// Table 9.
    fn calibration(&self) -> Table {
        let columns = ["pass_rate", "coverage", "pass_rate_cond", "mean_conf"];
        let kinds: [fn(f64) -> Cell; 4] =
            [Cell::Change, Cell::Change, Cell::Change, Cell::MeanChange];
        let measured = |_, row: &Row| {
            let (before, after) = (row.uncalibrated?, row.calibrated?);
            let values = [PASS, DECIDED, PASS_OF_DECIDED, CONFIDENCE]
                .into_iter()
                .zip(kinds);
            let cells = values.map(|(value, kind)| {
                let figure = measured::change(before, after, self.bootstrap, value);
                figure.map_or(Cell::Empty, |figure| figure.cell(kind))
            });
            Some(cells.collect())
        };
        self.table("spatialbench_uc_9", &columns, measured, |method| {
            let rates = |checked: &Checked| {
                [
                    checked.pass_rate,
                    checked.coverage,
                    checked.pass_rate_cond,
                    checked.mean_conf,
                ]
            };
            let (before, after) = (rates(&method.uncalibrated), rates(&method.calibrated));
            let changes = before.into_iter().zip(after).zip(kinds);
            changes
                .map(|((before, after), kind)| kind(after - before))
                .collect()
        })
    }

    /// Table 10.
    fn relations(&self) -> Table {
        let columns: Vec<&str> = RELATIONS.iter().map(|(_, column, _)| *column).collect();
        let columns = [&["samples"], columns.as_slice()].concat();
        let measured = |_, row: &Row| {
            let records = row.calibrated?;
            let rate = |relation: Relation| {
                let own: Vec<Record> = (records.iter())
                    .filter(|record| record.relation == relation)
                    .cloned()
                    .collect();
                self.mean(&own, Cell::Rate, PASS)
            };
            let rates = RELATIONS.into_iter().map(|(_, _, relation)| rate(relation));
            Some(
                std::iter::once(Cell::Count(records.len()))
                    .chain(rates)
                    .collect(),
            )
        };
        self.table("spatialbench_uc_10", &columns, measured, |method| {
            let Checked {
                samples,
                by_relation,
                ..
            } = &method.calibrated;
            let rates = RELATIONS
                .iter()
                .map(|(name, ..)| rate(by_relation.get(*name)));
            std::iter::once(Cell::Count(*samples))
                .chain(rates)
                .collect()
        })
    }

    /// Table 11.
    fn pairs(&self) -> Table {
        let columns = [
            "pairs",
            "both_pass_rate",
            "one_sided_rate",
            "both_fail_rate",
            "undecidable_rate",
        ];
        let measured = |_, row: &Row| {
            let (pairs, rates) = measured::of_pairs(row.calibrated?);
            Some(std::iter::once(Cell::Count(pairs)).chain(rates).collect())
        };
        self.table("spatialbench_uc_11", &columns, measured, |method| {
            let checked = &method.calibrated;
            let rates = [
                checked.both_pass,
                checked.one_sided,
                checked.both_fail,
                checked.undecidable,
            ];
            let rates = rates.map(Cell::Rate);
            std::iter::once(Cell::Count(checked.pairs))
                .chain(rates)
                .collect()
        })
    }

    fn settings(&self, settings: &[Settings]) -> Table {
        let measured = |number: usize, _: &Row| Some(settings[number].cells());
        self.table(
            "spatialbench_uc_settings",
            &Settings::COLUMNS,
            measured,
            |method| Settings::published(method).cells(),
        )
    }
}

fn rate(share: Option<&f64>) -> Cell {
    share.map_or(Cell::Empty, |share| Cell::Rate(*share))
}
