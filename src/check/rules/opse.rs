//! OPSE: finding the best of several models with few pictures, as a bandit problem (Why Settle for Mid, arXiv 2506.23418,
//! appendix A.6).

use thiserror::Error;

/// How the bound of a model is formed from the rounds so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// ln t of the number of the round: t starts at the number of models plus 1, as each has had one round.
    #[default]
    Rounds,
    /// The authors' script: t starts at five times the number of models plus 1, as if each had had five rounds, though it
    /// has had one. Models are told apart more slowly, and there are fewer rounds.
    Published,
}

/// How models are compared; [`default`](Self::default) has the paper's numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Opse {
    /// How much more a model that was seldom tried is trusted: the bound is mean + `alpha` · sqrt(ln t / n).
    pub alpha: f64,
    /// Pictures a round; a round's value is their mean, and n counts rounds. With 1, n counts pictures as in the paper's
    /// equation 7.
    pub batch: usize,
    /// The last t.
    pub rounds: usize,
    /// What t is.
    pub clock: Clock,
    /// Decides which of several models with the same bound comes first.
    pub seed: u64,
}

impl Default for Opse {
    fn default() -> Self {
        Self {
            alpha: 2.0,
            batch: 5,
            rounds: 100,
            clock: Clock::default(),
            seed: 0,
        }
    }
}

/// Pictures that a comparison draws at most; the paper's has 500.
pub const MOST_DRAWS: usize = 10_000_000;

/// Why models cannot be compared.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum OpseError {
    /// Nothing to compare.
    #[error("OPSE compares models, and there are none")]
    NoModels,
    /// A round of nothing has no mean.
    #[error("a round of 0 pictures has no score; give at least 1")]
    NoBatch,
    /// More than anybody waits for.
    #[error(
        "{rounds} rounds of {batch} pictures are too many; at most {MOST_DRAWS} pictures are drawn"
    )]
    TooMany {
        /// Asked for.
        rounds: usize,
        /// Pictures a round.
        batch: usize,
    },
    /// Each model has one round before any is chosen.
    #[error("{rounds} rounds are too few for {models} models; give at least {least}")]
    TooFewRounds {
        /// Asked for.
        rounds: usize,
        /// How many models there are.
        models: usize,
        /// What would do.
        least: usize,
    },
    /// A score that is not a number would win or lose every comparison.
    #[error("a picture of model {model} has the score {score}")]
    Score {
        /// Index of the model.
        model: usize,
        /// Its score.
        score: f64,
    },
}

/// What is known of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Standing {
    /// How many rounds it has had.
    pub rounds: usize,
    /// The mean of its rounds.
    pub mean: f64,
}

/// A comparison of models.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The model of each round, in order.
    pub chosen: Vec<usize>,
    /// Each model's rounds and mean.
    pub standings: Vec<Standing>,
}

impl Comparison {
    /// The model that was chosen most often, and of several the one with the higher mean.
    pub fn best(&self) -> usize {
        let better = |a: &usize, b: &usize| {
            let (a, b) = (self.standings[*a], self.standings[*b]);
            a.rounds.cmp(&b.rounds).then(a.mean.total_cmp(&b.mean))
        };
        (0..self.standings.len()).max_by(better).unwrap_or_default()
    }
}

impl Opse {
    /// Compares `models` models. `score` makes a picture with the model of that index, for a prompt drawn at random, and
    /// scores it in 0..=1.
    ///
    /// Each model has a round of its own first. From then on the one with the highest bound has the next.
    ///
    /// # Errors
    /// Numbers that make no sense, a score that is not a number, or what `score` fails with.
    pub fn compare<E: From<OpseError>>(
        &self,
        models: usize,
        mut score: impl FnMut(usize) -> Result<f64, E>,
    ) -> Result<Comparison, E> {
        let first = self.first(models)?;
        // Rounds and the sum of their values.
        let mut values = vec![(0usize, 0.0); models];
        let mut chosen = Vec::new();
        let mut random = SplitMix(self.seed);
        let mut order: Vec<usize> = (0..models).collect();
        for round in 0..models + 1 + self.rounds - first {
            let model = if round < models {
                round
            } else {
                random.shuffle(&mut order);
                self.leader(&order, &values, first + round - models)
            };
            let mut sum = 0.0;
            for _ in 0..self.batch {
                let score = score(model)?;
                if !score.is_finite() {
                    return Err(OpseError::Score { model, score }.into());
                }
                sum += score;
            }
            values[model].0 += 1;
            values[model].1 += sum / self.batch as f64;
            chosen.push(model);
        }
        let standing = |(rounds, sum): &(usize, f64)| Standing {
            rounds: *rounds,
            mean: sum / *rounds as f64,
        };
        Ok(Comparison {
            chosen,
            standings: values.iter().map(standing).collect(),
        })
    }

    /// The first t at which a model is chosen.
    fn first(&self, models: usize) -> Result<usize, OpseError> {
        if models == 0 {
            return Err(OpseError::NoModels);
        }
        if self.batch == 0 {
            return Err(OpseError::NoBatch);
        }
        let (rounds, batch) = (self.rounds, self.batch);
        let draws = rounds.saturating_add(models).saturating_mul(batch);
        if draws > MOST_DRAWS {
            return Err(OpseError::TooMany { rounds, batch });
        }
        let first = match self.clock {
            Clock::Rounds => models + 1,
            Clock::Published => 5 * models + 1,
        };
        if self.rounds < first {
            return Err(OpseError::TooFewRounds {
                rounds: self.rounds,
                models,
                least: first,
            });
        }
        Ok(first)
    }

    /// The first in `order` of those with the highest bound.
    fn leader(&self, order: &[usize], values: &[(usize, f64)], t: usize) -> usize {
        let bound = |model: usize| {
            let (rounds, sum) = values[model];
            let n = rounds as f64;
            sum / n + ((t as f64).ln() / n).sqrt() * self.alpha
        };
        let mut best = order[0];
        for model in &order[1..] {
            if bound(*model) > bound(best) {
                best = *model;
            }
        }
        best
    }
}

/// A small generator of random numbers (SplitMix64; Steele, Lea and Flood, 2014), good enough to draw lots.
#[derive(Clone, Debug)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        // The upper half of the product; its bias is below 2⁻³² for any real number of things.
        ((u128::from(self.next_u64()) * end as u128) >> 64) as usize
    }

    fn shuffle(&mut self, items: &mut [usize]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Models whose pictures score 1 with these probabilities.
    fn coins<'a>(
        odds: &'a [f64],
        random: &'a mut SplitMix,
    ) -> impl FnMut(usize) -> Result<f64, OpseError> + 'a {
        move |model| {
            let toss = random.next_u64() as f64 / u64::MAX as f64;
            Ok(f64::from(u8::from(toss < odds[model])))
        }
    }

    #[test]
    fn the_best_model_is_found_and_tried_most() {
        let odds = [0.2, 0.7, 0.4];
        for clock in [Clock::Rounds, Clock::Published] {
            let mut found = 0;
            for seed in 0..50 {
                let opse = Opse {
                    clock,
                    seed,
                    rounds: 300,
                    ..Opse::default()
                };
                let mut random = SplitMix(1000 + seed);
                let comparison = opse.compare(3, coins(&odds, &mut random)).unwrap();
                found += usize::from(comparison.best() == 1);
                let standings = &comparison.standings;
                assert!(standings.iter().all(|standing| standing.rounds > 0));
                let total: usize = standings.iter().map(|standing| standing.rounds).sum();
                assert_eq!(total, comparison.chosen.len());
                let expected = match clock {
                    Clock::Rounds => 300,
                    // Three rounds of one model each, then t from 16 to 300.
                    Clock::Published => 3 + 285,
                };
                assert_eq!(total, expected);
            }
            assert!(found >= 45, "{clock:?}: {found} of 50");
        }
    }

    #[test]
    fn regret_grows_slower_than_the_rounds() {
        let odds = [0.3, 0.8];
        let lost = |rounds| {
            let of = |seed| {
                let opse = Opse {
                    rounds,
                    seed,
                    ..Opse::default()
                };
                let mut random = SplitMix(seed);
                let comparison = opse.compare(2, coins(&odds, &mut random)).unwrap();
                comparison.standings[0].rounds as f64 / rounds as f64
            };
            (0..30).map(of).sum::<f64>() / 30.0
        };
        let (short, long) = (lost(100), lost(2000));
        assert!(long < short / 2.0, "{short} {long}");
    }

    #[test]
    fn equal_models_share_the_rounds() {
        let opse = Opse {
            rounds: 400,
            ..Opse::default()
        };
        let comparison = opse.compare(4, |_| Ok::<_, OpseError>(0.5)).unwrap();
        assert!(
            comparison
                .standings
                .iter()
                .all(|standing| standing.rounds == 100)
        );
        // Lots decide, so the order is not that of the models.
        assert_ne!(comparison.chosen[4..8], [0, 1, 2, 3]);
    }

    #[test]
    fn what_cannot_be_compared() {
        let with = |change: &dyn Fn(&mut Opse), models| {
            let mut opse = Opse::default();
            change(&mut opse);
            opse.compare(models, |_| Ok::<_, OpseError>(0.5))
                .unwrap_err()
        };
        assert_eq!(with(&|_| {}, 0), OpseError::NoModels);
        assert_eq!(with(&|opse| opse.batch = 0, 2), OpseError::NoBatch);
        assert!(
            with(&|opse| opse.rounds = 2, 2)
                .to_string()
                .contains("at least 3")
        );
        assert!(with(&|_| {}, 100).to_string().contains("at least 101"));
        for change in [
            &(|opse: &mut Opse| opse.rounds = usize::MAX) as &dyn Fn(&mut Opse),
            &|opse| opse.batch = usize::MAX,
            &|opse| opse.rounds = 10_000_000,
        ] {
            let error = with(change, 2).to_string();
            assert!(error.contains("at most 10000000"), "{error}");
        }
        let error = Opse::default().compare(1, |_| Ok::<_, OpseError>(f64::NAN));
        assert!(matches!(error, Err(OpseError::Score { model: 0, .. })));
    }
}
