//! Second passes over larger pictures.

use prepose::output::png::{read_info, read_request};
use prepose::picture::Picture;
use serde_json::{Value, json};

use super::Server;
use super::native::{job, of, pixels};
use crate::run::{finish, prepose};
use crate::support::fixture;

/// The second pass starts from the first picture as `generate` does, given that picture.
#[test]
fn a_second_pass_is_image_to_image_from_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--no-token"]);
    let prompt = "a dog to the left of a cat";
    let request = json!({"prompt": prompt, "steps": 4, "seed": 3, "guidance_steps": "1-2"});
    let second = json!({"width": 192, "height": 200, "crop": [192, 160], "upscaler": "latent-bicubic", "steps": 3, "strength": 0.7});
    let body = json!({"request": request, "second_pass": second, "maps": false, "check": false});
    let state = job(&server, &body);
    assert_eq!(state["status"], "done", "{state}");
    let picture = of(&state, "picture")[0];
    // 0.7 of a schedule of four steps would be two.
    assert_eq!(picture["cost"]["unet_calls"], 4 + 3, "{picture}");
    let served = format!("/api/pictures/{}.png", picture["id"].as_str().unwrap());
    let served = server.get(&served).body;
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("served.png"), &served).unwrap();
    let mut first = prepose(&["generate", prompt, "--steps", "4", "--seed", "3", "--quiet"]);
    first.args(["--guidance-steps", "1-2"]);
    finish({
        first.arg("--out").arg(file("first.png"));
        first
    });
    let mut again = prepose(&["generate", "--quiet", "--again"]);
    again.arg(file("served.png"));
    again.arg("--init-image").arg(file("first.png"));
    again.arg("--out").arg(file("again.png"));
    finish(again);
    let again = Picture::decode(&std::fs::read(file("again.png")).unwrap()).unwrap();
    assert_eq!((again.width, again.height), (192, 160));
    assert!(again.rgb == pixels(&served));
    let refused = |second: Value| {
        let body =
            json!({"request": {"prompt": prompt}, "second_pass": second, "search": {"best_of": 2}});
        let answer = server.post("/api/jobs", &body);
        (answer.status, answer.text())
    };
    let (status, text) = refused(json!({"width": 192, "height": 192}));
    assert!(status == 400 && text.contains("no second pass"), "{text}");
}

/// What the first pass's scheduler reads and the second pass's does not is the first one's alone.
#[test]
fn a_second_pass_by_another_scheduler_has_no_settings_of_the_first_ones() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--no-token"]);
    let request = json!({"prompt": "a cat", "steps": 2, "seed": 3, "width": 64, "height": 64, "timestep_spacing": "trailing"});
    let second =
        json!({"width": 96, "height": 96, "steps": 1, "strength": 0.5, "scheduler": "lcm"});
    let body = json!({"request": request, "second_pass": second, "maps": false, "check": false});
    let state = job(&server, &body);
    assert_eq!(state["status"], "done", "{state}");
    let id = of(&state, "picture")[0]["id"].as_str().unwrap();
    let file = folder.path().join("served.png");
    std::fs::write(&file, server.get(&format!("/api/pictures/{id}.png")).body).unwrap();
    let made = read_request(&file).unwrap();
    assert_eq!(made.scheduler.as_deref(), Some("lcm"));
    assert_eq!(made.timestep_spacing, None);
}

/// Changes of prompts are counted through both passes, as in the web UI's "hires fix"; all else must fit into the second pass.
#[test]
fn a_second_pass_goes_on_where_the_first_one_ended() {
    use base64::Engine as _;
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--no-token"]);
    let body = |more: Value, prompt: Option<&str>| {
        let mut request = json!({"prompt": "a [cat:dog:2]", "negative_prompt": "[red:blue:.5]", "steps": 4, "seed": 3,
                                 "width": 64, "height": 64});
        for (name, value) in more.as_object().unwrap() {
            request[name] = value.clone();
        }
        let mut second =
            json!({"width": 96, "height": 96, "upscaler": "latent", "steps": 2, "strength": 0.5});
        if let Some(prompt) = prompt {
            second["prompt"] = json!(prompt);
        }
        json!({"request": request, "second_pass": second, "maps": false, "check": false})
    };
    let texts = |prompt: Option<&str>| {
        let state = job(&server, &body(json!({}), prompt));
        assert_eq!(state["status"], "done", "{state}");
        let id = of(&state, "picture")[0]["id"].as_str().unwrap();
        let file = folder.path().join("served.png");
        std::fs::write(&file, server.get(&format!("/api/pictures/{id}.png")).body).unwrap();
        let request = read_request(&file).unwrap();
        [request.prompt, request.negative_prompt]
    };
    assert_eq!(texts(None), ["a dog", "blue"]);
    // The fifth step of six is the first but one of the second pass.
    assert_eq!(
        texts(Some("a [cat:dog:5] [here:1.5]")),
        ["a [cat:dog:1] [:here:1]", "blue"]
    );
    let png = std::fs::read(fixture("ip-adapter").join("first.png")).unwrap();
    let shown = base64::engine::general_purpose::STANDARD.encode(png);
    for (more, prompt, param) in [
        (json!({}), Some("a [cat:dog:6]"), "second_pass.prompt"),
        (
            json!({"prompt": "a cat", "negative_prompt": "", "savings": {"tgate": 3}}),
            None,
            "request.savings",
        ),
        (
            json!({"pictures": [{"image": shown, "first_step": 2}]}),
            None,
            "request.pictures",
        ),
    ] {
        let answer = server.post("/api/jobs", &body(more, prompt));
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(answer.json()["error"]["param"], param);
        assert!(answer.text().contains("in the second pass"), "{param}");
    }
}

/// A change in the second pass is none in the first one, whose prompts both have.
#[test]
fn what_both_passes_have_may_change_in_the_second() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--no-token"]);
    let body = |[prompt, negative]: [&str; 2], own: Option<[&str; 2]>| {
        let request = json!({"prompt": prompt, "negative_prompt": negative, "steps": 4, "seed": 3, "width": 64, "height": 64});
        let mut second =
            json!({"width": 96, "height": 96, "upscaler": "latent", "steps": 2, "strength": 0.5});
        if let Some([prompt, negative]) = own {
            second["prompt"] = json!(prompt);
            second["negative_prompt"] = json!(negative);
        }
        json!({"request": request, "second_pass": second, "maps": false, "check": false})
    };
    let file = folder.path().join("served.png");
    let made = |body: &Value| {
        let state = job(&server, body);
        assert_eq!(state["status"], "done", "{state}");
        let id = of(&state, "picture")[0]["id"].as_str().unwrap();
        let served = server.get(&format!("/api/pictures/{id}.png")).body;
        std::fs::write(&file, &served).unwrap();
        served
    };
    // After five steps of six, and after half of the second two.
    let both = ["a [cat:dog:5]", "[red:blue:1.5]"];
    let shared = made(&body(both, None));
    let request = read_request(&file).unwrap();
    assert_eq!(
        [request.prompt, request.negative_prompt],
        ["a [cat:dog:1]", "[red:blue:1]"]
    );
    let texts = read_info(&file).unwrap().texts;
    let written = texts.iter().find(|(name, _)| name == "parameters");
    let (_, written) = written.unwrap();
    let expected = "a [cat:dog:5]\nNegative prompt: [red:blue:1.5]\n";
    assert!(written.starts_with(expected), "{written}");
    let apart = made(&body(["a cat", "red"], Some(both)));
    assert!(pixels(&apart) == pixels(&shared));
    for [prompt, negative] in [["a [cat:dog:6]", ""], ["a cat", "[red:blue:2.0]"]] {
        let answer = server.post("/api/jobs", &body([prompt, negative], None));
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains("ends after step 6"), "{prompt}");
    }
}
