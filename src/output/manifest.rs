//! `manifest.jsonl`: one line a picture, in the schema of SpatialBench-UC's released runs.

pub use prepose_check::manifest::{CodeVersion, GenParams, ManifestLine, ModelLine};

use crate::check::clock;
use crate::request::Request;

/// The version of Burn that this is built with.
pub const BURN_VERSION: &str = env!("PREPOSE_BURN_VERSION");

/// Where a line stands in its run.
pub struct Place<'a> {
    /// Names the run.
    pub run_id: &'a str,
    /// Names the prompt within its set.
    pub prompt_id: &'a str,
    /// The picture.
    pub image_path: &'a str,
}

/// The line for one finished picture.
pub fn line(request: &Request, scheduler: &str, device: &str, place: &Place) -> ManifestLine {
    let Place {
        run_id,
        prompt_id,
        image_path,
    } = place;
    let pipeline = match request.init {
        Some(_) => "img2img",
        None => "txt2img",
    };
    ManifestLine {
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
            negative_prompt: Some(request.negative_prompt.clone()).filter(|text| !text.is_empty()),
        },
        prompt: request.prompt.clone(),
        relation: None,
        object_a: None,
        object_b: None,
        timestamp_utc: clock::now(),
        code_version: CodeVersion {
            prepose: env!("CARGO_PKG_VERSION").into(),
            burn: BURN_VERSION.into(),
            device: device.into(),
            git_commit: option_env!("PREPOSE_GIT_COMMIT").map(Into::into),
        },
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
        let line = line(&request(), "ddim", "flex f32", &place);
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
