//! Single pictures from text and from pictures, with every sampler.

use std::path::Path;

use prepose::request::{Dtype, InitImage, ModelRequest, Request};
use serde_json::{Value, json};

use super::Case;
use super::gligen::copy;
use crate::support::fixture;

const SCHEDULERS: [&str; 8] = [
    "ddim",
    "pndm",
    "euler",
    "euler_a",
    "dpmpp_2m",
    "dpmpp_2m_karras",
    "unipc",
    "lcm",
];

/// The start picture of the image-to-image cases as a PNG.
fn init_picture(case: &Case, folder: &Path) -> InitImage {
    let (width, height) = (case.request.width, case.request.height);
    let values = case.expected("img2img/image");
    let path = folder.join("init.png");
    let picture = image::RgbImage::from_fn(width as u32, height as u32, |x, y| {
        let at = |c: usize| values[(c * height + y as usize) * width + x as usize];
        image::Rgb([0, 1, 2].map(|c| (at(c) * 255.0).round() as u8))
    });
    picture.save(&path).unwrap();
    InitImage {
        path,
        strength: 0.6,
        sha256: None,
        upscale: None,
    }
}

#[test]
fn sd1_text_to_image_is_diffusers() {
    let case = Case::open("sd1-tiny");
    for scheduler in SCHEDULERS {
        case.check(&format!("txt2img/{scheduler}"), |r| {
            r.scheduler = Some(scheduler.into())
        });
    }
    case.check("txt2img/ddim_no_guidance", |r| {
        r.scheduler = Some("ddim".into());
        r.guidance_scale = 1.0;
    });
}

#[test]
fn sd1_image_to_image_is_diffusers() {
    let case = Case::open("sd1-tiny");
    let folder = tempfile::tempdir().unwrap();
    let init = init_picture(&case, folder.path());
    for scheduler in SCHEDULERS {
        case.check(&format!("img2img/{scheduler}"), |r| {
            r.scheduler = Some(scheduler.into());
            r.init = Some(init.clone());
        });
    }
}

#[test]
fn sdxl_is_diffusers() {
    let case = Case::open("sdxl-tiny");
    for scheduler in ["euler", "ddim", "dpmpp_2m_karras", "euler_a"] {
        case.check(&format!("txt2img/{scheduler}"), |r| {
            r.scheduler = Some(scheduler.into())
        });
    }
    case.check("txt2img/euler_no_negative", |r| {
        r.scheduler = Some("euler".into());
        r.negative_prompt.clear();
    });
    let folder = tempfile::tempdir().unwrap();
    let init = init_picture(&case, folder.path());
    for scheduler in ["euler", "ddim"] {
        case.check(&format!("img2img/{scheduler}"), |r| {
            r.scheduler = Some(scheduler.into());
            r.init = Some(init.clone());
        });
    }
}

/// `sdxl-tiny` with this `eos_token_id` of its second text encoder, whose tokenizer ends texts with the token 998 and has the
/// word `<|endoftext|>`, 999, among those that were added.
fn with_added_word(folder: &Path, eos: u32) -> Case {
    copy(&fixture("sdxl-tiny"), folder);
    let tokenizer = json!({
        "bos_token": "there</w>", "eos_token": "<|startoftext|>", "pad_token": "!", "unk_token": "<|startoftext|>",
        "added_tokens_decoder": {"999": {"content": "<|endoftext|>"}}, "model_max_length": 77,
    });
    let path = folder.join("tokenizer_2/tokenizer_config.json");
    std::fs::write(path, tokenizer.to_string()).unwrap();
    let path = folder.join("text_encoder_2/config.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["eos_token_id"] = json!(eos);
    std::fs::write(path, config.to_string()).unwrap();
    let model = ModelRequest::new(folder.to_string_lossy(), Dtype::F32);
    Case::of(&fixture("sdxl-tiny"), model)
}

/// As in transformers: where `eos_token_id` is 2, SDXL's pooled text is read at the token with the highest id, and attention
/// there sees nothing of what follows.
#[test]
fn old_configurations_pool_at_an_added_word() {
    for (eos, same) in [(2, true), (998, false)] {
        let folder = tempfile::tempdir().unwrap();
        let case = with_added_word(folder.path(), eos);
        let pooled = |prompt: &str| -> Vec<f32> {
            let request = Request {
                prompt: prompt.into(),
                ..case.request.clone()
            };
            let told = case.engine.conditioning(&[request]).unwrap();
            let pooled = told.positive.added.unwrap().text_embeds;
            pooled.into_data().iter::<f32>().collect()
        };
        let [cat, dog] = ["cat", "dog"].map(|word| pooled(&format!("a <|endoftext|> {word}")));
        assert_eq!(cat == dog, same, "{eos}");
    }
}

/// diffusers' `StableDiffusionPipeline` sets `steps_offset` to 1 and `clip_sample` to false on the scheduler that it is given;
/// SDXL's goes by the file.
#[test]
fn outdated_scheduler_files_are_corrected_as_diffusers_does() {
    let outdated = |name: &str| {
        let folder = tempfile::tempdir().unwrap();
        copy(&fixture(name), folder.path());
        let path = folder.path().join("scheduler/scheduler_config.json");
        let text = std::fs::read_to_string(&path).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        let keys = config.as_object_mut().unwrap();
        for key in ["steps_offset", "clip_sample"] {
            keys.remove(key).unwrap();
        }
        std::fs::write(path, config.to_string()).unwrap();
        let model = ModelRequest::new(folder.path().to_string_lossy(), Dtype::F32);
        (Case::of(&fixture(name), model), folder)
    };
    let (sd1, _sd1) = outdated("sd1-tiny");
    sd1.check("txt2img/pndm", |_| ());
    sd1.check("txt2img/ddim", |r| r.scheduler = Some("ddim".into()));
    let (sdxl, _sdxl) = outdated("sdxl-tiny");
    let levels = |case: &Case| case.engine.blueprint().noise_levels(&case.request).unwrap();
    assert_ne!(levels(&sdxl), levels(&Case::open("sdxl-tiny")));
}

#[test]
fn the_picture_is_diffusers() {
    let case = Case::open("sd1-tiny");
    let request = case.with_scheduler("ddim");
    let made = case.engine.generate(&[request], &mut []).unwrap();
    case.check_picture("txt2img/ddim/picture", &made.pictures[0]);
}
