//! The products and convolutions of a SD1.5 call at 512² (both halves of classifier-free guidance) and of its decoder, on a GPU: milliseconds
//! on the device, tera-operations a second, and the largest error relative to the largest result, against the CPU's in f32.
//! `torch_products.py` does the same in PyTorch.
//!
//! ```text
//! cargo bench --workspace --bench products -- cuda f16              # as layers compute them
//! cargo bench --workspace --bench products -- cuda f16 burn conv    # Burn's kernels, chosen by trying them, for what has `conv` in its name
//! ```
//!
//! Twenty runs are captured and launched at once, so that what happens around each launch is not counted.

use burn::tensor::{DType, Device, DeviceType, Distribution, Tensor, capture};
use prepose_kernels::{conv2d, linear, plain, prefers_channels_last};
use std::time::Instant;

const RUNS: usize = 20;

#[derive(Clone, Copy)]
enum Case {
    /// Rows, depth, columns.
    Linear([usize; 3]),
    /// Pictures, their side, channels in and out, stride; all of 3 × 3.
    Conv([usize; 5]),
}

/// The last of each kind are small and of no tile's size.
const CASES: [Case; 25] = [
    Case::Linear([8192, 320, 320]),
    Case::Linear([8192, 320, 2560]),
    Case::Linear([8192, 1280, 320]),
    Case::Linear([2048, 640, 640]),
    Case::Linear([2048, 640, 5120]),
    Case::Linear([2048, 2560, 640]),
    Case::Linear([512, 1280, 1280]),
    Case::Linear([512, 1280, 10240]),
    Case::Linear([512, 5120, 1280]),
    Case::Linear([154, 768, 320]),
    Case::Linear([2, 1280, 1280]),
    Case::Linear([77, 40, 56]),
    Case::Conv([2, 64, 320, 320, 1]),
    Case::Conv([2, 64, 960, 320, 1]),
    Case::Conv([2, 64, 320, 320, 2]),
    Case::Conv([2, 32, 640, 640, 1]),
    Case::Conv([2, 32, 1920, 640, 1]),
    Case::Conv([2, 16, 1280, 1280, 1]),
    Case::Conv([2, 16, 2560, 1280, 1]),
    Case::Conv([2, 8, 1280, 1280, 1]),
    Case::Conv([1, 128, 512, 512, 1]),
    Case::Conv([1, 512, 128, 128, 1]),
    Case::Conv([2, 64, 4, 320, 1]),
    Case::Conv([2, 64, 320, 4, 1]),
    Case::Conv([1, 13, 40, 24, 1]),
];

/// As [`linear`] and as [`conv2d`] with padding 1: ours, or Burn's.
#[derive(Clone, Copy)]
struct Way {
    linear: fn(Tensor<3>, Tensor<2>, Option<Tensor<1>>) -> Tensor<3>,
    conv: fn(Tensor<4>, Tensor<4>, Option<Tensor<1>>, usize, usize) -> Tensor<4>,
}

type Run = Box<dyn Fn() -> Tensor<1>>;
type Runs = Box<dyn Fn(&Device, DType, Way) -> Run>;

impl Case {
    fn name(self) -> String {
        match self {
            Case::Linear([m, k, n]) => format!("linear {m}×{k}→{n}"),
            Case::Conv([batch, side, inputs, outputs, stride]) => {
                let stride = if stride == 1 { "" } else { ", stride 2" };
                format!("conv {batch}×{inputs}→{outputs}, {side}²{stride}")
            }
        }
    }

    fn operations(self) -> f64 {
        let product: usize = match self {
            Case::Linear(sizes) => sizes.iter().product(),
            Case::Conv([batch, side, inputs, outputs, stride]) => {
                batch * side.div_ceil(stride).pow(2) * inputs * outputs * 9
            }
        };
        2.0 * product as f64
    }

    /// Operands on the CPU, and what computes with them on a device in a type.
    fn runs(self) -> Runs {
        match self {
            Case::Linear([m, k, n]) => {
                let (x, weight) = (random([1, m, k]), random([n, k]));
                Box::new(move |device, dtype, way| {
                    let (x, weight) = (moved(&x, device, dtype), moved(&weight, device, dtype));
                    Box::new(move || (way.linear)(x.clone(), weight.clone(), None).flatten(0, 2))
                })
            }
            Case::Conv([batch, side, inputs, outputs, stride]) => {
                let x = random([batch, side, side, inputs]);
                let weight = random([outputs, 3, 3, inputs]);
                Box::new(move |device, dtype, way| {
                    // As layers have them: channels next to each other where the device wants them so.
                    let [x, weight] = [&x, &weight].map(|x| {
                        let turned = moved(x, device, dtype).permute([0, 3, 1, 2]);
                        match prefers_channels_last(device) {
                            true => turned,
                            false => turned.clone() + 0.0,
                        }
                    });
                    Box::new(move || {
                        let y = (way.conv)(x.clone(), weight.clone(), None, stride, 1);
                        y.permute([0, 2, 3, 1]).flatten(0, 3)
                    })
                })
            }
        }
    }
}

fn random<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), &Device::flex())
}

fn moved<const D: usize>(x: &Tensor<D>, device: &Device, dtype: DType) -> Tensor<D> {
    Tensor::from_data(x.clone().cast(dtype).into_data(), (device, dtype))
}

fn values(x: Tensor<1>) -> Vec<f32> {
    x.into_data().iter::<f32>().collect()
}

/// The device of this kind, if it is there; drivers that are not panic.
fn find(named: &str) -> Option<Device> {
    let kinds = [
        #[cfg(feature = "cuda")]
        ("cuda", DeviceType::Cuda),
        #[cfg(feature = "vulkan")]
        ("vulkan", DeviceType::Vulkan),
        #[cfg(feature = "wgpu")]
        ("wgpu", DeviceType::Wgpu),
    ];
    let kinds: Vec<(&str, DeviceType)> = kinds.into_iter().collect();
    let (_, kind) = kinds.into_iter().find(|(name, _)| *name == named)?;
    let devices = std::panic::catch_unwind(|| Device::enumerate(kind).into_vec()).ok()?;
    devices.into_iter().next()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let said = |word: &str| words.iter().any(|said| said == word);
    let Some(device) = words.iter().find_map(|word| find(word)) else {
        println!(
            "names the device first: cuda, vulkan or wgpu, as far as they are built in and there"
        );
        return;
    };
    let types = [
        ("f32", DType::F32),
        ("f16", DType::F16),
        ("bf16", DType::BF16),
    ];
    let dtype = types.iter().find(|(name, _)| said(name));
    let dtype = dtype.map_or(DType::F16, |(_, dtype)| *dtype);
    let ours = Way {
        linear,
        conv: conv2d,
    };
    let burns = Way {
        linear: plain::linear,
        conv: plain::conv2d,
    };
    let way = if said("burn") { burns } else { ours };
    let kind = ["linear", "conv"].into_iter().find(|kind| said(kind));
    println!("| | ms | TFLOP/s | error | first call, s |\n| --- | ---: | ---: | ---: | ---: |");
    for case in CASES {
        let name = case.name();
        if kind.is_some_and(|kind| !name.starts_with(kind)) {
            continue;
        }
        let runs = case.runs();
        let want = values(runs(&Device::flex(), DType::F32, ours)());
        let run = runs(&device, dtype, way);
        let start = Instant::now();
        let got = values(run());
        let first = start.elapsed().as_secs_f64();
        let largest = want.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let errors = got.iter().zip(&want).map(|(got, want)| (got - want).abs());
        // Not-a-number stays.
        let error = errors.fold(0.0f32, |most, x| if x <= most { most } else { x });
        let mut graph = capture(&device, || (0..RUNS).map(|_| run()).collect::<Vec<_>>());
        let mut least = f64::MAX;
        for _ in 0..5 {
            device.sync().expect("a device that works");
            let start = Instant::now();
            // SAFETY: the operands live as long as the graph.
            unsafe { graph.replay() };
            device.sync().expect("a device that works");
            least = least.min(start.elapsed().as_secs_f64() / RUNS as f64);
        }
        let captured = if graph.is_hardware() {
            ""
        } else {
            " (not captured)"
        };
        println!(
            "| {name}{captured} | {:.4} | {:.1} | {:.1e} | {first:.1} |",
            least * 1e3,
            case.operations() / least * 1e-12,
            error / largest
        );
    }
}
