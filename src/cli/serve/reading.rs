//! How prompts are read, and how requests are spelt.

use prepose::check::vocabulary::label_of;
use prepose::prompt::scene::Scene;
use prepose_serve::Wanted;
use serde_json::{Value, json};

/// A prompt's objects and relations, with where they stand in code points. `known`: what the checkpoint can draw; none if
/// nobody says.
pub fn read(prompt: &str, known: Option<&[String]>) -> Value {
    let scene = match Scene::parse(prompt) {
        Ok(scene) => scene,
        Err(error) => {
            return json!({"spans": [], "objects": [], "relations": [], "trouble": error.to_string(), "notes": []});
        }
    };
    let at = |byte: usize| {
        prompt
            .get(..byte)
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

/// What is wanted as a command line, and as Python that asks this server.
pub fn spell(wanted: &Wanted) -> [String; 2] {
    [command(wanted), python(wanted)]
}

/// For a shell.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,".contains(&byte);
    match !text.is_empty() && text.bytes().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn command(wanted: &Wanted) -> String {
    let request = json!(wanted.request);
    let mut words = vec![
        "prepose".to_owned(),
        "generate".into(),
        quoted(&wanted.request.prompt),
    ];
    let mut add = |name: &str, value: &Value| {
        let text = match value {
            Value::Null => return,
            Value::Bool(true) => return words.push(name.to_owned()),
            Value::Bool(false) => return,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        words.extend([name.to_owned(), quoted(&text)]);
    };
    add("--checkpoint", &request["checkpoint"]);
    for (name, option) in [
        ("negative_prompt", "--negative-prompt"),
        ("steps", "--steps"),
        ("guidance_scale", "--guidance-scale"),
        ("scheduler", "--scheduler"),
        ("timestep_spacing", "--timestep-spacing"),
        ("clip_skip", "--clip-skip"),
        ("noise", "--noise"),
    ] {
        add(option, &request[name]);
    }
    let savings = &request["savings"];
    let deep = &savings["deep_cache"];
    match (&deep["every"], &deep["branch"]) {
        (every, Value::Null) => add("--deep-cache", every),
        (every, branch) => add("--deep-cache", &json!(format!("{every}:{branch}"))),
    }
    add("--tgate", &savings["tgate"]);
    add("--token-merging", &savings["token_merging"]);
    if let (Some(width), Some(height)) = (wanted.request.width, wanted.request.height) {
        add("--size", &json!(format!("{width}x{height}")));
    }
    let seeds: Vec<String> = wanted.seeds().iter().map(ToString::to_string).collect();
    add(
        if seeds.len() == 1 {
            "--seed"
        } else {
            "--seeds"
        },
        &json!(seeds.join(",")),
    );
    for lora in &wanted.request.loras {
        add(
            "--lora",
            &json!(format!("{}.safetensors:{}", lora.name, lora.weight)),
        );
    }
    for relation in &wanted.request.relations {
        add("--relation", &json!(relation));
    }
    let corners = |value: &Value| {
        let corners = value["box"].as_array().cloned().unwrap_or_default();
        corners
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(",")
    };
    for one in &wanted.request.boxes {
        add(
            "--box",
            &json!(format!(
                "{}: {}",
                one["object"].as_str().unwrap_or_default(),
                corners(one)
            )),
        );
    }
    for one in &wanted.request.regions {
        add(
            "--region",
            &json!(format!("{}: {}", one["part"], corners(one))),
        );
    }
    if let Some(share) = request["ground"]["share"].as_f64() {
        add(&format!("--ground={share}"), &json!(true));
    }
    let guide = &request["guide"];
    add("--guide", &guide["method"]);
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
        ("every", "--guide-every"),
    ] {
        match &guide[name] {
            Value::Bool(flag) => add(option, &json!(flag.to_string())),
            value => add(option, value),
        }
    }
    add("--guide-one-pass", &guide["one_pass"]);
    add("--guide-extrapolate", &guide["extrapolate"]);
    if let Some(search) = &wanted.search {
        add("--best-of", &json!(search.best_of));
        add("--reward", &json!(search.reward));
        match &search.pruning {
            Some(Value::Array(steps)) => {
                let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
                add(&format!("--prune={}", steps.join(",")), &json!(true));
            }
            Some(Value::String(_)) => add("--prune", &json!(true)),
            _ => {}
        }
    }
    words.join(" ")
}

fn python(wanted: &Wanted) -> String {
    let body = serde_json::to_string_pretty(wanted).unwrap_or_default();
    // A raw text would need no care but for its own quotes; JSON in JSON needs none.
    let literal = json!(body).to_string();
    format!(
        "import json, os, time, urllib.request\n\n\
         SERVER = \"http://127.0.0.1:7861\"\n\
         WANTED = json.loads({literal})\n\n\n\
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
