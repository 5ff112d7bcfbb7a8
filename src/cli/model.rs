//! Which networks, and where they run: what every command that makes pictures asks.

use std::path::PathBuf;

use anyhow::Context;
use prepose::device::{self, DeviceSpec, OpenDevice};
use prepose::request::{Adapter, Dtype, Lora, ModelRequest};
use prepose_weights::{Prediction, TOYBOX};

/// Which networks, and where they run.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Networks")]
pub struct ModelArgs {
    /// The networks: a folder, a file, or a name [default: toybox].
    ///
    /// A diffusers folder, a .safetensors or .ckpt file, a name that `prepose pull` fetched, or the built-in toybox.
    #[arg(short, long, value_name = "PATH|NAME")]
    pub checkpoint: Option<String>,
    /// A folder like those of diffusers, with the configuration for a single file of unusual size.
    #[arg(long, value_name = "FOLDER", hide_short_help = true)]
    pub config: Option<PathBuf>,
    /// An autoencoder to use instead of the checkpoint's own.
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    pub vae: Option<PathBuf>,
    /// GLIGEN's layers for --ground, if the checkpoint has none of its own: a file for SD 1.x, or toybox for the toybox's.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub gligen: Option<PathBuf>,
    /// An IP-Adapter, with which --ip-picture shows pictures to the network; may be repeated (docs/guidance/ip-adapter.md).
    ///
    /// A .safetensors or .bin file for this checkpoint, or toybox for the toybox's own, which the toybox uses by
    /// default. Its picture encoder is looked for beside it, as image_encoder; if it is elsewhere, say where, as in
    /// ip-adapter_sd15.safetensors,encoder=path/to/image_encoder.
    #[arg(long, value_name = "FILE[,encoder=PATH]", value_parser = parse_adapter, hide_short_help = true)]
    pub ip_adapter: Vec<Adapter>,
    /// What the UNet predicts, epsilon or v, if the checkpoint does not say so or is wrong.
    #[arg(long, value_name = "KIND", hide_short_help = true)]
    pub prediction: Option<Prediction>,
    /// A LoRA to merge, with its weight; may be repeated.
    #[arg(long, value_name = "FILE[:WEIGHT]", value_parser = parse_lora)]
    pub lora: Vec<Lora>,
    /// Load what fits even if tensors are missing (taken as zero), left over or of another shape.
    #[arg(long, hide_short_help = true)]
    pub allow_mismatch: bool,
    /// The type of the weights [default: f32 on the CPU, f16 elsewhere].
    #[arg(long, value_name = "TYPE", hide_short_help = true)]
    pub dtype: Option<Dtype>,
    /// auto, cuda[:i], wgpu[:i], vulkan[:i], metal or flex (the CPU).
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceSpec,
}

impl ModelArgs {
    /// The networks; f32 until a device is known.
    pub fn request(&self) -> ModelRequest {
        let mut model = ModelRequest::new(TOYBOX, Dtype::F32);
        self.apply(&mut model);
        model
    }

    /// Puts what was given into `model`.
    pub fn apply(&self, model: &mut ModelRequest) {
        let before = model.clone();
        if let Some(checkpoint) = &self.checkpoint {
            model.checkpoint.clone_from(checkpoint);
        }
        if self.config.is_some() {
            model.config.clone_from(&self.config);
        }
        if self.vae.is_some() {
            model.vae.clone_from(&self.vae);
        }
        if self.gligen.is_some() {
            model.gligen.clone_from(&self.gligen);
        }
        if !self.ip_adapter.is_empty() {
            model.adapters.clone_from(&self.ip_adapter);
        }
        if self.prediction.is_some() {
            model.prediction = self.prediction;
        }
        if !self.lora.is_empty() {
            model.loras.clone_from(&self.lora);
        }
        model.allow_mismatch |= self.allow_mismatch;
        if let Some(dtype) = self.dtype {
            model.dtype = dtype;
        }
        if *model != before {
            // It was that of other files.
            model.sha256 = None;
        }
    }

    /// The device, and the type of the weights on it: that of the arguments, or the device's own.
    ///
    /// # Errors
    /// There is no such device, or it does not compute in that type.
    pub fn open(&self) -> anyhow::Result<(OpenDevice, Dtype)> {
        let device = open(self.device)?;
        let dtype = self.dtype.unwrap_or_else(|| device.default_dtype());
        device.check_dtype(dtype)?;
        Ok((device, dtype))
    }
}

/// Opens a device.
///
/// # Errors
/// As [`device::open`].
pub fn open(spec: DeviceSpec) -> anyhow::Result<OpenDevice> {
    device::open(spec).context("cannot use that device; `prepose devices` lists those that work")
}

pub fn parse_adapter(text: &str) -> Result<Adapter, String> {
    let (path, encoder) = match text.rsplit_once(",encoder=") {
        Some((path, encoder)) => (path, Some(encoder)),
        None => (text, None),
    };
    if path.is_empty() || encoder.is_some_and(str::is_empty) {
        return Err("give a file, or FILE,encoder=PATH".into());
    }
    Ok(Adapter {
        path: path.into(),
        encoder: encoder.map(Into::into),
    })
}

fn parse_lora(text: &str) -> Result<Lora, String> {
    // The weight stands behind the last colon, unless what stands there is part of the path.
    let (path, weight) = match text.rsplit_once(':') {
        Some((path, weight)) if !path.is_empty() => match weight.parse() {
            Ok(weight) => (path, weight),
            Err(_) => (text, 1.0),
        },
        _ => (text, 1.0),
    };
    Ok(Lora {
        path: path.into(),
        weight,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_are_read() {
        let adapter = parse_adapter("a,b.bin").unwrap();
        assert_eq!(
            (adapter.path.to_str(), adapter.encoder),
            (Some("a,b.bin"), None)
        );
        let adapter = parse_adapter("a.bin,encoder=h/14").unwrap();
        assert_eq!(adapter.encoder.unwrap().to_str(), Some("h/14"));
        assert!(parse_adapter(",encoder=b").is_err() && parse_adapter("a,encoder=").is_err());
    }

    #[test]
    fn loras_are_read() {
        let lora = parse_lora("a/b.safetensors:0.5").unwrap();
        assert_eq!(
            (lora.path.to_str().unwrap(), lora.weight),
            ("a/b.safetensors", 0.5)
        );
        let lora = parse_lora("C:/b.safetensors").unwrap();
        assert_eq!(
            (lora.path.to_str().unwrap(), lora.weight),
            ("C:/b.safetensors", 1.0)
        );
    }
}
