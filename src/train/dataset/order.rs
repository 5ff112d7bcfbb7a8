//! What is trained when: each sample once an epoch, in an order that is drawn, in batches of pictures of one size.
//!
//! An epoch's batches depend on the seed and the epoch's number alone, so that a place is a number of batches, and nothing has
//! to be kept of a generator.

use std::collections::BTreeMap;

use prepose_optimizer::draws::{Draws, Purpose};
use prepose_scene::neutral::swapped as exchanged;
use serde::{Deserialize, Serialize};

use crate::bucket::Size;
use crate::look::Looked;
use crate::sample::Sample;
use crate::sides::{SideWords, names_a_side, names_a_turn, swapped};

/// What each picture comes as besides itself with its caption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flips {
    /// There are none.
    #[default]
    None,
    /// Each picture comes as it is and as its mirror image.
    Both(SideWords),
    /// Each picture comes with its caption, and with one that names its two objects in the other order and says the same:
    /// "a dog and a cat" and "a cat and a dog", "a dog left of a cat" and "a cat right of a dog". There is none where the
    /// caption cannot be turned round by rule.
    Exchange,
}

impl Flips {
    /// What becomes of words of sides in mirror images, if there are such images.
    pub fn mirrors(self) -> Option<SideWords> {
        match self {
            Self::Both(words) => Some(words),
            Self::None | Self::Exchange => None,
        }
    }
}

/// A picture or its mirror image, with a caption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Which of the samples.
    pub sample: usize,
    /// Whether it is the mirror image.
    pub flipped: bool,
    /// What it shows.
    pub caption: String,
}

/// The caption of a sample's mirror image; none if a word of its caption or phrases keeps it from having one.
fn mirrored(sample: &Sample, words: SideWords) -> Option<String> {
    let caption = &sample.caption;
    let phrases = sample.objects.iter().map(|object| object.phrase.as_str());
    let mut texts = phrases.chain([caption.as_str()]);
    match words {
        SideWords::LeaveOut => (!texts.any(names_a_side)).then(|| caption.clone()),
        SideWords::Swap => (!texts.any(names_a_turn)).then(|| swapped(caption)),
        SideWords::Keep => Some(caption.clone()),
    }
}

/// The items of an epoch: each as often as its sample comes.
pub fn items(samples: &[Looked], flips: Flips) -> Vec<Item> {
    let mut items = Vec::new();
    for (sample, looked) in samples.iter().enumerate() {
        let caption = &looked.sample.caption;
        let other = match flips {
            Flips::None => None,
            Flips::Both(words) => mirrored(&looked.sample, words).map(|caption| (true, caption)),
            Flips::Exchange => exchanged(caption).ok().map(|caption| (false, caption)),
        };
        let both: Vec<Item> = [Some((false, caption.clone())), other]
            .into_iter()
            .flatten()
            .map(|(flipped, caption)| Item {
                sample,
                flipped,
                caption,
            })
            .collect();
        for _ in 0..looked.sample.repeats {
            items.extend_from_slice(&both);
        }
    }
    items
}

/// The order of a training.
#[derive(Clone, Debug)]
pub struct Order {
    draws: Draws,
    batch: usize,
    /// Of each item.
    sizes: Vec<Size>,
    /// Batches in an epoch.
    batches: usize,
}

impl Order {
    /// Batches of at most `batch` items of one size; `sizes` are those of the items.
    pub fn new(draws: Draws, batch: usize, sizes: Vec<Size>) -> Self {
        let batch = batch.max(1);
        let mut counts: BTreeMap<Size, usize> = BTreeMap::new();
        for size in &sizes {
            *counts.entry(*size).or_default() += 1;
        }
        Self {
            draws,
            batch,
            batches: counts.values().map(|count| count.div_ceil(batch)).sum(),
            sizes,
        }
    }

    /// Batches in an epoch; the last of a size may be short.
    pub fn batches(&self) -> usize {
        self.batches
    }

    /// The batches of an epoch, as numbers of items.
    pub fn epoch(&self, epoch: u64) -> Vec<Vec<usize>> {
        let mut of_size: BTreeMap<Size, Vec<usize>> = BTreeMap::new();
        for item in self.draws.shuffled(Purpose::Order, epoch, self.sizes.len()) {
            of_size.entry(self.sizes[item]).or_default().push(item);
        }
        let chunks = of_size.values().flat_map(|items| items.chunks(self.batch));
        let batches: Vec<Vec<usize>> = chunks.map(<[usize]>::to_vec).collect();
        let order = self.draws.shuffled(Purpose::Batches, epoch, batches.len());
        order
            .into_iter()
            .map(|batch| batches[batch].clone())
            .collect()
    }
}
