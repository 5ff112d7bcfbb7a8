//! What the foreign interfaces call what we have.

use serde_json::{Value, json};

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
    let mut sampler = sampler.trim().to_lowercase();
    if sampler.is_empty() {
        return Ok(None);
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
    if matches!(&*schedule, "karras") && !sampler.ends_with("karras") {
        sampler = format!("{sampler} karras");
    }
    let found = SAMPLERS.iter().find(|(ours, label, others)| {
        sampler == *ours || sampler == label.to_lowercase() || others.contains(&&*sampler)
    });
    let known = SAMPLERS.map(|(_, label, _)| label).join(", ");
    let (ours, ..) = found.ok_or_else(|| {
        Refusal::new(
            "sampler_name",
            format!(
                "there is no sampler {:?}; there are {known}",
                prepose_untrusted::printable(&sampler).to_string()
            ),
        )
    })?;
    match &*schedule {
        "" | "automatic" | "karras" | "normal" | "uniform" => Ok(Some((*ours).to_owned())),
        other => {
            let other = prepose_untrusted::printable(other).to_string();
            Err(Refusal::new(
                "scheduler",
                format!("there is no schedule {other:?}; there are automatic, karras, normal"),
            ))
        }
    }
}

/// Takes the fields of ours that stand beside foreign ones out of an object.
///
/// # Errors
/// One of them is not of its kind.
pub fn ours(fields: &serde_json::Map<String, Value>, wanted: &mut Wanted) -> Result<(), Refusal> {
    const REQUEST: [&str; 18] = [
        "negative_prompt",
        "seed",
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

/// `<lora:name:weight>` in a prompt, as AUTOMATIC1111 takes them; returns the prompt without.
pub fn loras(prompt: &str) -> (String, Vec<LoraWanted>) {
    let (mut rest, mut text, mut found) = (prompt, String::new(), Vec::new());
    while let Some(at) = rest.find("<lora:") {
        let Some(end) = rest[at..].find('>') else {
            break;
        };
        text.push_str(&rest[..at]);
        let mut parts = rest[at + 6..at + end].split(':');
        let name = parts.next().unwrap_or_default().trim().to_owned();
        let weight = parts
            .next()
            .and_then(|weight| weight.trim().parse().ok())
            .unwrap_or(1.0);
        found.push(LoraWanted { name, weight });
        rest = &rest[at + end + 1..];
    }
    text.push_str(rest);
    (text.trim().to_owned(), found)
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
        assert_eq!(of("", "karras"), "");
        for (sampler, schedule) in [
            ("DDIM", "karras"),
            ("Heun", ""),
            ("Euler", "sgm_uniform"),
            ("Karras", ""),
        ] {
            assert!(
                scheduler(sampler, schedule).is_err(),
                "{sampler} {schedule}"
            );
        }
    }

    #[test]
    fn loras_stand_in_prompts() {
        let (text, found) = loras("a dog <lora:ink:0.5> and <lora:../x> a cat <lora:y");
        assert_eq!(text, "a dog  and  a cat <lora:y");
        let found: Vec<(&str, f64)> = found
            .iter()
            .map(|one| (one.name.as_str(), one.weight))
            .collect();
        assert_eq!(found, [("ink", 0.5), ("../x", 1.0)]);
    }
}
