//! Confidence intervals of rates by the bootstrap (Efron 1979): prompts are drawn again with replacement, each with all of
//! its pictures, since pictures of the same prompt are not independent of each other.

use std::collections::HashMap;
use std::hash::Hash;

use prepose_check::python_random::PythonRandom;
use prepose_check::spatialbench::{Counts, Record, Verdict};

/// How often prompts are drawn, and with which seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// More give steadier ends; at least 1.
    pub draws: usize,
    /// The same seed gives the same intervals.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self {
            draws: 2000,
            seed: 0,
        }
    }
}

/// A value and its 95 % percentile interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Of what was made.
    pub value: f64,
    /// 2.5 % of the draws are below it.
    pub low: f64,
    /// 2.5 % of the draws are above it.
    pub high: f64,
}

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

impl Bootstrap {
    /// The rates of a method's records. Methods with the same prompts get the same draws.
    pub fn rates(&self, records: &[Record]) -> Rates {
        let verdicts = records.iter();
        self.rates_of(verdicts.map(|record| (record.prompt_id.as_str(), record.verdict_raw)))
    }

    /// The rates of verdicts, each with its prompt.
    pub fn rates_of<P: Eq + Hash>(&self, verdicts: impl Iterator<Item = (P, Verdict)>) -> Rates {
        let prompts = by_prompt(verdicts);
        let total = sum(prompts.iter());
        let draws = self.draws_of(&prompts, |drawn| sum(drawn.into_iter()));
        let estimate = |rate: fn(&Counts) -> f64| {
            let values = draws.iter().map(rate).collect();
            Estimate::new(rate(&total), values)
        };
        Rates {
            prompts: prompts.len(),
            pass_rate: estimate(Counts::pass_rate),
            coverage: estimate(Counts::coverage),
            pass_rate_conditional: estimate(Counts::pass_rate_conditional),
        }
    }

    /// The mean of values that come in groups, those of a prompt together: the groups are drawn again.
    pub fn mean(&self, groups: &[Vec<f64>]) -> Estimate {
        let sums: Vec<(f64, usize)> = (groups.iter())
            .map(|group| (group.iter().sum(), group.len()))
            .collect();
        let mean = |groups: &mut dyn Iterator<Item = &(f64, usize)>| {
            let (sum, count) = groups.fold((0.0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            sum / count.max(1) as f64
        };
        let values = self.draws_of(&sums, |drawn| mean(&mut drawn.into_iter()));
        Estimate::new(mean(&mut sums.iter()), values)
    }

    /// What `of` says of each draw of as many of `groups` as there are, with replacement.
    fn draws_of<'a, T, R>(&self, groups: &'a [T], of: impl Fn(Vec<&'a T>) -> R) -> Vec<R> {
        let mut random = PythonRandom::new(self.seed);
        let count = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        (0..self.draws.max(1))
            .map(|_| {
                of((0..count)
                    .map(|_| &groups[random.below(count) as usize])
                    .collect())
            })
            .collect()
    }
}

impl Estimate {
    /// A value with the interval of its draws.
    fn new(value: f64, mut draws: Vec<f64>) -> Self {
        draws.sort_by(f64::total_cmp);
        Self {
            value,
            low: quantile(&draws, 0.025),
            high: quantile(&draws, 0.975),
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

/// Between the two nearest of sorted values, in proportion; 0 of none.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let at = share * last as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(prompt: usize, seed: usize, verdict: &str) -> Record {
        serde_json::from_value(serde_json::json!({
            "sample_id": format!("m_p{prompt}_seed{seed:04}"), "prompt_id": format!("p{prompt}"),
            "relation": "left_of", "object_a": "dog", "object_b": "cat",
            "verdict_raw": verdict, "verdict_reason": null, "conf": 0.5,
            "conf_components": { "detection": 1.0, "geometry": 1.0, "stability": 1.0, "agreement": 1.0 },
            "detectors": { "primary": { "type": "toybox", "detections": [] } },
            "selected": {}, "geometry": { "delta": null, "margin": 0.1, "iou_ab": null }, "overlay_path": null,
        }))
        .unwrap()
    }

    #[test]
    fn prompts_are_drawn_and_not_pictures() {
        // All four pictures of a prompt agree: 50 prompts are worth 50 observations, not 200.
        let records: Vec<Record> = (0..50)
            .flat_map(|prompt| (0..4).map(move |seed| (prompt, seed)))
            .map(|(prompt, seed)| {
                record(prompt, seed, if prompt % 2 == 0 { "PASS" } else { "FAIL" })
            })
            .collect();
        let rates = Bootstrap::default().rates(&records);
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
        assert_eq!(rates, Bootstrap::default().rates(&records));
        let other = Bootstrap {
            seed: 1,
            draws: 100,
        };
        assert_ne!(rates, other.rates(&records));
    }

    #[test]
    fn means_are_drawn_by_groups() {
        let groups: Vec<Vec<f64>> = (0..50).map(|i| vec![f64::from(i % 2); 4]).collect();
        let mean = Bootstrap::default().mean(&groups);
        assert_eq!(mean.value, 0.5);
        assert!(
            (mean.low - 0.361).abs() < 0.025 && (mean.high - 0.639).abs() < 0.025,
            "{mean:?}"
        );
        assert_eq!(Bootstrap::default().mean(&[]), Estimate::default());
    }

    #[test]
    fn nothing_has_no_rate() {
        assert_eq!(Bootstrap::default().rates(&[]), Rates::default());
        assert_eq!(quantile(&[1.0, 2.0], 0.25), 1.25);
    }
}
