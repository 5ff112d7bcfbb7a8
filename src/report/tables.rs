//! The tables of a report: SpatialBench-UC's with a row for each method, and those of the other rules.

use std::fmt::Write as _;

use super::bootstrap::{Bootstrap, Estimate, Rates};
use super::breakdown;
use super::model::{Method, Report};
use super::paired::{self, Pair};
use super::scaling;
use super::stats::{found, mean};
use prepose_check::rules::visor;
use prepose_check::sample::Scores;
use prepose_check::spatialbench::tables::{self as papers, Run};
use prepose_draw::table::{Cell, Table};

/// A table with what is said about it.
pub struct Titled {
    /// Above it.
    pub title: &'static str,
    /// Below its title: where it comes from, and what its columns are.
    pub note: String,
    /// Itself.
    pub table: Table,
}

/// All tables that the report's methods give.
pub fn all(report: &Report, rates: &[Rates], pairs: &[Pair]) -> Vec<Titled> {
    let checked = report.checked();
    let runs: Vec<Run> = checked.iter().map(|method| method.run()).collect();
    let mut all = Vec::new();
    let mut add = |title, note: &str, table: Table| {
        if !table.rows.is_empty() {
            all.push(Titled {
                title,
                note: note.into(),
                table,
            });
        }
    };
    if !runs.is_empty() {
        add(
            "Main results",
            "SpatialBench-UC (arXiv:2601.13462), tables 5 and 8: passes of all pictures, decided pictures, passes of the decided, \
             prompts with at least one pass, mean confidence over all pictures.",
            papers::main_results(&runs),
        );
        add(
            "Intervals",
            "95 % bootstrap intervals of the rates; prompts are drawn again, not pictures.",
            intervals(&checked, rates),
        );
        add(
            "Differences",
            "Each two methods on the pictures of the same prompts and seeds: the first minus the second, with its 95 % bootstrap \
             interval; p by random signs of the prompts' differences, by Holm's method for the number of pairs; significant below \
             0.05. With more than eight methods each is compared with the first.",
            paired::table(pairs),
        );
        add(
            "Best and all of a prompt",
            "Table 7: prompts with one pass among their pictures, and with nothing but passes.",
            papers::prompt_metrics(&runs),
        );
        add(
            "Abstentions",
            "Table 6: why nothing was decided, as shares of all pictures.",
            papers::abstentions(&runs),
        );
        add(
            "Relations",
            "Table 10: the pass rate of each relation.",
            papers::by_relation(&runs),
        );
        add(
            "Counterfactuals",
            "Table 11: pairs of prompts that say the same the other way round, by the best picture of each.",
            papers::counterfactual(&runs),
        );
        add(
            "Counterfactuals by picture",
            "Not in the paper: the same pairs, picture by picture with the same seed.",
            papers::counterfactual_by_picture(&runs),
        );
        add(
            "Objects",
            "Which objects fail, the worst first: of the relations that name one, how many are undecided because it was not found, \
             or not once; how many are decided, and how many pass.",
            breakdown::objects(report),
        );
        add(
            "Pairs of objects",
            "The same for each two objects, whichever is named first.",
            breakdown::object_pairs(report),
        );
        add(
            "Prompts",
            "The same for each prompt, over all its pictures.",
            breakdown::prompts(report),
        );
        add(
            "What calibration changes",
            "Table 9: the main results minus those with the checker's other settings.",
            calibration(&checked),
        );
    }
    let methods: Vec<&Method> = report.methods.iter().collect();
    add(
        "VISOR",
        "arXiv:2212.10015: both objects found; all relations hold by the centres, of all pictures and of those with \
         both objects; prompts with at least 1 to 4 right pictures. Of prompts that state a relation.",
        visor(report, &methods),
    );
    add(
        "Other rules",
        "Means over the pictures that each rule scores: GenEval's position, T2I-CompBench's spatial score, HRS-Bench, and the \
         probability of superiority of the worst relation (PSE).",
        rules(&methods),
    );
    add(
        "Depth",
        "Means over the pictures of relations in depth that a depth network looked at: the probability of superiority in depth \
         (PSE), and T2I-CompBench's 3D score.",
        in_depth(&methods),
    );
    add(
        "Picture quality",
        "What networks' features say of each method's pictures as a set (prepose score quality), with 95 % bootstrap intervals. \
         Figures of different networks, references or numbers of pictures cannot be compared.",
        quality(&methods),
    );
    add(
        "Neutral prompts",
        "Where the first-mentioned object of a neutral prompt is, as shares of its pictures; invalid if not both are found.",
        sides(report, &methods),
    );
    add(
        "Refusals",
        "Pictures that their source refused to make by its rules about content: by prompt, beside those that it made. They are \
         neither missing nor failures, and in no other figure.",
        breakdown::refusals(report),
    );
    add(
        "Costs",
        "Means for a picture: rows through the whole UNet, guided passes, noises tried, seconds without the checker's.",
        costs(&methods),
    );
    add(
        "Scaling",
        "Searches by the number of noises that they try.",
        scaling::table(&scaling::points(report)),
    );
    all
}

/// All tables for a document.
pub fn markdown(tables: &[Titled]) -> String {
    let mut text = String::new();
    for Titled { title, note, table } in tables {
        // Writing into a string cannot fail.
        let _ = write!(
            text,
            "## {title}\n\n{note}\n\n{}\n",
            safe(table).to_shown_markdown()
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

/// Names that cannot break a row apart.
fn safe(table: &Table) -> Table {
    let mut table = table.clone();
    for cell in table.rows.iter_mut().flatten() {
        if let Cell::Name(name) = cell {
            *name = name.replace('|', "\\|").replace(['\n', '\r'], " ");
        }
    }
    table
}

fn name(method: &Method) -> Cell {
    Cell::Name(method.name.clone())
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

/// The pictures that were looked at, with their prompts' places.
fn seen(method: &Method) -> impl Iterator<Item = (usize, &Scores)> {
    let pictures = method.pictures.iter();
    pictures.filter_map(|picture| {
        let scored = picture.scores.as_ref()?;
        scored.found.map(|_| (picture.prompt, scored))
    })
}

fn visor(report: &Report, methods: &[&Method]) -> Table {
    let columns = [
        "run",
        "pictures",
        "prompts",
        "OA",
        "VISOR_uncond",
        "VISOR_cond",
        "VISOR_1",
        "VISOR_2",
        "VISOR_3",
        "VISOR_4",
    ];
    let prompts = report.prompts.list();
    let rows = methods.iter().filter_map(|method| {
        let spatial = seen(method).filter(|(prompt, _)| !prompts[*prompt].relations.is_empty());
        let counted =
            spatial.map(|(prompt, scored)| (prompts[prompt].prompt_id.as_str(), found(scored)));
        let scores = visor::scores(counted, false);
        let percent = |value: Option<f64>| value.map_or(Cell::Empty, |v| Cell::Rate(v / 100.0));
        let mut row = vec![
            name(method),
            Cell::Count(scores.pictures),
            Cell::Count(scores.prompts),
            percent(scores.object_accuracy[2]),
            percent(scores.unconditional),
            percent(scores.conditional),
        ];
        row.extend(scores.at_least.map(percent));
        (scores.pictures > 0).then_some(row)
    });
    Table::new("visor", &columns, rows)
}

fn rules(methods: &[&Method]) -> Table {
    let columns = ["run", "pictures", "GenEval", "T2I-CompBench", "HRS", "PSE"];
    let rows = methods.iter().filter_map(|method| {
        let yes = |held: bool| f64::from(u8::from(held));
        let means = [
            mean(seen(method).filter_map(|(_, scored)| scored.geneval.map(yes))),
            mean(seen(method).filter_map(|(_, scored)| scored.t2i)),
            mean(seen(method).filter_map(|(_, scored)| scored.hrs.map(yes))),
            mean(seen(method).filter_map(|(_, scored)| scored.pse)),
        ];
        let mut row = vec![name(method), Cell::Count(seen(method).count())];
        row.extend(means.map(|mean| mean.map_or(Cell::Empty, Cell::Rate)));
        means.iter().any(Option::is_some).then_some(row)
    });
    Table::new("rules", &columns, rows)
}

fn in_depth(methods: &[&Method]) -> Table {
    let rows = methods.iter().filter_map(|method| {
        let scored = || seen(method).filter(|(_, scored)| scored.t2i_3d.is_some());
        let means = [
            mean(scored().filter_map(|(_, scored)| scored.pse_3d)),
            mean(scored().filter_map(|(_, scored)| scored.t2i_3d)),
        ];
        let mut row = vec![name(method), Cell::Count(scored().count())];
        row.extend(means.map(|mean| mean.map_or(Cell::Empty, Cell::Rate)));
        (scored().count() > 0).then_some(row)
    });
    let columns = ["run", "pictures", "PSE_3D", "T2I-CompBench_3D"];
    Table::new("depth", &columns, rows)
}

fn quality(methods: &[&Method]) -> Table {
    let columns = [
        "run",
        "pictures",
        "network",
        "reference",
        "figure",
        "value",
        "low",
        "high",
    ];
    let rows = methods.iter().flat_map(|method| {
        let each = method.quality.iter();
        each.flat_map(|one| one.figures.iter().map(move |figure| (one, figure)))
            .map(|(one, figure)| {
                let reference = one.reference.clone();
                let mut row = vec![
                    name(method),
                    Cell::Count(one.pictures),
                    Cell::Name(one.network.clone()),
                    reference.map_or(Cell::Empty, Cell::Name),
                    Cell::Name(figure.name.clone()),
                ];
                row.extend([figure.value, figure.low, figure.high].map(Cell::Mean));
                row
            })
    });
    Table::new("quality", &columns, rows)
}

fn sides(report: &Report, methods: &[&Method]) -> Table {
    let columns = [
        "run",
        "pictures",
        "left",
        "right",
        "side_invalid",
        "above",
        "below",
        "level_invalid",
    ];
    let prompts = report.prompts.list();
    let rows = methods.iter().filter_map(|method| {
        let neutral: Vec<&Scores> = seen(method)
            .filter(|(prompt, _)| prompts[*prompt].relations.is_empty())
            .map(|(_, scored)| scored)
            .collect();
        let share = |of: fn(&Scores) -> &Option<String>, wanted: &str| {
            let known = neutral.iter().filter_map(|scored| of(scored).as_deref());
            let hits = known.map(|side| f64::from(u8::from(side == wanted)));
            mean(hits).map_or(Cell::Empty, Cell::Rate)
        };
        let mut row = vec![name(method), Cell::Count(neutral.len())];
        row.extend(["left", "right", "invalid"].map(|side| share(|s| &s.side, side)));
        row.extend(["above", "below", "invalid"].map(|level| share(|s| &s.level, level)));
        let any = neutral
            .iter()
            .any(|s| s.side.is_some() || s.level.is_some());
        any.then_some(row)
    });
    Table::new("neutral", &columns, rows)
}

fn costs(methods: &[&Method]) -> Table {
    let columns = [
        "run",
        "pictures",
        "unet_calls",
        "guided_calls",
        "candidates",
        "seconds",
        "seconds_total",
    ];
    let rows = methods.iter().filter_map(|method| {
        let scored = || method.pictures.iter().filter_map(|p| p.scores.as_ref());
        let mean_of =
            |of: fn(&Scores) -> f64| mean(scored().map(of)).map_or(Cell::Empty, Cell::Mean);
        let count = scored().filter(|scored| scored.unet_calls > 0).count();
        let row = vec![
            name(method),
            Cell::Count(count),
            mean_of(|s| s.unet_calls as f64),
            mean_of(|s| s.guided_calls as f64),
            mean_of(|s| s.candidates as f64),
            mean_of(|s| s.seconds),
            Cell::Mean(scored().map(|s| s.seconds).sum()),
        ];
        (count > 0).then_some(row)
    });
    Table::new("costs", &columns, rows)
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
