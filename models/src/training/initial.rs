//! The first values of what a checkpoint has not.

use super::Parameter;

/// Of a factor: uniform in ±1/√(inputs) for `A`, zeros for `B`.
pub(super) fn of_branch(parameter: &Parameter, seed: u64) -> Vec<f32> {
    match parameter.name.ends_with("lora_B.weight") {
        true => vec![0.0; parameter.shape.iter().product()],
        false => uniform(parameter, inputs(parameter), seed),
    }
}

/// Of a layer of GLIGEN's or an IP-Adapter's, `all` of which have these parameters: gates and what stands for no object are
/// 0, norms do nothing, and linear layers begin as PyTorch's, weights and biases uniform in ±1/√(inputs). A resampler's
/// queries are normal numbers with the deviation 1/√(channels).
pub(super) fn of_layers(parameter: &Parameter, all: &[Parameter], seed: u64) -> Vec<f32> {
    let Parameter { name, shape } = parameter;
    let filled = |value: f32| vec![value; shape.iter().product()];
    let (layer, what) = name.rsplit_once('.').unwrap_or(("", name));
    let weight = format!("{layer}.weight");
    let weight = all.iter().find(|other| other.name == weight);
    match (what, weight.filter(|weight| weight.shape.len() == 2)) {
        ("weight" | "bias", Some(weight)) => uniform(parameter, inputs(weight), seed),
        ("weight", None) => filled(1.0),
        ("latents", _) => normal(parameter, seed),
        _ => filled(0.0),
    }
}

fn inputs(weight: &Parameter) -> usize {
    weight.shape[1..].iter().product()
}

/// Uniform in ±1/√(inputs).
fn uniform(parameter: &Parameter, inputs: usize, seed: u64) -> Vec<f32> {
    let bound = 1.0 / (inputs as f64).sqrt();
    let units = units(parameter, seed).map(|unit| ((2.0 * unit - 1.0) * bound) as f32);
    units.take(parameter.shape.iter().product()).collect()
}

/// Normal with the deviation 1/√(last axis), by Box and Muller (1958).
fn normal(parameter: &Parameter, seed: u64) -> Vec<f32> {
    let width = parameter.shape.last().copied().unwrap_or(1);
    let deviation = 1.0 / (width as f64).sqrt();
    let mut units = units(parameter, seed);
    let mut next = || units.next().unwrap_or(0.0);
    let one = |_| {
        let radius = (-2.0 * (1.0 - next()).ln()).sqrt();
        (radius * (std::f64::consts::TAU * next()).cos() * deviation) as f32
    };
    (0..parameter.shape.iter().product()).map(one).collect()
}

/// Numbers from 0 to below 1.
fn units(parameter: &Parameter, seed: u64) -> impl Iterator<Item = f64> {
    // FNV-1a of the name, so that a parameter does not depend on which others there are.
    let hash = |hash: u64, byte: u8| (hash ^ byte as u64).wrapping_mul(0x100_0000_01b3);
    let mut state = parameter
        .name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325 ^ seed, hash);
    std::iter::repeat_with(move || {
        // splitmix64 (Steele et al. 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    })
}
