//! What the foreign interfaces call what we have.

use serde_json::{Map, Value, json};

use crate::problem::Refusal;
use crate::wire::{Init, LoraWanted, RequestWanted, SearchWanted, SecondPassWanted, Seed, Wanted};

/// Ours, then `sampler_name` of AUTOMATIC1111, and what else clients send for it.
pub const SAMPLERS: [(&str, &str, &[&str]); 8] = [
    ("euler", "Euler", &["k_euler"]),
    ("euler_a", "Euler a", &["k_euler_a", "k_euler_ancestral"]),
    ("ddim", "DDIM", &[]),
    ("pndm", "PLMS", &[]),
    ("dpmpp_2m", "DPM++ 2M", &["k_dpmpp_2m"]),
    ("dpmpp_2m_karras", "DPM++ 2M Karras", &["k_dpmpp_2m_ka"]),
    ("unipc", "UniPC", &[]),
    ("lcm", "LCM", &[]),
];

/// The schedules of noise that clients may name beside a sampler.
pub const SCHEDULES: [(&str, &str); 3] = [
    ("automatic", "Automatic"),
    ("karras", "Karras"),
    ("normal", "Normal"),
];

/// Ours, and AUTOMATIC1111's for what makes a picture larger before a second pass: latents, pixels.
pub const UPSCALERS: [(&str, &str); 7] = [
    ("latent", "Latent"),
    ("latent-antialiased", "Latent (antialiased)"),
    ("latent-bicubic", "Latent (bicubic)"),
    ("latent-bicubic-antialiased", "Latent (bicubic antialiased)"),
    ("latent-nearest", "Latent (nearest)"),
    ("latent-nearest-exact", "Latent (nearest-exact)"),
    ("lanczos", "Lanczos"),
];

/// Our scheduler for a sampler and a schedule as AUTOMATIC1111's clients name them; none for the checkpoint's own.
///
/// # Errors
/// There is no such sampler, or it does not go by that schedule.
pub fn scheduler(sampler: &str, schedule: &str) -> Result<Option<String>, Refusal> {
    let schedule = schedule.trim().to_lowercase();
    let sampler = sampler.trim().to_lowercase();
    if sampler.is_empty() {
        // The checkpoint's own scheduler has its own schedule.
        return match &*schedule {
            "" | "automatic" => Ok(None),
            other => Err(Refusal::new(
                "scheduler",
                format!(
                    "the schedule {:?} needs a sampler beside it: give sampler_name as well, or leave scheduler out",
                    prepose_untrusted::printable(other).to_string()
                ),
            )),
        };
    }
    if let Some((_, label)) = SCHEDULES
        .iter()
        .find(|(_, label)| sampler == label.to_lowercase())
    {
        return Err(Refusal::new(
            "sampler_name",
            format!("{label} is a schedule, no sampler"),
        ));
    }
    let found = SAMPLERS.iter().find(|(ours, label, others)| {
        sampler == *ours || sampler == label.to_lowercase() || others.contains(&&*sampler)
    });
    let known = SAMPLERS.map(|(_, label, _)| label).join(", ");
    let (ours, label, _) = found.ok_or_else(|| {
        Refusal::new(
            "sampler_name",
            format!(
                "there is no sampler {:?}; there are {known}",
                prepose_untrusted::printable(&sampler).to_string()
            ),
        )
    })?;
    let ours = match (*ours, &*schedule) {
        // The web UI's name, which since its version 1.9 has Karras' schedule unless another is named; our own name says it all.
        ("dpmpp_2m", "" | "automatic") if sampler != "dpmpp_2m" => "dpmpp_2m_karras",
        ("dpmpp_2m" | "dpmpp_2m_karras", "karras") => "dpmpp_2m_karras",
        (_, "karras") => {
            let message =
                format!("{label} does not go by Karras' schedule here, DPM++ 2M alone does");
            return Err(Refusal::new("scheduler", message));
        }
        (ours, _) => ours,
    };
    match &*schedule {
        "" | "automatic" | "karras" | "normal" | "uniform" => Ok(Some(ours.to_owned())),
        other => {
            let other = prepose_untrusted::printable(other).to_string();
            Err(Refusal::new(
                "scheduler",
                format!("there is no schedule {other:?}; there are automatic, karras, normal"),
            ))
        }
    }
}

/// The fields of our requests that foreign ones may have as well.
const REQUEST: [&str; 20] = [
    "negative_prompt",
    "seed",
    "width",
    "height",
    "steps",
    "guidance_scale",
    "guidance_steps",
    "scheduler",
    "timestep_spacing",
    "savings",
    "relations",
    "boxes",
    "regions",
    "ground",
    "guide",
    "loras",
    "clip_skip",
    "noise",
    "checkpoint",
    "pictures",
];

/// What stands beside a request in our jobs, likewise.
const BESIDE: [&str; 3] = ["search", "second_pass", "check"];

/// Takes the fields of ours out of an object in the field `param` that has no others.
///
/// # Errors
/// It has another, or one of them is not of its kind.
pub fn only_ours(
    fields: &Map<String, Value>,
    param: &'static str,
    wanted: &mut Wanted,
) -> Result<(), Refusal> {
    let known = || REQUEST.into_iter().chain(BESIDE);
    let strange = |name: &&String| !known().any(|ours| ours == *name);
    if let Some(name) = fields.keys().find(strange) {
        let name = prepose_untrusted::printable(name).to_string();
        let known = known().collect::<Vec<_>>().join(", ");
        let message = format!("prepose has no field {name:?} here; there are {known}");
        return Err(Refusal::new(param, message));
    }
    ours(fields, wanted).map_err(|refused| Refusal {
        param: refused.param.or(Some(param)),
        ..refused
    })
}

/// Takes the fields of ours that stand beside foreign ones out of an object.
///
/// # Errors
/// One of them is not of its kind.
pub fn ours(fields: &Map<String, Value>, wanted: &mut Wanted) -> Result<(), Refusal> {
    let mut request = json!(wanted.request);
    for name in REQUEST {
        if let Some(value) = fields.get(name).filter(|value| !value.is_null()) {
            request[name] = value.clone();
        }
    }
    let wrong = |error: serde_json::Error| Refusal::new(None, error.to_string());
    wanted.request = serde_json::from_value::<RequestWanted>(request).map_err(wrong)?;
    if let Some(search) = fields.get("search").filter(|value| !value.is_null()) {
        wanted.search =
            Some(serde_json::from_value::<SearchWanted>(search.clone()).map_err(wrong)?);
    }
    if let Some(second) = fields.get("second_pass").filter(|value| !value.is_null()) {
        wanted.second_pass =
            Some(serde_json::from_value::<SecondPassWanted>(second.clone()).map_err(wrong)?);
    }
    if let Some(check) = fields.get("check") {
        wanted.check = check
            .as_bool()
            .ok_or_else(|| Refusal::new("check", "check is true or false"))?;
    }
    Ok(())
}

/// `<lora:name:weight>` in the prompt that is the field `param`, as AUTOMATIC1111 takes them, also called `lyco`; returns the
/// prompt without.
///
/// # Errors
/// One of them does not come to one weight, or something else is called in this way.
pub fn loras(prompt: &str, param: &'static str) -> Result<(String, Vec<LoraWanted>), Refusal> {
    let (mut rest, mut text, mut found) = (prompt, String::new(), Vec::new());
    while let Some(Extra { at, kind, said }) = extra(rest) {
        if !matches!(kind, "lora" | "lyco") {
            let [kind, said] = [kind, said].map(prepose_untrusted::printable);
            let message = format!(
                "<{kind}:{said}>: there is nothing called {kind} here; only LoRAs are named like this, as <lora:ink:0.7>"
            );
            return Err(Refusal::new(param, message));
        }
        text.push_str(&rest[..at]);
        found.push(lora(kind, said, param)?);
        rest = &rest[at + kind.len() + said.len() + "<:>".len()..];
    }
    text.push_str(rest);
    Ok((text.trim().to_owned(), found))
}

/// `<kind:said>` in a prompt, which begins at `at`.
struct Extra<'a> {
    at: usize,
    kind: &'a str,
    said: &'a str,
}

/// The first `<kind:said>`, as the web UI finds them in `extra_networks.py`: by `<(\w+):([^>]+)>`. A LoRA without a name is one, too.
fn extra(prompt: &str) -> Option<Extra<'_>> {
    let mut openings = prompt.match_indices('<');
    openings.find_map(|(at, _)| {
        let (kind, after) = prompt[at + 1..].split_once(':')?;
        let (said, _) = after.split_once('>')?;
        let word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let is_one = !kind.is_empty() && kind.chars().all(word);
        (is_one && (kind == "lora" || !said.is_empty())).then_some(Extra { at, kind, said })
    })
}

/// What stands in `<lora:…>`: a name, and, by the rule of the web UI's `extra_networks_lora.py`, the weight in the text encoder
/// and that in the UNet, in this order or as `te=` and `unet=`. The first is 1 if it is not there, and the second is the first.
/// Here both have one weight.
fn lora(kind: &str, said: &str, param: &'static str) -> Result<LoraWanted, Refusal> {
    let refused = |why: &str| {
        let said = prepose_untrusted::printable(said);
        let message =
            format!("<{kind}:{said}>: {why}; write <{kind}:NAME:WEIGHT>, as <{kind}:ink:0.7>");
        Refusal::new(param, message)
    };
    let number = |text: &str| {
        let number = text.trim().parse::<f64>().ok();
        let number = number.filter(|number| number.is_finite());
        number.ok_or_else(|| refused("a weight is a number"))
    };
    let mut parts = said.split(':');
    let name = parts.next().unwrap_or_default().trim().to_owned();
    let (mut placed, mut named) = (Vec::new(), [None; 2]);
    for part in parts {
        match part.split_once('=').map(|(way, text)| (way.trim(), text)) {
            None => placed.push(number(part)?),
            Some(("te", text)) => named[0] = Some(number(text)?),
            Some(("unet", text)) => named[1] = Some(number(text)?),
            Some(_) => return Err(refused("only te= and unet= may be named")),
        }
    }
    if placed.len() > 2 {
        return Err(refused("a third number, for fewer ranks, is not supported"));
    }
    let encoder = named[0].or(placed.first().copied()).unwrap_or(1.0);
    let unet = named[1].or(placed.get(1).copied()).unwrap_or(encoder);
    match encoder == unet {
        true => Ok(LoraWanted {
            name,
            weight: encoder,
        }),
        false => Err(refused(&format!(
            "the text encoder and the UNet have one weight here, not {encoder} and {unet}"
        ))),
    }
}

/// A seed of so many bits, where nobody named one.
pub fn any_seed() -> u64 {
    u64::from_str_radix(&crate::random::hex(4), 16).unwrap_or(0)
}

/// The seeds of `pictures` pictures from the first on.
pub fn seeds(first: u64, pictures: usize) -> Vec<Seed> {
    (0..pictures as u64)
        .map(|at| Seed(first.wrapping_add(at)))
        .collect()
}

/// The picture to begin with.
pub fn init(bytes: &[u8], strength: f64) -> Init {
    use base64::Engine as _;
    Init {
        image: base64::engine::general_purpose::STANDARD.encode(bytes),
        strength,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samplers_go_by_many_names() {
        let of = |sampler, schedule| scheduler(sampler, schedule).unwrap().unwrap_or_default();
        assert_eq!(of("Euler a", ""), "euler_a");
        assert_eq!(of("k_euler_ancestral", "Automatic"), "euler_a");
        assert_eq!(of("DPM++ 2M", "Karras"), "dpmpp_2m_karras");
        assert_eq!(of("DPM++ 2M Karras", "automatic"), "dpmpp_2m_karras");
        assert_eq!(of("dpmpp_2m", "normal"), "dpmpp_2m");
        // `{'scheduler': 'karras'}` in the web UI's `sd_samplers_kdiffusion.py`, by which `get_sigmas` goes.
        for automatic in ["", "Automatic"] {
            assert_eq!(of("DPM++ 2M", automatic), "dpmpp_2m_karras");
            assert_eq!(of("k_dpmpp_2m", automatic), "dpmpp_2m_karras");
            assert_eq!(of("dpmpp_2m", automatic), "dpmpp_2m");
        }
        assert_eq!(of("DPM++ 2M", "Normal"), "dpmpp_2m");
        assert_eq!(of("DPM++ 2M", "Uniform"), "dpmpp_2m");
        // Every name that `samplers` lists, with the schedule beside it.
        for name in [
            "DPM++ 2M",
            "dpmpp_2m",
            "k_dpmpp_2m",
            "k_dpmpp_2m_ka",
            "dpmpp_2m_karras",
        ] {
            assert_eq!(of(name, "Karras"), "dpmpp_2m_karras", "{name}");
        }
        assert_eq!(of("k_dpmpp_2m", "Normal"), "dpmpp_2m");
        assert_eq!(of("", ""), "");
        assert_eq!(of("", "Automatic"), "");
        for (sampler, schedule) in [
            ("", "karras"),
            ("", "Normal"),
            ("DDIM", "karras"),
            ("k_euler_a", "karras"),
            ("Euler Karras", ""),
            ("Heun", ""),
            ("Euler", "sgm_uniform"),
            ("Karras", ""),
        ] {
            assert!(
                scheduler(sampler, schedule).is_err(),
                "{sampler} {schedule}"
            );
        }
        let message = scheduler("k_euler", "Karras").unwrap_err().message;
        assert!(
            message.starts_with("Euler does not go by Karras"),
            "{message}"
        );
    }

    #[test]
    fn other_networks_in_prompts_are_refused_by_name() {
        let (text, found) = loras("a <lyco:ink:0.5> dog <lora:chalk>", "prompt").unwrap();
        assert_eq!(text, "a  dog");
        let found: Vec<(&str, f64)> = found
            .iter()
            .map(|one| (one.name.as_str(), one.weight))
            .collect();
        assert_eq!(found, [("ink", 0.5), ("chalk", 1.0)]);
        for (kind, prompt) in [
            ("hypernet", "a dog <lora:ink> <hypernet:style:0.5>"),
            ("Lora", "a dog <Lora:ink:1>"),
            ("b", "a < dog <b:c d>"),
        ] {
            let refused = loras(prompt, "prompt").unwrap_err();
            assert_eq!(refused.param, Some("prompt"));
            let why = format!("there is nothing called {kind} here");
            assert!(refused.message.contains(&why), "{refused}");
        }
        let refused = loras("a dog <lyco:ink:a>", "prompt").unwrap_err();
        assert!(refused.message.starts_with("<lyco:ink:a>: "), "{refused}");
        // Nothing of that kind: the words stay.
        for prompt in [
            "a < b: c > d",
            "<a dog: red>",
            "<3:>",
            "<:x>",
            "a <hypernet:x",
        ] {
            assert_eq!(loras(prompt, "prompt").unwrap().0, prompt);
        }
    }

    #[test]
    fn loras_stand_in_prompts() {
        let (text, found) = loras(
            "a dog <lora:ink:0.5> and <lora:../x> a cat <lora:y",
            "prompt",
        )
        .unwrap();
        assert_eq!(text, "a dog  and  a cat <lora:y");
        let found: Vec<(&str, f64)> = found
            .iter()
            .map(|one| (one.name.as_str(), one.weight))
            .collect();
        assert_eq!(found, [("ink", 0.5), ("../x", 1.0)]);
    }

    #[test]
    fn loras_have_one_weight() {
        let weight = |said: &str| {
            let found = loras(&format!("a dog <lora:{said}>"), "prompt");
            found.map(|(_, found)| found[0].weight)
        };
        // What both come to by `te_multiplier` and `unet_multiplier` of the web UI.
        for (said, both) in [
            ("ink", 1.0),
            ("ink: 0.7 ", 0.7),
            ("ink:-1", -1.0),
            ("ink:0.5:0.5", 0.5),
            ("ink:te=0.3", 0.3),
            ("ink:0.5:unet=0.5", 0.5),
            ("ink:te=0.5:unet=0.5", 0.5),
            ("ink:unet=1", 1.0),
            ("ink:0.2:te=0.5", 0.5),
        ] {
            assert_eq!(weight(said), Ok(both), "{said}");
        }
        for (said, why) in [
            ("ink:te=0:unet=0.3", "not 0 and 0.3"),
            ("ink:0.5:0.8", "not 0.5 and 0.8"),
            ("ink:unet=0.3", "not 1 and 0.3"),
            ("ink:0.5:0.5:te=0.2", "not 0.2 and 0.5"),
            ("ink:0,7", "is a number"),
            ("ink:", "is a number"),
            ("ink:inf", "is a number"),
            ("ink:te=a", "is a number"),
            ("ink:1:1:8", "a third number"),
            ("ink:1:dyn=8", "only te= and unet="),
            ("ink:=1", "only te= and unet="),
        ] {
            let refused = weight(said).unwrap_err();
            assert_eq!(refused.param, Some("prompt"), "{said}");
            let start = format!("<lora:{said}>: ");
            let message = refused.message;
            assert!(message.starts_with(&start), "{message}");
            assert!(message.contains(why), "{message}");
        }
    }
}
