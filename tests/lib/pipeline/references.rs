//! Single pictures from text and from pictures, with every sampler.

use std::path::Path;

use prepose::request::InitImage;

use super::Case;

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

#[test]
fn the_picture_is_diffusers() {
    let case = Case::open("sd1-tiny");
    let request = case.with_scheduler("ddim");
    let made = case.engine.generate(&[request], &mut []).unwrap();
    case.check_picture("txt2img/ddim/picture", &made.pictures[0]);
}
