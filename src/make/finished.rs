//! What the maker yields.

use crate::check::sample::Cost;
use crate::output::attention::ObjectMaps;
use crate::picture::Picture;
use crate::request::Request;
use crate::search::Candidate;

/// A picture that is done, with everything that is known of it.
#[derive(Clone, Debug)]
pub struct FinishedPicture {
    /// What it was made from: with the seed that a search chose, the tiling that memory forced, and the checkpoint's
    /// hash.
    pub request: Request,
    /// The scheduler's name, also where the request leaves the choice to the checkpoint.
    pub scheduler: String,
    /// UNet calls that it took; of a search not those of the other candidates.
    pub calls: usize,
    /// What it shows.
    pub picture: Picture,
    /// Where the network looked, if that was asked for: an entry for each size of map, the most cells first. Of a
    /// search only the best picture has maps.
    pub maps: Vec<ObjectMaps>,
    /// What it took; each picture of a search has the cost of the whole search.
    pub cost: Cost,
}

/// Pictures that were made together.
#[derive(Clone, Debug, Default)]
pub struct FinishedBatch {
    /// One for each request that was made, in order; of a search the best, or all finished candidates, best first.
    pub pictures: Vec<FinishedPicture>,
    /// Of a search all its candidates with their scores; empty without one.
    pub candidates: Vec<Candidate>,
    /// How many of the requests were made, from the first on: at least 1, of a search always 1.
    pub requests: usize,
    /// Pictures that were denoised at a time, at most.
    pub at_once: usize,
    /// Rows through the UNet, one a picture and step whether or not with classifier-free guidance; the passes of
    /// guidance are not counted.
    pub unet_calls: usize,
    /// How long it took.
    pub seconds: Seconds,
}

/// Where the time of a batch went, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seconds {
    /// Text encoding; of a search it is part of `denoise`.
    pub text: f64,
    /// The denoising loop; of a search, scoring included.
    pub denoise: f64,
    /// Decoding what is kept.
    pub decode: f64,
    /// From the beginning to the end, attention maps included.
    pub total: f64,
}
