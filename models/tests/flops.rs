//! The count of operations against arithmetic on paper, against PyTorch's counter, and against what the kernels
//! are asked to do.

mod support;

use burn::tensor::{Device, FloatDType, Tensor};
use prepose_kernels::profile::{self, Family};
use prepose_models::params::{Params, outline};
use prepose_models::unet::{AddedConditioning, Kernel, PassShape, UNet, UNetConfig, Work};
use support::{FileSource, config};

fn device() -> Device {
    Device::flex()
}

fn tiny(name: &str, file: &str) -> UNet {
    let mut source = FileSource::open(&format!("{name}/unet/diffusion_pytorch_model{file}"));
    let config: UNetConfig = config(&format!("{name}/unet/config.json"));
    UNet::load(
        &config,
        Params::new(&mut source, &device(), FloatDType::F32),
    )
    .unwrap()
}

fn read(path: &str) -> UNetConfig {
    let path = format!(
        "{}/../weights/configs/{path}/unet.json",
        env!("CARGO_MANIFEST_DIR")
    );
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// One level, one residual block on the way down, no transformer but the one in the middle.
#[test]
fn a_network_on_paper() {
    let config: UNetConfig = serde_json::from_value(serde_json::json!({
        "block_out_channels": [8],
        "down_block_types": ["DownBlock2D"],
        "up_block_types": ["UpBlock2D"],
        "layers_per_block": 1,
        "norm_num_groups": 4,
        "attention_head_dim": 2,
        "cross_attention_dim": 6,
    }))
    .unwrap();
    let flops = config.flops(3, [4, 5], 7).unwrap();
    let pixels = 3 * 4 * 5;
    let three = |input: u64, output: u64| 2 * pixels * 9 * input * output;
    let one = |input: u64, output: u64| 2 * pixels * input * output;
    // In and out; one block down, two in the middle, two up, whose input has twice the channels.
    let down_and_middle = 3 * (three(8, 8) + three(8, 8));
    let up = 2 * (three(16, 8) + three(8, 8) + one(16, 8));
    assert_eq!(
        flops.convolution,
        three(4, 8) + three(8, 4) + down_and_middle + up
    );
    // The time embedding of 4 · 8 channels, and its projection in five blocks.
    let time = 2 * (8 * 32 + 32 * 32) + 5 * 2 * 32 * 8;
    // In, out, four of self-attention, two of the attention to the text, 8 -> 64 and 32 -> 8.
    let transformer = 8 * one(8, 8) + one(8, 64) + one(32, 8);
    assert_eq!(flops.matmul, time + transformer);
    // Scores and values over all heads: 2 · 2 · queries · keys · channels.
    assert_eq!(flops.attention, 4 * pixels * 8 * 20 + 4 * pixels * 8 * 7);
    assert_eq!(flops.preparation, 2 * 2 * 3 * 7 * 6 * 8);
}

/// `FlopCounterMode` of PyTorch 2.15 on diffusers 0.42.1's networks, two samples at the published size
/// (`scripts/bench/flops.py`); of these, the products of attention.
#[test]
fn the_published_networks() {
    let cases = [
        ("sd1", 64, 1_606_546_882_560u64, Some(252_104_540_160u64)),
        ("sdxl", 128, 13_522_472_796_160, Some(1_567_830_835_200)),
    ];
    for (name, side, total, attention) in cases {
        let flops = read(name).flops(2, [side; 2], 77).unwrap();
        let off = flops.total() as f64 / total as f64 - 1.0;
        // PyTorch embeds the timestep for each sample, which is next to nothing.
        assert!(
            off.abs() < 1e-3,
            "{name}: {} is off by {off}",
            flops.total()
        );
        assert_eq!(Some(flops.attention), attention, "{name}");
    }
}

/// The kernels' own count of a call is the one from the configuration.
#[test]
fn what_the_kernels_are_asked_to_do() {
    let cases = [
        ("sd1-tiny", ".safetensors", false),
        ("sdxl-tiny", ".fp16.safetensors", true),
    ];
    for (name, file, added) in cases {
        let unet = tiny(name, file);
        let config = unet.config();
        let (rows, size, tokens) = (2, [9, 12], 5);
        let width = config.cross_attention_dim.first().unwrap();
        let context = Tensor::ones([rows, tokens, width], &device());
        let pooled = config
            .projection_class_embeddings_input_dim
            .unwrap_or_default();
        let ids = 6 * config.addition_time_embed_dim.unwrap_or_default();
        let added = added.then(|| AddedConditioning {
            text_embeds: Tensor::ones([rows, pooled - ids], &device()),
            time_ids: Tensor::ones([rows, 6], &device()),
        });
        let flops = config.flops(rows, size, tokens).unwrap();
        let (prepared, preparing) = profile::record(|| unet.prepare(context, added.as_ref()));
        assert_eq!(preparing.flops(), flops.preparation, "{name}");
        let sample = Tensor::ones([rows, 4, size[0], size[1]], &device());
        let (_, profile) = profile::record(|| unet.forward_prepared(sample, &[500.0], &prepared));
        assert_eq!(profile.flops(), flops.step(), "{name}");
        assert_eq!(
            profile.get(Family::Attention).flops,
            flops.attention,
            "{name}"
        );
        assert!(profile.get(Family::Norm).calls > 10 && profile.get(Family::Norm).flops == 0);
    }
}

fn work(config: &UNetConfig, rows: usize, [height, width]: [usize; 2], tokens: usize) -> Vec<Work> {
    let shape = PassShape {
        rows,
        height,
        width,
        tokens,
    };
    config.work(shape).unwrap()
}

/// A call's kernels compute what the call does. Their weights and feature maps are counted here from the tensors.
#[test]
fn the_kernels_of_the_published_networks() {
    for (name, side) in [("sd1", 64), ("sdxl", 128)] {
        let config = read(name);
        let work = work(&config, 2, [side; 2], 77);
        let flops = config.flops(2, [side; 2], 77).unwrap();
        let of = |kernels: &[Kernel], what: fn(&Work) -> u64| {
            let counted = work.iter().filter(|work| kernels.contains(&work.kernel));
            counted.map(what).sum::<u64>()
        };
        let affine = of(&[Kernel::Convolution, Kernel::Product], |work| work.flops);
        assert_eq!(affine, flops.convolution + flops.matmul, "{name}");
        // All of it on the tensor cores.
        let attention = of(&[Kernel::Attention], |work| work.flops);
        assert_eq!(attention, flops.attention, "{name}");
    }
    // Every weight is read once: what two more rows of one pixel add is feature maps alone.
    let config = read("sd1");
    let bytes = |rows| -> u64 {
        let work = work(&config, rows, [8, 8], 77);
        work.iter().map(|work| work.bytes).sum()
    };
    let weights = 2 * bytes(2) - bytes(4);
    let wanted = outline(|params| UNet::load(&config, params)).unwrap();
    let stored: u64 = (wanted.iter())
        .filter(|wanted| wanted.shape.len() > 1)
        // Keys and values of the text are made once a prompt.
        .filter(|wanted| !wanted.name.contains("attn2.to_k") && !wanted.name.contains("attn2.to_v"))
        .map(|wanted| {
            let elements = wanted.shape.iter().product::<usize>() as u64;
            elements * if wanted.name.starts_with("time_embedding") { 4 } else { 2 }
        })
        .sum();
    let off = weights as f64 / stored as f64 - 1.0;
    assert!(off.abs() < 1e-3, "{weights} bytes of weights for {stored}");
}

/// Launches of a call of the toybox that a dry run of CUDA counted (`kernels/NOTES.md`), but those of the time embedding's
/// activations and casts, the copy of the latents, and the three copies that attention has been rid of since.
#[test]
fn launches_of_a_dry_run() {
    let path = format!(
        "{}/../weights/toybox/unet/config.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let config = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let work = work(&config, 2, [16; 2], 77);
    for (kernel, launches) in [
        (Kernel::Product, 67),
        (Kernel::Norm, 51),
        (Kernel::Convolution, 28),
        (Kernel::Attention, 14),
        (Kernel::PlainAttention, 0),
        (Kernel::Gate, 7),
        (Kernel::Join, 6),
        (Kernel::Sum, 3),
        (Kernel::Resize, 2),
    ] {
        let counted = work.iter().filter(|work| work.kernel == kernel);
        let counted: u64 = counted.map(|work| work.launches).sum();
        assert_eq!(counted, launches, "{}", kernel.name());
    }
}

/// Names and shapes cost nothing, whatever the size of the network.
#[test]
fn an_outline_makes_no_parameters() {
    let config = read("sdxl");
    let wanted = outline(|params| UNet::load(&config, params)).unwrap();
    let elements = wanted
        .iter()
        .map(|tensor| tensor.shape.iter().product::<usize>());
    assert_eq!(elements.sum::<usize>(), 2_567_463_684);
    assert!(
        wanted
            .iter()
            .any(|tensor| tensor.name == "conv_in.weight" && tensor.shape == [320, 4, 3, 3])
    );
}
