//! The web UI's settings: those that come with a request, in `override_settings`, and those that would stand for all.

use super::Fields;
use crate::problem::Refusal;

/// What a setting says where nobody has touched it.
enum Untouched {
    Number(f64),
    Off,
    /// One of these, in any case.
    Words(&'static [&'static str]),
}
use Untouched::{Number, Off, Words};

/// No network.
const NONE: Untouched = Words(&["", "none"]);

/// Settings that change pictures and that nobody goes by here, with what they ask for. Others are about files, the web UI's own
/// page and what its kernels take.
const MISSING: [(&str, Untouched, &str); 16] = [
    (
        "sd_vae",
        Words(&["", "automatic", "none"]),
        "another autoencoder than the checkpoint's own",
    ),
    ("sd_hypernetwork", NONE, "a hypernetwork"),
    (
        "eta_noise_seed_delta",
        Number(0.0),
        "another seed for the noise between steps",
    ),
    ("eta_ddim", Number(0.0), "noise between DDIM's steps"),
    (
        "eta_ancestral",
        Number(1.0),
        "another share of noise between steps",
    ),
    ("s_churn", Number(0.0), "noise between Euler's steps"),
    (
        "s_min_uncond",
        Number(0.0),
        "leaving the negative prompt out of some steps",
    ),
    (
        "initial_noise_multiplier",
        Number(1.0),
        "another strength of the noise",
    ),
    (
        "img2img_extra_noise",
        Number(0.0),
        "more noise than a step has",
    ),
    ("img2img_fix_steps", Off, "making all steps in img2img"),
    (
        "img2img_color_correction",
        Off,
        "the start picture's colours",
    ),
    (
        "token_merging_ratio",
        Number(0.0),
        "the web UI's merging of tokens",
    ),
    (
        "token_merging_ratio_img2img",
        Number(0.0),
        "the web UI's merging of tokens",
    ),
    (
        "token_merging_ratio_hr",
        Number(0.0),
        "the web UI's merging of tokens",
    ),
    ("tiling", Off, "pictures that tile"),
    ("face_restoration", Off, "mending faces"),
];

/// Refuses settings that would change pictures and are not there.
///
/// # Errors
/// One of them is not as it is where nobody has touched it.
pub fn refuse_missing(settings: &Fields) -> Result<(), Refusal> {
    for (name, untouched, way) in MISSING {
        let is_untouched = match untouched {
            Number(number) => settings.number(name)?.is_none_or(|given| given == number),
            Off => !settings.flag(name, false)?,
            Words(words) => settings
                .text(name)?
                .is_none_or(|given| words.contains(&&*given.to_lowercase())),
        };
        if !is_untouched {
            let message = format!("{name}: {way} is not supported; leave it out");
            return Err(Refusal::new(name, message));
        }
    }
    Ok(())
}

/// Refuses settings that were to stand for all requests from now on.
///
/// # Errors
/// One of them would change pictures.
pub fn refuse_standing(settings: &Fields) -> Result<(), Refusal> {
    refuse_missing(settings)?;
    let skips = last_layer(settings)?.is_some_and(|last| last > 1);
    for (name, chosen) in [
        (LAST_LAYER, skips),
        (NOISE, noise(settings)? == Some(PHILOX)),
    ] {
        if chosen {
            let message =
                format!("{name} is chosen with each request here: override_settings.{name}");
            return Err(Refusal::new(name, message));
        }
    }
    Ok(())
}

const LAST_LAYER: &str = "CLIP_stop_at_last_layers";
const NOISE: &str = "randn_source";
/// What NVIDIA's GPUs draw.
const PHILOX: &str = "philox";

/// The last layer of the text encoder that counts, from 1, which is all.
pub fn last_layer(settings: &Fields) -> Result<Option<i64>, Refusal> {
    settings.whole(LAST_LAYER)
}

/// Whose random numbers are wanted, in our words; none if that is left to the server.
pub fn noise(settings: &Fields) -> Result<Option<&'static str>, Refusal> {
    match settings.text(NOISE)? {
        // What a GPU draws is its own affair: the setting that nobody has touched.
        None | Some("" | "GPU") => Ok(None),
        Some("CPU") => Ok(Some("torch")),
        Some("NV") => Ok(Some(PHILOX)),
        Some(other) => {
            let other = prepose_untrusted::printable(other).to_string();
            let message = format!("{NOISE} is GPU, CPU or NV, not {other:?}");
            Err(Refusal::new(NOISE, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn settings(name: &str, value: &Value) -> Fields {
        let mut settings = serde_json::Map::new();
        settings.insert(name.into(), value.clone());
        Fields(settings)
    }

    #[test]
    fn settings_that_nobody_touched_pass() {
        for (name, value) in [
            ("sd_vae", json!("Automatic")),
            ("sd_vae", json!("None")),
            ("sd_vae", json!(null)),
            ("eta_noise_seed_delta", json!(0)),
            ("eta_ddim", json!(0.0)),
            ("eta_ancestral", json!(1)),
            ("img2img_fix_steps", json!(false)),
            ("randn_source", json!("GPU")),
            ("randn_source", json!("CPU")),
            ("CLIP_stop_at_last_layers", json!(1.0)),
            ("samples_format", json!("jpg")),
            ("forge_preset", json!("sd")),
        ] {
            assert_eq!(refuse_standing(&settings(name, &value)), Ok(()), "{name}");
        }
    }

    #[test]
    fn settings_that_would_change_pictures_are_refused() {
        for (name, value) in [
            ("sd_vae", json!("vae-ft-mse-840000.safetensors")),
            ("sd_hypernetwork", json!("style")),
            ("eta_noise_seed_delta", json!(31337)),
            ("eta_ddim", json!(0.5)),
            ("eta_ancestral", json!(0)),
            ("img2img_fix_steps", json!(true)),
            ("token_merging_ratio", json!(0.5)),
        ] {
            let given = settings(name, &value);
            for refused in [refuse_missing(&given), refuse_standing(&given)] {
                let refused = refused.unwrap_err();
                assert_eq!(refused.param, Some(name));
                assert!(refused.message.contains("is not supported"), "{refused}");
            }
        }
        // Those that a request may have.
        for (name, value) in [
            ("CLIP_stop_at_last_layers", json!(2)),
            ("randn_source", json!("NV")),
        ] {
            let given = settings(name, &value);
            assert_eq!(refuse_missing(&given), Ok(()));
            let refused = refuse_standing(&given).unwrap_err();
            let way = format!("override_settings.{name}");
            assert!(refused.message.contains(&way), "{refused}");
        }
        let refused = noise(&settings("randn_source", &json!("TPU"))).unwrap_err();
        assert!(refused.message.contains("GPU, CPU or NV"), "{refused}");
    }
}
