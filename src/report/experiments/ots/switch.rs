//! Until when the order of mention matters: the prompt changes while the picture is made.

use std::collections::HashMap;

use super::published::flux;
use super::{Direction, Place, Tallies, Tally, cells};
use crate::experiments::{Compared, Moment, Pictures, Results, percent};
use prepose_draw::plot::{Axis, Chart, Drawing, Series, Style};
use prepose_draw::table::{Cell, Table};
use prepose_scene::neutral::Opening;

/// One setting at one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Switched {
    /// `A2B`: begun with the order A, switched to B; `N2A`: begun without an order, switched to A.
    pub setting: &'static str,
    /// Until when it was begun so.
    pub moment: Moment,
    /// Of all pictures.
    pub all: Tallies,
    /// Of the pictures whose pair follows the order of mention at the base, which the paper selects.
    pub biased: Tallies,
}

/// What the switch at each step came to: of the objects' order in the set (A) and the other one (B).
pub fn switched(pictures: &Pictures, direction: Direction) -> Vec<Switched> {
    let counterparts = pictures.counterparts();
    let base = pictures
        .methods
        .iter()
        .find(|(method, _)| method.name == Compared::PROMPT_ONLY && method.is_plain());
    let at_base: HashMap<(usize, u64), Place> = (base.iter().flat_map(|(_, seen)| seen))
        .filter_map(|(prompt, scores)| Some(((*prompt, scores.seed), direction.place(scores)?)))
        .collect();
    let follows = |prompt: usize, seed| at_base.get(&(prompt, seed)) == Some(&Place::First);
    let mut all = Vec::new();
    // The final order is the set's, or the other one.
    for (setting, with, set_order) in [
        ("A2B", Opening::Swapped, false),
        ("B2A", Opening::Swapped, true),
        ("N2A", Opening::Neutral, true),
        ("N2B", Opening::Neutral, false),
    ] {
        let mut of_setting = Vec::new();
        for (method, seen) in &pictures.methods {
            let moment = match &method.opening {
                None if method.is_plain() => Moment::start(),
                Some((opening, moment)) if *opening == with => moment.clone(),
                _ => continue,
            };
            let placed: Vec<(usize, Place, bool)> = seen
                .iter()
                .filter_map(|(prompt, scores)| {
                    let other = counterparts[*prompt]?;
                    if (other > *prompt) != set_order {
                        return None;
                    }
                    let place = direction.place(scores)?;
                    let seed = scores.seed;
                    let biased = follows(*prompt, seed) && follows(other, seed);
                    Some((*prompt, place, biased))
                })
                .collect();
            let biased = placed.iter().filter(|(.., biased)| *biased);
            let place = |(prompt, place, _): &(usize, Place, bool)| (*prompt, *place);
            of_setting.push(Switched {
                setting,
                moment,
                all: Tallies::of(placed.iter().map(place), &counterparts),
                biased: Tallies::of(biased.map(place), &counterparts),
            });
        }
        // Only one of the openings may have been asked for.
        if of_setting.iter().all(|row| row.moment == Moment::start()) {
            continue;
        }
        // Noise levels, of which the share is not known, stay as they are, at the end.
        let share = |row: &Switched| row.moment.share.unwrap_or(f64::INFINITY);
        of_setting.sort_by(|a, b| share(a).total_cmp(&share(b)));
        let made = |row: &Switched| row.all.sum().total() > 0;
        all.extend(of_setting.into_iter().filter(made));
    }
    all
}

/// What the switch at each moment came to, beside FLUX-dev.
pub fn switch(pictures: &Pictures, direction: Direction) -> Results {
    let [left, right] = direction.words();
    let columns = [
        "run",
        "step",
        "share_of_steps",
        "pictures",
        left,
        right,
        "invalid",
        "invalid_percent",
        "success",
        "success_low",
        "success_high",
        "success_of_all",
        "homogenization",
        "low",
        "high",
        "published_FLUX-dev",
    ];
    let switched = switched(pictures, direction);
    let rows = switched.iter().map(|row| line(row, direction));
    let table = Table::new("switch", &columns, rows);
    let success = |row: &Switched| row.biased.sum().success();
    let homogenization = |row: &Switched| row.all.sum().homogenization();
    let chart = |title: &str, label: &str, settings, of: &dyn Fn(&Switched) -> Option<f64>| {
        chart(
            &switched,
            pictures.steps,
            direction,
            [title, label],
            settings,
            of,
        )
    };
    Results {
        name: "switch",
        note: format!(
            "A and B are the two orders of a pair. A2B begins with A and switches to B, N2A begins with the neutral prompt and \
             switches to A; step 0 has the final prompt from the start. Success: the first-mentioned object of the final prompt is \
             {left}, of the valid pictures; over the pairs and seeds that follow the order of mention in both orders at step 0, as the \
             paper selects its pictures, and over all. Homogenization is over all. low and high are the ends of 95 % intervals over \
             pairs. In invalid pictures the two are not both there once, apart, and {}; they do not count.",
            direction.arrangement()
        ),
        tables: vec![table],
        plots: vec![
            (
                "success",
                chart(
                    "Order swap",
                    "follows the final prompt, %",
                    ["A2B", "B2A"],
                    &success,
                ),
            ),
            (
                "homogenization",
                chart(
                    "Neutral, then the prompt",
                    "homogenization, %",
                    ["N2A", "N2B"],
                    &homogenization,
                ),
            ),
        ],
    }
}

/// The row of the table.
fn line(row: &Switched, direction: Direction) -> Vec<Cell> {
    let tallies = if is_swap(row) { &row.biased } else { &row.all };
    let mut line = vec![
        Cell::Name(row.setting.into()),
        Cell::Name(row.moment.text.clone()),
        row.moment.share.map_or(Cell::Empty, Cell::Rate),
    ];
    line.extend(tallies.sum().cells());
    match is_swap(row) {
        true => {
            line.extend(cells(tallies.estimate(Tally::success)));
            line.push(percent(row.all.sum().success()));
            line.extend(cells(None));
        }
        false => {
            line.extend(cells(None));
            line.push(Cell::Empty);
            line.extend(cells(tallies.estimate(Tally::homogenization)));
        }
    }
    line.push(percent(known(row, direction)));
    line
}

fn is_swap(row: &Switched) -> bool {
    row.setting.starts_with(['A', 'B'])
}

/// What is published of the same setting after the same number of steps.
fn known(row: &Switched, direction: Direction) -> Option<f64> {
    (direction == Direction::Sides).then(|| flux(row.setting, &row.moment.text))?
}

/// Two settings over the share of the steps, with what is published of them.
fn chart(
    switched: &[Switched],
    steps: usize,
    direction: Direction,
    [title, label]: [&str; 2],
    settings: [&'static str; 2],
    of: &dyn Fn(&Switched) -> Option<f64>,
) -> Drawing {
    let step = |row: &Switched| Some(row.moment.share? * steps as f64);
    let mut series = Vec::new();
    for (look, setting) in settings.into_iter().enumerate() {
        let rows = || switched.iter().filter(|row| row.setting == setting);
        let points = rows().filter_map(|row| Some((step(row)?, of(row)?)));
        let theirs = rows().filter_map(|row| Some((step(row)?, known(row, direction)?)));
        let name = format!("{setting}, FLUX-dev (published)");
        series.push(Series::new(setting, points.collect(), Style::Line, look));
        series.push(Series::new(&name, theirs.collect(), Style::Line, look + 2));
    }
    series.retain(|series| !series.points.is_empty());
    let last = switched.iter().filter_map(step).fold(1.0, f64::max);
    Chart {
        title: title.into(),
        x: Axis::linear(&format!("step of the switch, of {steps}"), 0.0, last),
        y: Axis::linear(label, 0.0, 100.0),
        series,
        notes: Vec::new(),
    }
    .draw()
}
