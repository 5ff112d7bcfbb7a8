//! Times UNet calls with random weights: `time_unet toybox|sd15|sdxl [CALLS]`.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Instant;

use burn::prelude::*;
use burn::tensor::FloatDType;
use prepose_models::params::Params;
use prepose_models::unet::{UNet, UNetConfig};
use serde_json::json;
use support::{RandomSource, noise_tensor};

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or("toybox".into());
    let calls: usize = args.next().map_or(20, |n| n.parse().expect("a number"));
    let (config, size, context) = match name.as_str() {
        "toybox" => (
            json!({
                "block_out_channels": [48, 96, 128], "layers_per_block": 1, "norm_num_groups": 16,
                "down_block_types": ["CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"],
                "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"],
                "cross_attention_dim": 128, "attention_head_dim": 2,
            }),
            16,
            128,
        ),
        _ => (json!({"cross_attention_dim": 768}), 64, 768),
    };
    let config: UNetConfig = serde_json::from_value(config).expect("a configuration");
    let device = Device::flex();
    let mut source = RandomSource;
    let params = Params::new(&mut source, &device, FloatDType::F32);
    let unet = UNet::load(&config, params).expect("a UNet");
    let sample: Tensor<4> = noise_tensor(1, [2, 4, size, size], &device);
    let prepared = unet.prepare(noise_tensor(2, [2, 77, context], &device), None);
    let mut best = f64::MAX;
    let mut total = 0.0;
    for _ in 0..calls {
        let start = Instant::now();
        let out = unet.forward_prepared(sample.clone(), &[500.0], &prepared);
        let _ = out.into_data();
        let seconds = start.elapsed().as_secs_f64();
        best = best.min(seconds);
        total += seconds;
    }
    println!(
        "{name}: best {best:.4} s, mean {:.4} s",
        total / calls as f64
    );
}
