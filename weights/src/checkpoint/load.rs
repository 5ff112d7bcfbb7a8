//! From a checkpoint's files to its networks on a device.

use burn::prelude::Device;
use burn::tensor::{FloatDType, Tensor, TensorData};
use prepose_models::clip::{ClipTextConfig, ClipTextModel};
use prepose_models::params::Params;
use prepose_models::training::{Choice, TrainableUNet};
use prepose_models::unet::UNet;
use prepose_models::vae::{AutoencoderKl, VaeHalf};

use super::Checkpoint;
use crate::error::WeightsError;

impl Checkpoint {
    /// The text encoders: one for SD 1.x and 2.x, two for SDXL.
    ///
    /// # Errors
    /// [`WeightsError::Mismatch`] if any parameter is missing, unused or of another shape,
    /// [`WeightsError::NonFinite`] for weights that are no numbers, and what reading can run into.
    pub fn load_text_encoders(
        &self,
        device: &Device,
        dtype: FloatDType,
    ) -> Result<Vec<ClipTextModel>, WeightsError> {
        self.parts
            .text
            .iter()
            .map(|part| {
                let config: ClipTextConfig = part.config()?;
                part.load(device, dtype, self.allow_mismatch, |params| {
                    ClipTextModel::load(&config, params)
                })
            })
            .collect()
    }

    /// The UNet.
    ///
    /// # Errors
    /// As [`Self::load_text_encoders`].
    pub fn load_unet(&self, device: &Device, dtype: FloatDType) -> Result<UNet, WeightsError> {
        let config = self.unet_config()?;
        self.parts
            .unet
            .load(device, dtype, self.allow_mismatch, |params| {
                UNet::load(&config, params)
            })
    }

    /// The UNet, so that what `choice` says of it can be trained. `seed` is that of the first values of what is new. An
    /// IP-Adapter is the checkpoint's first, with the values of its file if it has one.
    ///
    /// # Errors
    /// As [`Self::load_text_encoders`], and [`WeightsError::Training`] if it cannot be trained so.
    pub fn load_trainable_unet(
        &self,
        device: &Device,
        dtype: FloatDType,
        choice: &Choice,
        seed: u64,
    ) -> Result<TrainableUNet, WeightsError> {
        let config = self.unet_config()?;
        let part = &self.parts.unet;
        let wanted = |params: Params| UNet::load(&config, params);
        let unet = part.load_from_source(self.allow_mismatch, wanted, |source| {
            TrainableUNet::load(&config, source, device, dtype, choice, seed)
        })?;
        let mut unet = unet.map_err(|source| WeightsError::Training {
            path: part.path.clone(),
            source: Box::new(source),
        })?;
        let adapter = self.adapters.first();
        if let (Choice::IpAdapter(_), Some(adapter)) = (choice, adapter)
            && let Some(values) = adapter.values(unet.parameters())?
        {
            let row = |values: Vec<f32>| {
                let length = values.len();
                Tensor::<1>::from_data(TensorData::new(values, [length]), device)
            };
            unet.set_values(values.into_iter().map(row).collect());
        }
        Ok(unet)
    }

    /// The autoencoder.
    ///
    /// # Errors
    /// As [`Self::load_text_encoders`].
    pub fn load_vae(
        &self,
        device: &Device,
        dtype: FloatDType,
    ) -> Result<AutoencoderKl, WeightsError> {
        let config = self.vae_config()?;
        self.parts
            .vae
            .load(device, dtype, self.allow_mismatch, |params| {
                AutoencoderKl::load(&config, params)
            })
    }

    /// One half of the autoencoder: the encoder is only needed to start from a picture.
    ///
    /// # Errors
    /// As [`Self::load_text_encoders`], for the half's parameters.
    pub fn load_vae_half(
        &self,
        half: VaeHalf,
        device: &Device,
        dtype: FloatDType,
    ) -> Result<AutoencoderKl, WeightsError> {
        let config = self.vae_config()?;
        let wanted = |name: &str| half.has(name);
        self.parts
            .vae
            .load_some(device, dtype, self.allow_mismatch, wanted, |params| {
                AutoencoderKl::load_half(&config, half, params)
            })
    }
}
