//! The tables of a report: SpatialBench-UC's with a row for each method, and those of the other rules.

use std::fmt::Write as _;

use super::bootstrap::{Bootstrap, Estimate, Rates};
use super::breakdown;
use super::model::{Method, Report};
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

/// SpatialBench-UC's tables, of the methods that a checker looked at.
fn results(tables: &mut Tables, report: &Report, rates: &[Rates], pairs: &[Pair]) {
    let checked = report.checked();
    let runs: Vec<Run> = checked.iter().map(|method| method.run()).collect();
    tables.add(
        "Main results",
        "SpatialBench-UC (arXiv:2601.13462), tables 5 and 8: passes of all pictures, decided pictures, passes of the decided, \
         prompts with at least one pass, mean confidence over all pictures.",
        papers::main_results(&runs),
    );
    tables.add(
        "Intervals",
        "95 % bootstrap intervals of the rates; prompts are drawn again, not pictures.",
        intervals(&checked, rates),
    );
    tables.add(
        "Differences",
        "Each two methods on the pictures of the same prompts and seeds: the first minus the second, with its 95 % bootstrap \
         interval; p by random signs of the prompts' differences, by Holm's method for the number of pairs; significant below \
         0.05. With more than eight methods each is compared with the first.",
        paired::table(pairs),
    );
    tables.add(
        "Best and all of a prompt",
        "Table 7: prompts with one pass among their pictures, and with nothing but passes.",
        papers::prompt_metrics(&runs),
    );
    tables.add(
        "Abstentions",
        "Table 6: why nothing was decided, as shares of all pictures.",
        papers::abstentions(&runs),
    );
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

/// The rates of the methods that a checker looked at.
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
