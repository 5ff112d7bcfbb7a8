//! Whether networks can be built from a checkpoint's configurations, and whether what one gives is what the next takes.
//! Asked before any weight is read: the answer of the first matrix product would be a panic.

use prepose_models::clip::ClipTextConfig;
use prepose_models::unet::UNetConfig;
use prepose_models::vae::VaeConfig;
use prepose_models::{ConfigError, OneOrMany};

use crate::error::WeightsError;
use crate::family::Family;
use crate::folder::has_projection;
use crate::part::{Part, Parts};
use crate::tokenizer::ClipTokenizer;

/// Refuses networks that cannot be built or do not belong together.
///
/// # Errors
/// [`WeightsError::Config`] with the first key that is wrong, or [`WeightsError::Json`].
pub(crate) fn check(parts: &Parts) -> Result<(), WeightsError> {
    let unet: UNetConfig = parts.unet.config()?;
    let vae: VaeConfig = parts.vae.config()?;
    refuse(&parts.unet, unet.check())?;
    refuse(&parts.vae, vae.check())?;
    let (mut width, mut pooled) = (0, 0);
    for part in &parts.text {
        let text: ClipTextConfig = part.config()?;
        refuse(part, text.check())?;
        width += text.hidden_size;
        // SDXL's pooled text is the last encoder's.
        let projected = match text.architectures.is_empty() {
            true => part.entries.contains_key("text_projection.weight"),
            false => has_projection(part),
        };
        pooled = if projected {
            text.projection_dim
        } else {
            text.hidden_size
        };
    }

    let latents = format!(
        "the autoencoder's latents have {} channels",
        vae.latent_channels
    );
    for (key, channels) in [
        ("in_channels", unet.in_channels),
        ("out_channels", unet.out_channels),
    ] {
        equal(&parts.unet, key, channels, vae.latent_channels, &latents)?;
    }
    for (key, channels) in [
        ("in_channels", vae.in_channels),
        ("out_channels", vae.out_channels),
    ] {
        equal(&parts.vae, key, channels, 3, "pictures have 3 channels")?;
    }
    let texts = format!("the text encoders give {width} channels together");
    let contexts = match &unet.cross_attention_dim {
        OneOrMany::One(context) => std::slice::from_ref(context),
        OneOrMany::Many(contexts) => contexts,
    };
    for context in contexts {
        let key = "cross_attention_dim";
        equal(&parts.unet, key, *context, width, &texts)?;
    }
    added(parts, &unet, pooled)
}

/// Refuses a UNet that is told something else than its family's text encoders say, whose pooled text has `pooled`
/// channels.
fn added(parts: &Parts, unet: &UNetConfig, pooled: usize) -> Result<(), WeightsError> {
    /// Sizes and crops that SDXL is told.
    const TIME_IDS: usize = 6;
    let (has, needs) = (
        unet.addition_embed_type.is_some(),
        parts.family == Family::Sdxl,
    );
    if has != needs {
        let value = match &unet.addition_embed_type {
            Some(kind) => format!("{kind:?}"),
            None => "null".to_string(),
        };
        let needed = if needs { "\"text_time\"" } else { "null" };
        return Err(wrong(
            &parts.unet,
            format!(
                "`addition_embed_type` is {value}, but it is {needed} in {}",
                parts.family
            ),
        ));
    }
    let (Some(each), Some(width)) = (
        unet.addition_time_embed_dim.filter(|_| needs),
        unet.projection_class_embeddings_input_dim,
    ) else {
        return Ok(());
    };
    let reason = format!(
        "the pooled text has {pooled} channels and the sizes have {TIME_IDS} · {each} (`addition_time_embed_dim`)"
    );
    let key = "projection_class_embeddings_input_dim";
    equal(&parts.unet, key, width, pooled + TIME_IDS * each, &reason)
}

/// Refuses a tokenizer whose tokens or contexts the text encoder of this configuration has no place for.
///
/// # Errors
/// [`WeightsError::Json`].
pub(crate) fn check_tokenizer(part: &Part, tokenizer: &ClipTokenizer) -> Result<(), WeightsError> {
    let text: ClipTextConfig = part.config()?;
    for (key, has, needs, what) in [
        (
            "vocab_size",
            text.vocab_size,
            tokenizer.vocabulary(),
            "tokens",
        ),
        (
            "max_position_embeddings",
            text.max_position_embeddings,
            tokenizer.max_length(),
            "positions",
        ),
    ] {
        if has < needs {
            return Err(wrong(
                part,
                format!("`{key}` is {has}, but the tokenizer uses {needs} {what}"),
            ));
        }
    }
    Ok(())
}

fn refuse(part: &Part, checked: Result<(), ConfigError>) -> Result<(), WeightsError> {
    checked.map_err(|source| WeightsError::Config {
        path: part.config_path.clone(),
        source,
    })
}

fn equal(
    part: &Part,
    key: &str,
    value: usize,
    needed: usize,
    reason: &str,
) -> Result<(), WeightsError> {
    match value == needed {
        true => Ok(()),
        false => Err(wrong(part, format!("`{key}` is {value}, but {reason}"))),
    }
}

fn wrong(part: &Part, what: String) -> WeightsError {
    WeightsError::Json {
        path: part.config_path.clone(),
        what,
        source: None,
    }
}
