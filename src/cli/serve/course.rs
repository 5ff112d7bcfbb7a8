//! A batch on its way through the steps: which of its pictures are left, and what is seen of them.

use prepose::engine::Session;
use prepose::sampling::denoise::Hook;
use prepose::search::{AttentionScorer, Scorer};
use prepose_serve::{Batch, MapImage, Watch};

use super::eye::Eye;

/// A batch on its way: which of its units is in which row.
pub struct Course<'a, 'b> {
    /// The units.
    pub batch: &'a Batch,
    /// The unit of each row.
    pub rows: Vec<usize>,
    /// What maps are told of, of each unit: names and token positions.
    pub objects: Vec<Vec<(String, Vec<usize>)>>,
    /// What is seen of the last step.
    pub eye: Eye,
    /// What scores the rows by their maps, where that is told.
    pub scorer: Option<AttentionScorer>,
    /// Evaluations of guidance's loss that were told.
    pub losses: usize,
    /// Whether maps and losses are told.
    pub traced: bool,
    /// Calls of the network so far.
    pub calls: usize,
    /// Recorded passes of guidance so far, of each unit.
    pub guided: Vec<usize>,
    /// Whether previews are decoded in tiles, because memory ran out without.
    pub tiled: bool,
    /// Who is told.
    pub watch: &'b mut dyn Watch,
}

/// What a step showed, row by row where there is something.
pub struct Traced {
    /// The newest losses of guidance.
    pub losses: Vec<f32>,
    /// How well the maps obey the relations.
    pub scores: Vec<f64>,
    /// Where the network looked.
    pub maps: Vec<Vec<MapImage>>,
}

impl Course<'_, '_> {
    /// Brings to the host what is told of the last step.
    pub fn read(&mut self, session: &Session) -> Traced {
        let newest = session.losses().skip(self.losses).last();
        let losses: Option<Vec<f32>> =
            newest.map(|(_, losses)| losses.to_data().iter::<f32>().collect());
        self.losses = session.losses().count();
        let scorer = self.scorer.as_mut();
        let scores = scorer.and_then(|scorer| scorer.scores().ok());
        let objects = self.rows.iter().map(|unit| self.objects[*unit].clone());
        let objects: Vec<_> = objects.collect();
        Traced {
            losses: losses.unwrap_or_default(),
            scores: scores.unwrap_or_default(),
            maps: self.eye.maps(&objects),
        }
    }

    /// Calls `act` with what sees the steps.
    pub fn with_hooks<T>(&mut self, act: impl FnOnce(&mut [&mut dyn Hook]) -> T) -> T {
        let mut hooks: Vec<&mut dyn Hook> = Vec::new();
        hooks.extend(self.scorer.as_mut().map(|scorer| scorer as &mut dyn Hook));
        hooks.push(&mut self.eye);
        act(&mut hooks)
    }

    /// Goes on without the rows that nobody wants any more; false if there are no others.
    pub fn drop_unwanted(&mut self, session: &mut Session) -> bool {
        let keep: Vec<usize> = (0..self.rows.len())
            .filter(|row| self.watch.wanted(self.rows[*row]))
            .collect();
        if keep.is_empty() {
            return false;
        }
        if keep.len() < self.rows.len() {
            self.with_hooks(|hooks| session.retain(&keep, hooks));
            self.rows = keep.iter().map(|row| self.rows[*row]).collect();
        }
        true
    }
}
