//! Tables of what published rules score, of picture quality, and of what pictures cost.

use super::breakdown;
use super::model::{Method, Report};
use super::scaling;
use super::stats::mean;
use super::titled::{Tables, name};
use prepose_check::rules::visor;
use prepose_check::sample::Scores;
use prepose_draw::table::{Cell, Table};

/// Adds the tables of all methods.
pub(crate) fn add(tables: &mut Tables, report: &Report) {
    let methods: Vec<&Method> = report.methods.iter().collect();
    tables.add(
        "VISOR",
        "arXiv:2212.10015: both objects found; all relations hold by the centres, of all pictures and of those with \
         both objects; prompts with at least 1 to 4 right pictures. Of prompts whose relations are all left, right, above or \
         below, between objects that the detector has different words for.",
        visor(report, &methods),
    );
    tables.add(
        "Other rules",
        "Means over the pictures that each rule scores: GenEval's position, T2I-CompBench's spatial score, HRS-Bench, and the \
         probability of superiority of the worst relation (PSE).",
        rules(&methods),
    );
    tables.add(
        "Depth",
        "Means over the pictures of relations in depth that a depth network looked at: the probability of superiority in depth \
         (PSE), and T2I-CompBench's 3D score.",
        in_depth(&methods),
    );
    tables.add(
        "Picture quality",
        "What networks' features say of each method's pictures as a set (prepose score quality), with 95 % bootstrap intervals. \
         Figures of different networks, references or numbers of pictures cannot be compared.",
        quality(&methods),
    );
    tables.add(
        "Neutral prompts",
        "Where the first-mentioned object of a neutral prompt is, as shares of its pictures; invalid if not both are found.",
        sides(report, &methods),
    );
    tables.add(
        "Refusals",
        "Pictures that their source refused to make by its rules about content: by prompt, beside those that it made. They are \
         neither missing nor failures, and in no other figure.",
        breakdown::refusals(report),
    );
    tables.add(
        "Costs",
        "Means for a picture: rows through the whole UNet, guided passes, noises tried, seconds without the checker's.",
        costs(&methods),
    );
    tables.add(
        "Scaling",
        "Searches by the number of noises that they try.",
        scaling::table(&scaling::points(report)),
    );
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
        let counted = seen(method).filter_map(|(prompt, scored)| {
            let prompt = &prompts[prompt];
            Some((prompt.prompt_id.as_str(), scored.visor(prompt)?))
        });
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

#[cfg(test)]
mod tests {
    use super::super::bootstrap::Bootstrap;
    use super::super::model::{Picture, Prompts};
    use super::super::paired;
    use super::*;
    use crate::testing::{method, picture, related, report};
    use prepose_scene::Relation;

    /// Pictures of three prompts, with what the rules say of each.
    fn scored(name: &str) -> Method {
        let rules = [
            (2, Some(true), Some(1.0)),
            // VISOR and PSE do not score these three.
            (2, None, None),
            (2, None, None),
            (0, None, None),
            // An object is missing.
            (1, None, Some(0.0)),
        ];
        let prompts = [0, 1, 2, 2, 0];
        let picture = |(seed, (prompt, (found, centre, pse)))| Picture {
            scores: Some(Scores {
                found: Some(found),
                objects: 2,
                centre,
                pse,
                ..Scores::default()
            }),
            ..picture(name, prompt, seed)
        };
        let pictures = (0..).zip(prompts.into_iter().zip(rules)).map(picture);
        method(name, pictures.collect())
    }

    #[test]
    fn what_visor_does_not_score_is_not_wrong() {
        let mut prompts = Prompts::default();
        for (id, relation, objects) in [
            ("p0", Relation::LeftOf, ["dog", "cat"]),
            ("p1", Relation::Near, ["dog", "cat"]),
            // The detector calls both a car.
            ("p2", Relation::LeftOf, ["red car", "blue car"]),
        ] {
            prompts.find(0, id, || related(id, relation, &objects));
        }
        let report = report(["one", "two"].map(scored).into(), prompts);
        let methods: Vec<&Method> = report.methods.iter().collect();
        // Of the two pictures of p0 one shows both objects, where they belong.
        let expected = [
            Cell::Count(2),
            Cell::Count(1),
            Cell::Rate(0.5),
            Cell::Rate(0.5),
        ];
        assert_eq!(visor(&report, &methods).rows[0][1..5], expected);
        let pairs = paired::pairs(&report, &Bootstrap::default());
        let pair = pairs.iter().find(|pair| pair.measure == "VISOR_uncond");
        assert_eq!(
            pair.map(|pair| (pair.pictures, pair.means)),
            Some((2, (0.5, 0.5)))
        );
        let points = scaling::others(&report, &[]);
        assert_eq!(points[0].centre, Some(0.5));
    }
}
