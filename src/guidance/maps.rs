//! Which cross-attention maps are read, and how they are put together.
//!
//! A map is what one head of one layer says about one token: for each cell of the layer's feature map the share of
//! attention that the token gets. References read "the 16×16 maps" of SD1.x at 512×512 and "the 32×32 maps" of SDXL at
//! 1024×1024. Both are the smallest maps on the way down with at least [`MIN_SIDE`] cells a side, and those are read at
//! any size of picture unless another size is asked for: smaller maps are too coarse to tell two objects apart.

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use prepose_kernels::matmul;
use prepose_models::attention::{AttentionProbe, LayerInfo, Place};
use prepose_models::unet::{CrossAttention, UNet, UNetConfig};

use super::GuidanceError;

/// The fewest cells along a side of the maps that are read by default. Less than the 16 of a square picture, so that a
/// long one is read at the same level of the network.
pub const MIN_SIDE: usize = 12;

/// Which cross-attention layers are read.
#[derive(Clone, Debug, PartialEq)]
pub enum LayerRule {
    /// Those whose maps have one size.
    Size {
        /// Cells along the shorter side; none for the smallest on the way down that has [`MIN_SIDE`], or the largest if
        /// none has (16 for SD1.x at 512×512, 32 for SDXL at 1024×1024).
        side: Option<usize>,
        /// Only those on the way down, after which the network need not go on.
        down_only: bool,
    },
    /// The middle block's, and those of the first block on the way up that attends to the text.
    MidAndFirstUp,
    /// Those whose names begin so, such as `up_blocks.1` or `mid_block.attentions.0`.
    Named(Vec<String>),
}

impl LayerRule {
    /// The layers of a network for latents of `latents` = `[height, width]`.
    ///
    /// # Errors
    /// [`GuidanceError::NoMaps`], [`GuidanceError::NoLayer`] if there is none, with what there is.
    pub fn resolve(
        &self,
        unet: &UNetConfig,
        latents: [usize; 2],
    ) -> Result<LayerFilter, GuidanceError> {
        let blocks = blocks(unet);
        let size = |level: usize| latents.map(|side| side.div_ceil(1 << level));
        let mut filter = LayerFilter {
            size: None,
            down_only: false,
            prefixes: Vec::new(),
        };
        match self {
            Self::Size { side, down_only } => {
                let mut down = (blocks.iter())
                    .filter(|block| block.place == Place::Down)
                    .map(|block| size(block.level));
                let largest = down.clone().next();
                let smallest = down.rfind(|[h, w]| *h.min(w) >= MIN_SIDE);
                let mut usable = (blocks.iter())
                    .filter(|block| !down_only || block.place == Place::Down)
                    .map(|block| size(block.level));
                let found = match side {
                    Some(side) => usable.clone().find(|[h, w]| h.min(w) == side),
                    None => smallest.or(largest),
                };
                filter.down_only = *down_only;
                filter.size = Some(found.ok_or_else(|| {
                    let mut sides: Vec<usize> = usable.by_ref().map(|[h, w]| h.min(w)).collect();
                    sides.sort_unstable();
                    sides.dedup();
                    GuidanceError::NoMaps {
                        side: side.unwrap_or_default(),
                        available: sides,
                    }
                })?);
            }
            Self::MidAndFirstUp => {
                filter.prefixes = (blocks.iter().find(|block| block.place == Place::Mid))
                    .into_iter()
                    .chain(blocks.iter().find(|block| block.place == Place::Up))
                    .map(|block| block.name.clone())
                    .collect();
            }
            Self::Named(names) => {
                for name in names {
                    if !blocks.iter().any(|block| begins(name, &block.name)) {
                        return Err(GuidanceError::NoLayer {
                            name: name.clone(),
                            available: blocks.into_iter().map(|block| block.name).collect(),
                        });
                    }
                }
                filter.prefixes = names.clone();
            }
        }
        Ok(filter)
    }
}

impl LayerRule {
    /// As [`resolve`](Self::resolve), for a network that is there: every name must also have a layer.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn resolve_in(
        &self,
        unet: &UNet,
        latents: [usize; 2],
    ) -> Result<LayerFilter, GuidanceError> {
        let filter = self.resolve(unet.config(), latents)?;
        let there = |prefix: &String| {
            unet.cross_attention_names()
                .any(|name| begins(name, prefix))
        };
        match filter.prefixes.iter().find(|prefix| !there(prefix)) {
            Some(name) => Err(GuidanceError::NoLayer {
                name: name.clone(),
                available: unet.cross_attention_names().map(str::to_owned).collect(),
            }),
            None => Ok(filter),
        }
    }
}

/// A block of the UNet that attends to the text.
struct Block {
    place: Place,
    name: String,
    /// How often the latents were halved.
    level: usize,
}

/// Those blocks in the order of execution.
fn blocks(unet: &UNetConfig) -> Vec<Block> {
    let attends = |kind: &String| kind.contains("CrossAttn");
    let last = unet.down_block_types.len().saturating_sub(1);
    let down = (unet.down_block_types.iter().enumerate())
        .filter(|(_, kind)| attends(kind))
        .map(|(i, _)| (Place::Down, format!("down_blocks.{i}"), i));
    let up = (unet.up_block_types.iter().enumerate())
        .filter(|(_, kind)| attends(kind))
        .map(|(i, _)| (Place::Up, format!("up_blocks.{i}"), last.saturating_sub(i)));
    down.chain([(Place::Mid, "mid_block".to_owned(), last)])
        .chain(up)
        .map(|(place, name, level)| Block { place, name, level })
        .collect()
}

/// Whether `name` is `prefix` or something inside of it.
fn begins(name: &str, prefix: &str) -> bool {
    let rest = name.strip_prefix(prefix);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The layers that a [`LayerRule`] means in one network at one size.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerFilter {
    size: Option<[usize; 2]>,
    down_only: bool,
    /// Any of them, or all layers if there is none.
    prefixes: Vec<String>,
}

impl LayerFilter {
    /// Whether the layer is among them.
    pub fn wants(&self, layer: &LayerInfo) -> bool {
        (self.size).is_none_or(|size| size == [layer.height, layer.width])
            && (!self.down_only || layer.place == Place::Down)
            && (self.prefixes.is_empty()
                || (self.prefixes.iter()).any(|prefix| begins(layer.name, prefix)))
    }

    /// The same of a layer of a network that is not there yet.
    pub fn wants_planned(&self, layer: &CrossAttention) -> bool {
        self.wants(&LayerInfo {
            name: &layer.name,
            place: layer.place,
            index: 0,
            height: layer.height,
            width: layer.width,
            heads: layer.heads,
            tokens: 0,
        })
    }
}

/// How the maps of several layers and heads are put together.
#[derive(Clone, Debug)]
pub enum Pooling {
    /// The mean over all layers and heads of the same size, for all tokens.
    Mean,
    /// Each layer and head on its own, of objects: a [`selector`] for these token positions, by sample and object, is
    /// applied right away, since all maps of all tokens would be many.
    Each(Vec<Vec<Vec<usize>>>),
}

impl Pooling {
    /// The same for these rows of the batch only.
    pub fn select(&self, rows: &[usize]) -> Self {
        match self {
            Self::Mean => Self::Mean,
            Self::Each(objects) => {
                Self::Each(rows.iter().map(|row| objects[*row].clone()).collect())
            }
        }
    }
}

/// Maps of one size.
#[derive(Clone, Debug)]
pub struct MapGroup {
    /// Rows and columns.
    pub size: [usize; 2],
    /// f32 `[B, G, rows · columns, M]`. As a mean, G is 1 and M are all tokens; else G are the heads of one layer and M
    /// the objects.
    pub maps: Tensor<4>,
    /// What made maps of objects out of those of tokens, `[B, tokens, M]`; none for a mean.
    pub selector: Option<Tensor<3>>,
    /// The layers by their index in the order of execution.
    pub layers: Vec<usize>,
    /// Whether one of them is on the way down.
    pub down: bool,
    /// How many maps went into each of the G.
    pub count: usize,
}

impl MapGroup {
    /// The same of these rows of the batch only.
    pub fn select(&self, rows: &[usize]) -> Self {
        let rows: Vec<i32> = rows.iter().map(|row| *row as i32).collect();
        let count = rows.len();
        let device = self.maps.device();
        let rows: Tensor<1, Int> = Tensor::from_data(TensorData::new(rows, [count]), &device);
        Self {
            maps: self.maps.clone().select(0, rows.clone()),
            selector: (self.selector.clone()).map(|selector| selector.select(0, rows)),
            ..self.clone()
        }
    }
}

/// An observer of cross-attention that keeps what a [`LayerFilter`] names, as [`Pooling`] says.
///
/// ```ignore
/// let mut recorder = Recorder::new(rule.resolve(unet.config(), [64, 64])?, Pooling::Mean);
/// unet.forward_probed(latents, &[500.0], &conditioning, &mut recorder);
/// let groups = recorder.finish();
/// ```
pub struct Recorder {
    filter: LayerFilter,
    pooling: Pooling,
    groups: Vec<MapGroup>,
}

impl Recorder {
    /// An observer that has not seen anything.
    pub fn new(filter: LayerFilter, pooling: Pooling) -> Self {
        Self {
            filter,
            pooling,
            groups: Vec::new(),
        }
    }

    /// The batch shrinks to its rows `keep`, in that order; what was seen, too.
    pub fn retain(&mut self, keep: &[usize]) {
        self.pooling = self.pooling.select(keep);
        for group in &mut self.groups {
            *group = group.select(keep);
        }
    }

    /// What was seen: one group for each size as a mean, else one for each layer. Empty if no layer was wanted.
    pub fn finish(self) -> Vec<MapGroup> {
        let mean = |mut group: MapGroup| {
            group.maps = group.maps / group.count as f64;
            group
        };
        self.groups.into_iter().map(mean).collect()
    }
}

impl AttentionProbe for Recorder {
    fn wants(&self, layer: &LayerInfo) -> bool {
        self.filter.wants(layer)
    }

    fn record(&mut self, layer: &LayerInfo, probabilities: Tensor<4>) {
        let size = [layer.height, layer.width];
        let down = layer.place == Place::Down;
        let probabilities = probabilities.cast(DType::F32);
        match &self.pooling {
            Pooling::Mean => {
                let sum = probabilities.sum_dim(1);
                match self.groups.iter_mut().find(|group| group.size == size) {
                    Some(group) => {
                        group.maps = group.maps.clone() + sum;
                        group.layers.push(layer.index);
                        group.down |= down;
                        group.count += layer.heads;
                    }
                    None => self.groups.push(MapGroup {
                        size,
                        maps: sum,
                        selector: None,
                        layers: vec![layer.index],
                        down,
                        count: layer.heads,
                    }),
                }
            }
            Pooling::Each(objects) => {
                let device = probabilities.device().without_autodiff();
                let selector = selector(objects, layer.tokens, &device);
                self.groups.push(MapGroup {
                    size,
                    maps: matmul(probabilities, selector.clone().unsqueeze_dim(1)),
                    selector: Some(selector),
                    layers: vec![layer.index],
                    down,
                    count: 1,
                });
            }
        }
    }
}

/// What turns maps of `tokens` tokens `[B, …, tokens]` into maps of objects by a matrix product: `[B, tokens, K]`. The
/// map of an object is the mean of those of its tokens. `objects[b][k]` are the positions of object k of sample b; K is
/// the most that a sample has. In the columns that a sample does not fill it reads the start token, whose map is
/// nowhere 0.
pub fn selector(objects: &[Vec<Vec<usize>>], tokens: usize, device: &Device) -> Tensor<3> {
    let most = objects.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let mut weights = vec![0f32; objects.len() * tokens * most];
    for (b, sample) in objects.iter().enumerate() {
        for k in 0..most {
            let positions = sample.get(k).map_or(&[0][..], Vec::as_slice);
            for position in positions {
                weights[(b * tokens + position) * most + k] += 1.0 / positions.len() as f32;
            }
        }
    }
    let data = TensorData::new(weights, [objects.len(), tokens, most]);
    Tensor::from_data(data, device)
}

/// The maps of objects `[B, K, rows, columns]`, from mean maps `[B, 1, rows · columns, tokens]` (or what a loss made of
/// them) and a [`selector`] `[B, tokens, K]`.
pub fn object_maps(maps: Tensor<4>, size: [usize; 2], selector: Tensor<3>) -> Tensor<4> {
    let objects = matmul(maps, selector.unsqueeze_dim(1)).swap_dims(2, 3);
    let [batch, _, count, _] = objects.dims();
    objects.reshape([batch, count, size[0], size[1]])
}

/// Smooths maps `[B, K, rows, columns]` with the 3×3 kernel of this family of methods, reflected at the border.
///
/// The weight is exp(−(d / 2σ)²) along each axis with σ = 0.5: centre 0.332, edge 0.122, corner 0.045. That is a
/// Gaussian of standard deviation √2·σ ≈ 0.71, not 0.5 as its parameter says; everyone copied it from
/// Attend-and-Excite.
pub fn smooth(maps: Tensor<4>) -> Tensor<4> {
    let [_, _, rows, columns] = maps.dims();
    let device = maps.device();
    let down = smoothing_matrix(rows, &device);
    let across = smoothing_matrix(columns, &device).transpose();
    matmul(matmul(down.unsqueeze::<4>(), maps), across.unsqueeze::<4>())
}

/// Smoothing along one axis of n cells as a matrix `[n, n]`.
fn smoothing_matrix(n: usize, device: &Device) -> Tensor<2> {
    let neighbour = (-1f32).exp();
    let total = 1.0 + 2.0 * neighbour;
    let mut weights = vec![0f32; n * n];
    for i in 0..n {
        weights[i * n + i] += 1.0 / total;
        // Beyond the border is the cell before it, as in a mirror that stands on the border cell.
        let before = if i == 0 { 1.min(n - 1) } else { i - 1 };
        let after = if i + 1 == n {
            i.saturating_sub(1)
        } else {
            i + 1
        };
        weights[i * n + before] += neighbour / total;
        weights[i * n + after] += neighbour / total;
    }
    Tensor::from_data(TensorData::new(weights, [n, n]), device)
}
