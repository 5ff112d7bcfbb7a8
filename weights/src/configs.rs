//! Configurations: those of SD 1.x, SD 2.x and SDXL, which are in the binary so that a single file needs
//! nothing else, and those that lie in files.
//!
//! The embedded ones are the facts of the published `config.json` of stable-diffusion-v1-5,
//! stable-diffusion-2-1-base and stable-diffusion-xl-base-1.0.

use std::path::PathBuf;

use serde_json::Value;

use crate::error::WeightsError;
use crate::family::Family;
use crate::files::Files;

/// Where configurations come from.
pub(crate) enum Configs {
    Embedded(Family),
    Folder(Files),
}

fn embedded(family: Family, part: &str) -> Option<&'static str> {
    Some(match (family, part) {
        (Family::Sd1, "unet") => include_str!("../configs/sd1/unet.json"),
        (Family::Sd1, "vae") => include_str!("../configs/sd1/vae.json"),
        (Family::Sd1, "text_encoder") => include_str!("../configs/sd1/text_encoder.json"),
        (Family::Sd1, "scheduler") => include_str!("../configs/sd1/scheduler.json"),
        (Family::Sd2, "unet") => include_str!("../configs/sd2/unet.json"),
        (Family::Sd2, "vae") => include_str!("../configs/sd2/vae.json"),
        (Family::Sd2, "text_encoder") => include_str!("../configs/sd2/text_encoder.json"),
        (Family::Sd2, "scheduler") => include_str!("../configs/sd2/scheduler.json"),
        (Family::Sdxl, "unet") => include_str!("../configs/sdxl/unet.json"),
        (Family::Sdxl, "vae") => include_str!("../configs/sdxl/vae.json"),
        (Family::Sdxl, "text_encoder") => include_str!("../configs/sdxl/text_encoder.json"),
        (Family::Sdxl, "text_encoder_2") => include_str!("../configs/sdxl/text_encoder_2.json"),
        (Family::Sdxl, "scheduler") => include_str!("../configs/sdxl/scheduler.json"),
        _ => return None,
    })
}

/// The embedded configuration of `part`, and a name for it in messages.
pub(crate) fn standard(family: Family, part: &str) -> (Value, PathBuf) {
    let value = embedded(family, part)
        .map(|text| serde_json::from_str(text).expect("embedded configurations are valid JSON"))
        .unwrap_or_default();
    (
        value,
        PathBuf::from(format!(
            "the standard one of {family} (another is given with --config)"
        )),
    )
}

impl Configs {
    /// The configuration of `part`, and where it is from.
    pub fn get(&self, part: &str) -> Result<(Value, PathBuf), WeightsError> {
        match self {
            Self::Embedded(family) => Ok(standard(*family, part)),
            Self::Folder(files) => {
                let name = match part {
                    "scheduler" => "scheduler/scheduler_config.json".to_string(),
                    part => format!("{part}/config.json"),
                };
                Ok((files.json(&name)?, files.path(&name)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use prepose_models::clip::ClipTextConfig;
    use prepose_models::unet::UNetConfig;
    use prepose_models::vae::VaeConfig;

    use super::*;

    #[test]
    fn the_networks_accept_the_embedded_ones() {
        for family in [Family::Sd1, Family::Sd2, Family::Sdxl] {
            let get = |part| standard(family, part).0;
            serde_json::from_value::<UNetConfig>(get("unet"))
                .unwrap()
                .check()
                .unwrap();
            serde_json::from_value::<VaeConfig>(get("vae"))
                .unwrap()
                .check()
                .unwrap();
            serde_json::from_value::<ClipTextConfig>(get("text_encoder"))
                .unwrap()
                .check()
                .unwrap();
            assert_eq!(get("scheduler")["steps_offset"], 1);
        }
        let second = standard(Family::Sdxl, "text_encoder_2").0;
        assert_eq!(
            serde_json::from_value::<ClipTextConfig>(second)
                .unwrap()
                .projection_dim,
            1280
        );
    }
}
