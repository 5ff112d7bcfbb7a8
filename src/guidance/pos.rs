//! PoS guidance (Rezaei et al. 2025, "Why settle for mid"): relations as probabilities of order.
//!
//! An object's map, divided by its sum, is a distribution over the picture; summed over rows or columns it is one over
//! x or y. The probability of superiority PoS(A, B) = P(X ≥ Y) for X ~ A and Y ~ B (equation 3) says how surely A lies
//! beyond B. Constants and what they differ in: `docs/guidance/pos.md`.

use burn::tensor::{Device, Int, Tensor, TensorData};
use prepose_kernels::matmul;

use super::gradient::{MapLoss, Stage};
use super::maps::{MapGroup, Pooling, object_maps, selector, smooth};
use super::steps::{Refinement, StepSize};
use super::{
    Combination, GuidanceConfig, GuidanceError, GuidanceMethod, Loss, Needs, Network, PosLoss,
    Preset, Settings, Target,
};
use crate::prompt::scene::{Relation, StatedRelation};

/// The method.
pub struct Pos;

impl GuidanceMethod for Pos {
    fn name(&self) -> &'static str {
        "pos"
    }

    fn known_as(&self) -> &'static str {
        "psg"
    }

    fn about(&self) -> &'static str {
        "PoS guidance (PSG), by the relations of the prompt"
    }

    fn presets(&self) -> &'static [Preset] {
        &[
            Preset::Default,
            Preset::Sd14Reference,
            Preset::SdxlReference,
        ]
    }

    fn needs(&self) -> Needs {
        Needs::Relations
    }

    fn reads(&self) -> &'static [&'static str] {
        &["loss", "combine", "distance", "smoothing"]
    }

    fn settings(&self, config: &GuidanceConfig, network: Network) -> Settings {
        let published = match config.preset {
            Preset::Default => Combination::Sum,
            _ => Combination::Sequence,
        };
        let constants = Constants {
            loss: config.loss.unwrap_or(PosLoss::WrongOrder),
            combine: match config.one_pass {
                true => Combination::Sum,
                false => config.combine.unwrap_or(published),
            },
            // SDXL's code computes the smoothed maps and then passes on the others.
            smoothing: (config.smoothing).unwrap_or(config.preset != Preset::SdxlReference),
            distance: config.distance.unwrap_or(5.0 / 16.0),
        };
        let (steps, step_size) = match (config.preset, network) {
            // A multiplier of 1000 on top of the factor 20, in σ's space.
            (Preset::SdxlReference, _) | (Preset::Default, Network::Sdxl) => {
                (10, StepSize::decaying(20.0 * 1000.0).in_sigma_space())
            }
            (Preset::Default, Network::Toybox) => (10, StepSize::decaying(20.0)),
            _ => (25, StepSize::decaying(20.0)),
        };
        Settings::new(config, constants, steps, step_size)
    }

    /// The authors' threshold and limit; their code disables it.
    fn refinement(&self) -> Refinement {
        Refinement::Until {
            threshold: 0.2,
            updates: 10,
            quirk: false,
        }
    }
}

/// What the loss is made of.
#[derive(Clone, Debug)]
struct Constants {
    /// Which loss.
    loss: PosLoss,
    /// How several relations are combined.
    combine: Combination,
    /// Whether maps are smoothed first.
    smoothing: bool,
    /// What is near and what is far: the paper's c (equation 8), as a share of the maps' shorter side.
    distance: f64,
}

/// What one relation asks of the profiles of two objects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Clause {
    /// The first lies before the second along the axis: 0 is x, 1 is y.
    Order(usize, [usize; 2]),
    /// They are close.
    Near([usize; 2]),
    /// They are apart.
    Far([usize; 2]),
}

/// The ways in which a relation can be fulfilled; in each, all clauses count.
pub(super) fn arrangements(stated: &StatedRelation) -> Result<Vec<Vec<Clause>>, GuidanceError> {
    let subject = stated.subject;
    let pair = |object: usize| [subject, object];
    let refused = || GuidanceError::NotInThePlane(stated.relation);
    Ok(match (stated.relation, stated.objects.as_slice()) {
        (Relation::Near, &[object]) => vec![vec![Clause::Near(pair(object))]],
        (Relation::Far, &[object]) => vec![vec![Clause::Far(pair(object))]],
        // In a row or in a column, either way round: whichever is nearest to what the picture becomes anyway.
        (Relation::Between, &[a, b]) => [(0, a, b), (0, b, a), (1, a, b), (1, b, a)]
            .map(|(axis, first, last)| {
                let before = Clause::Order(axis, [first, subject]);
                vec![before, Clause::Order(axis, [subject, last])]
            })
            .to_vec(),
        (relation, &[object]) => {
            let (x, y) = relation.direction().ok_or_else(refused)?;
            let clause = |axis, sign| match sign {
                0 => None,
                ..0 => Some(Clause::Order(axis, [subject, object])),
                1.. => Some(Clause::Order(axis, [object, subject])),
            };
            // Sideways first, as in the paper; it matters when the two are applied in sequence.
            vec![[clause(0, x), clause(1, y)].into_iter().flatten().collect()]
        }
        _ => return Err(refused()),
    })
}

impl Loss for Constants {
    /// One loss for the whole batch, or, in sequence, one for each relation that is applied after another.
    fn passes(&self, targets: &[Target]) -> Result<Vec<Box<dyn MapLoss>>, GuidanceError> {
        let relations = (targets.iter())
            .map(|target| target.relations.iter().map(arrangements).collect())
            .collect::<Result<Vec<Vec<_>>, _>>()?;
        let relations = match self.combine {
            Combination::Sum => vec![relations],
            Combination::Sequence => in_sequence(relations),
        };
        let objects: Vec<Vec<Vec<usize>>> = targets.iter().map(Target::positions).collect();
        let pass = |relations| -> Box<dyn MapLoss> {
            Box::new(BatchLoss {
                constants: self.clone(),
                objects: objects.clone(),
                relations,
            })
        };
        Ok(relations.into_iter().map(pass).collect())
    }
}

/// The loss for a batch, or for the k-th relation of each sample.
struct BatchLoss {
    constants: Constants,
    /// Token positions by sample and object.
    objects: Vec<Vec<Vec<usize>>>,
    /// By sample: relations, as arrangements of clauses.
    relations: Vec<Vec<Vec<Vec<Clause>>>>,
}

/// The k-th pass has the k-th relation of each sample. The two orders of a diagonal are applied one after the other
/// too.
fn in_sequence(relations: Vec<Vec<Vec<Vec<Clause>>>>) -> Vec<Vec<Vec<Vec<Vec<Clause>>>>> {
    let single = |sample: Vec<Vec<Vec<Clause>>>| -> Vec<Vec<Vec<Clause>>> {
        let split = |relation: Vec<Vec<Clause>>| match relation.as_slice() {
            [clauses] => clauses.iter().map(|clause| vec![vec![*clause]]).collect(),
            _ => vec![relation],
        };
        sample.into_iter().flat_map(split).collect()
    };
    let samples: Vec<_> = relations.into_iter().map(single).collect();
    let passes = samples.iter().map(Vec::len).max().unwrap_or(0);
    let pass = |k: usize| {
        samples
            .iter()
            .map(move |sample| sample.get(k).cloned().into_iter().collect())
    };
    (0..passes).map(|k| pass(k).collect()).collect()
}

impl MapLoss for BatchLoss {
    fn pooling(&self) -> Pooling {
        Pooling::Mean
    }

    fn acts_on(&self) -> Vec<bool> {
        self.relations
            .iter()
            .map(|sample| !sample.is_empty())
            .collect()
    }

    fn losses(&self, maps: &MapGroup, _before: Option<&MapGroup>, _stage: Stage) -> Tensor<1> {
        let device = maps.maps.device().without_autodiff();
        let selector = selector(&self.objects, maps.maps.dims()[3], &device);
        let most = selector.dims()[2];
        let mut images = object_maps(maps.maps.clone(), maps.size, selector);
        if self.constants.smoothing {
            images = smooth(images);
        }
        let profiles = profiles(images);

        let mut clauses = Clauses::default();
        let mut arrangements = Vec::new();
        let mut relations = Vec::new();
        for (b, sample) in self.relations.iter().enumerate() {
            for relation in sample {
                let first = arrangements.len();
                for arrangement in relation {
                    arrangements.push(clauses.push(arrangement, b * most));
                }
                relations.push((b, first..arrangements.len()));
            }
        }
        let losses = clauses.losses(&profiles, maps.size, &self.constants);
        let sums = weighted(&losses, arrangements.iter().map(Vec::as_slice), &device);
        // The least of a relation's arrangements; those that have one repeat it.
        let ways = relations
            .iter()
            .map(|(_, ways)| ways.len())
            .max()
            .unwrap_or(1);
        let chosen = match ways {
            1 => sums,
            _ => {
                let at = |i: usize, ways: &std::ops::Range<usize>| ways.start + i % ways.len();
                let rows = (relations.iter())
                    .flat_map(|(_, range)| (0..ways).map(move |i| at(i, range)))
                    .collect();
                let each = sums.select(0, indices(rows, &device));
                each.reshape([relations.len(), ways])
                    .min_dim(1)
                    .squeeze_dim(1)
            }
        };
        let of_sample = |b: usize| -> Vec<usize> {
            let mine = relations
                .iter()
                .enumerate()
                .filter(|(_, (sample, _))| *sample == b);
            mine.map(|(i, _)| i).collect()
        };
        let rows: Vec<Vec<usize>> = (0..self.relations.len()).map(of_sample).collect();
        weighted(&chosen, rows.iter().map(Vec::as_slice), &device)
    }
}

/// Distributions over x `[B · K, columns]` and over y `[B · K, rows]`.
fn profiles(images: Tensor<4>) -> [Tensor<2>; 2] {
    let [batch, count, rows, columns] = images.dims();
    let images = images.reshape([batch * count, rows, columns]);
    [(1, columns), (2, rows)].map(|(dim, cells)| {
        let profile: Tensor<2> = images.clone().sum_dim(dim).reshape([batch * count, cells]);
        // Softmax gives no zeros, but 16 bits may.
        profile.clone() / (profile.sum_dim(1) + 1e-20)
    })
}

/// Clauses sorted by what is computed for them, so that each kind is one batch of tensor operations.
#[derive(Default)]
struct Clauses {
    /// By axis.
    orders: [Vec<[usize; 2]>; 2],
    near: Vec<[usize; 2]>,
    far: Vec<[usize; 2]>,
    /// Kind and place of each clause, in the order in which they were pushed.
    slots: Vec<(usize, usize)>,
}

impl Clauses {
    /// Takes up clauses whose objects count from `offset`; returns their numbers.
    fn push(&mut self, clauses: &[Clause], offset: usize) -> Vec<usize> {
        let mut numbers = Vec::new();
        for clause in clauses {
            let (kind, list, pair) = match *clause {
                Clause::Order(axis, pair) => (axis, &mut self.orders[axis], pair),
                Clause::Near(pair) => (2, &mut self.near, pair),
                Clause::Far(pair) => (3, &mut self.far, pair),
            };
            numbers.push(self.slots.len());
            self.slots.push((kind, list.len()));
            list.push(pair.map(|object| offset + object));
        }
        numbers
    }

    /// The loss of each clause, in the order in which they were pushed.
    fn losses(
        &self,
        profiles: &[Tensor<2>; 2],
        [rows, columns]: [usize; 2],
        constants: &Constants,
    ) -> Tensor<1> {
        let paper = constants.loss == PosLoss::Paper;
        let cells = [columns, rows];
        let probability = |axis: usize, pairs: &[[usize; 2]], counts: &dyn Fn(i64) -> bool| {
            pair_probability(&profiles[axis], pairs, cells[axis], counts)
        };
        let distance = (constants.distance * rows.min(columns) as f64).round_ties_even() as i64;
        // Equation 9: P(|X₁ − X₂| > c) + P(|Y₁ − Y₂| > c), in [0, 2].
        let apart = |pairs: &[[usize; 2]]| {
            let beyond = |offset: i64| offset.abs() > distance;
            probability(0, pairs, &beyond) + probability(1, pairs, &beyond)
        };
        let mut parts = Vec::new();
        let mut starts = [0; 4];
        let mut next = 0;
        let kinds = [&self.orders[0], &self.orders[1], &self.near, &self.far];
        for (kind, pairs) in kinds.into_iter().enumerate() {
            starts[kind] = next;
            next += pairs.len();
            if pairs.is_empty() {
                continue;
            }
            // `offset` is how far the first lies beyond the second.
            parts.push(match (kind, paper) {
                (0 | 1, false) => probability(kind, pairs, &|offset| offset >= 0).square(),
                (0 | 1, true) => -probability(kind, pairs, &|offset| offset <= 0).square(),
                (2, false) => (apart(pairs) / 2.0).square(),
                (2, true) => apart(pairs).square(),
                (_, false) => (-apart(pairs) / 2.0 + 1.0).square(),
                (_, true) => -apart(pairs).square(),
            });
        }
        let device = profiles[0].device();
        let order = self
            .slots
            .iter()
            .map(|(kind, i)| starts[*kind] + i)
            .collect();
        match parts.is_empty() {
            true => Tensor::zeros([0], &device),
            false => Tensor::cat(parts, 0).select(0, indices(order, &device.without_autodiff())),
        }
    }
}

/// For each pair the probability that a cell i of the first and a cell j of the second, drawn independently, have an
/// offset i − j that `counts`.
fn pair_probability(
    profiles: &Tensor<2>,
    pairs: &[[usize; 2]],
    cells: usize,
    counts: &dyn Fn(i64) -> bool,
) -> Tensor<1> {
    let device = profiles.device().without_autodiff();
    let of = |which: usize| {
        let rows = pairs.iter().map(|pair| pair[which]).collect();
        profiles.clone().select(0, indices(rows, &device))
    };
    let mut table = vec![0f32; cells * cells];
    for j in 0..cells {
        for i in 0..cells {
            table[j * cells + i] = f32::from(counts(i as i64 - j as i64));
        }
    }
    let table: Tensor<2> = Tensor::from_data(TensorData::new(table, [cells, cells]), &device);
    (of(0) * matmul(of(1), table)).sum_dim(1).squeeze_dim(1)
}

/// Sums of some of `values`, one for each of `rows`.
fn weighted<'a>(
    values: &Tensor<1>,
    rows: impl ExactSizeIterator<Item = &'a [usize]>,
    device: &Device,
) -> Tensor<1> {
    let (height, width) = (rows.len(), values.dims()[0]);
    let mut matrix = vec![0f32; height * width];
    for (row, picked) in rows.enumerate() {
        for column in picked {
            matrix[row * width + column] = 1.0;
        }
    }
    let matrix: Tensor<2> = Tensor::from_data(TensorData::new(matrix, [height, width]), device);
    matmul(matrix, values.clone().unsqueeze_dim(1)).squeeze_dim(1)
}

fn indices(rows: Vec<usize>, device: &Device) -> Tensor<1, Int> {
    let rows: Vec<i32> = rows.into_iter().map(|row| row as i32).collect();
    let length = rows.len();
    Tensor::from_data(TensorData::new(rows, [length]), device)
}
