//! Which UNet calls of a run are whole, and which take results from calls before them.

use prepose_models::unet::{Kept, Reuse};

use super::conditioning::ConditioningPlan;
use super::hook::State;
use super::pictures::Acting;

/// What is left out of a run's UNet calls. The default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Savings {
    /// DeepCache: after so many steps at most the deep part runs again; at least 2.
    pub deep_every: Option<usize>,
    /// The skip connection, from 0, outside of which each step runs.
    pub deep_branch: usize,
    /// T-GATE: the first step, from 1, that takes its cross-attention from the step before it and has no classifier-free
    /// guidance any more.
    pub gate: Option<usize>,
    /// The share of tokens that self-attention merges where feature maps are largest.
    pub merging: Option<f64>,
}

impl Savings {
    /// Whether `step` comes after T-GATE's gate.
    pub fn is_gated(&self, step: usize) -> bool {
        self.gate.is_some_and(|gate| step >= gate)
    }
}

/// Rows through the network, of one picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnetRows {
    /// Through all of it, or all but the cross-attention that T-GATE has kept.
    pub whole: usize,
    /// Through the part outside of DeepCache's skip connection.
    pub shallow: usize,
}

/// What must be the same for a call to take what another has left.
#[derive(Clone, Debug, PartialEq)]
struct Kind {
    /// The text, and what acts besides it.
    told: (usize, Acting),
    rows: usize,
    gated: bool,
}

/// What a run has kept of its calls so far.
#[derive(Debug)]
pub(super) struct Saving {
    settings: Savings,
    reuse: Reuse,
    /// Of the call that left the deep features, and how many steps ago that was.
    left_by: Option<(Kind, usize)>,
    rows: UnetRows,
}

impl Saving {
    pub fn new(settings: Savings, pictures: usize) -> Self {
        let reuse = Reuse {
            merging: settings.merging,
            branch: settings.deep_branch,
            pictures,
            ..Reuse::default()
        };
        Self {
            settings,
            reuse,
            left_by: None,
            rows: UnetRows::default(),
        }
    }

    /// How the call of this step runs, for `rows` rows a picture; none as it always does. A step is `moved` if a hook moves
    /// the latents by what it sees in the network.
    pub fn call(&mut self, state: &State, rows: usize, moved: bool) -> Option<&mut Reuse> {
        let Savings {
            deep_every,
            gate,
            merging,
            ..
        } = self.settings;
        let gated = self.settings.is_gated(state.step);
        let last_before = gate == Some(state.step + 1);
        // The step before the gate is not there in a run that begins after it, or was recorded.
        let missing = gated && self.reuse.cross.get().is_none();
        if last_before || missing {
            self.reuse.cross = Kept::Wanted;
        }
        let mut shallow = false;
        if let Some(every) = deep_every {
            let kind = Kind {
                told: state.plan.told(state.step),
                rows,
                gated,
            };
            let whole = moved || self.reuse.cross.is_wanted();
            let left = self.left_by.take();
            let usable = left.filter(|(by, ago)| *by == kind && ago + 1 < every && !whole);
            shallow = usable.is_some();
            if !shallow {
                self.reuse.deep = Kept::Wanted;
            }
            self.left_by = Some(usable.map_or((kind, 0), |(kind, ago)| (kind, ago + 1)));
        }
        self.count(rows, shallow);
        let saves = deep_every.is_some() || gated || last_before || merging.is_some();
        saves.then_some(&mut self.reuse)
    }

    /// A step's calls were split and recorded, `rows` rows a picture: they leave nothing.
    pub fn recorded(&mut self, rows: usize) {
        self.left_by = None;
        self.reuse.deep = Kept::Off;
        self.count(rows, false);
    }

    /// As [`call`](Self::call), for a half that runs beside a recorded one.
    pub fn merging_alone(&self) -> Option<Reuse> {
        let merging = Some(self.settings.merging?);
        Some(Reuse {
            merging,
            ..Reuse::default()
        })
    }

    fn count(&mut self, rows: usize, shallow: bool) {
        match shallow {
            true => self.rows.shallow += rows,
            false => self.rows.whole += rows,
        }
    }

    pub fn rows(&self) -> UnetRows {
        self.rows
    }

    pub fn retain(&mut self, keep: &[usize]) {
        self.reuse.retain(keep);
    }
}

impl ConditioningPlan {
    /// Tells apart what the UNet is told at a step.
    fn told(&self, step: usize) -> (usize, Acting) {
        (self.text(step), self.acting(step))
    }
}
