//! From this interface's fields to ours.

use serde_json::{Map, Value};

use super::super::options;
use super::{Fields, hires, model_named, settings, start};
use crate::app::App;
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
    let prompt = fields.text("prompt")?.unwrap_or_default();
    let (prompt, loras) = options::loras(prompt, "prompt")?;
    let mut wanted = Wanted::of(plain(app, fields, prompt)?);
    // Before whatever goes by them: the strength counts steps, and sizes and what clip skip does are the checkpoint's.
    own(fields, &mut wanted)?;
    refuse_eta(fields, wanted.request.scheduler.as_deref())?;
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
    request.clip_skip = request.clip_skip.or(clip_skip(fields, &facts)?);
    let factor = facts["factor"].as_u64().unwrap_or(8) as usize;
    for (name, into) in [
        ("width", &mut request.width),
        ("height", &mut request.height),
    ] {
        let asked = fields.at_least_one(name)?;
        *into = into.or(asked.map(|asked| side(asked.min(1 << 20), factor)));
    }
    let or = |side: Option<usize>, name: &str| {
        side.or_else(|| facts[name].as_u64().map(|side| side as usize))
            .unwrap_or(512)
    };
    let first = [or(request.width, "width"), or(request.height, "height")];
    if edits {
        let steps = request.steps.unwrap_or(STEPS);
        request.init = Some(start::begin_with(app, fields, steps, first)?);
    }
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

/// The settings that hold for this request alone.
fn overrides(fields: &Fields) -> Result<Fields, Refusal> {
    const NAME: &str = "override_settings";
    match fields.get(NAME) {
        None => Ok(Fields(Map::new())),
        Some(Value::Object(settings)) => Ok(Fields(settings.clone())),
        Some(_) => Err(Refusal::new(
            NAME,
            "override_settings is an object of settings",
        )),
    }
}

/// What `CLIP_stop_at_last_layers` leaves out of the text encoder of a checkpoint with these facts. In the web UI only that of
/// SD 1.x goes by it: OpenCLIP's never do, and SDXL's other one only with `sdxl_clip_l_skip`, which is off.
fn clip_skip(fields: &Fields, facts: &Value) -> Result<Option<usize>, Refusal> {
    let last = settings::last_layer(&overrides(fields)?)?;
    let goes_by_it = facts["family"]
        .as_str()
        .is_none_or(|family| family == "sd1");
    let skipped = last.filter(|last| *last > 1 && goes_by_it);
    Ok(skipped.map(|last| last as usize - 1))
}

/// What this interface's own fields say of a picture of `prompt`, but for its size, its start and what depends on the checkpoint.
fn plain(app: &App, fields: &Fields, prompt: String) -> Result<RequestWanted, Refusal> {
    let mut request = RequestWanted {
        prompt,
        negative_prompt: fields.text("negative_prompt")?.unwrap_or_default().into(),
        steps: Some(fields.at_least_one("steps")?.unwrap_or(STEPS)),
        guidance_scale: Some(fields.number("cfg_scale")?.unwrap_or(7.0)),
        ..RequestWanted::default()
    };
    let overrides = overrides(fields)?;
    settings::refuse_missing(&overrides)?;
    request.noise = settings::noise(&overrides)?.map(str::to_owned);
    let model = overrides.get("sd_model_checkpoint").and_then(Value::as_str);
    if let Some(model) = model.filter(|name| !name.is_empty()) {
        request.checkpoint = Some(model_named(app, model)?);
    }
    let schedule = fields.text("scheduler")?.unwrap_or_default();
    request.scheduler = options::scheduler(sampler_of(fields)?, schedule)?;
    Ok(request)
}

/// The sampler that is named; empty if none is.
pub(super) fn sampler_of(fields: &Fields) -> Result<&str, Refusal> {
    let sampler = fields
        .text("sampler_name")?
        .or(fields.text("sampler_index")?);
    let sampler = sampler.filter(|name| !name.eq_ignore_ascii_case("automatic"));
    Ok(sampler.unwrap_or_default())
}

/// Refuses another share of noise between steps than a scheduler has here. Of the web UI's samplers only two go by `eta`, each
/// with its own share where nobody names one; clients such as webuiapi send 1 with all of them.
fn refuse_eta(fields: &Fields, scheduler: Option<&str>) -> Result<(), Refusal> {
    let own = match scheduler {
        Some("euler_a") => 1.0,
        Some("ddim") => 0.0,
        _ => return Ok(()),
    };
    match fields.number("eta")? {
        Some(eta) if eta != own => Err(Refusal::new(
            "eta",
            format!("eta is {eta}, but this sampler has {own} here; send {own}, or leave it out"),
        )),
        _ => Ok(()),
    }
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
    let named = |value: &Value| !matches!(value.as_str(), Some("" | "None" | "none"));
    let above_zero = |name| {
        let number = fields.number(name);
        number.map(|number| number.is_some_and(|number| number > 0.0))
    };
    let subseed = fields.number("subseed_strength")?;
    let styles = fields.get("styles").and_then(Value::as_array);
    for (name, asked, way) in [
        (
            "tiling",
            fields.flag("tiling", false)?,
            "pictures that tile",
        ),
        (
            "restore_faces",
            fields.flag("restore_faces", false)?,
            "mending faces",
        ),
        (
            "subseed_strength",
            subseed.is_some_and(|share| share != 0.0),
            "the noise of a second seed",
        ),
        (
            "seed_resize_from_w",
            above_zero("seed_resize_from_w")?,
            "the noise of another width",
        ),
        (
            "seed_resize_from_h",
            above_zero("seed_resize_from_h")?,
            "the noise of another height",
        ),
        // `s_tmin`, `s_tmax` and `s_noise` are about this noise.
        (
            "s_churn",
            above_zero("s_churn")?,
            "noise between Euler's steps",
        ),
        (
            "s_min_uncond",
            above_zero("s_min_uncond")?,
            "leaving the negative prompt out of some steps",
        ),
        (
            "refiner_checkpoint",
            fields.get("refiner_checkpoint").is_some_and(named),
            "another checkpoint for the last steps",
        ),
        (
            "styles",
            styles.is_some_and(|styles| styles.iter().any(named)),
            "a style, which adds to the prompt,",
        ),
    ] {
        if asked {
            return Err(Refusal::new(
                name,
                format!("{name}: {way} is not supported; leave it out"),
            ));
        }
    }
    if let Some(script) = fields.text("script_name")?.filter(|name| !name.is_empty()) {
        return Err(no_script("script_name", script));
    }
    let scripts = fields.get("alwayson_scripts").and_then(Value::as_object);
    let mut scripts = scripts.into_iter().flatten();
    match scripts.find(|(name, script)| !is_ours(name) && is_on(&script["args"])) {
        Some((name, _)) => Err(no_script("alwayson_scripts", name)),
        None => Ok(()),
    }
}

fn no_script(param: &'static str, name: &str) -> Refusal {
    let name = prepose_untrusted::printable(name).to_string();
    Refusal::new(param, format!("there is no script {name:?}; leave it out"))
}

/// Whether a script with these arguments does anything. Clients send some by habit that do not: without arguments, with `false`
/// for the first, by which most scripts are switched off, or with units that are not `enabled`.
fn is_on(args: &Value) -> bool {
    let off = |arg: &Value| match arg {
        Value::Null | Value::Bool(false) => true,
        arg => arg.get("enabled") == Some(&Value::Bool(false)),
    };
    match args {
        Value::Array(args) => args.first() != Some(&Value::Bool(false)) && !args.iter().all(off),
        args => !off(args),
    }
}

/// Whether a script's arguments are our own fields.
fn is_ours(name: &str) -> bool {
    name.eq_ignore_ascii_case("prepose")
}

/// The fields of ours: as this interface's extensions take their arguments.
fn own(fields: &Fields, wanted: &mut Wanted) -> Result<(), Refusal> {
    let scripts = fields.get("alwayson_scripts").and_then(Value::as_object);
    let Some(scripts) = scripts else {
        return Ok(());
    };
    let Some((_, ours)) = scripts.iter().find(|(name, _)| is_ours(name)) else {
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
    options::only_ours(args, "alwayson_scripts", wanted)
}

/// What `steps` is where clients leave it out.
const STEPS: usize = 50;

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use image::{Rgba, RgbaImage};
    use serde_json::json;

    use super::*;
    use crate::worker::tests::app;

    /// What is wanted of a body.
    fn of(body: &Value, edits: bool) -> Result<Wanted, Refusal> {
        let fields = Fields(body.as_object().unwrap().clone());
        wanted(&app(), &fields, edits)
    }

    /// A PNG of one row, in base64.
    fn row(pixels: &[[u8; 4]]) -> String {
        let mut picture = RgbaImage::new(pixels.len() as u32, 1);
        for (at, pixel) in picture.pixels_mut().zip(pixels) {
            *at = Rgba(*pixel);
        }
        let mut png = std::io::Cursor::new(Vec::new());
        picture.write_to(&mut png, image::ImageFormat::Png).unwrap();
        STANDARD.encode(png.into_inner())
    }

    #[test]
    fn what_goes_by_other_fields_goes_by_our_own() {
        let with = |seed: i64, ours: Value| {
            let start = row(&[[0, 0, 0, 255]]);
            let fields = json!({
                "prompt": "a cat <lora:ink:0.5>", "init_images": [start], "denoising_strength": 0.75, "seed": seed, "batch_size": 2,
                "alwayson_scripts": {"prepose": {"args": [ours]}},
            });
            of(&fields, true).unwrap()
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
    fn sizes_of_our_own_count() {
        let size = |ours: Value| {
            let scripts = json!({"prepose": {"args": [ours]}});
            let body = json!({"prompt": "a cat", "width": 130, "height": 128, "alwayson_scripts": scripts});
            let request = of(&body, false).unwrap().request;
            [request.width, request.height]
        };
        // To multiples of 8.
        assert_eq!(size(json!({})), [Some(128), Some(128)]);
        assert_eq!(size(json!({"width": 96})), [Some(96), Some(128)]);
        let both = json!({"width": 100, "height": 64});
        assert_eq!(size(both), [Some(100), Some(64)]);
    }

    #[test]
    fn fields_of_our_own_are_known() {
        let with = |ours: Value| {
            let scripts = json!({"prepose": {"args": [ours]}});
            of(
                &json!({"prompt": "a cat", "alwayson_scripts": scripts}),
                false,
            )
            .map(|_| ())
        };
        assert_eq!(
            with(json!({"search": {"best_of": 2}, "check": true})),
            Ok(())
        );
        // One that is none, one that stands beside ours in this interface, and one of jobs alone.
        for name in ["gide", "init", "plain"] {
            let mut ours = json!({"steps": 3});
            ours[name] = json!({});
            let refused = with(ours).unwrap_err();
            assert_eq!(refused.param, Some("alwayson_scripts"));
            assert!(refused.message.contains(name), "{refused}");
        }
        let refused = with(json!({"steps": "three"})).unwrap_err();
        assert_eq!(refused.param, Some("alwayson_scripts"));
    }

    #[test]
    fn transparent_start_pictures_lie_over_white() {
        // Nothing, all, and a fifth (51 of 255) of what is seen: 0.2 · 100 + 0.8 · 255 = 224.
        let sent = row(&[[9, 8, 7, 0], [10, 20, 30, 255], [100, 0, 200, 51]]);
        let body = json!({"prompt": "a cat", "init_images": [sent]});
        let start = of(&body, true).unwrap().request.init.unwrap();
        let png = STANDARD.decode(start.image).unwrap();
        let picture = image::load_from_memory(&png).unwrap();
        assert!(!picture.color().has_alpha());
        let seen = [[255; 3], [10, 20, 30], [224, 204, 244]].concat();
        assert_eq!(picture.into_rgb8().into_raw(), seen);
        // Others go on as they are.
        let photo = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fixtures/training-data/turned.jpg");
        let sent = STANDARD.encode(std::fs::read(photo).unwrap());
        let body = json!({"prompt": "a cat", "init_images": [sent]});
        assert_eq!(of(&body, true).unwrap().request.init.unwrap().image, sent);
        let body = json!({"prompt": "a cat", "init_images": ["eA=="]});
        let refused = of(&body, true).unwrap_err();
        assert!(refused.message.contains("not a readable"), "{refused}");
    }

    #[test]
    fn start_pictures_are_cut_and_filled() {
        let start = |more: Value| {
            let mut body = json!({"prompt": "a cat", "width": 64, "height": 128});
            for (name, value) in more.as_object().unwrap() {
                body[name] = value.clone();
            }
            let wanted = of(&body, true)?;
            Ok::<String, Refusal>(wanted.request.init.unwrap().image)
        };
        let size = |image: &str| {
            let picture = image::load_from_memory(&STANDARD.decode(image).unwrap()).unwrap();
            [picture.width(), picture.height()]
        };
        let sent = row(&[[0, 0, 0, 255], [255; 4]]);
        for (mode, expected) in [(0, [2, 1]), (1, [64, 128]), (2, [64, 128])] {
            let made = start(json!({"init_images": [sent], "resize_mode": mode}));
            assert_eq!(size(&made.unwrap()), expected, "{mode}");
        }
        // Of the middle both halves are seen, and so they are where all is.
        let picture = |mode: usize| {
            let made = start(json!({"init_images": [sent], "resize_mode": mode})).unwrap();
            let picture = image::load_from_memory(&STANDARD.decode(made).unwrap()).unwrap();
            picture.into_rgb8()
        };
        let [cut, filled] = [picture(1), picture(2)];
        assert!(cut.get_pixel(0, 64)[0] > 0 && filled.get_pixel(0, 64)[0] == 0);
        assert!(filled.get_pixel(63, 0)[0] == 255 && filled.get_pixel(63, 127)[0] == 255);
        // Nothing to be cut, and nothing to be stretched.
        let own = json!({"prepose": {"args": [{"width": 2, "height": 1}]}});
        for more in [
            json!({"init_images": [sent], "resize_mode": 1, "width": 128, "height": 64}),
            json!({"init_images": [sent], "resize_mode": 3, "alwayson_scripts": own}),
        ] {
            assert_eq!(size(&start(more).unwrap()), [2, 1]);
        }
        let long = row(&[[0, 0, 0, 255]; 4000]);
        for (more, param, why) in [
            (
                json!({"init_images": [sent, sent]}),
                "init_images",
                "has 2 pictures",
            ),
            (json!({"init_images": []}), "init_images", "has no picture"),
            (
                json!({"init_images": [sent], "resize_mode": 3}),
                "resize_mode",
                "is not supported",
            ),
            (
                json!({"init_images": [sent], "resize_mode": 4}),
                "resize_mode",
                "not 4",
            ),
            (
                json!({"init_images": [long], "resize_mode": 1}),
                "resize_mode",
                "too large",
            ),
            (
                json!({"init_images": [sent], "resize_mode": 1, "width": 1 << 20}),
                "width",
                "a picture may have",
            ),
        ] {
            let refused = start(more.clone()).unwrap_err();
            assert_eq!(refused.param, Some(param), "{more:.200}");
            assert!(refused.message.contains(why), "{refused}");
        }
    }

    #[test]
    fn noise_is_whose_it_is_asked_to_be() {
        let noise = |source: Value, ours: Value| {
            let body = json!({"prompt": "a cat", "override_settings": {"randn_source": source},
                              "alwayson_scripts": {"prepose": {"args": [ours]}}});
            of(&body, false).map(|wanted| wanted.request.noise)
        };
        assert_eq!(noise(json!("GPU"), json!({})), Ok(None));
        assert_eq!(noise(json!("CPU"), json!({})), Ok(Some("torch".into())));
        assert_eq!(noise(json!("NV"), json!({})), Ok(Some("philox".into())));
        let ours = noise(json!("NV"), json!({"noise": "torch"}));
        assert_eq!(ours, Ok(Some("torch".into())));
        assert!(noise(json!("TPU"), json!({})).is_err());
    }

    #[test]
    fn only_the_samplers_own_share_of_noise_is_there() {
        let with = |sampler: Value, eta: Value| {
            let body = json!({"prompt": "a cat", "sampler_name": sampler, "eta": eta});
            of(&body, false).map(|_| ())
        };
        for (sampler, eta) in [
            (json!("Euler a"), json!(1)),
            (json!("DDIM"), json!(0.0)),
            (json!("DDIM"), json!(null)),
            // The web UI has none in these; clients send it nevertheless.
            (json!("Euler"), json!(1.0)),
            (json!(null), json!(1.0)),
        ] {
            assert_eq!(with(sampler.clone(), eta), Ok(()), "{sampler}");
        }
        for (sampler, eta) in [("Euler a", 0.5), ("k_euler_a", 0.0), ("DDIM", 1.0)] {
            let refused = with(json!(sampler), json!(eta)).unwrap_err();
            assert_eq!(refused.param, Some("eta"), "{sampler}");
        }
    }

    #[test]
    fn whole_numbers_in_settings_may_be_floats() {
        let skip = |setting: Value| {
            let body = json!({"prompt": "a cat", "override_settings": {"CLIP_stop_at_last_layers": setting}});
            of(&body, false).map(|wanted| wanted.request.clip_skip)
        };
        for (setting, skipped) in [
            (json!(2), Some(1)),
            (json!(2.0), Some(1)),
            (json!(1.0), None),
            (json!(null), None),
        ] {
            assert_eq!(skip(setting.clone()), Ok(skipped), "{setting}");
        }
        for wrong in [json!("two"), json!(1.5)] {
            let refused = skip(wrong).unwrap_err();
            assert_eq!(refused.param, Some("CLIP_stop_at_last_layers"));
        }
    }

    #[test]
    fn the_text_encoder_of_sd1_alone_is_cut_short_by_the_setting() {
        let body = json!({"override_settings": {"CLIP_stop_at_last_layers": 2}});
        let fields = Fields(body.as_object().unwrap().clone());
        let skipped = |family: &str| clip_skip(&fields, &json!({"family": family})).unwrap();
        assert_eq!(["sd1", "sd2", "sdxl"].map(skipped), [Some(1), None, None]);
    }

    #[test]
    fn what_would_change_the_picture_is_refused() {
        let with = |name: &str, value: Value| {
            let mut body = json!({"prompt": "a cat"});
            body[name] = value;
            of(&body, false).map(|_| ())
        };
        let scripts = |name: &str, args: Value| {
            let mut scripts = json!({"prepose": {"args": [{"steps": 3}]}});
            scripts[name] = json!({"args": args});
            with("alwayson_scripts", scripts)
        };
        let unit = |enabled: bool| json!({"enabled": enabled, "module": "canny"});
        for args in [
            json!([unit(true)]),
            json!([unit(false), unit(true)]),
            json!([true, false, {"ad_model": "face"}]),
            json!([{"ad_model": "face"}]),
        ] {
            let refused = scripts("controlnet", args).unwrap_err();
            assert_eq!(refused.param, Some("alwayson_scripts"));
            let message = "there is no script \"controlnet\"; leave it out";
            assert_eq!(refused.message, message);
        }
        // What clients send whether it is used or not.
        for args in [
            json!([]),
            json!(null),
            json!([null, false]),
            json!([unit(false), unit(false)]),
            json!([false, 7, {"ad_model": "face"}]),
        ] {
            assert_eq!(scripts("controlnet", args.clone()), Ok(()), "{args}");
        }
        for (name, value) in [
            ("subseed_strength", json!(0.5)),
            ("seed_resize_from_w", json!(64)),
            ("seed_resize_from_h", json!(64.0)),
            ("refiner_checkpoint", json!("refiner")),
            ("styles", json!(["nope"])),
            ("tiling", json!(true)),
            ("tiling", json!(1)),
            ("restore_faces", json!("true")),
            ("s_churn", json!(0.4)),
            ("s_min_uncond", json!(2)),
        ] {
            let refused = with(name, value).unwrap_err();
            assert_eq!(refused.param, Some(name));
            assert!(refused.message.contains("is not supported"), "{refused}");
        }
        for (name, value) in [
            ("subseed_strength", json!(0.0)),
            ("seed_resize_from_w", json!(-1)),
            ("seed_resize_from_h", json!(0)),
            ("refiner_checkpoint", json!("None")),
            ("refiner_checkpoint", json!("")),
            ("styles", json!([])),
            ("tiling", json!(0)),
            ("s_churn", json!(0)),
            ("s_noise", json!(1.0)),
            (
                "override_settings",
                json!({"sd_vae": "None", "samples_format": "jpg"}),
            ),
            ("alwayson_scripts", json!({})),
        ] {
            assert_eq!(with(name, value.clone()), Ok(()), "{name}: {value}");
        }
        for (settings, param) in [
            (json!({"sd_vae": "other.safetensors"}), "sd_vae"),
            (
                json!({"eta_noise_seed_delta": 31337}),
                "eta_noise_seed_delta",
            ),
            (json!([]), "override_settings"),
        ] {
            let refused = with("override_settings", settings).unwrap_err();
            assert_eq!(refused.param, Some(param));
        }
        let refused = with("enable_hr", json!("perhaps")).unwrap_err();
        assert_eq!(refused.message, "enable_hr is true or false");
        let schedule = with("scheduler", json!("Karras")).unwrap_err();
        assert!(schedule.message.contains("needs a sampler"), "{schedule}");
    }
}
