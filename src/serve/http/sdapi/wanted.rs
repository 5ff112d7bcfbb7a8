//! From this interface's fields to ours.

use serde_json::Value;

use super::super::options;
use super::{Fields, hires, model_named};
use crate::app::App;
use crate::picture;
use crate::problem::Refusal;
use crate::wire::{RequestWanted, Wanted};

/// A side as this engine can make it: clients send whatever they like.
fn side(asked: usize, factor: usize) -> usize {
    let factor = factor.max(1);
    ((asked + factor / 2) / factor * factor).max(64)
}

/// What is wanted, in our words.
pub fn wanted(app: &App, fields: &Fields, edits: bool) -> Result<Wanted, Refusal> {
    refuse_unsupported(fields)?;
    let (prompt, loras) = options::loras(fields.text("prompt")?.unwrap_or_default());
    let mut wanted = Wanted::of(plain(app, fields, prompt)?);
    // Before whatever goes by them: the strength counts steps, and sizes are the checkpoint's.
    own(fields, &mut wanted)?;
    let request = &mut wanted.request;
    request.loras.extend(loras);

    let about = app.studio.about();
    let checkpoints = about["checkpoints"].as_array().cloned().unwrap_or_default();
    let chosen = checkpoints
        .iter()
        .find(|one| request.checkpoint.as_deref() == one["name"].as_str());
    let facts = chosen
        .or_else(|| checkpoints.first())
        .cloned()
        .unwrap_or_default();
    let factor = facts["factor"].as_u64().unwrap_or(8) as usize;
    for (name, into) in [
        ("width", &mut request.width),
        ("height", &mut request.height),
    ] {
        let asked = fields.at_least_one(name)?;
        *into = asked.map(|asked| side(asked.min(1 << 20), factor));
    }
    if edits {
        request.init = Some(begin_with(fields, request.steps.unwrap_or(STEPS))?);
    }
    let or = |side: Option<usize>, name: &str| {
        side.or_else(|| facts[name].as_u64().map(|side| side as usize))
            .unwrap_or(512)
    };
    let first = [or(request.width, "width"), or(request.height, "height")];
    let second_pass = hires::second_pass(app, fields, request, first, edits)?;
    let seed = fields.whole("seed")?.filter(|seed| *seed >= 0);
    let seed = seed.map(|seed| seed as u64);
    let seed = seed.or(request.seed.map(|seed| seed.0));
    let seed = seed.unwrap_or_else(options::any_seed);
    wanted.seeds = options::seeds(seed, pictures(app, fields)?);
    wanted.second_pass = second_pass.or(wanted.second_pass);
    // Clients ask for the current picture while they wait.
    wanted.previews = 5;
    Ok(wanted)
}

/// What this interface's own fields say of a picture of `prompt`, but for its size and its start.
fn plain(app: &App, fields: &Fields, prompt: String) -> Result<RequestWanted, Refusal> {
    let mut request = RequestWanted {
        prompt,
        negative_prompt: fields.text("negative_prompt")?.unwrap_or_default().into(),
        steps: Some(fields.at_least_one("steps")?.unwrap_or(STEPS)),
        guidance_scale: Some(fields.number("cfg_scale")?.unwrap_or(7.0)),
        ..RequestWanted::default()
    };
    let overrides = fields.get("override_settings").cloned().unwrap_or_default();
    if let Some(model) = overrides["sd_model_checkpoint"]
        .as_str()
        .filter(|name| !name.is_empty())
    {
        request.checkpoint = Some(model_named(app, model)?);
    }
    let skip = overrides["CLIP_stop_at_last_layers"].as_u64().unwrap_or(1);
    request.clip_skip = (skip > 1).then(|| skip as usize - 1);
    let sampler = fields
        .text("sampler_name")?
        .or(fields.text("sampler_index")?);
    let sampler = sampler
        .filter(|name| !name.eq_ignore_ascii_case("automatic"))
        .unwrap_or_default();
    request.scheduler = options::scheduler(sampler, fields.text("scheduler")?.unwrap_or_default())?;
    Ok(request)
}

/// How many pictures are wanted.
fn pictures(app: &App, fields: &Fields) -> Result<usize, Refusal> {
    let pictures = fields.at_least_one("batch_size")?.unwrap_or(1);
    let pictures = pictures.saturating_mul(fields.at_least_one("n_iter")?.unwrap_or(1));
    if pictures > app.limits.pictures {
        let message = format!(
            "that is {pictures} pictures; one request may ask for {}",
            app.limits.pictures
        );
        return Err(Refusal::new("batch_size", message));
    }
    Ok(pictures)
}

/// Refuses what would change the picture and is not there.
fn refuse_unsupported(fields: &Fields) -> Result<(), Refusal> {
    for (name, way) in [
        ("tiling", "pictures that tile"),
        ("restore_faces", "mending faces"),
    ] {
        if fields.flag(name, false) {
            return Err(Refusal::new(
                name,
                format!("{name}: {way} is not supported; leave it out"),
            ));
        }
    }
    if let Some(script) = fields.text("script_name")?.filter(|name| !name.is_empty()) {
        let script = prepose_untrusted::printable(script).to_string();
        return Err(Refusal::new(
            "script_name",
            format!("there is no script {script:?}; leave it out"),
        ));
    }
    Ok(())
}

/// The fields of ours: as this interface's extensions take their arguments.
fn own(fields: &Fields, wanted: &mut Wanted) -> Result<(), Refusal> {
    let scripts = fields.get("alwayson_scripts").and_then(Value::as_object);
    let Some(scripts) = scripts else {
        return Ok(());
    };
    let Some((_, ours)) = scripts
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("prepose"))
    else {
        return Ok(());
    };
    let args = ours["args"]
        .as_array()
        .and_then(|args| args.first())
        .and_then(Value::as_object);
    let args = args.ok_or_else(|| {
        Refusal::new(
            "alwayson_scripts",
            "prepose takes its fields as alwayson_scripts: {\"prepose\": {\"args\": [{…}]}}",
        )
    })?;
    options::ours(args, wanted)
}

/// What `steps` is where clients leave it out.
const STEPS: usize = 50;

/// What `denoising_strength` is where clients leave it out.
const DENOISING: f64 = 0.75;

/// The share of the noise that was asked for.
pub(super) fn denoising(fields: &Fields) -> Result<f64, Refusal> {
    let denoising = fields.number("denoising_strength")?.unwrap_or(DENOISING);
    if !(0.0..=1.0).contains(&denoising) {
        let message = format!("denoising_strength is {denoising}; it is from 0 to 1");
        return Err(Refusal::new("denoising_strength", message));
    }
    Ok(denoising)
}

/// The steps that the web UI makes of a schedule of `steps`: `t_enc + 1` in `setup_img2img_steps` and `sample_img2img`, one more
/// than diffusers and we make of the same share.
fn steps_made(steps: usize, denoising: f64) -> usize {
    (denoising.min(0.999) * steps as f64) as usize + 1
}

/// Our strength that makes the last `made` of `steps` steps.
fn strength(steps: usize, made: usize) -> f64 {
    let share = made as f64 / steps as f64;
    match (steps as f64 * share) as usize == made {
        true => share,
        // Rounding took one away.
        false => share.next_up(),
    }
}

fn begin_with(fields: &Fields, steps: usize) -> Result<crate::wire::Init, Refusal> {
    if fields.get("mask").is_some() {
        return Err(Refusal::new(
            "mask",
            "masks are not supported; leave it out",
        ));
    }
    let images = fields.get("init_images").and_then(Value::as_array);
    let first = images
        .and_then(|images| images.first())
        .and_then(Value::as_str);
    let first = first.ok_or_else(|| {
        Refusal::new(
            "init_images",
            "init_images has no picture: give one in base64",
        )
    })?;
    let bytes = picture::from_base64(first, "init_images")?;
    let made = steps_made(steps, denoising(fields)?);
    Ok(options::init(&bytes, strength(steps, made)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::worker::tests::app;

    #[test]
    fn what_goes_by_other_fields_goes_by_our_own() {
        let with = |seed: i64, ours: Value| {
            let fields = json!({
                "prompt": "a cat <lora:ink:0.5>", "init_images": ["eA=="], "denoising_strength": 0.75, "seed": seed, "batch_size": 2,
                "alwayson_scripts": {"prepose": {"args": [ours]}},
            });
            let fields = Fields(fields.as_object().unwrap().clone());
            wanted(&app(), &fields, true).unwrap()
        };
        let ours = json!({"steps": 20, "seed": 7, "loras": [{"name": "chalk"}]});
        let made = with(-1, ours.clone());
        // The last 16 of our 20 steps, not the last 38 of the 50 that there would be otherwise.
        assert_eq!(made.request.init.as_ref().unwrap().strength, 16.0 / 20.0);
        assert_eq!(made.seeds(), [7, 8]);
        let loras = made.request.loras.iter();
        let loras: Vec<(&str, f64)> = loras.map(|lora| (&*lora.name, lora.weight)).collect();
        assert_eq!(loras, [("chalk", 1.0), ("ink", 0.5)]);
        // A seed that is chosen by the interface's own field stays that one.
        assert_eq!(with(3, ours).seeds(), [3, 4]);
        assert_eq!(with(3, json!({})).seeds(), [3, 4]);
    }

    #[test]
    fn as_many_steps_are_made_as_the_web_ui_makes() {
        // What its progress bar counts to.
        for (steps, denoising, made) in [
            (20, 0.75, 16),
            (20, 0.5, 11),
            (20, 1.0, 20),
            (50, 0.75, 38),
            (1, 0.75, 1),
            (20, 0.0, 1),
            (7, 0.3, 3),
        ] {
            assert_eq!(steps_made(steps, denoising), made, "{steps} {denoising}");
        }
        // And ours comes to the same, whatever is asked for.
        for steps in 1..=150 {
            for percent in 0..=100 {
                let made = steps_made(steps, f64::from(percent) / 100.0);
                let strength = strength(steps, made);
                assert_eq!(
                    (steps as f64 * strength) as usize,
                    made,
                    "{steps} {percent}"
                );
                assert!(strength > 0.0 && strength <= 1.0, "{steps} {percent}");
            }
        }
    }
}
