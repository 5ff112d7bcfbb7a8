//! How prompts are read, and how requests are spelt.

use prepose::check::vocabulary::label_of;
use prepose::prompt::compose::{first_part, scene_of};
use prepose_serve::{RegionWanted, Wanted};
use serde_json::{Value, json};

/// A prompt's objects and relations, with where they stand in code points; those of its first part, if it is composed. `known`: what the checkpoint can draw; none if
/// nobody says.
pub fn read(prompt: &str, known: Option<&[String]>) -> Value {
    let scene = match scene_of(prompt, &[]) {
        Ok(scene) => scene,
        Err(error) => {
            return json!({"spans": [], "objects": [], "relations": [], "trouble": error.to_string(), "notes": []});
        }
    };
    // A part is read without the spaces around it.
    let part = first_part(prompt).ok();
    let start = part.and_then(|part| prompt.find(&part)).unwrap_or_default();
    let at = |byte: usize| {
        prompt
            .get(..start + byte)
            .map_or(0, |before| before.chars().count())
    };
    let is_known = |index: usize| {
        known.is_none_or(|known| label_of(Some(known), &scene.objects[index]).is_ok())
    };
    let spans = scene.objects.iter().enumerate().map(|(index, object)| {
        json!({"start": at(object.bytes.start), "end": at(object.bytes.end), "kind": "object", "of": [index]})
    });
    let objects = scene
        .objects
        .iter()
        .enumerate()
        .map(|(index, object)| json!({"name": object.phrase, "known": is_known(index)}));
    let relations = scene.relations.iter().map(|stated| {
        let phrase = |index: usize| &scene.objects[index].phrase;
        let others: Vec<&String> = stated.objects.iter().map(|object| phrase(*object)).collect();
        json!({
            "subject": phrase(stated.subject), "relation": stated.relation.as_str(), "object": others.first(),
            "a": stated.subject, "b": stated.objects.first(), "objects": stated.objects,
        })
    });
    let strange = (0..scene.objects.len()).filter(|index| !is_known(*index));
    let notes =
        strange.map(|index| format!("the toybox does not draw {:?}", scene.objects[index].phrase));
    json!({
        "spans": spans.collect::<Vec<_>>(), "objects": objects.collect::<Vec<_>>(),
        "relations": relations.collect::<Vec<_>>(), "trouble": null, "notes": notes.collect::<Vec<_>>(),
    })
}

/// What is wanted as a command line, and as Python that asks this server; `adapters` are the files of the checkpoint's IP-Adapters.
pub fn spell(wanted: &Wanted, adapters: &[String]) -> [String; 2] {
    [command(wanted, adapters), python(wanted)]
}

/// For a shell.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,".contains(&byte);
    match !text.is_empty() && text.bytes().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// A command line as it grows.
struct Words(Vec<String>);

impl Words {
    /// An option with its value; nothing for null and `false`, the option alone for `true`.
    fn add(&mut self, option: &str, value: &Value) {
        let text = match value {
            Value::Null | Value::Bool(false) => return,
            Value::Bool(true) => return self.0.push(option.to_owned()),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.0.extend([option.to_owned(), quoted(&text)]);
    }

    fn add_text(&mut self, option: &str, text: String) {
        self.add(option, &Value::String(text));
    }
}

fn command(wanted: &Wanted, adapters: &[String]) -> String {
    let request = json!(wanted.request);
    let prompt = quoted(&wanted.request.prompt);
    let mut words = Words(vec!["prepose".into(), "generate".into(), prompt]);
    words.add("--checkpoint", &request["checkpoint"]);
    for (name, option) in [
        ("negative_prompt", "--negative-prompt"),
        ("steps", "--steps"),
        ("guidance_scale", "--guidance-scale"),
        ("scheduler", "--scheduler"),
        ("timestep_spacing", "--timestep-spacing"),
        ("clip_skip", "--clip-skip"),
        ("noise", "--noise"),
    ] {
        words.add(option, &request[name]);
    }
    match &request["guidance_steps"] {
        Value::Object(range) => {
            let step = |name: &str| range.get(name).filter(|step| !step.is_null());
            let step = |name, none: &str| step(name).map_or(none.to_string(), Value::to_string);
            words.add_text(
                "--guidance-steps",
                format!("{}-{}", step("first", "0"), step("last", "")),
            );
        }
        text => words.add("--guidance-steps", text),
    }
    savings(&mut words, &request["savings"]);
    if let (Some(width), Some(height)) = (wanted.request.width, wanted.request.height) {
        words.add_text("--size", format!("{width}x{height}"));
    }
    let seeds: Vec<String> = wanted.seeds().iter().map(ToString::to_string).collect();
    let option = if seeds.len() == 1 {
        "--seed"
    } else {
        "--seeds"
    };
    words.add_text(option, seeds.join(","));
    for lora in &wanted.request.loras {
        words.add_text(
            "--lora",
            format!("{}.safetensors:{}", lora.name, lora.weight),
        );
    }
    if let Some(init) = &wanted.request.init {
        words.add("--init-image", &json!(init.image));
        words.add("--strength", &json!(init.strength));
    }
    pictures(&mut words, wanted, adapters);
    places(&mut words, wanted);
    guidance(&mut words, &request["guide"]);
    if let Some(search) = &wanted.search {
        words.add("--best-of", &json!(search.best_of));
        words.add("--reward", &json!(search.reward));
        match &search.pruning {
            Some(Value::Array(steps)) => {
                let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
                words.0.push(format!("--prune={}", steps.join(",")));
            }
            Some(Value::String(_)) => words.0.push("--prune".into()),
            _ => {}
        }
    }
    if wanted.second_pass.is_some() {
        words
            .0
            .push("  # without the second pass, which only the server makes".into());
    }
    words.0.join(" ")
}

/// What is shown to the network.
fn pictures(words: &mut Words, wanted: &Wanted, adapters: &[String]) {
    let shown = &wanted.request.pictures;
    for adapter in adapters.iter().filter(|_| !shown.is_empty()) {
        words.add_text("--ip-adapter", adapter.clone());
    }
    for one in shown {
        let mut text = one.image.clone();
        let mut add = |name: &str, value: String| text += &format!(",{name}={value}");
        if one.adapter != 1 {
            add("adapter", one.adapter.to_string());
        }
        if one.scale != 1.0 {
            add("scale", one.scale.to_string());
        }
        if one.first_step > 0 || one.last_step.is_some() {
            let last = one.last_step.map(|step| step.to_string());
            let last = last.unwrap_or_default();
            add("steps", format!("{}-{last}", one.first_step));
        }
        match &one.region {
            None => {}
            Some(RegionWanted::Box(corners)) => {
                add("region", corners.map(|corner| corner.to_string()).join(":"));
            }
            Some(RegionWanted::Mask(mask)) => add("region", mask.clone()),
        }
        words.add_text("--ip-picture", text);
    }
}

/// What is left out of calls.
fn savings(words: &mut Words, savings: &Value) {
    let deep = &savings["deep_cache"];
    match (&deep["every"], &deep["branch"]) {
        (every, Value::Null) => words.add("--deep-cache", every),
        (every, branch) => words.add_text("--deep-cache", format!("{every}:{branch}")),
    }
    words.add("--tgate", &savings["tgate"]);
    words.add("--token-merging", &savings["token_merging"]);
}

/// What is to be where.
fn places(words: &mut Words, wanted: &Wanted) {
    let corners = |value: &Value| {
        let corners = value["box"].as_array().cloned().unwrap_or_default();
        let corners: Vec<String> = corners.iter().map(ToString::to_string).collect();
        corners.join(",")
    };
    for relation in &wanted.request.relations {
        words.add("--relation", &json!(relation));
    }
    for one in &wanted.request.boxes {
        let object = one["object"].as_str().unwrap_or_default();
        words.add_text("--box", format!("{object}: {}", corners(one)));
    }
    for one in &wanted.request.regions {
        words.add_text("--region", format!("{}: {}", one["part"], corners(one)));
    }
    let share = wanted.request.ground.as_ref();
    if let Some(share) = share.and_then(|ground| ground["share"].as_f64()) {
        words.0.push(format!("--ground={share}"));
    }
}

fn guidance(words: &mut Words, guide: &Value) {
    words.add("--guide", &guide["method"]);
    for (name, option) in [
        ("preset", "--guide-preset"),
        ("steps", "--guide-steps"),
        ("from_step", "--guide-from"),
        ("scale", "--guide-scale"),
        ("resolution", "--guide-resolution"),
        ("refine", "--guide-refine"),
        ("smoothing", "--guide-smoothing"),
        ("loss", "--guide-loss"),
        ("combine", "--guide-combine"),
        ("distance", "--guide-distance"),
        ("updates", "--guide-updates"),
        ("threshold", "--guide-threshold"),
        ("tokens", "--guide-tokens"),
        ("every", "--guide-every"),
    ] {
        match &guide[name] {
            Value::Bool(flag) => words.add_text(option, flag.to_string()),
            value => words.add(option, value),
        }
    }
    match guide["layers"]["named"].as_array() {
        Some(names) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            words.add_text("--guide-layers", names.join(","));
        }
        None => words.add("--guide-layers", &guide["layers"]),
    }
    words.add("--guide-one-pass", &guide["one_pass"]);
    words.add("--guide-extrapolate", &guide["extrapolate"]);
}

fn python(wanted: &Wanted) -> String {
    let body = serde_json::to_string_pretty(wanted).unwrap_or_default();
    // A raw text would need no care but for its own quotes; JSON in JSON needs none.
    let literal = json!(body).to_string();
    // The server names files in place of the pictures' base64.
    let mut start = String::new();
    let mut read = |place: String, file: &str| {
        let file = json!(file);
        start += &format!(
            "with open({file}, \"rb\") as file:\n    \
                 WANTED[\"request\"]{place} = base64.b64encode(file.read()).decode()\n"
        );
    };
    if let Some(init) = &wanted.request.init {
        read("[\"init\"][\"image\"]".into(), &init.image);
    }
    for (at, shown) in wanted.request.pictures.iter().enumerate() {
        read(format!("[\"pictures\"][{at}][\"image\"]"), &shown.image);
        if let Some(RegionWanted::Mask(mask)) = &shown.region {
            let place = format!("[\"pictures\"][{at}][\"region\"][\"mask\"]");
            read(place, mask);
        }
    }
    format!(
        "import base64, json, os, time, urllib.request\n\n\
         SERVER = \"http://127.0.0.1:7861\"\n\
         WANTED = json.loads({literal})\n\
         {start}\n\n\
         def ask(path, body=None):\n    \
             headers = {{\"Authorization\": \"Bearer \" + os.environ[\"PREPOSE_TOKEN\"], \"Content-Type\": \"application/json\"}}\n    \
             data = None if body is None else json.dumps(body).encode()\n    \
             with urllib.request.urlopen(urllib.request.Request(SERVER + path, data, headers)) as answer:\n        \
                 return answer.read()\n\n\n\
         job = json.loads(ask(\"/api/jobs\", WANTED))[\"id\"]\n\
         while (state := json.loads(ask(\"/api/jobs/\" + job)))[\"status\"] in (\"queued\", \"running\"):\n    \
             time.sleep(0.2)\n\
         for kind, facts in state[\"events\"]:\n    \
             if kind == \"picture\":\n        \
                 with open(facts[\"id\"] + \".png\", \"wb\") as file:\n            \
                     file.write(ask(\"/api/pictures/\" + facts[\"id\"] + \".png\"))\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_guidance_reads_is_in_the_command_line() {
        let command = |layers: Value| {
            let guide = json!({"method": "pos", "layers": layers, "tokens": "first"});
            let request = json!({"prompt": "a cat", "guide": guide});
            let wanted = serde_json::from_value(json!({"request": request})).unwrap();
            let [command, _] = spell(&wanted, &[]);
            command
        };
        for (layers, said) in [
            (json!("cheap"), "--guide-layers cheap"),
            (
                json!({"named": ["up_blocks.1", "mid_block"]}),
                "--guide-layers up_blocks.1,mid_block",
            ),
        ] {
            let command = command(layers);
            assert!(command.contains("--guide-tokens first"), "{command}");
            assert!(command.contains(said), "{command}");
        }
        assert!(!command(Value::Null).contains("--guide-layers"));
    }

    #[test]
    fn of_a_composed_prompt_the_first_part_is_read() {
        let alone = read("  a dog to the left of a cat", None);
        assert_eq!(alone["relations"][0]["subject"], "dog");
        // Spans are places in the whole prompt.
        let composed = read("  a dog to the left of a cat AND a bird :0.5", None);
        assert_eq!(composed, alone);
        let heavy = read("a dog :101 AND a cat", None);
        let trouble = heavy["trouble"].as_str().unwrap_or_default();
        assert!(trouble.contains("101"), "{heavy}");
    }
}
