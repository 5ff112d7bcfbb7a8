//! Seeded Gaussian noise, drawn on the host, one generator per picture.
//!
//! A seed is one picture's: each picture of a batch has its own [`NoiseSource`], so that it is the same
//! in any batch and at any position, on any device. The default is PyTorch's CPU generator, bit for bit, so
//! that a seed means here what it means in diffusers with `torch.Generator("cpu").manual_seed(seed)`; in
//! a batch that is diffusers' list of generators.
//!
//! Every further draw for the same picture (the posterior sample of image-to-image, then its added noise,
//! then the step noise of ancestral and LCM sampling) continues the same generator, in diffusers' order.

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};

use rand_mt::Mt;

/// Which algorithm turns a seed into normal numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum NoiseKind {
    /// `torch.randn` with a CPU generator: what diffusers' users get (MT19937; Matsumoto and Nishimura 1998).
    ///
    /// Like torch, it reads only the low 32 bits of the seed. Equal bit for bit to torch on x86-64 with AVX2;
    /// torch's own results differ from those by up to 2e-6 on other processors, where it calls libm.
    #[default]
    Torch,
    /// `torch.randn` on a CUDA device, as A1111's `NV` noise source reproduces it (Philox4x32-10; Salmon et al.
    /// 2011). All 64 bits of the seed count.
    Philox,
}

/// One picture's generator of standard normal numbers.
#[derive(Debug, Clone)]
pub struct NoiseSource {
    kind: NoiseKind,
    seed: u64,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Torch(Box<TorchGenerator>),
    Philox { draws: u32 },
}

impl NoiseSource {
    /// A generator at its beginning.
    pub fn new(kind: NoiseKind, seed: u64) -> Self {
        let state = match kind {
            NoiseKind::Torch => State::Torch(Box::new(TorchGenerator::new(seed))),
            NoiseKind::Philox => State::Philox { draws: 0 },
        };
        Self { kind, seed, state }
    }

    /// The algorithm.
    pub fn kind(&self) -> NoiseKind {
        self.kind
    }

    /// The seed it was made with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The next `n` numbers, as one call of `torch.randn`. Two draws of `n` are *not* one draw of `2n`.
    pub fn randn(&mut self, n: usize) -> Vec<f32> {
        match &mut self.state {
            State::Torch(generator) => generator.normal(n),
            State::Philox { draws } => {
                let numbers = (0..n)
                    .map(|i| philox_normal(self.seed, *draws, i as u32))
                    .collect();
                *draws = draws.wrapping_add(1);
                numbers
            }
        }
    }
}

/// PyTorch's `CPUGeneratorImpl`: a Mersenne twister and the second half of the last scalar Box–Muller pair.
#[derive(Debug, Clone)]
struct TorchGenerator {
    twister: Mt,
    cached: Option<f64>,
}

/// Torch fills tensors of this size and more in blocks of as many numbers.
const BLOCK: usize = 16;

impl TorchGenerator {
    fn new(seed: u64) -> Self {
        Self {
            twister: Mt::new(seed as u32),
            cached: None,
        }
    }

    fn normal(&mut self, n: usize) -> Vec<f32> {
        if n < BLOCK {
            return (0..n).map(|_| self.scalar_normal() as f32).collect();
        }
        let mut numbers: Vec<f32> = (0..n).map(|_| self.uniform_f32()).collect();
        for block in numbers.chunks_exact_mut(BLOCK) {
            box_muller_block(block);
        }
        // An incomplete block is not filled: the last 16 numbers are drawn afresh instead.
        if !n.is_multiple_of(BLOCK) {
            let last = &mut numbers[n - BLOCK..];
            last.fill_with(|| self.uniform_f32());
            box_muller_block(last);
        }
        numbers
    }

    /// ATen's `normal_distribution<double>`. The spare number stays cached across draws, and draws of 16 and
    /// more neither use nor clear it.
    fn scalar_normal(&mut self) -> f64 {
        if let Some(number) = self.cached.take() {
            return number;
        }
        let u1 = self.uniform_f64();
        let u2 = self.uniform_f64();
        let radius = (-2.0 * (-u2).ln_1p()).sqrt();
        let angle = TAU * u1;
        self.cached = Some(radius * angle.sin());
        radius * angle.cos()
    }

    /// In [0, 1), from 24 bits.
    fn uniform_f32(&mut self) -> f32 {
        (self.twister.next_u32() & ((1 << 24) - 1)) as f32 / (1 << 24) as f32
    }

    /// In [0, 1), from 53 bits.
    fn uniform_f64(&mut self) -> f64 {
        let high = u64::from(self.twister.next_u32());
        let low = u64::from(self.twister.next_u32());
        (((high << 32) | low) & ((1 << 53) - 1)) as f64 / (1u64 << 53) as f64
    }
}

/// Box–Muller on 16 uniforms: the first eight give radii, the last eight angles; cosines, then sines.
fn box_muller_block(block: &mut [f32]) {
    let (first, second) = block.split_at_mut(BLOCK / 2);
    for (a, b) in first.iter_mut().zip(second) {
        let radius = (-2.0 * cephes_ln(1.0 - *a)).sqrt();
        let (sin, cos) = cephes_sin_cos(std::f32::consts::TAU * *b);
        // Adding the mean, 0, is what turns −0 into 0.
        *a = radius * cos + 0.0;
        *b = radius * sin + 0.0;
    }
}

/// Natural logarithm of a normal number in (0, 1], rounded as torch's AVX2 code rounds it. Both follow `logf`
/// of the Cephes library (Moshier) operation by operation; the fused multiply-adds are where torch's
/// compiler puts them.
fn cephes_ln(x: f32) -> f32 {
    const P: [f32; 9] = [
        0.070376836,
        -0.1151461,
        0.116769984,
        -0.12420141,
        0.14249323,
        -0.16668057,
        0.20000714,
        -0.24999994,
        0.3333333,
    ];
    // ln 2 in two parts; the first is short enough to be multiplied by an exponent exactly.
    const LN2_HIGH: f32 = 0.6933594;
    const LN2_LOW: f32 = -0.00021219444;

    // x = m · 2^e with m in [√½, √2).
    let mut e = ((x.to_bits() >> 23) as i32 - 126) as f32;
    let mut m = f32::from_bits((x.to_bits() & 0x007f_ffff) | 0x3f00_0000);
    if m < std::f32::consts::FRAC_1_SQRT_2 {
        e -= 1.0;
        m = (m - 1.0) + m;
    } else {
        m -= 1.0;
    }
    let z = m * m;
    let y = P[1..].iter().fold(P[0], |y, &p| y.mul_add(m, p)) * m;
    let y = y.mul_add(z, e * LN2_LOW) - z * 0.5;
    e.mul_add(LN2_HIGH, m + y)
}

/// Sine and cosine of an angle in [0, 2π), as [`cephes_ln`] after Cephes' `sinf`.
fn cephes_sin_cos(x: f32) -> (f32, f32) {
    const FOUR_OVER_PI: f32 = 1.2732395;
    // π/4 in three parts, so that the reduction is nearly exact.
    const PI_4: [f32; 3] = [-0.78515625, -0.00024187565, -3.774895e-8];
    const SIN: [f32; 3] = [-0.00019515296, 0.008332161, -0.16666655];
    const COS: [f32; 3] = [2.4433157e-5, -0.0013887316, 0.041666646];

    let octant = ((x * FOUR_OVER_PI) as i32 + 1) & !1;
    let r = PI_4
        .iter()
        .fold(x, |r, &part| part.mul_add(octant as f32, r));
    let z = r * r;
    let [cos, sin] = [COS, SIN].map(|p| p[0].mul_add(z, p[1]).mul_add(z, p[2]) * z);
    let cos = cos.mul_add(z, z * -0.5) + 1.0;
    let sin = sin.mul_add(r, r);
    let (sin, cos) = if octant & 2 == 0 {
        (sin, cos)
    } else {
        (cos, sin)
    };
    let negative_sin = octant & 4 != 0;
    let negative_cos = (octant - 2) & 4 == 0;
    (
        if negative_sin { -sin } else { sin },
        if negative_cos { -cos } else { cos },
    )
}

/// Element `i` of the given draw of torch's CUDA generator: counter (draw, 0, i, 0), key = seed, of which the
/// first two words give a normal number as cuRAND makes it (the sine half). In f64, as A1111 computes it; the
/// device itself works in f32 with fast sines and agrees to about 1e-6.
fn philox_normal(seed: u64, draw: u32, i: u32) -> f32 {
    let [x, y, _, _] = philox4x32([draw, 0, i, 0], [seed as u32, (seed >> 32) as u32]);
    let scale = 1.0 / (1u64 << 32) as f64;
    let u = f64::from(x) * scale + scale / 2.0;
    let v = (f64::from(y) * scale + scale / 2.0) * TAU;
    ((-2.0 * u.ln()).sqrt() * v.sin()) as f32
}

/// Philox4x32 with 10 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [
                key[0].wrapping_add(0x9e37_79b9),
                key[1].wrapping_add(0xbb67_ae85),
            ];
        }
        let a = u64::from(counter[0]) * 0xd251_1f53;
        let b = u64::from(counter[2]) * 0xcd9e_8d57;
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
    }
    counter
}
