//! Pictures as prompts on the command line, with tiny random adapters.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{prepose_in, refuses, stderr, works};
use crate::support::fixture;

fn path(name: &str) -> String {
    fixture(name).to_string_lossy().into_owned()
}

fn draw<'a>(checkpoint: &'a str, adapter: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let first = [
        "generate",
        "a cat on the left of a dog",
        "-c",
        checkpoint,
        "--ip-adapter",
        adapter,
        "--size",
        "48x32",
        "--steps",
        "3",
        "--seed",
        "7",
    ];
    [&first[..], more].concat()
}

/// A folder with the pictures of the fixture, and the paths of its checkpoint and adapter.
fn prepared() -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["first.png", "second.png", "mask.png"] {
        fs::copy(fixture("ip-adapter").join(name), folder.path().join(name)).unwrap();
    }
    (
        folder,
        path("single-file/sd1"),
        path("ip-adapter/plus_sd1.safetensors"),
    )
}

fn request(folder: &Path, name: &str) -> Value {
    let info: Value = serde_json::from_str(&works(folder, &["info", name, "--json"])).unwrap();
    info["request"].clone()
}

#[test]
fn a_picture_with_pictures_is_made_again() {
    let (folder, checkpoint, adapter) = prepared();
    let folder = folder.path();
    let shown = [
        "--ip-picture",
        "first.png,scale=0.7,steps=0-1,region=mask.png",
        "--ip-picture",
        "second.png,blocks=up1:1:0.5:0,region=0:0:0.5:1",
    ];
    works(
        folder,
        &draw(
            &checkpoint,
            &adapter,
            &[&shown[..], &["-o", "a.png"]].concat(),
        ),
    );
    let first = request(folder, "a.png");
    let pictures = first["pictures"].as_array().unwrap();
    assert_eq!(pictures.len(), 2);
    assert_eq!(pictures[0]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(
        pictures[0]["region"]["mask"]["sha256"]
            .as_str()
            .unwrap()
            .len(),
        64
    );
    assert_eq!(first["model"]["adapters"][0]["path"], adapter);
    let again = |from: &Path, name: &str, more: &[&str]| {
        let args = ["-q", "generate", "--again", "a.png", "-o", name];
        prepose_in(from, &[&args[..], more].concat())
    };
    let bytes = |name: &str| fs::read(folder.join(name)).unwrap();
    assert!(again(folder, "same.png", &[]).status.success());
    assert_eq!(bytes("a.png"), bytes("same.png"));
    assert!(
        again(folder, "plain.png", &["--no-ip-picture"])
            .status
            .success()
    );
    assert_eq!(request(folder, "plain.png").get("pictures"), None);
    let pixels = |name: &str| image::open(folder.join(name)).unwrap().into_rgb8();
    assert_ne!(pixels("a.png"), pixels("plain.png"));
    // Pictures are found beside the one that was made of them, from any folder.
    let elsewhere = folder.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let beside = folder.join("a.png");
    let args = [
        "-q",
        "generate",
        "--again",
        beside.to_str().unwrap(),
        "-o",
        "same.png",
    ];
    works(&elsewhere, &args);
    // One that is another now, or gone, is an error.
    fs::copy(folder.join("second.png"), folder.join("first.png")).unwrap();
    let changed = again(folder, "other.png", &[]);
    assert_eq!(changed.status.code(), Some(2));
    assert!(
        stderr(&changed).contains("has changed"),
        "{}",
        stderr(&changed)
    );
    fs::remove_file(folder.join("first.png")).unwrap();
    let gone = again(folder, "other.png", &[]);
    assert!(stderr(&gone).contains("--ip-picture"), "{}", stderr(&gone));
}

#[test]
fn a_run_shows_them_too() {
    let (folder, checkpoint, adapter) = prepared();
    let folder = folder.path();
    fs::write(folder.join("p.txt"), "a dog to the left of a cat\n").unwrap();
    fs::write(
        folder.join("m.toml"),
        "[[method]]\nname = \"second\"\npictures = [{ path = \"second.png\", scale = 0.5 }]\n",
    )
    .unwrap();
    let args = [
        "-q",
        "run",
        "p.txt",
        "--seeds",
        "1",
        "-c",
        &checkpoint,
        "--ip-adapter",
        &adapter,
        "--ip-picture",
        "first.png",
        "--size",
        "48x32",
        "--steps",
        "2",
        "--checker",
        "none",
        "--method",
        "prompt-only",
        "--methods",
        "m.toml",
        "--out",
        "run",
    ];
    works(folder, &args);
    let text = fs::read_to_string(folder.join("run/run.json")).unwrap();
    let run: Value = serde_json::from_str(&text).unwrap();
    let recorded = &run["settings"]["sampling"]["pictures"];
    let recorded = if recorded.is_null() {
        &run["sampling"]["pictures"]
    } else {
        recorded
    };
    assert_eq!(recorded[0]["path"], "first.png", "{run}");
    assert_eq!(recorded[0]["sha256"].as_str().unwrap().len(), 64);
    // It goes on with the pictures that it began with, and with no others.
    works(folder, &args);
    fs::copy(folder.join("second.png"), folder.join("first.png")).unwrap();
    let other = prepose_in(folder, &args);
    assert_eq!(other.status.code(), Some(2), "{}", stderr(&other));
}

#[test]
fn the_toybox_shows_them_in_runs_with_its_own() {
    let (folder, ..) = prepared();
    let folder = folder.path();
    fs::write(folder.join("p.txt"), "a dog to the left of a cat\n").unwrap();
    fs::write(
        folder.join("m.toml"),
        "[[method]]\nname = \"shown\"\npictures = [{ path = \"second.png\", scale = 0.5 }]\n",
    )
    .unwrap();
    let adapters = |out: &str, more: &[&str]| {
        let run = [
            "-q",
            "run",
            "p.txt",
            "--seeds",
            "1",
            "--steps",
            "2",
            "--checker",
            "none",
            "--out",
            out,
        ];
        works(folder, &[&run[..], more].concat());
        let text = fs::read_to_string(folder.join(out).join("run.json")).unwrap();
        let run: Value = serde_json::from_str(&text).unwrap();
        run["model"]["adapters"].clone()
    };
    let own = serde_json::json!([{ "path": "toybox" }]);
    assert_eq!(adapters("all", &["--ip-picture", "first.png"]), own);
    assert_eq!(adapters("one", &["--methods", "m.toml"]), own);
    // The networks of other runs stay what they were.
    assert_eq!(adapters("none", &[]), Value::Null);
}

#[test]
fn wrong_input_has_one_clear_message() {
    let (folder, checkpoint, adapter) = prepared();
    let folder = folder.path();
    fs::write(folder.join("text.png"), "not a picture").unwrap();
    let refused = |adapter: &str, picture: &str, parts: &[&str]| {
        let more = ["--ip-picture", picture, "-o", "a.png"];
        refuses(folder, &draw(&checkpoint, adapter, &more), parts);
    };
    refused(
        &path("ip-adapter/plus_sdxl.safetensors"),
        "first.png",
        &["another network", "Stable Diffusion 1.5"],
    );
    refused(
        &path("gligen/unet/diffusion_pytorch_model.safetensors"),
        "first.png",
        &["not an IP-Adapter"],
    );
    refused("none.safetensors", "first.png", &["none.safetensors"]);
    refused(&adapter, "none.png", &["picture prompt none.png"]);
    refused(&adapter, "text.png", &["picture prompt text.png"]);
    refused(&adapter, "first.png,region=first.png", &["53x37", "48x32"]);
    refused(
        &adapter,
        "first.png,adapter=2",
        &["there is one", "--ip-adapter"],
    );
    refused(&adapter, "first.png,steps=9-", &["0 to 3"]);
    refused(
        &adapter,
        "first.png,size=9",
        &["not an option", "scale=0.6"],
    );
    refuses(
        folder,
        &draw(&checkpoint, &adapter, &["-o", "a.png"]),
        &["--ip-picture"],
    );
    let without = [
        "generate",
        "a cat",
        "--checkpoint",
        &checkpoint,
        "--ip-picture",
        "first.png",
        "-o",
        "a.png",
    ];
    refuses(folder, &without, &["there is none", "--ip-adapter"]);
}
