//! CONFORM (Meral et al. 2024, "CONFORM: contrast is all you need for high-fidelity text-to-image diffusion models"),
//! by its public code: the words of one object should be attended to in one place, and other objects elsewhere.
//! Constants and what they differ in: `docs/guidance/conform.md`.

use burn::tensor::{Tensor, TensorData};
use prepose_kernels::matmul;

use super::gradient::{MapLoss, Stage};
use super::maps::{MapGroup, Pooling, object_maps, selector, smooth};
use super::shares::{Texts, TokenRange};
use super::steps::{Refinement, StepSize};
use super::{
    GuidanceConfig, GuidanceError, GuidanceMethod, Loss, Needs, Network, Preset, Settings, Target,
};
use crate::prompt::scene::TokenPolicy;

/// The method.
pub struct Conform;

impl GuidanceMethod for Conform {
    fn name(&self) -> &'static str {
        "conform"
    }

    fn about(&self) -> &'static str {
        "CONFORM: each object and its attributes in one place, apart from the others"
    }

    fn presets(&self) -> &'static [Preset] {
        &[Preset::Default, Preset::Sd14Reference]
    }

    fn needs(&self) -> Needs {
        Needs::Objects(2)
    }

    fn reads(&self) -> &'static [&'static str] {
        &["smoothing"]
    }

    fn settings(&self, config: &GuidanceConfig, _network: Network) -> Settings {
        let (range, steps, refinement) = match config.preset {
            // What the code does unless told otherwise, but for the repeated steps.
            Preset::Default => (Some(TokenRange::AllButEnds), 25, Refinement::None),
            // The notebook that comes with it.
            _ => (None, 30, self.refinement()),
        };
        let constants = Constants {
            range,
            smoothing: config.smoothing.unwrap_or(true),
            temperature: 0.5,
        };
        Settings {
            refinement,
            // The first token of "red dog" alone would leave out the dog.
            tokens: TokenPolicy::Mean,
            ..Settings::new(config, constants, steps, StepSize::decaying(20.0))
        }
    }

    /// Always 20 updates. The loss is 0 only where there is nothing to compare, and has no gradient then.
    fn refinement(&self) -> Refinement {
        Refinement::AtSteps {
            thresholds: [0, 10, 20].map(|step| (step, 0.0)).to_vec(),
            updates: 20,
            quirk: false,
        }
    }
}

/// What the loss is made of.
#[derive(Clone, Debug)]
struct Constants {
    /// Which tokens compete in a softmax; none leaves the probabilities as they are.
    range: Option<TokenRange>,
    /// Whether maps are smoothed first.
    smoothing: bool,
    /// What similarities are divided by.
    temperature: f64,
}

impl Loss for Constants {
    fn passes(&self, targets: &[Target]) -> Result<Vec<Box<dyn MapLoss>>, GuidanceError> {
        let (tokens, groups) = targets.iter().map(words).unzip();
        Ok(vec![Box::new(BatchLoss {
            constants: self.clone(),
            texts: Texts::of(targets),
            tokens,
            groups,
        })])
    }
}

/// Each token of each object, and the object that it belongs to.
fn words(target: &Target) -> (Vec<Vec<usize>>, Vec<usize>) {
    let objects = target.positions().into_iter().enumerate();
    let words =
        objects.flat_map(|(k, tokens)| tokens.into_iter().map(move |token| (vec![token], k)));
    words.unzip()
}

/// The loss for a batch.
struct BatchLoss {
    constants: Constants,
    /// Where its texts stand.
    texts: Texts,
    /// By sample and word: its token's position, as [`selector`] wants it.
    tokens: Vec<Vec<Vec<usize>>>,
    /// By sample and word: which object it belongs to.
    groups: Vec<Vec<usize>>,
}

impl MapLoss for BatchLoss {
    fn pooling(&self) -> Pooling {
        Pooling::Mean
    }

    fn acts_on(&self) -> Vec<bool> {
        let several = |groups: &Vec<usize>| groups.iter().any(|group| *group != groups[0]);
        self.groups.iter().map(several).collect()
    }

    fn losses(&self, maps: &MapGroup, before: Option<&MapGroup>, _stage: Stage) -> Tensor<1> {
        let now = self.embeddings(maps);
        let most = now.dims()[1];
        let (embeddings, times) = match before {
            Some(before) => (Tensor::cat(vec![now, self.embeddings(before)], 1), 2),
            None => (now, 1),
        };
        let similarities = matmul(embeddings.clone(), embeddings.swap_dims(1, 2));
        self.contrast(similarities / self.constants.temperature, most, times)
    }
}

impl BatchLoss {
    /// The map of each word as a vector of length 1: `[B, words, cells]`.
    fn embeddings(&self, maps: &MapGroup) -> Tensor<3> {
        let device = maps.maps.device().without_autodiff();
        let shares = match self.constants.range {
            Some(range) => self.texts.shares(maps.maps.clone(), range),
            None => maps.maps.clone(),
        };
        let selector = selector(&self.tokens, shares.dims()[3], &device);
        let mut images = object_maps(shares, maps.size, selector);
        if self.constants.smoothing {
            images = smooth(images);
        }
        let images: Tensor<3> = images.flatten(2, 3);
        let length = images.clone().square().sum_dim(2).clamp_min(1e-24).sqrt();
        images / length
    }

    /// The normalised temperature-scaled cross entropy (NT-Xent) of `similarities` `[B, N, N]` of N = `times` · `most`
    /// embeddings, those of each time after one another: the mean over all ordered pairs (a, p) of one object of
    /// −log(e^s(a,p) / (e^s(a,p) + Σ e^s(a,n))), n being the embeddings of other objects. Without a pair, or without
    /// another object, it is 0.
    fn contrast(&self, similarities: Tensor<3>, most: usize, times: usize) -> Tensor<1> {
        let device = similarities.device().without_autodiff();
        let (batch, count) = (self.groups.len(), times * most);
        let mut negatives = vec![0f32; batch * count * count];
        let mut weights = vec![0f32; batch * count * count];
        for (b, groups) in self.groups.iter().enumerate() {
            let group = |i: usize| groups.get(i % most);
            let mut positives = Vec::new();
            for a in 0..count {
                for other in (0..count).filter(|other| *other != a) {
                    let at = (b * count + a) * count + other;
                    match (group(a), group(other)) {
                        (Some(mine), Some(other)) if mine == other => positives.push(at),
                        (Some(_), Some(_)) => negatives[at] = 1.0,
                        _ => {}
                    }
                }
            }
            if self.acts_on()[b] {
                let weight = 1.0 / positives.len() as f32;
                positives.iter().for_each(|at| weights[*at] = weight);
            }
        }
        let tensor = |data: Vec<f32>| -> Tensor<3> {
            Tensor::from_data(TensorData::new(data, [batch, count, count]), &device)
        };
        // Similarities are at most 1 / temperature, so that no power overflows.
        let powers = similarities.clone().exp();
        let others = (powers.clone() * tensor(negatives)).sum_dim(2);
        let pairs = ((powers + others).log() - similarities) * tensor(weights);
        pairs.sum_dim(2).sum_dim(1).reshape([batch])
    }
}
