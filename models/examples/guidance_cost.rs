//! Time and memory of a plain step of a UNet, and of recording its cross-attention with the gradient
//! to the sample, on the CPU.
//!
//! ```text
//! cargo run --release -p prepose-models --example guidance_cost -- weights/toybox/unet \
//!     --variant reference --size 16 --repeat 20
//! ```
//!
//! Prints one line of JSON: the seconds of each repetition, those that the processor worked on it
//! (of all threads together), and by how many bytes the process grew meanwhile. `plain` is one call with a batch of two (both halves of classifier-free guidance),
//! `reference` reads all maps that are `--maps` high (default: as those of the last down block with
//! cross-attention), `cheapest` reads that block alone. `--given` names a safetensors file with `sample` and `context` to be
//! taken in place of random numbers, `--result` a file for the elements of the result, f32 one after the other.

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Instant;

use burn::prelude::*;
use burn::tensor::{DType, FloatDType, TensorData};
use prepose_models::attention::{AttentionProbe, LayerInfo};
use prepose_models::params::{ParamSource, Params};
use prepose_models::unet::{Memory, PreparedConditioning, RecordOptions, UNet, UNetConfig};
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

const USAGE: &str = "guidance_cost UNET_FOLDER [--variant plain|reference|cheapest] [--size N] \
                     [--maps N] [--batch N] [--repeat N] [--memory keep|recompute] \
                     [--dtype f32|f16|bf16] [--given FILE] [--result FILE]";
const TOKENS: usize = 77;

/// What the command line says.
struct Options {
    folder: PathBuf,
    variant: String,
    size: usize,
    batch: usize,
    repeat: usize,
    /// Height of the maps that are read; 0: as the last down block's.
    height: usize,
    memory: Memory,
    dtype: FloatDType,
    given: String,
    result: String,
}

impl Options {
    fn parse() -> Result<Self, Box<dyn Error>> {
        let mut arguments = std::env::args().skip(1);
        let folder = arguments.next().ok_or(USAGE)?.into();
        let mut options = HashMap::new();
        while let Some(name) = arguments.next() {
            options.insert(name, arguments.next().ok_or(USAGE)?);
        }
        let mut option = |name: &str, default: &str| {
            let value = options.remove(name);
            value.unwrap_or_else(|| default.to_string())
        };
        let parsed = Self {
            folder,
            variant: option("--variant", "reference"),
            size: option("--size", "64").parse()?,
            batch: option("--batch", "1").parse()?,
            repeat: option("--repeat", "1").parse()?,
            height: option("--maps", "0").parse()?,
            memory: match option("--memory", "keep").as_str() {
                "keep" => Memory::Keep,
                "recompute" => Memory::Recompute,
                other => return Err(format!("--memory {other}: keep or recompute").into()),
            },
            dtype: match option("--dtype", "f32").as_str() {
                "f32" => FloatDType::F32,
                "f16" => FloatDType::F16,
                "bf16" => FloatDType::BF16,
                other => return Err(format!("--dtype {other}: f32, f16 or bf16").into()),
            },
            given: option("--given", ""),
            result: option("--result", ""),
        };
        let known = ["plain", "reference", "cheapest"].contains(&parsed.variant.as_str());
        if !options.is_empty() || !known {
            return Err(USAGE.into());
        }
        Ok(parsed)
    }

    /// Rows of the plain call, which has both halves of classifier-free guidance.
    fn rows(&self) -> usize {
        if self.variant == "plain" {
            2 * self.batch
        } else {
            self.batch
        }
    }
}

/// `[rows, channels, size, size]` and `[rows, tokens, width]`, from the given file or at random.
fn inputs(
    options: &Options,
    config: &UNetConfig,
    device: &Device,
) -> Result<(Tensor<4>, Tensor<3>), Box<dyn Error>> {
    if !options.given.is_empty() {
        let mut file = Checkpoint::open(Path::new(&options.given))?;
        let mut read = |name| {
            let missing = || format!("{} has no {name}", options.given);
            file.read(name).ok_or_else(missing)
        };
        let (sample, context) = (read("sample")?, read("context")?);
        return Ok((
            Tensor::from_data(sample, device),
            Tensor::from_data(context, device),
        ));
    }
    let width = config.cross_attention_dim.first();
    let width = width.ok_or("config.json has no cross_attention_dim")?;
    let random = |shape: [usize; 3]| {
        Tensor::<3>::random(shape, burn::tensor::Distribution::Normal(0.0, 1.0), device)
    };
    let (rows, size) = (options.rows(), options.size);
    let sample = random([rows * config.in_channels, size, size]);
    let sample = sample.reshape([rows, config.in_channels, size, size]);
    Ok((sample, random([rows, TOKENS, width])))
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse()?;
    prepose_kernels::keep_freed_memory();
    let device = Device::flex();
    let config = File::open(options.folder.join("config.json"))?;
    let config: UNetConfig = serde_json::from_reader(config)?;
    let mut source = Checkpoint::open(&options.folder.join(FILE))?;
    let unet = UNet::load(&config, Params::new(&mut source, &device, options.dtype))?;

    let (sample, context) = inputs(&options, &config, &device)?;
    let conditioning = unet.prepare(context, None);
    let variant = options.variant.as_str();
    let run = || match variant {
        "plain" => unet.forward_prepared(sample.clone(), &[500.0], &conditioning),
        _ => {
            let maps = Maps::new(&unet, options.size, options.height, variant == "cheapest");
            guide(&unet, &sample, &conditioning, maps, options.memory)
        }
    };

    let before = Process::reset_peak()?;
    let (mut seconds, mut cpu) = (Vec::new(), Vec::new());
    let mut last = Vec::new();
    for _ in 0..options.repeat + 1 {
        let (start, used) = (Instant::now(), Process::cpu()?);
        let data = run().cast(DType::F32).to_data();
        seconds.push(start.elapsed().as_secs_f64());
        cpu.push(Process::cpu()? - used);
        last = data.iter::<f32>().collect();
        assert!(last.iter().all(|x| x.is_finite()), "not finite");
    }
    if !options.result.is_empty() {
        let bytes: Vec<u8> = last.iter().flat_map(|x| x.to_le_bytes()).collect();
        std::fs::write(&options.result, bytes)?;
    }
    let highest = Process::now()?.peak;
    let peak = highest - before.resident;
    // The first one also touches memory for the first time.
    let (seconds, cpu) = (&seconds[1..], &cpu[1..]);
    let report = serde_json::json!({
        "variant": variant, "seconds": seconds, "cpu": cpu, "peak": peak, "process": highest,
    });
    println!("{report}");
    Ok(())
}

/// The maps of some layers.
struct Maps {
    cheapest: bool,
    /// Height of the maps that are read.
    height: usize,
    /// The last down block with cross-attention, which `cheapest` reads.
    block: String,
    seen: HashMap<usize, Tensor<4>>,
}

impl Maps {
    /// For a square sample of the height `size`; maps of the height 0 are as high as the block's.
    fn new(unet: &UNet, size: usize, height: usize, cheapest: bool) -> Self {
        let types = &unet.config().down_block_types;
        let last = types
            .iter()
            .rposition(|name| name == "CrossAttnDownBlock2D");
        let last = last.unwrap_or_default();
        let lowest = size.div_ceil(1 << last);
        Self {
            cheapest,
            height: if height == 0 || cheapest {
                lowest
            } else {
                height
            },
            block: format!("down_blocks.{last}."),
            seen: HashMap::new(),
        }
    }
}

impl AttentionProbe for Maps {
    fn wants(&self, layer: &LayerInfo) -> bool {
        let block = !self.cheapest || layer.name.starts_with(&self.block);
        block && layer.height == self.height
    }

    fn record(&mut self, layer: &LayerInfo, probabilities: Tensor<4>) {
        self.seen.insert(layer.index, probabilities);
    }
}

/// The gradient of the squared probability that a pixel drawn from one token's mean map is right of
/// one drawn from another's.
fn guide(
    unet: &UNet,
    sample: &Tensor<4>,
    conditioning: &PreparedConditioning,
    mut maps: Maps,
    memory: Memory,
) -> Tensor<4> {
    let options = RecordOptions {
        memory,
        whole: false,
        merging: None,
    };
    let recording = unet.record(sample.clone(), &[500.0], conditioning, &mut maps, options);

    let seen: Vec<_> = maps.seen.keys().copied().collect();
    let means = maps.seen.into_values().map(|map| map.mean_dim(1));
    let mean = means.reduce(|a, b| a + b).expect("a layer") / seen.len() as f64;
    let [rows, _, pixels, tokens] = mean.dims();
    let mean = mean.cast(DType::F32).autodiff().require_grad();
    let (height, width) = (maps.height, pixels / maps.height);
    let column = |token: usize| {
        let map = mean.clone().narrow(3, token, 1);
        let profile = map.reshape([rows, height, width]).sum_dim(1);
        profile.clone() / profile.sum_dim(2)
    };
    let wrong = (column(2) * column(5).cumsum(2)).sum_dim(2);
    let gradients = wrong.square().sum().backward();
    let gradient = mean.grad(&gradients).expect("the maps' gradient");
    assert_eq!(gradient.dims(), [rows, 1, pixels, tokens]);
    recording.sample_gradient(&|layer: &LayerInfo| {
        let share = 1.0 / (layer.heads * seen.len()) as f64;
        (seen.contains(&layer.index)).then(|| gradient.clone() * share)
    })
}

const FILE: &str = "diffusion_pytorch_model.safetensors";

/// A safetensors file, read tensor by tensor.
struct Checkpoint {
    file: File,
    data: u64,
    tensors: HashMap<String, TensorInfo>,
}

impl Checkpoint {
    fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let mut file = File::open(path)?;
        let mut length = [0; 8];
        file.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        let mut header = Vec::new();
        (&file).take(length).read_to_end(&mut header)?;
        let metadata: Metadata = serde_json::from_slice(&header)?;
        let tensors = metadata.tensors().into_iter();
        Ok(Self {
            data: length + 8,
            tensors: tensors.map(|(name, info)| (name, info.clone())).collect(),
            file,
        })
    }

    fn read(&mut self, name: &str) -> Option<TensorData> {
        let info = self.tensors.get(name)?;
        let dtype = match info.dtype {
            Dtype::F32 => DType::F32,
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            _ => return None,
        };
        let (start, end) = info.data_offsets;
        let mut bytes = vec![0; end - start];
        self.file
            .seek(SeekFrom::Start(self.data + start as u64))
            .ok()?;
        self.file.read_exact(&mut bytes).ok()?;
        Some(TensorData::from_bytes_vec(bytes, info.shape.clone(), dtype))
    }
}

impl ParamSource for Checkpoint {
    fn take(&mut self, name: &str, shape: &[usize]) -> TensorData {
        let data = self.read(name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(data.shape().as_slice(), shape, "{name}");
        data
    }

    fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }
}

/// Memory of this process, in bytes, and its time, as Linux tells.
struct Process {
    resident: u64,
    peak: u64,
}

impl Process {
    fn now() -> Result<Self, Box<dyn Error>> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let field = |name: &str| {
            let mut lines = status.lines();
            let line = lines.find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
            kib.map(|kib| kib * 1024).ok_or(format!("no {name}"))
        };
        Ok(Self {
            resident: field("VmRSS:")?,
            peak: field("VmHWM:")?,
        })
    }

    /// Seconds that the threads which still live have worked.
    fn cpu() -> Result<f64, Box<dyn Error>> {
        let mut nanoseconds = 0.0;
        for thread in std::fs::read_dir("/proc/self/task")? {
            let statistics = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            let worked = statistics.split_whitespace().next().ok_or("no schedstat")?;
            nanoseconds += worked.parse::<f64>()?;
        }
        Ok(nanoseconds * 1e-9)
    }

    /// Makes the peak what is resident now.
    fn reset_peak() -> Result<Self, Box<dyn Error>> {
        std::fs::write("/proc/self/clear_refs", "5")?;
        Self::now()
    }
}
