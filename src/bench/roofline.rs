//! The least that a UNet call can take on GPUs, from shapes and their makers' figures (Williams et al. 2009, "Roofline: an
//! insightful visual performance model for multicore architectures").

use std::cmp::Reverse;
use std::fmt::Write;

use prepose_models::ConfigError;
use prepose_models::unet::{Kernel, PassShape, UNetConfig, Work};
use serde::Serialize;

use super::row::TOKENS;

/// Seconds from one launch to the next where launches are the limit.
const LAUNCH: f64 = 4e-6;
/// Kernels that are named.
const WORST: usize = 10;

/// A GPU by its maker's figures, those without sparsity.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Gpu {
    /// What it is called.
    pub name: &'static str,
    /// Bytes a second of its memory.
    pub bandwidth: f64,
    /// Operations a second of its tensor cores, f16 with sums in f32.
    pub tensor: f64,
    /// Operations a second in f32.
    pub float: f64,
    /// Where the maker says so.
    pub source: &'static str,
}

/// The GPUs of the table.
pub const GPUS: [Gpu; 4] = [
    Gpu {
        name: "T4",
        bandwidth: 320e9,
        tensor: 65e12,
        float: 8.1e12,
        source: "NVIDIA T4 Tensor Core GPU datasheet",
    },
    Gpu {
        name: "RTX 4090",
        bandwidth: 1008e9,
        tensor: 165.2e12,
        float: 82.6e12,
        source: "NVIDIA Ada GPU Architecture whitepaper, appendix A",
    },
    Gpu {
        name: "A100",
        bandwidth: 2039e9,
        tensor: 312e12,
        float: 19.5e12,
        source: "NVIDIA A100 datasheet, SXM with 80 GB",
    },
    Gpu {
        name: "H100",
        bandwidth: 3350e9,
        tensor: 989.4e12,
        float: 66.9e12,
        source: "NVIDIA H100 datasheet, SXM; half of what it gives with sparsity",
    },
];

impl Gpu {
    /// Seconds of all launches of a kernel, without launching them.
    fn seconds(&self, work: &Work) -> f64 {
        self.moving(work).max(self.computing(work))
    }

    fn moving(&self, work: &Work) -> f64 {
        work.bytes as f64 / self.bandwidth
    }

    fn computing(&self, work: &Work) -> f64 {
        let peak = match work.kernel.on_tensor_cores() {
            true => self.tensor,
            false => self.float,
        };
        work.flops as f64 / peak
    }

    /// Seconds beyond what its products would take on tensor cores that never wait: what a better kernel could save.
    fn lost(&self, work: &Work) -> f64 {
        self.seconds(work) - work.flops as f64 / self.tensor
    }
}

/// A UNet call of both halves of classifier-free guidance, in 16 bits.
pub struct Roofline {
    /// The network's name.
    pub name: String,
    /// The side of the picture in pixels.
    pub size: usize,
    /// Pictures at a time.
    pub batch: usize,
    work: Vec<Work>,
}

impl Roofline {
    /// Of `batch` pictures of `size`² pixels, `factor` of them to a latent, with one chunk of text.
    ///
    /// # Errors
    /// As [`UNetConfig::work`].
    pub fn new(
        name: &str,
        unet: &UNetConfig,
        [size, factor, batch]: [usize; 3],
    ) -> Result<Self, ConfigError> {
        let shape = PassShape {
            rows: 2 * batch,
            height: size / factor,
            width: size / factor,
            tokens: TOKENS,
        };
        Ok(Self {
            name: name.into(),
            size,
            batch,
            work: unet.work(shape)?,
        })
    }

    fn total(&self, of: impl Fn(&Work) -> f64) -> f64 {
        self.work.iter().map(of).sum()
    }

    /// Those that lose most on `gpu`, the worst first.
    fn worst(&self, gpu: &Gpu) -> Vec<&Work> {
        let mut work: Vec<&Work> = self.work.iter().collect();
        // Nanoseconds, which have an order.
        work.sort_by_key(|work| Reverse((gpu.lost(work) * 1e9) as u64));
        work.truncate(WORST);
        work
    }

    /// The tables.
    pub fn to_markdown(&self) -> String {
        let Self {
            name, size, batch, ..
        } = self;
        let pictures = if *batch == 1 { "picture" } else { "pictures" };
        let mut text = format!("## {name}, {batch} {pictures} of {size}²\n\n");
        let launches = self.total(|work| work.launches as f64);
        let bytes = self.total(|work| work.bytes as f64);
        let flops = self.total(|work| work.flops as f64);
        let _ = write!(
            text,
            "{launches:.0} launches, {:.2} GB, {:.3} TFLOP.\n\n\
             | GPU | bytes, ms | operations, ms | the longer of each kernel, ms | launches, ms |\n\
             | --- | ---: | ---: | ---: | ---: |\n",
            bytes / 1e9,
            flops / 1e12,
        );
        for gpu in &GPUS {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                gpu.name,
                milliseconds(self.total(|work| gpu.moving(work))),
                milliseconds(self.total(|work| gpu.computing(work))),
                milliseconds(self.total(|work| gpu.seconds(work))),
                milliseconds(launches * LAUNCH),
            );
        }
        self.kernels(&mut text);
        for gpu in [&GPUS[0], &GPUS[3]] {
            self.named(gpu, &mut text);
        }
        text
    }

    /// A table by kinds of kernels.
    fn kernels(&self, text: &mut String) {
        let mut kinds: Vec<Kernel> = self.work.iter().map(|work| work.kernel).collect();
        kinds.sort_unstable();
        kinds.dedup();
        text.push_str("\n| kernel | launches | MB | GFLOP |");
        for gpu in &GPUS {
            let _ = write!(text, " {}, ms |", gpu.name);
        }
        text.push_str("\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
        for kind in kinds {
            let of = |what: &dyn Fn(&Work) -> f64| {
                let works = self.work.iter().filter(|work| work.kernel == kind);
                works.map(what).sum::<f64>()
            };
            let _ = write!(
                text,
                "| {} | {:.0} | {:.0} | {:.0} |",
                kind.name(),
                of(&|work| work.launches as f64),
                of(&|work| work.bytes as f64) / 1e6,
                of(&|work| work.flops as f64) / 1e9,
            );
            for gpu in &GPUS {
                let _ = write!(text, " {} |", milliseconds(of(&|work| gpu.seconds(work))));
            }
            text.push('\n');
        }
    }

    /// A table of the worst.
    fn named(&self, gpu: &Gpu, text: &mut String) {
        let _ = write!(
            text,
            "\n| the worst {WORST} on {} | launches | ms | beyond its products at full speed, ms | limit |\n\
             | --- | ---: | ---: | ---: | --- |\n",
            gpu.name
        );
        for work in self.worst(gpu) {
            let limit = match (
                gpu.moving(work) >= gpu.computing(work),
                work.kernel.on_tensor_cores(),
            ) {
                (true, _) => "memory",
                (false, true) => "tensor cores",
                (false, false) => "f32",
            };
            let _ = writeln!(
                text,
                "| {}: {} | {} | {} | {} | {limit} |",
                work.kernel.name(),
                work.shape,
                work.launches,
                milliseconds(gpu.seconds(work)),
                milliseconds(gpu.lost(work)),
            );
        }
    }
}

/// The figures of the GPUs as a table.
pub fn gpus_to_markdown() -> String {
    let mut text = String::from(
        "| GPU | memory, GB/s | tensor cores, f16 with sums in f32, TFLOP/s | f32, TFLOP/s | from |\n\
         | --- | ---: | ---: | ---: | --- |\n",
    );
    for gpu in &GPUS {
        let Gpu { name, source, .. } = gpu;
        let [bandwidth, tensor, float] =
            [(gpu.bandwidth, 1e9), (gpu.tensor, 1e12), (gpu.float, 1e12)].map(|(x, unit)| x / unit);
        let _ = writeln!(
            text,
            "| {name} | {bandwidth} | {tensor} | {float} | {source} |"
        );
    }
    text
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.3}", seconds * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(kernel: Kernel, flops: u64, bytes: u64) -> Work {
        Work {
            kernel,
            shape: "4".into(),
            launches: 2,
            flops,
            bytes,
        }
    }

    const GPU: Gpu = Gpu {
        name: "one",
        bandwidth: 100.0,
        tensor: 1000.0,
        float: 10.0,
        source: "",
    };

    #[test]
    fn a_kernel_takes_what_limits_it() {
        let product = work(Kernel::Product, 3000, 200);
        assert_eq!((GPU.seconds(&product), GPU.lost(&product)), (3.0, 0.0));
        let product = work(Kernel::Product, 1000, 200);
        assert_eq!((GPU.seconds(&product), GPU.lost(&product)), (2.0, 1.0));
        // Not on tensor cores: a hundredth of their speed.
        let attention = work(Kernel::PlainAttention, 1000, 200);
        assert_eq!(
            (GPU.seconds(&attention), GPU.lost(&attention)),
            (100.0, 99.0)
        );
    }

    #[test]
    fn the_worst_come_first() {
        let roofline = Roofline {
            name: "toybox".into(),
            size: 128,
            batch: 1,
            work: vec![
                work(Kernel::Norm, 0, 300),
                work(Kernel::Product, 9000, 100),
                work(Kernel::Gate, 0, 700),
            ],
        };
        let worst = roofline.worst(&GPU);
        let names: Vec<_> = worst.iter().map(|work| work.kernel.name()).collect();
        assert_eq!(names, ["gate", "norm", "product"]);
        assert!(roofline.to_markdown().contains("6 launches"));
    }
}
