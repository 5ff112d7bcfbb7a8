//! `enable_hr`: a second pass at a higher resolution, which the web UI calls hires fix.

use super::super::{openai, options};
use super::wanted::sampler_of;
use super::{Fields, model_named};
use crate::app::App;
use crate::problem::Refusal;
use crate::wire::{RequestWanted, SecondPassWanted};

/// The second pass over `first`'s picture of `size`, if the fields ask for one.
///
/// # Errors
/// A field is not of its kind, or asks for what is not here.
pub fn second_pass(
    app: &App,
    fields: &Fields,
    first: &RequestWanted,
    size: [usize; 2],
    edits: bool,
) -> Result<Option<SecondPassWanted>, Refusal> {
    if !fields.flag("enable_hr", false)? {
        return Ok(None);
    }
    if edits {
        let message = "enable_hr is a field of txt2img: here width and height say how large the picture becomes";
        return Err(Refusal::new("enable_hr", message));
    }
    for name in ["firstphase_width", "firstphase_height"] {
        if fields.whole(name)?.is_some_and(|side| side != 0) {
            let message =
                format!("{name} is of old versions: width and height are the first pass's");
            return Err(Refusal::new(name, message));
        }
    }
    if let Some(name) = given(fields, "hr_checkpoint_name", "Use same checkpoint")? {
        let own = first.checkpoint.clone();
        let own = own.or_else(|| openai::names(app).into_iter().next());
        if own != Some(model_named(app, name)?) {
            let message = "both passes are made by one checkpoint; leave hr_checkpoint_name out";
            return Err(Refusal::new("hr_checkpoint_name", message));
        }
    }
    let sampler = given(fields, "hr_sampler_name", "Use same sampler")?;
    let schedule = given(fields, "hr_scheduler", "Use same scheduler")?;
    let scheduler = match (sampler, schedule) {
        (None, None) => None,
        _ => {
            let sampler = match sampler {
                Some(sampler) => sampler,
                None => sampler_of(fields)?,
            };
            let schedule = schedule.or(fields.text("scheduler")?);
            options::scheduler(sampler, schedule.unwrap_or_default())?
        }
    };
    let prompt = given(fields, "hr_prompt", "")?;
    let prompt = prompt.map(|prompt| options::loras(prompt, "hr_prompt"));
    let prompt = prompt.transpose()?;
    if prompt.as_ref().is_some_and(|(_, loras)| !loras.is_empty()) {
        let message = "LoRAs act in both passes; name them in prompt alone";
        return Err(Refusal::new("hr_prompt", message));
    }
    let steps = fields
        .whole("hr_second_pass_steps")?
        .filter(|steps| *steps > 0);
    let Target {
        scaled: [width, height],
        crop,
    } = target(fields, size)?;
    Ok(Some(SecondPassWanted {
        width,
        height,
        crop,
        upscaler: upscaler(fields)?.into(),
        steps: steps.map(|steps| steps as usize),
        strength: fields.number("denoising_strength")?.unwrap_or(0.75),
        scheduler,
        prompt: prompt.map(|(prompt, _)| prompt),
        negative_prompt: given(fields, "hr_negative_prompt", "")?.map(Into::into),
    }))
}

/// A text that says something else than that it is as in the first pass.
fn given<'a>(
    fields: &'a Fields,
    name: &'static str,
    same: &str,
) -> Result<Option<&'a str>, Refusal> {
    let text = fields.text(name)?;
    Ok(text.filter(|text| !text.is_empty() && *text != same))
}

/// Our name of `hr_upscaler`.
fn upscaler(fields: &Fields) -> Result<&'static str, Refusal> {
    let label = match fields.text("hr_upscaler")? {
        None | Some("") => "Latent",
        // Which stretches the picture by Lanczos' filter.
        Some("None") => "Lanczos",
        Some(label) => label,
    };
    let found = options::UPSCALERS.iter().find(|(_, known)| *known == label);
    found.map(|(ours, _)| *ours).ok_or_else(|| {
        Refusal::new(
            "hr_upscaler",
            format!(
                "there is no upscaler {:?}; there are {}",
                prepose_untrusted::printable(label).to_string(),
                options::UPSCALERS.map(|(_, label)| label).join(", ")
            ),
        )
    })
}

/// What the first picture is scaled to, and which part of that is kept.
#[derive(Debug, PartialEq)]
struct Target {
    scaled: [usize; 2],
    crop: Option<[usize; 2]>,
}

/// By the rules of the web UI: `hr_resize_x` and `hr_resize_y` if one is there, keeping the shape, and covering both and
/// cutting what is over if both are; else `hr_scale`.
fn target(fields: &Fields, [width, height]: [usize; 2]) -> Result<Target, Refusal> {
    /// More than any picture may have, and far from what overflows.
    const MOST: i64 = 1 << 20;
    let side = |name: &'static str| match fields.whole(name)? {
        Some(side) if !(0..=MOST).contains(&side) => {
            Err(Refusal::new(name, format!("{name} is from 0 to {MOST}")))
        }
        side => Ok(side.unwrap_or(0) as usize),
    };
    let (x, y) = (side("hr_resize_x")?, side("hr_resize_y")?);
    let by_width = [x, (x * height).checked_div(width).unwrap_or(0)];
    let by_height = [(y * width).checked_div(height).unwrap_or(0), y];
    let (scaled, crop) = match (x, y) {
        (0, 0) => {
            let scale = fields.number("hr_scale")?.unwrap_or(2.0);
            if !(1.0..=64.0).contains(&scale) {
                let message = "hr_scale is from 1 to 64";
                return Err(Refusal::new("hr_scale", message));
            }
            let scaled = [width, height].map(|side| (side as f64 * scale) as usize);
            (scaled, None)
        }
        (_, 0) => (by_width, None),
        (0, _) => (by_height, None),
        _ if width * y < x * height => (by_width, Some([x, y])),
        _ => (by_height, Some([x, y])),
    };
    Ok(Target { scaled, crop })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fields(value: Value) -> Fields {
        Fields(value.as_object().unwrap().clone())
    }

    /// As `calculate_target_resolution` in the web UI's `modules/processing.py`.
    #[test]
    fn targets_are_those_of_the_web_ui() {
        let of = |value, size| {
            let Target { scaled, crop } = target(&fields(value), size).unwrap();
            (scaled, crop)
        };
        assert_eq!(of(json!({}), [512, 768]), ([1024, 1536], None));
        assert_eq!(of(json!({"hr_scale": 1.3}), [512, 512]), ([665, 665], None));
        assert_eq!(
            of(json!({"hr_resize_x": 1000}), [512, 768]),
            ([1000, 1500], None)
        );
        assert_eq!(
            of(json!({"hr_resize_y": 1000}), [512, 768]),
            ([666, 1000], None)
        );
        let both = json!({"hr_resize_x": 1024, "hr_resize_y": 1024, "hr_scale": 9.0});
        assert_eq!(
            of(both.clone(), [512, 768]),
            ([1024, 1536], Some([1024, 1024]))
        );
        assert_eq!(of(both, [768, 512]), ([1536, 1024], Some([1024, 1024])));
        assert!(target(&fields(json!({"hr_resize_x": -1})), [64, 64]).is_err());
        assert!(target(&fields(json!({"hr_scale": 0.5})), [64, 64]).is_err());
    }

    #[test]
    fn upscalers_go_by_their_names() {
        let of = |value| upscaler(&fields(value)).map_err(|refusal| refusal.message);
        assert_eq!(of(json!({})), Ok("latent"));
        assert_eq!(of(json!({"hr_upscaler": "None"})), Ok("lanczos"));
        let nearest = json!({"hr_upscaler": "Latent (nearest-exact)"});
        assert_eq!(of(nearest), Ok("latent-nearest-exact"));
        let foreign = of(json!({"hr_upscaler": "R-ESRGAN 4x+"})).unwrap_err();
        assert!(
            foreign.contains("R-ESRGAN") && foreign.contains("Lanczos"),
            "{foreign}"
        );
    }
}
