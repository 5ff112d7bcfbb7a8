//! Pictures that are shown to an IP-Adapter, by the program's own interface.

use serde_json::{Value, json};

use super::Server;
use super::native::{job, of, pixels};
use crate::run::{finish, prepose};
use crate::support::fixture;

/// What IP-Adapters show, in boxes and masks: the command line makes the same of the same files.
#[test]
fn shown_pictures_are_those_of_the_command_line() {
    use base64::Engine as _;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| fixture(name).to_string_lossy().into_owned();
    let (checkpoint, adapter) = (
        path("single-file/sd1"),
        path("ip-adapter/plus_sd1.safetensors"),
    );
    let networks = ["--checkpoint", &checkpoint, "--ip-adapter", &adapter];
    let server = Server::start(folder.path(), &[&["--no-token"][..], &networks].concat());
    let about = server.get("/api/about").json();
    assert_eq!(
        about["checkpoints"][0]["adapters"],
        json!(["plus_sd1.safetensors"])
    );
    for name in ["first.png", "second.png", "mask.png"] {
        std::fs::copy(fixture("ip-adapter").join(name), folder.path().join(name)).unwrap();
    }
    let sent = |name: &str| {
        let bytes = std::fs::read(folder.path().join(name)).unwrap();
        base64::engine::general_purpose::STANDARD.encode(bytes)
    };
    let prompt = "a cat on the left of a dog";
    let pictures = json!([
        {"image": sent("first.png"), "scale": 0.7, "last_step": 1, "region": {"mask": sent("mask.png")}},
        {"image": sent("second.png"), "region": {"box": [0.0, 0.0, 0.5, 1.0]}},
    ]);
    let request = json!({"prompt": prompt, "seed": 7, "steps": 3, "width": 48, "height": 32, "pictures": pictures});
    let state = job(
        &server,
        &json!({"request": request, "maps": false, "check": false}),
    );
    assert_eq!(state["status"], "done", "{state}");
    let id = of(&state, "picture")[0]["id"].as_str().unwrap();
    let served = server.get(&format!("/api/pictures/{id}.png")).body;
    let known = server.get(&format!("/api/pictures/{id}")).json();
    let kept = &known["request"]["pictures"][0];
    assert!(
        kept["image"].as_str().unwrap().starts_with("sha256:"),
        "{known}"
    );
    let draw = |out: &str, more: &[&str]| {
        let mut command = prepose(&["generate", prompt, "--steps", "3", "--seed", "7", "--quiet"]);
        command.args(["--size", "48x32", "--out", out, "--checkpoint", &checkpoint]);
        command.args(more).current_dir(folder.path());
        finish(command);
        std::fs::read(folder.path().join(out)).unwrap()
    };
    let shown = draw(
        "shown.png",
        &[
            "--ip-adapter",
            &adapter,
            "--ip-picture",
            "first.png,scale=0.7,steps=0-1,region=mask.png",
            "--ip-picture",
            "second.png,region=0:0:0.5:1",
        ],
    );
    assert!(pixels(&served) == pixels(&shown));
    // A picture that shows nothing needs no adapter, neither here nor to be made again.
    let plain = json!({"prompt": prompt, "seed": 7, "steps": 3, "width": 48, "height": 32});
    let state = job(
        &server,
        &json!({"request": plain, "maps": false, "check": false}),
    );
    let id = of(&state, "picture")[0]["id"].as_str().unwrap();
    let served = server.get(&format!("/api/pictures/{id}.png")).body;
    assert!(
        pixels(&served) == pixels(&draw("plain.png", &[])) && pixels(&served) != pixels(&shown)
    );

    let spelt = server
        .post("/api/spell", &json!({"request": request}))
        .json();
    for (form, parts) in [
        (
            "command",
            &[
                "--ip-adapter plus_sd1.safetensors",
                "--ip-picture picture-1.png,scale=0.7,steps=0-1,region=mask-1.png",
                "--ip-picture picture-2.png,region=0:0:0.5:1",
            ][..],
        ),
        (
            "python",
            &[
                "open(\"mask-1.png\", \"rb\")",
                "[\"pictures\"][1][\"image\"] = base64",
            ],
        ),
        (
            "curl",
            &[
                "base64 < picture-1.png",
                "base64 < mask-1.png",
                "base64 < picture-2.png",
                "-d @-",
            ],
        ),
    ] {
        let text = spelt[form].as_str().unwrap();
        for part in parts {
            assert!(text.contains(part), "{form}: {text}");
        }
    }
    let refused = |mut shown: Value, parts: &[&str]| {
        if shown["image"].is_null() {
            shown["image"] = json!(sent("first.png"));
        }
        let mut request = request.clone();
        request["pictures"] = json!([shown]);
        let answer = server.post("/api/jobs", &json!({"request": request}));
        let said = answer.json();
        assert_eq!(answer.status, 400, "{said}");
        assert_eq!(said["error"]["param"], "request.pictures", "{said}");
        for part in parts {
            assert!(said.to_string().contains(part), "{said}");
        }
    };
    refused(json!({"image": "bm8="}), &["not a readable"]);
    refused(json!({"image": "sha256:00"}), &["base64"]);
    refused(json!({"adapter": 2}), &["there is one"]);
    refused(json!({"scale": 1e9}), &["scale"]);
    refused(json!({"first_step": 30}), &["first step"]);
    refused(
        json!({"region": {"mask": sent("first.png")}}),
        &["53x37", "48x32"],
    );
    refused(json!({"region": {"box": [0.5, 0.0, 0.4, 1.0]}}), &["0.5"]);
    let many = vec![json!({"image": sent("first.png")}); 17];
    let request = json!({"prompt": prompt, "pictures": many});
    let answer = server.post("/api/jobs", &json!({"request": request}));
    assert!(
        answer.status == 400 && answer.text().contains("17"),
        "{}",
        answer.text()
    );
}

#[test]
fn without_an_adapter_nothing_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = fixture("single-file/sd1").to_string_lossy().into_owned();
    let networks = [
        "--no-token",
        "--checkpoint",
        &checkpoint,
        "--checkpoint",
        "toybox",
    ];
    let server = Server::start(folder.path(), &networks);
    let about = server.get("/api/about").json();
    let adapters = |at: usize| about["checkpoints"][at]["adapters"].clone();
    // The toybox has its own.
    assert_eq!((adapters(0), adapters(1)), (json!([]), json!(["toybox"])));
    let png = std::fs::read(fixture("ip-adapter").join("first.png")).unwrap();
    use base64::Engine as _;
    let image = base64::engine::general_purpose::STANDARD.encode(png);
    let request = json!({"prompt": "a dog", "pictures": [{"image": image}]});
    let answer = server.post("/api/jobs", &json!({"request": request}));
    assert!(
        answer.status == 400 && answer.text().contains("--ip-adapter"),
        "{}",
        answer.text()
    );
    let adapter = fixture("ip-adapter/plus_sd1.safetensors");
    let mut command = prepose(&["serve", "--port", "0", "--no-token", "--ip-adapter"]);
    let refused = command.arg(&adapter).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(2) && said.contains("--ip-adapter"),
        "{said}"
    );
}
