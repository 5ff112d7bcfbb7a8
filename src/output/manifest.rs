//! `manifest.jsonl`: one line a picture, in the schema of SpatialBench-UC's released runs.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::request::Request;

/// One line of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestLine {
    /// `{run_id}_{prompt_id}_seed%04d`.
    pub sample_id: String,
    /// Names the run.
    pub run_id: String,
    /// Names the prompt within its set.
    pub prompt_id: String,
    /// The picture, relative to the manifest where possible.
    pub image_path: String,
    /// The networks.
    pub model: ModelLine,
    /// How it was sampled.
    pub gen_params: GenParams,
    /// The prompt.
    pub prompt: String,
    /// The relation the prompt states, where one is known.
    pub relation: Option<String>,
    /// The relation's subject.
    pub object_a: Option<String>,
    /// The relation's object.
    pub object_b: Option<String>,
    /// When the picture was finished, RFC 3339.
    pub timestamp_utc: String,
    /// The software.
    pub code_version: CodeVersion,
}

/// The networks of a manifest line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelLine {
    /// The method.
    pub pipeline: String,
    /// The checkpoint.
    pub model_id: String,
    /// SHA-256 of the checkpoint, where known.
    pub revision: Option<String>,
}

/// The sampling of a manifest line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GenParams {
    /// The picture's seed.
    pub seed: u64,
    /// In pixels.
    pub height: usize,
    /// In pixels.
    pub width: usize,
    /// Denoising steps.
    pub num_inference_steps: usize,
    /// Classifier-free guidance.
    pub guidance_scale: f64,
    /// The scheduler's name.
    pub scheduler: String,
    /// What the picture should not be.
    pub negative_prompt: Option<String>,
}

/// The software of a manifest line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CodeVersion {
    /// This crate.
    pub prepose: String,
    /// The tensor library.
    pub burn: String,
    /// The device and the type of the weights.
    pub device: String,
    /// The commit this binary was built from, where it was built from one.
    pub git_commit: Option<String>,
}

/// Where a line stands in its run.
pub struct Place<'a> {
    /// Names the run.
    pub run_id: &'a str,
    /// Names the prompt within its set.
    pub prompt_id: &'a str,
    /// The picture.
    pub image_path: &'a str,
}

impl ManifestLine {
    /// The line for one finished picture.
    pub fn new(request: &Request, scheduler: &str, device: &str, place: &Place) -> Self {
        let Place {
            run_id,
            prompt_id,
            image_path,
        } = place;
        let pipeline = match request.init {
            Some(_) => "img2img",
            None => "txt2img",
        };
        Self {
            sample_id: format!("{run_id}_{prompt_id}_seed{:04}", request.seed),
            run_id: (*run_id).into(),
            prompt_id: (*prompt_id).into(),
            image_path: (*image_path).into(),
            model: ModelLine {
                pipeline: pipeline.into(),
                model_id: request.model.checkpoint.clone(),
                revision: request.model.sha256.clone(),
            },
            gen_params: GenParams {
                seed: request.seed,
                height: request.height,
                width: request.width,
                num_inference_steps: request.steps,
                guidance_scale: request.guidance_scale,
                scheduler: scheduler.into(),
                negative_prompt: Some(request.negative_prompt.clone())
                    .filter(|text| !text.is_empty()),
            },
            prompt: request.prompt.clone(),
            relation: None,
            object_a: None,
            object_b: None,
            timestamp_utc: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            code_version: CodeVersion {
                prepose: env!("CARGO_PKG_VERSION").into(),
                burn: "0.22.1".into(),
                device: device.into(),
                git_commit: option_env!("PREPOSE_GIT_COMMIT").map(Into::into),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::tests::request;

    #[test]
    fn a_line_has_the_released_schema() {
        let place = Place {
            run_id: "run",
            prompt_id: "p_000001",
            image_path: "x.png",
        };
        let line = ManifestLine::new(&request(), "ddim", "flex f32", &place);
        let json = serde_json::to_value(&line).unwrap();
        assert_eq!(json["sample_id"], "run_p_000001_seed0007");
        let keys: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
        assert_eq!(
            keys,
            [
                "sample_id",
                "run_id",
                "prompt_id",
                "image_path",
                "model",
                "gen_params",
                "prompt",
                "relation",
                "object_a",
                "object_b",
                "timestamp_utc",
                "code_version"
            ]
        );
        assert_eq!(
            json["gen_params"]["negative_prompt"],
            serde_json::Value::Null
        );
    }
}
