//! What a row will take, and what is cut so that a sheet fits its time.
//!
//! Cut are, in this order: timed calls down to one; steps of whole pictures down to [`FEWEST_STEPS`]; rows that do
//! not fit, which the larger batches and the later groups are; and before all that, when a single call of a UNet
//! would take more than a third of its group's time, the size of its pictures, down to a quarter of each side.

use super::row::{Outcome, Row, What};

/// Steps that a whole picture keeps.
pub const FEWEST_STEPS: usize = 4;
/// Steps of the picture that is not counted.
pub const FIRST_STEPS: usize = 2;
/// The share of the speed of a large product of matrices that a UNet is expected to reach before it is known.
const EXPECTED_SHARE: f64 = 0.5;
/// The largest share of a group's time that a single call of the UNet may be expected to take.
const LARGEST_CALL: f64 = 1.0 / 3.0;

/// What is known of a row before it is measured, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// The call that does not count.
    pub first: f64,
    /// One that does.
    pub call: f64,
}

/// Whether a row is measured, and as what.
#[derive(Clone, Debug, PartialEq)]
pub enum Fit {
    /// As this row, with what was cut from it.
    Run(Row, Option<String>),
    /// Not at all, and why.
    Skip(String),
}

/// What has been measured so far, for what is to come.
#[derive(Debug, Default)]
pub struct Known {
    outcomes: Vec<Outcome>,
}

impl Known {
    /// Takes notice of an outcome.
    pub fn add(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    /// Operations a second of a large product of matrices of the row's type.
    fn ceiling(&self, row: &Row) -> Option<f64> {
        let mut products = self
            .outcomes
            .iter()
            .filter(|known| known.row.what == What::Matmul && known.row.dtype == row.dtype);
        products.find_map(Outcome::flop_rate)
    }

    /// What the row is expected to take; `unet_flops` of a call with one picture of its size.
    pub fn cost(&self, row: &Row, unet_flops: u64) -> Cost {
        let call = self.call(row, unet_flops);
        let first = match row.what {
            What::Load | What::Start => 0.0,
            What::Picture => call * FIRST_STEPS as f64 / row.steps.max(1) as f64,
            _ => call + self.overhead(row),
        };
        Cost { first, call }
    }

    fn call(&self, row: &Row, unet_flops: u64) -> f64 {
        let batch = row.batch as f64;
        let unet = || match self.measured(row, What::Unet) {
            Some((seconds, of)) => seconds * batch / of as f64,
            None => {
                let rate = self.ceiling(row).map(|rate| rate * EXPECTED_SHARE);
                rate.map_or(0.0, |rate| batch * unet_flops as f64 / rate)
            }
        };
        let step = || match self.measured(row, What::Step) {
            Some((seconds, of)) if of == row.batch => seconds,
            _ => 1.05 * unet(),
        };
        let decode = || match self.measured(row, What::Decode) {
            Some((seconds, of)) => seconds * batch / of as f64,
            // The autoencoder of SD 1.5 takes about as much as a call and a half of its UNet.
            None => 1.5 * unet(),
        };
        let picture = || row.steps as f64 * step() + decode();
        match row.what {
            What::Matmul | What::Load => 0.0,
            What::Text => 0.02 * unet(),
            What::Unet => unet(),
            What::Families => 1.2 * unet(),
            What::Step => step(),
            What::Guided => 2.5 * step(),
            What::Decode => decode(),
            What::Picture => picture(),
            What::Search => picture() * 16.0 / batch,
            What::Start => {
                let load = self.measured(row, What::Load).map_or(0.0, |(load, _)| load);
                load + picture()
            }
        }
    }

    /// The median of such a row with the same networks, and its batch: the same batch if there is one.
    fn measured(&self, row: &Row, what: What) -> Option<(f64, usize)> {
        let same = self.outcomes.iter().filter(|known| {
            let known = &known.row;
            let like = known.what == what && known.model == row.model && known.dtype == row.dtype;
            like && (known.size == row.size || what == What::Load)
        });
        let all: Vec<_> = same
            .filter_map(|known| Some((known.median()?, known.row.batch)))
            .collect();
        let exact = all.iter().find(|(_, batch)| *batch == row.batch);
        exact.or(all.last()).copied()
    }

    /// What first calls on the same networks took beyond the others: compiling and tuning, again for new shapes.
    fn overhead(&self, row: &Row) -> f64 {
        let same = self.outcomes.iter().filter(|known| {
            known.row.model == row.model
                && known.row.dtype == row.dtype
                && known.row.what != What::Picture
        });
        let beyond = same.filter_map(|known| Some(known.first_seconds? - known.median()?));
        beyond.fold(0.0, f64::max)
    }
}

/// Fits `row` into `left` seconds, of which as many `rows` as follow it and it are to have about equal parts; none
/// may take more than half of what is left.
pub fn fit(row: &Row, cost: Cost, left: f64, rows: usize) -> Fit {
    if left <= 0.0 {
        return Fit::Skip("left out: the time was over".into());
    }
    let mut row = row.clone();
    let mut cost = cost;
    let part = left / rows.max(1) as f64;
    let least = |cost: Cost| cost.first + cost.call;
    let half = left / 2.0;
    let mut cuts = Vec::new();
    if least(cost) > half && row.what == What::Picture {
        // Nearly all of a picture are its steps.
        let steps = (row.steps as f64 * half / least(cost)) as usize;
        let steps = steps.clamp(FEWEST_STEPS.min(row.steps), row.steps);
        let share = steps as f64 / row.steps as f64;
        cuts.push(format!("{steps} steps instead of {}", row.steps));
        cost = Cost {
            first: cost.first * share,
            call: cost.call * share,
        };
        row.steps = steps;
    }
    if least(cost) > half {
        let needed = least(cost);
        return Fit::Skip(format!(
            "left out: it would take about {needed:.0} s, and {half:.0} s were to be had"
        ));
    }
    if cost.call > 0.0 {
        let repeats = ((part - cost.first) / cost.call).max(0.0) as usize;
        let repeats = repeats.clamp(1, row.repeats);
        if repeats < row.repeats {
            let calls = if repeats == 1 { "call" } else { "calls" };
            cuts.push(format!(
                "{repeats} timed {calls} instead of {}",
                row.repeats
            ));
            row.repeats = repeats;
        }
    }
    let cuts = (!cuts.is_empty()).then(|| cuts.join(", "));
    Fit::Run(row, cuts)
}

/// The side of pictures for which one call of the UNet can be had, out of a group's `seconds`. `call` says what
/// it is expected to take at a side; sides are halved twice at most and stay multiples of `factor`.
pub fn size(full: usize, factor: usize, seconds: f64, call: impl Fn(usize) -> f64) -> usize {
    let halves = [full, full / 2, full / 4].into_iter();
    let possible = halves.filter(|side| side.is_multiple_of(factor) && *side >= 8 * factor);
    let mut smallest = full;
    for side in possible {
        // Once without and once with the clock.
        if 2.0 * call(side) <= LARGEST_CALL * seconds {
            return side;
        }
        smallest = side;
    }
    smallest
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;

    fn known() -> Known {
        let mut known = Known::default();
        let mut product = Outcome::empty(&row(What::Matmul));
        (product.seconds, product.flops) = (vec![1.0], Some(1000));
        known.add(product);
        known
    }

    #[test]
    fn what_is_not_known_is_guessed_and_what_is_known_is_scaled() {
        let mut known = known();
        let guess = known.cost(&row(What::Unet), 1000);
        assert_eq!(guess.call, 2.0);
        let mut unet = Outcome::empty(&row(What::Unet));
        (unet.first_seconds, unet.seconds) = (Some(5.0), vec![1.0]);
        known.add(unet);
        let four = Row {
            batch: 4,
            ..row(What::Unet)
        };
        // Twice the four times of one, and the compiling again.
        let expected = Cost {
            first: 8.0,
            call: 4.0,
        };
        assert_eq!(known.cost(&four, 1000), expected);
        let other = Row {
            size: 256,
            ..row(What::Unet)
        };
        assert_eq!(known.cost(&other, 500).call, 1.0);
        let picture = known.cost(&row(What::Picture), 1000);
        assert!((picture.call - (20.0 * 1.05 + 1.5)).abs() < 1e-9);
    }

    #[test]
    fn repeats_go_first_then_steps_then_the_row() {
        let cost = |call: f64| Cost { first: call, call };
        let unet = row(What::Unet);
        assert_eq!(
            fit(&unet, cost(1.0), 60.0, 10),
            Fit::Run(unet.clone(), None)
        );
        let Fit::Run(cut, Some(what)) = fit(&unet, cost(2.0), 60.0, 10) else {
            panic!("it fits")
        };
        assert_eq!((cut.repeats, &*what), (2, "2 timed calls instead of 5"));
        let Fit::Skip(why) = fit(&unet, cost(20.0), 60.0, 10) else {
            panic!("it does not fit")
        };
        assert!(why.contains("about 40 s, and 30 s"), "{why}");
        let Fit::Run(cut, Some(what)) = fit(&row(What::Picture), cost(30.0), 60.0, 1) else {
            panic!("with fewer steps it fits")
        };
        assert_eq!((cut.steps, cut.repeats), (10, 3), "{what}");
        let never = fit(&row(What::Picture), cost(1000.0), 60.0, 1);
        assert!(matches!(never, Fit::Skip(_)), "{never:?}");
        let free = fit(&unet, Cost::default(), 1.0, 3);
        assert_eq!(free, Fit::Run(unet.clone(), None));
        let late = fit(&unet, Cost::default(), 0.0, 3);
        assert!(matches!(late, Fit::Skip(_)), "{late:?}");
    }

    #[test]
    fn pictures_shrink_when_one_call_takes_too_long() {
        let quadratic = |side: usize| (side * side) as f64 / 1e5;
        assert_eq!(size(1024, 8, 100.0, quadratic), 1024);
        assert_eq!(size(1024, 8, 30.0, quadratic), 512);
        assert_eq!(size(1024, 8, 0.1, quadratic), 256);
        // A side of less than 8 latents makes no picture.
        assert_eq!(size(128, 8, 0.0, quadratic), 64);
    }
}
