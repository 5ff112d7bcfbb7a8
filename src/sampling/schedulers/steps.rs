//! The timesteps and noise levels of a number of steps.

use super::config::Scheduler;
use super::schedule::Schedule;
use super::timesteps::{self, Spacing};
use super::{SchedulerError, SchedulerKind, pndm};

impl Scheduler {
    /// The timesteps and noise levels of `steps` steps. PNDM calls the UNet once more than that, or nine times more
    /// with the warm-up of its paper (`skip_prk_steps` absent or false).
    pub fn schedule(&self, steps: usize) -> Result<Schedule, SchedulerError> {
        let train = self.alphas_cumprod.len();
        let most = match self.kind {
            SchedulerKind::Lcm | SchedulerKind::Tcd => self.original_inference_steps.min(train),
            // With an offset the first of `train` timesteps would lie beyond the last of training.
            _ if self.spacing == Spacing::Leading && self.steps_offset > 0 => train - 1,
            _ => train,
        };
        let least = match self.kind == SchedulerKind::Pndm && !self.skip_runge_kutta {
            true => 4,
            false => 1,
        };
        if !(least..=most).contains(&steps) {
            return Err(SchedulerError::Steps {
                kind: self.kind,
                steps,
                least,
                most,
            });
        }
        let clips = matches!(
            self.kind,
            SchedulerKind::Dpmpp2m | SchedulerKind::Dpmpp2mKarras
        );
        if clips && train - self.clipped_timesteps() < 2 {
            let reason = "`lambda_min_clipped` leaves no two timesteps".to_string();
            return Err(self.no_room(steps, reason));
        }
        let (timesteps, sigmas) = match self.kind {
            SchedulerKind::Ddim => (self.one_step_timesteps(steps, false), vec![]),
            SchedulerKind::Pndm => {
                let times = self.one_step_timesteps(steps, false);
                let interval = (train / steps) as f64;
                let times = pndm::timesteps(times, self.skip_runge_kutta, interval);
                (times, vec![])
            }
            SchedulerKind::Lcm | SchedulerKind::Tcd => (self.distilled_timesteps(steps), vec![]),
            SchedulerKind::Euler | SchedulerKind::EulerA => self.euler_levels(steps),
            SchedulerKind::Dpmpp2m | SchedulerKind::Dpmpp2mKarras | SchedulerKind::UniPc => {
                self.solver_levels(steps)
            }
        };
        if timesteps.len() < steps {
            let reason = format!("`lambda_min_clipped` leaves only {}", timesteps.len());
            return Err(self.no_room(steps, reason));
        }
        // Between noise levels the last one counts for all beyond it; ᾱ is only known at the training timesteps.
        let last = if self.kind.uses_sigmas() {
            train
        } else {
            train - 1
        };
        if timesteps.iter().any(|t| *t > last as f64) {
            let offset = self.steps_offset;
            let reason =
                format!("`steps_offset` {offset} leads beyond the last of {train} timesteps");
            return Err(self.no_room(steps, reason));
        }
        Ok(Schedule {
            scheduler: self.clone(),
            steps,
            timesteps,
            sigmas,
            eta: super::tcd::GAMMA,
        })
    }

    fn no_room(&self, steps: usize, reason: String) -> SchedulerError {
        SchedulerError::NoRoom {
            kind: self.kind,
            steps,
            reason,
        }
    }

    fn one_step_timesteps(&self, steps: usize, fractions: bool) -> Vec<f64> {
        let train = self.alphas_cumprod.len();
        self.spacing
            .timesteps(steps, train, self.steps_offset, fractions)
    }

    /// An even choice among the timesteps of distillation.
    fn distilled_timesteps(&self, steps: usize) -> Vec<f64> {
        let original = self.original_inference_steps;
        let interval = self.alphas_cumprod.len() / original;
        let choice =
            (0..steps).map(|i| (i as f64 * (original as f64 / steps as f64)).floor() as usize);
        choice
            .map(|i| ((original - i) * interval - 1) as f64)
            .collect()
    }

    fn euler_levels(&self, steps: usize) -> (Vec<f64>, Vec<f32>) {
        let training = timesteps::training_sigmas(&self.alphas_cumprod);
        let mut times = self.one_step_timesteps(steps, true);
        let mut sigmas: Vec<f64> = times
            .iter()
            .map(|&t| timesteps::interpolate(t, &training))
            .collect();
        // Euler spreads Karras' levels over the range of the chosen timesteps, the solvers over all of training.
        if self.karras && self.kind == SchedulerKind::Euler {
            sigmas = timesteps::karras(sigmas[sigmas.len() - 1], sigmas[0], steps);
            let logs: Vec<f32> = training.iter().map(|sigma| sigma.ln()).collect();
            times = sigmas
                .iter()
                .map(|&sigma| f64::from(timesteps::timestep_of(sigma, &logs) as f32))
                .collect();
        }
        let last = match self.final_sigma_zero || self.kind == SchedulerKind::EulerA {
            true => 0.0,
            false => training[0],
        };
        (
            times,
            sigmas
                .into_iter()
                .map(|sigma| sigma as f32)
                .chain([last])
                .collect(),
        )
    }

    fn solver_levels(&self, steps: usize) -> (Vec<f64>, Vec<f32>) {
        let training = timesteps::training_sigmas(&self.alphas_cumprod);
        let train = training.len();
        let (times, sigmas, karras_min);
        if self.karras {
            let [min, max] = [training[0], training[train - 1]].map(f64::from);
            let logs: Vec<f32> = training.iter().map(|sigma| sigma.ln()).collect();
            let levels = timesteps::karras(min, max, steps);
            let whole = |t: f64| match self.cosine && self.kind != SchedulerKind::UniPc {
                true => t.trunc(),
                false => t.round_ties_even(),
            };
            times = levels
                .iter()
                .map(|&sigma| whole(timesteps::timestep_of(sigma, &logs)))
                .collect();
            karras_min = levels[steps - 1] as f32;
            sigmas = levels;
        } else {
            let last = match self.kind {
                SchedulerKind::UniPc => train,
                _ => train - self.clipped_timesteps(),
            };
            times = self
                .spacing
                .solver_timesteps(steps, train, last, self.steps_offset);
            sigmas = times
                .iter()
                .map(|&t| timesteps::interpolate(t, &training))
                .collect();
            karras_min = training[0];
        }
        let last = match (self.final_sigma_zero, self.kind) {
            (true, _) => 0.0,
            (false, SchedulerKind::UniPc) => karras_min,
            (false, _) => training[0],
        };
        (
            times,
            sigmas
                .into_iter()
                .map(|sigma: f64| sigma as f32)
                .chain([last])
                .collect(),
        )
    }

    /// How many timesteps have a log signal-to-noise ratio below `lambda_min_clipped`.
    fn clipped_timesteps(&self) -> usize {
        let lambda = |a: &f32| a.sqrt().ln() - (1.0 - a).sqrt().ln();
        self.alphas_cumprod
            .iter()
            .filter(|a| lambda(a) < self.lambda_min_clipped)
            .count()
    }
}
