//! OpenAI's and AUTOMATIC1111's interfaces, as their clients use them; and `prepose run --endpoint` as a client.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prepose::picture::Picture;
use serde_json::{Value, json};

use super::Server;
use crate::run::{finish, prepose};
use crate::support::fixture;

fn picture(value: &Value) -> Picture {
    Picture::decode(&STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap()
}

#[test]
fn openai_clients_get_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--no-token", "--any-model"]);
    let models = server.get("/v1/models").json();
    assert_eq!(models["data"][0]["id"], "toybox");
    let body = json!({"prompt": "a dog to the left of a cat", "model": "gpt-image-1", "n": 2, "size": "128x96", "quality": "high",
                      "response_format": "b64_json", "seed": 5, "steps": 3, "guide": {"method": "pos"}, "unknown": 1});
    let answer = server.post("/v1/images/generations", &body).json();
    let data = answer["data"].as_array().unwrap();
    assert_eq!(
        (
            data.len(),
            data[0]["seed"].as_u64(),
            data[1]["seed"].as_u64()
        ),
        (2, Some(5), Some(6)),
        "{answer}"
    );
    let first = picture(&data[0]["b64_json"]);
    assert_eq!(
        (first.width, first.height, &answer["size"]),
        (128, 96, &json!("128x96"))
    );
    assert_ne!(first, picture(&data[1]["b64_json"]));

    let body = json!({"prompt": "a cat", "stream": true, "partial_images": 2, "steps": 6, "seed": 1, "output_format": "jpeg"});
    let events = server.post("/v1/images/generations", &body).text();
    let count = |kind: &str| events.matches(&format!("event: {kind}\n")).count();
    assert_eq!(
        (
            count("image_generation.partial_image"),
            count("image_generation.completed")
        ),
        (2, 1),
        "{events:.300}"
    );

    let start = STANDARD
        .decode(data[0]["b64_json"].as_str().unwrap())
        .unwrap();
    let mut form = Vec::new();
    for (name, value) in [
        ("prompt", "a dog to the right of a cat"),
        ("strength", "0.5"),
        ("steps", "4"),
        ("size", "128x128"),
    ] {
        form.extend(
            format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
                .into_bytes(),
        );
    }
    form.extend(b"--b\r\nContent-Disposition: form-data; name=\"image[]\"; filename=\"../../x.png\"\r\nContent-Type: application/octet-stream\r\n\r\n");
    form.extend(&start);
    form.extend(b"\r\n--b--\r\n");
    let kind = "Content-Type: multipart/form-data; boundary=b\n";
    let edited = server.ask("POST", "/v1/images/edits", kind, &form);
    assert_eq!(edited.status, 200, "{}", edited.text());
    picture(&edited.json()["data"][0]["b64_json"]);
}

#[test]
fn webui_clients_refresh_loras() {
    let folder = tempfile::tempdir().unwrap();
    let loras = folder.path().join("loras");
    std::fs::create_dir(&loras).unwrap();
    let server = Server::start(
        folder.path(),
        &["--no-token", "--loras", loras.to_str().unwrap()],
    );
    let names = || {
        let listed = server.get("/sdapi/v1/loras").json();
        let names = listed.as_array().unwrap().iter();
        names.map(|lora| lora["name"].clone()).collect::<Vec<_>>()
    };
    let refresh = || server.post("/sdapi/v1/refresh-loras", &json!({})).status;
    std::fs::copy(
        fixture("lora/kohya-sd1.safetensors"),
        loras.join("chalk.safetensors"),
    )
    .unwrap();
    let body = json!({"prompt": "a cat <lora:chalk:1>", "steps": 1});
    let is_known = || {
        let told = server.post("/sdapi/v1/txt2img", &body).text();
        !told.contains("there is no LoRA")
    };
    assert!(names().is_empty() && !is_known());
    assert_eq!((refresh(), names()), (200, vec![json!("chalk")]));
    assert!(is_known());
    std::fs::remove_dir_all(&loras).unwrap();
    assert_ne!(refresh(), 200);
    assert_eq!(names(), [json!("chalk")]);
}

#[test]
fn webui_clients_get_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--no-token"]);
    let idle = server
        .get("/sdapi/v1/progress?skip_current_image=true")
        .json();
    assert_eq!(
        (
            idle["progress"].as_f64(),
            idle["state"]["job_count"].as_u64()
        ),
        (Some(0.0), Some(0))
    );
    for list in [
        "sd-models",
        "samplers",
        "schedulers",
        "loras",
        "upscalers",
        "latent-upscale-modes",
        "sd-vae",
        "sd-modules",
        "embeddings",
        "prompt-styles",
        "hypernetworks",
        "face-restorers",
        "scripts",
        "script-info",
        "extensions",
        "cmd-flags",
        "memory",
        "options",
    ] {
        assert_eq!(
            server.get(&format!("/sdapi/v1/{list}")).status,
            200,
            "{list}"
        );
    }
    // Some clients send all settings back.
    let settings = server.get("/sdapi/v1/options").json();
    let sent_back = server.post("/sdapi/v1/options", &settings);
    assert_eq!(sent_back.status, 200, "{}", sent_back.text());
    let nulls = json!({"prompt": "a dog to the left of a cat", "negative_prompt": null, "styles": null, "seed": 4.0, "steps": 3.0, "width": 130, "height": 128,
                       "cfg_scale": null, "sampler_name": "DPM++ 2M", "scheduler": "Karras", "batch_size": 2, "n_iter": null, "script_args": [],
                       "override_settings": {}, "alwayson_scripts": {"prepose": {"args": [{"guide": {"method": "pos"}, "check": true}]}}});
    let answer = server.post("/sdapi/v1/txt2img", &nulls);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    let info: Value = serde_json::from_str(answer["info"].as_str().unwrap()).unwrap();
    assert_eq!(info["all_seeds"], json!([4, 5]));
    assert_eq!(
        (&info["width"], &info["sampler_name"]),
        (&json!(128), &json!("DPM++ 2M Karras"))
    );
    assert!(
        info["extra_generation_params"]["prepose"][0]["status"].is_string(),
        "{info}"
    );
    assert!(info["infotexts"][0].as_str().unwrap().contains("Steps: 3"));
    let image = answer["images"][1].as_str().unwrap();
    let told = server
        .post(
            "/sdapi/v1/png-info",
            &json!({"image": format!("data:image/png;base64,{image}")}),
        )
        .json();
    assert!(told["info"].as_str().unwrap().contains("Seed: 5"), "{told}");
    let again = json!({"prompt": "a cat", "init_images": [image], "denoising_strength": 0.5, "steps": 4, "seed": -1, "mask": null});
    let answer = server.post("/sdapi/v1/img2img", &again);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let info = answer.json()["info"].as_str().unwrap().to_owned();
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["denoising_strength"], 0.5);
    // As many steps as the web UI makes, which are one more than a half.
    let newest = server.get("/api/pictures?limit=1").json();
    let id = newest["pictures"][0]["id"].as_str().unwrap();
    let newest = server.get(&format!("/api/pictures/{id}")).json();
    assert_eq!(newest["cost"]["unet_calls"], 3, "{newest}");
    let missing = server.post(
        "/sdapi/v1/txt2img",
        &json!({"prompt": "a cat", "sampler_name": "Heun"}),
    );
    assert!(
        missing.status == 400
            && missing.json()["detail"]
                .as_str()
                .unwrap()
                .contains("Euler a"),
        "{}",
        missing.text()
    );
}

#[test]
fn checkpoints_keep_the_dots_in_their_folders_names() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = ["sd-1.4", "sd-1.5"].map(|name| {
        let link = folder.path().join(name);
        std::os::unix::fs::symlink(fixture("single-file/sd1"), &link).unwrap();
        link.to_string_lossy().into_owned()
    });
    let mut networks = vec!["--no-token"];
    for checkpoint in &checkpoints {
        networks.extend(["--checkpoint", checkpoint.as_str()]);
    }
    let server = Server::start(folder.path(), &networks);
    let models = server.get("/v1/models").json();
    let names = [0_usize, 1].map(|at| &models["data"][at]["id"]);
    assert_eq!(names, [&json!("sd-1.4"), &json!("sd-1.5")]);
}

/// As in the web UI, whose other text encoders do not go by the setting; by our own field they all go.
#[test]
fn webui_clients_skip_layers_of_sd1_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [sd1, sdxl] = ["sd1", "sdxl"].map(|name| {
        let checkpoint = fixture("single-file").join(name);
        checkpoint.to_string_lossy().into_owned()
    });
    let server = Server::start(
        folder.path(),
        &["--no-token", "--checkpoint", &sd1, "--checkpoint", &sdxl],
    );
    let skipped = |checkpoint: &str, ours: Value| {
        let settings = json!({"sd_model_checkpoint": checkpoint, "CLIP_stop_at_last_layers": 2});
        let body = json!({"prompt": "a cat", "steps": 1, "seed": 1, "width": 64, "height": 64, "override_settings": settings,
                          "alwayson_scripts": {"prepose": {"args": [ours]}}});
        let answer = server.post("/sdapi/v1/txt2img", &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let info: Value = serde_json::from_str(answer.json()["info"].as_str().unwrap()).unwrap();
        // The last layer is 1.
        info["clip_skip"].as_u64().unwrap() - 1
    };
    assert_eq!(skipped("sd1", json!({})), 1);
    assert_eq!(skipped("sdxl", json!({})), 0);
    assert_eq!(skipped("sdxl", json!({"clip_skip": 1})), 1);
}

#[test]
fn webui_clients_get_a_second_pass() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--no-token"]);
    let modes = server.get("/sdapi/v1/latent-upscale-modes").json();
    assert_eq!(modes[0]["name"], "Latent");
    let made = |more: Value| {
        let mut body = json!({"prompt": "a dog to the left of a cat", "width": 128, "height": 128, "seed": 4, "steps": 4, "enable_hr": true,
                              "denoising_strength": 0.5, "hr_second_pass_steps": 2, "batch_size": 2, "hr_prompt": "", "hr_sampler_name": null});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        let answer = server.post("/sdapi/v1/txt2img", &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = answer.json();
        let info: Value = serde_json::from_str(answer["info"].as_str().unwrap()).unwrap();
        let images = answer["images"].as_array().unwrap();
        assert_eq!(images.len(), 2);
        (picture(&images[0]), info)
    };
    let (latent, info) = made(json!({"hr_scale": 1.5}));
    assert_eq!((latent.width, latent.height), (192, 192));
    assert_eq!(info["denoising_strength"], 0.5);
    let text = info["infotexts"][1].as_str().unwrap();
    let said =
        "Denoising strength: 0.5, Hires resize: 192x192, Hires steps: 2, Hires upscaler: Latent,";
    assert!(
        text.contains("Steps: 4, ")
            && text.contains("Seed: 5, Size: 128x128")
            && text.contains(said),
        "{text}"
    );
    let (lanczos, _) = made(json!({"hr_scale": 1.5, "hr_upscaler": "Lanczos"}));
    assert!(lanczos.width == 192 && lanczos != latent);
    // Covered, and what is over is cut.
    let (cut, _) = made(json!({"hr_resize_x": 192, "hr_resize_y": 160}));
    assert_eq!((cut.width, cut.height), (192, 160));
    // As in the web UI, a step past the first pass is one of the second for the prompt that both have.
    let (_, info) = made(json!({"hr_scale": 1.5, "prompt": "a [cat:dog:5]"}));
    let text = info["infotexts"][0].as_str().unwrap();
    assert!(text.starts_with("a [cat:dog:5]\n"), "{text}");
    let other = json!({"prompt": "a cat", "enable_hr": true, "hr_checkpoint_name": "another"});
    let refused = server.post("/sdapi/v1/txt2img", &other);
    assert_eq!(refused.status, 404, "{}", refused.text());
}

#[test]
fn a_run_gets_its_pictures_from_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--no-token", "--any-model"]);
    let prompts = folder.path().join("prompts.txt");
    std::fs::write(&prompts, "a dog to the left of a cat\na cup above a bus\n").unwrap();
    for (kind, base) in [("openai", "/v1"), ("webui", "")] {
        let address = format!("http://{}{base}", server.address);
        let mut command = prepose(&[
            "run",
            prompts.to_str().unwrap(),
            "--endpoint",
            &address,
            "--endpoint-kind",
            kind,
            "--steps",
            "2",
        ]);
        command
            .args([
                "--endpoint-model",
                "toybox",
                "--seeds",
                "0,1",
                "--quiet",
                "--out",
            ])
            .arg(folder.path().join(kind));
        if kind == "openai" {
            command.args(["--endpoint-set", "seed={seed}"]);
        }
        finish(command);
        let manifest =
            std::fs::read_to_string(folder.path().join(kind).join("prompt-only/manifest.jsonl"))
                .unwrap();
        assert_eq!(manifest.lines().count(), 4, "{kind}");
    }
}
