//! Calls that take results from calls before them, or compute with fewer tokens.
//!
//! * DeepCache (Ma et al. 2024, arXiv 2312.00858): what the deep part of the network hands on changes little from step to
//!   step, so a call may run the shallow part around it alone.
//! * T-GATE (Zhang et al. 2024, arXiv 2404.02747): after some step the cross-attention says nothing new, so a call may take
//!   its results, averaged over the rows of classifier-free guidance, and needs no second row.
//! * Token merging: [`merging`](super::merging).

use burn::prelude::*;

use super::steps::Step;

/// What is kept from one call for later ones.
#[derive(Debug, Clone, Default)]
pub enum Kept<T> {
    /// Nothing is kept or taken.
    #[default]
    Off,
    /// The next call runs whole and keeps its own.
    Wanted,
    /// The next call takes this.
    There(T),
}

impl<T> Kept<T> {
    /// What is there.
    pub fn get(&self) -> Option<&T> {
        match self {
            Kept::There(kept) => Some(kept),
            Kept::Off | Kept::Wanted => None,
        }
    }

    /// Whether the next call is to keep its own.
    pub fn is_wanted(&self) -> bool {
        matches!(self, Kept::Wanted)
    }
}

/// How a call of [`UNet::forward_reusing`](super::UNet::forward_reusing) differs from a whole one, and what it leaves. The
/// default is a whole call that leaves nothing.
#[derive(Debug, Clone, Default)]
pub struct Reuse {
    /// The share of tokens that self-attention merges where the feature maps are largest, above 0 and at most
    /// [`MOST_MERGED`](super::MOST_MERGED).
    pub merging: Option<f64>,
    /// The skip connection, from 0, whose outside is computed anew in each call.
    pub branch: usize,
    /// What the network hands on inside of that skip connection, `[B, C, h, w]`.
    pub deep: Kept<Tensor<4>>,
    /// What each cross-attention layer adds, `[B, h · w, C]`, the mean over the rows of each picture.
    pub cross: Kept<Vec<Tensor<3>>>,
    /// Pictures in the batch; its rows are all pictures' first, then all pictures' second and so on.
    pub pictures: usize,
}

impl Reuse {
    /// Goes on with the pictures `keep`, in that order.
    pub fn retain(&mut self, keep: &[usize]) {
        let pictures = self.pictures;
        let rows = |count: usize, device: &Device| -> Tensor<1, Int> {
            let groups = count / pictures.max(1);
            let rows =
                (0..groups).flat_map(|group| keep.iter().map(move |row| group * pictures + row));
            let rows: Vec<i32> = rows.map(|row| row as i32).collect();
            let count = rows.len();
            Tensor::from_data(TensorData::new(rows, [count]), device)
        };
        if let Kept::There(deep) = &mut self.deep {
            let rows = rows(deep.dims()[0], &deep.device());
            *deep = deep.clone().select(0, rows);
        }
        if let Kept::There(cross) = &mut self.cross {
            for kept in cross {
                let rows = rows(kept.dims()[0], &kept.device());
                *kept = kept.clone().select(0, rows);
            }
        }
        self.pictures = keep.len();
    }
}

/// Cross-attention in one pass.
pub(super) enum Cross<'a> {
    Compute,
    /// Its results are kept.
    Keep(Vec<Tensor<3>>),
    Take(&'a [Tensor<3>]),
}

/// The mean over the rows of each of `pictures` pictures.
pub(super) fn mean_rows(x: Tensor<3>, pictures: usize) -> Tensor<3> {
    let [rows, tokens, channels] = x.dims();
    let x: Tensor<4> = x.reshape([rows / pictures, pictures, tokens, channels]);
    x.mean_dim(0).squeeze_dim(0)
}

/// Where the deep part inside of skip connection `branch` begins and ends: the number of steps up to where it branches off,
/// and that up to where it joins.
///
/// # Panics
/// If there is no such skip connection.
pub(super) fn seams(steps: &[Step], branch: usize) -> (usize, usize) {
    let places = |wanted: fn(&Step) -> bool| {
        let places = steps
            .iter()
            .enumerate()
            .filter(move |(_, step)| wanted(step));
        places.map(|(place, _)| place)
    };
    let begins = places(|step| matches!(step, Step::Branch)).nth(branch);
    let ends = places(|step| matches!(step, Step::Concatenate))
        .rev()
        .nth(branch);
    let (begins, ends) = begins
        .zip(ends)
        .expect("a skip connection that the network has");
    (begins + 1, ends)
}
