//! Confidence intervals of rates by the bootstrap (Efron 1979): prompts are drawn again with replacement, each with all of
//! its pictures, since pictures of the same prompt are not independent of each other.

use std::collections::HashMap;
use std::hash::Hash;

use prepose_check::spatialbench::{Counts, Record, Verdict};
pub use prepose_statistics::bootstrap::{Bootstrap, Estimate};

/// The rates of one method, in 0..=1, with their intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Prompts that were drawn from.
    pub prompts: usize,
    /// Passes of all pictures.
    pub pass_rate: Estimate,
    /// Decided of all pictures.
    pub coverage: Estimate,
    /// Passes of the decided pictures.
    pub pass_rate_conditional: Estimate,
}

impl Rates {
    /// The rates of a method's records. Methods with the same prompts get the same draws.
    pub fn of(records: &[Record], bootstrap: &Bootstrap) -> Self {
        let verdicts = records.iter();
        let verdicts = verdicts.map(|record| (record.prompt_id.as_str(), record.verdict_raw));
        Self::of_verdicts(verdicts, bootstrap)
    }

    /// The rates of verdicts, each with its prompt.
    pub fn of_verdicts<P: Eq + Hash>(
        verdicts: impl Iterator<Item = (P, Verdict)>,
        bootstrap: &Bootstrap,
    ) -> Self {
        let prompts = by_prompt(verdicts);
        let total = sum(prompts.iter());
        let draws = bootstrap.draws_of(&prompts, |drawn| sum(drawn.iter().copied()));
        // A draw of nothing but undecided pictures says nothing of those that are decided.
        let estimate = |rate: fn(&Counts) -> f64, whole: fn(&Counts) -> usize| {
            let values = draws.iter().filter(|drawn| whole(drawn) > 0).map(rate);
            Estimate::new(rate(&total), values.collect())
        };
        Self {
            prompts: prompts.len(),
            pass_rate: estimate(Counts::pass_rate, Counts::total),
            coverage: estimate(Counts::coverage, Counts::total),
            pass_rate_conditional: estimate(Counts::pass_rate_conditional, Counts::decided),
        }
    }
}

fn sum<'a>(counts: impl Iterator<Item = &'a Counts>) -> Counts {
    counts.fold(Counts::default(), |sum, one| Counts {
        pass: sum.pass + one.pass,
        fail: sum.fail + one.fail,
        undecidable: sum.undecidable + one.undecidable,
    })
}

/// The verdicts of each prompt's pictures, in the order of the prompts' first pictures.
fn by_prompt<P: Eq + Hash>(verdicts: impl Iterator<Item = (P, Verdict)>) -> Vec<Counts> {
    let mut places: HashMap<P, usize> = HashMap::new();
    let mut prompts: Vec<Counts> = Vec::new();
    for (prompt, verdict) in verdicts {
        let place = *places.entry(prompt).or_insert_with(|| {
            prompts.push(Counts::default());
            prompts.len() - 1
        });
        match verdict {
            Verdict::Pass => prompts[place].pass += 1,
            Verdict::Fail => prompts[place].fail += 1,
            Verdict::Undecidable => prompts[place].undecidable += 1,
        }
    }
    prompts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    #[test]
    fn prompts_are_drawn_and_not_pictures() {
        // All four pictures of a prompt agree: 50 prompts are worth 50 observations, not 200.
        let records: Vec<Record> = (0..50)
            .flat_map(|prompt| (0..4).map(move |seed| (prompt, seed)))
            .map(|(prompt, seed)| {
                record(prompt, seed, if prompt % 2 == 0 { "PASS" } else { "FAIL" })
            })
            .collect();
        let rates = Rates::of(&records, &Bootstrap::default());
        assert_eq!((rates.prompts, rates.pass_rate.value), (50, 0.5));
        // The normal approximation: 0.5 ± 1.96 · √(0.25 / 50) = 0.5 ± 0.139.
        assert!((rates.pass_rate.low - 0.361).abs() < 0.025, "{rates:?}");
        assert!((rates.pass_rate.high - 0.639).abs() < 0.025, "{rates:?}");
        assert_eq!(
            rates.coverage,
            Estimate {
                value: 1.0,
                low: 1.0,
                high: 1.0
            }
        );
        assert_eq!(rates, Rates::of(&records, &Bootstrap::default()));
        let other = Bootstrap {
            seed: 1,
            draws: 100,
        };
        assert_ne!(rates, Rates::of(&records, &other));
    }

    #[test]
    fn draws_without_a_decided_picture_say_nothing_of_the_decided() {
        // (197 / 200)^200 = 4.9 % of the draws have none of the three prompts that are decided.
        let verdict = |prompt| if prompt < 3 { "PASS" } else { "UNDECIDABLE" };
        let records: Vec<Record> = (0..200)
            .map(|prompt| record(prompt, 0, verdict(prompt)))
            .collect();
        let rates = Rates::of(&records, &Bootstrap::default());
        assert_eq!(rates.pass_rate.value, 0.015);
        assert_eq!(rates.pass_rate.low, 0.0);
        assert_eq!(
            rates.pass_rate_conditional,
            Estimate {
                value: 1.0,
                low: 1.0,
                high: 1.0
            }
        );
    }

    #[test]
    fn nothing_has_no_rate() {
        assert_eq!(Rates::of(&[], &Bootstrap::default()), Rates::default());
    }
}
