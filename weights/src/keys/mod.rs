//! From the names in a file to diffusers' and transformers' names, which the networks use.
//!
//! The rules follow the structure of CompVis' latent-diffusion and Stability's generative-models
//! modules, which number their blocks, and OpenCLIP's text transformer, which fuses query, key and
//! value. They are checked against checkpoints that diffusers converted.

mod ldm;
mod text;

pub(crate) use ldm::{UnetBlocks, is_gligen, levels, unet, vae, vae_attention};
pub(crate) use text::{clip, open_clip, open_clip_penultimate};

use crate::part::View;

/// Where a stored tensor goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// The parameters that it holds: mostly one.
    Parameters(Vec<(String, View)>),
    /// Nowhere, and rightly so.
    Ignored,
    /// No rule knows it.
    Unknown,
}

impl Target {
    fn whole(name: impl Into<String>) -> Self {
        Self::Parameters(vec![(name.into(), View::Whole)])
    }
}

/// Tensors of a full checkpoint that belong to no network that is run: the noise schedule's tables,
/// running averages kept for training, losses, buffers that hold 0, 1, 2, ….
pub(crate) fn ignored_in_checkpoint(key: &str) -> bool {
    const PREFIXES: &[&str] = &[
        "model_ema.",
        "loss.",
        "first_stage_model.loss.",
        "first_stage_model.model_ema.",
        "embedding_manager.",
        "alphas_cumprod",
        "sqrt_alphas_cumprod",
        "sqrt_one_minus_alphas_cumprod",
        "sqrt_recip_alphas_cumprod",
        "sqrt_recipm1_alphas_cumprod",
        "log_one_minus_alphas_cumprod",
        "posterior_",
        "denoiser.",
    ];
    const NAMES: &[&str] = &["betas", "logvar", "scale_factor", "v_pred", "ztsnr"];
    PREFIXES.iter().any(|prefix| key.starts_with(prefix)) || NAMES.contains(&key)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Read;

    use super::*;

    /// The names and shapes of a full-size network, as the reference implementation has them.
    fn table(name: &str) -> Vec<Vec<String>> {
        let path = format!(
            "{}/../fixtures/keys/{name}.tsv.gz",
            env!("CARGO_MANIFEST_DIR")
        );
        let mut text = String::new();
        flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap())
            .read_to_string(&mut text)
            .unwrap();
        text.lines()
            .map(|line| line.split('\t').map(str::to_string).collect())
            .collect()
    }

    fn whole(target: Target) -> String {
        match target {
            Target::Parameters(names) if names.len() == 1 => names[0].0.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_key_of_the_published_unets() {
        for (file, levels) in [("sd1_unet", 4), ("sdxl_unet", 3)] {
            let blocks = UnetBlocks::new(levels, 2);
            let rows = table(file);
            assert!(rows.len() > 600);
            for row in rows {
                let key = row[1].strip_prefix("model.diffusion_model.").unwrap();
                assert_eq!(whole(unet(key, &blocks)), row[0], "{key}");
            }
        }
    }

    #[test]
    fn every_key_of_the_published_autoencoder() {
        for row in table("vae") {
            let key = row[1].strip_prefix("first_stage_model.").unwrap();
            assert_eq!(whole(vae(key, 4)), row[0], "{key}");
        }
    }

    #[test]
    fn every_key_of_the_text_encoders() {
        for row in table("clip_l") {
            match clip(&row[0], false) {
                Target::Ignored => assert!(row[0].ends_with("position_ids"), "{}", row[0]),
                target => assert_eq!(whole(target), row[0]),
            }
        }
        let buffer = |name: &String| name.ends_with("position_ids");
        let expected = table("clip_g").into_iter().map(|row| row[0].clone());
        let expected: BTreeSet<String> = expected.filter(|name| !buffer(name)).collect();
        let mut found = BTreeSet::new();
        for row in table("clip_g_openclip") {
            match open_clip(
                row[0]
                    .strip_prefix("conditioner.embedders.1.model.")
                    .unwrap(),
            ) {
                Target::Parameters(names) => found.extend(names.into_iter().map(|(name, _)| name)),
                Target::Ignored => {}
                Target::Unknown => panic!("{}", row[0]),
            }
        }
        assert_eq!(found, expected);
    }
}
