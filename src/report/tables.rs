//! The tables of a report: SpatialBench-UC's with a row for each method, and those of the other rules.

use std::fmt::Write as _;

use super::bootstrap::{Bootstrap, Estimate, Rates};
use super::breakdown;
use super::model::{Counted, Method, Report};
use super::paired::{self, Pair};
use super::scored;
use super::titled::{Tables, name};
use prepose_check::spatialbench::tables::{self as papers, Run};
use prepose_draw::table::{Cell, Table};

pub use super::titled::Titled;

/// All tables that the report's methods give.
pub fn all(report: &Report, rates: &[Rates], pairs: &[Pair]) -> Vec<Titled> {
    let mut tables = Tables::default();
    if !report.checked().is_empty() {
        results(&mut tables, report, rates, pairs);
        breakdowns(&mut tables, report);
    }
    scored::add(&mut tables, report);
    tables.into_all()
}

/// What is said about the tables that count records: they are of pictures, or where a prompt states several relations, of
/// relations.
struct Notes {
    main: &'static str,
    intervals: &'static str,
    differences: &'static str,
    abstentions: &'static str,
}

const OF_PICTURES: Notes = Notes {
    main: "SpatialBench-UC (arXiv:2601.13462), tables 5 and 8: passes of all pictures, decided pictures, passes of the \
           decided, prompts with at least one pass, mean confidence over all pictures.",
    intervals: "95 % bootstrap intervals of the rates; prompts are drawn again, not pictures.",
    differences: "Each two methods on the pictures of the same prompts and seeds: the first minus the second, with its \
                  95 % bootstrap interval; p by random signs of the prompts' differences, by Holm's method for the \
                  number of pairs; significant below 0.05. With more than eight methods each is compared with the first.",
    abstentions: "Table 6: why nothing was decided, as shares of all pictures.",
};

const OF_RELATIONS: Notes = Notes {
    main: "SpatialBench-UC (arXiv:2601.13462), tables 5 and 8, by relations, of which a prompt may state several: passes \
           of all relations, decided relations, passes of the decided, prompts with a picture in which all hold, mean \
           confidence over all relations.",
    intervals: "95 % bootstrap intervals of the rates, by relations; prompts are drawn again, not relations.",
    differences: "Each two methods on the pictures of the same prompts and seeds, where a picture passes if all its \
                  relations hold: the first minus the second, with its 95 % bootstrap interval; p by random signs of \
                  the prompts' differences, by Holm's method for the number of pairs; significant below 0.05. With more \
                  than eight methods each is compared with the first.",
    abstentions: "Table 6: why nothing was decided, as shares of all relations.",
};

/// SpatialBench-UC's tables, of the methods that a checker looked at.
fn results(tables: &mut Tables, report: &Report, rates: &[Rates], pairs: &[Pair]) {
    let checked = report.checked();
    let runs: Vec<Run> = checked.iter().map(|method| method.run()).collect();
    let notes = match report.counted() {
        Counted::Pictures => OF_PICTURES,
        Counted::Relations => OF_RELATIONS,
    };
    tables.add("Main results", notes.main, papers::main_results(&runs));
    tables.add("Intervals", notes.intervals, intervals(&checked, rates));
    tables.add("Differences", notes.differences, paired::table(pairs));
    tables.add(
        "Best and all of a prompt",
        "Table 7: prompts with one pass among their pictures, and with nothing but passes.",
        papers::prompt_metrics(&runs),
    );
    tables.add("Abstentions", notes.abstentions, papers::abstentions(&runs));
    tables.add(
        "Relations",
        "Table 10: the pass rate of each relation.",
        papers::by_relation(&runs),
    );
    tables.add(
        "Counterfactuals",
        "Table 11: pairs of prompts that say the same the other way round, by the best picture of each.",
        papers::counterfactual(&runs),
    );
    tables.add(
        "Counterfactuals by picture",
        "Not in the paper: the same pairs, picture by picture with the same seed.",
        papers::counterfactual_by_picture(&runs),
    );
}

/// What fails, and what other settings would change.
fn breakdowns(tables: &mut Tables, report: &Report) {
    tables.add(
        "Objects",
        "Which objects fail, the worst first: of the relations that name one, how many are undecided because it was not found, \
         or not once; how many are decided, and how many pass.",
        breakdown::objects(report),
    );
    tables.add(
        "Pairs of objects",
        "The same for each two objects, whichever is named first.",
        breakdown::object_pairs(report),
    );
    tables.add(
        "Prompts",
        "The same for each prompt, over all its pictures.",
        breakdown::prompts(report),
    );
    tables.add(
        "What calibration changes",
        "Table 9: the main results minus those with the checker's other settings.",
        calibration(&report.checked()),
    );
}

/// All tables for a document.
pub fn markdown(tables: &[Titled]) -> String {
    let mut text = String::new();
    for Titled { title, note, table } in tables {
        // Writing into a string cannot fail.
        let _ = write!(
            text,
            "## {title}\n\n{note}\n\n{}\n",
            table.to_shown_markdown()
        );
    }
    text.trim_end().to_owned() + "\n"
}

/// A table for a LaTeX document.
pub fn latex(titled: &Titled) -> String {
    titled
        .table
        .to_latex(&format!("{}. {}", titled.title, titled.note))
}

fn intervals(methods: &[&Method], rates: &[Rates]) -> Table {
    let columns = [
        "run",
        "prompts",
        "pass_rate",
        "pass_rate_low",
        "pass_rate_high",
        "coverage",
        "coverage_low",
        "coverage_high",
        "pass_rate_cond",
        "pass_rate_cond_low",
        "pass_rate_cond_high",
    ];
    let rows = methods.iter().zip(rates).map(|(method, rates)| {
        let mut row = vec![name(method), Cell::Count(rates.prompts)];
        for Estimate { value, low, high } in
            [rates.pass_rate, rates.coverage, rates.pass_rate_conditional]
        {
            row.extend([value, low, high].map(Cell::Rate));
        }
        row
    });
    Table::new("intervals", &columns, rows)
}

/// Against the checker's other settings, where there are some.
fn calibration(methods: &[&Method]) -> Table {
    let named: Vec<(String, &Method, usize)> = methods
        .iter()
        .flat_map(|method| {
            let others = method.others.iter().enumerate();
            others.map(|(i, (folder, _))| (format!("{} − {folder}", method.name), *method, i))
        })
        .collect();
    let pairs: Vec<(Run, Run)> = named
        .iter()
        .map(|(name, method, other)| {
            let records = &method.others[*other].1;
            let run = |records| Run { name, records };
            (run(records), run(&method.records))
        })
        .collect();
    papers::calibration_changes(&pairs)
}

/// The rates of the methods that a checker looked at, each relation of a picture by itself.
pub fn rates(report: &Report, bootstrap: &Bootstrap) -> Vec<Rates> {
    let methods = report.checked();
    methods
        .iter()
        .map(|method| Rates::of(&method.records, bootstrap))
        .collect()
}

/// The rates of every method's pictures, all relations of a picture together; none of methods that no checker looked at.
pub fn picture_rates(report: &Report, bootstrap: &Bootstrap) -> Vec<Option<Rates>> {
    let of = |method: &Method| {
        let verdicts = method.pictures.iter().filter_map(|picture| {
            let (verdict, _) = method.verdict(picture)?;
            Some((picture.prompt, verdict))
        });
        (!method.records.is_empty()).then(|| Rates::of_verdicts(verdicts, bootstrap))
    };
    report.methods.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures;
    use crate::model::Prompts;
    use crate::testing::{method, picture, record, related, report};
    use prepose_scene::Relation;

    /// What is said about tables and plots of a method's only picture, with so many records of it.
    fn said(records: usize) -> String {
        let mut one = method("m", vec![picture("m", 0, 0)]);
        one.records = (0..records).map(|_| record(0, 0, "PASS")).collect();
        one.pictures[0].records = (0..records).collect();
        let mut prompts = Prompts::default();
        prompts.find(0, "p0", || related("p0", Relation::LeftOf, &["dog", "cat"]));
        let report = report(vec![one], prompts);
        let rates = rates(&report, &Bootstrap { seed: 0, draws: 9 });
        let tables = all(&report, &rates, &[]).into_iter();
        let mut texts: Vec<String> = tables.map(|table| table.note).collect();
        for figure in figures::all(&report, &rates, &[], &[]) {
            texts.extend([figure.title, figure.caption]);
        }
        texts.join("\n")
    }

    #[test]
    fn what_is_counted_has_its_name() {
        let said = [said(1), said(2)];
        for text in [
            "passes of all pictures, decided pictures, passes of the decided",
            "as shares of all pictures",
            "Dots: passes of all pictures.",
            "How much the checker decides, and",
            "Decided pictures, and passes of them",
            "What the checker says of all pictures",
            "Confidence of decided pictures",
        ] {
            assert!(said[0].contains(text), "{text}\n{}", said[0]);
        }
        for text in [
            "passes of all relations, decided relations, passes of the decided",
            "as shares of all relations",
            "Dots: passes of all relations.",
            "How much the checker decides of all relations, and",
            "Decided relations, and passes of them",
            "What the checker says of all relations",
            "Confidence of decided relations",
        ] {
            assert!(said[1].contains(text), "{text}\n{}", said[1]);
        }
        assert!(!said[1].contains("of all pictures"), "{}", said[1]);
    }
}
