//! `prepose generate` and the first commands of a newcomer, wrong input first, on the built-in toybox.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::program::{self, prepose_in, stderr, stdout};

const PROMPT: &str = "a dog to the left of a cat";

fn prepose(args: &[&str]) -> Output {
    prepose_in(Path::new("."), args)
}

/// The command fails with code 2 and one message that contains each of `parts`, in an empty folder that stays empty.
#[track_caller]
fn refuses(args: &[&str], parts: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    program::refuses(folder.path(), args, parts);
}

#[test]
fn nonsense_is_refused_before_anything_is_loaded() {
    refuses(&["generate", ""], &["empty"]);
    refuses(&["generate", " \t"], &["empty"]);
    refuses(&["generate", "()"], &["empty"]);
    refuses(
        &["generate", "a dog", "--size", "100x64"],
        &["multiple", "104x64"],
    );
    refuses(&["generate", "a dog", "--size", "big"], &["WIDTHxHEIGHT"]);
    refuses(&["generate", "a dog", "--steps", "0"], &["steps is 0"]);
    refuses(&["generate", "a dog", "--guidance-scale", "NaN"], &["NaN"]);
    refuses(&["generate", "a dog", "--seeds", "3-1"], &["3-1"]);
    refuses(
        &["generate", "a dog", "--batch", "0"],
        &["--batch", "auto or at least 1"],
    );
    refuses(
        &["generate", "a dog", "--scheduler", "magic"],
        &["magic", "euler"],
    );
    refuses(
        &["generate", "a dog", "--device", "cuda:x"],
        &["cuda:x", "flex"],
    );
    refuses(
        &["generate", "a dog", "--device", "flex:9"],
        &["flex:9", "prepose devices"],
    );
    refuses(
        &["generate", &"dog ".repeat(5000)],
        &["cannot use the prompt", "tokens"],
    );
    refuses(&["generate", "a (dog:1e9)"], &["1e9"]);
    refuses(&["generate"], &["PROMPT"]);
}

#[test]
fn files_that_are_not_there_or_not_right_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_string_lossy().into_owned()
    };
    let missing = folder.path().join("none.safetensors");
    let missing = missing.to_str().unwrap();
    refuses(
        &["generate", "a dog", "--checkpoint", missing],
        &[missing, "no such file"],
    );
    let html = write(
        "page.safetensors",
        b"<!DOCTYPE html><html><body>Not found</body></html>",
    );
    refuses(
        &["generate", "a dog", "--checkpoint", &html],
        &[&html, "HTML"],
    );
    let lfs = write(
        "lfs.safetensors",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 5\n",
    );
    refuses(&["generate", "a dog", "--checkpoint", &lfs], &[&lfs, "git"]);
    refuses(
        &["generate", "a dog", "--lora", missing],
        &[missing, "No such file"],
    );
    refuses(
        &["generate", "a dog", "--vae", missing],
        &[missing, "no such file"],
    );
    let text = write("text.png", b"hello");
    refuses(
        &["generate", "a dog", "--init-image", &text],
        &[&text, "start picture"],
    );
    refuses(&["generate", "--again", &text], &[&text, "PNG"]);
    refuses(&["info", missing], &[missing]);
    refuses(&["generate", "a dog", "-o", "x.jpg"], &["x.jpg", ".png"]);
    refuses(
        &["generate", "a dog", "--seeds", "0-1", "-o", "x.png"],
        &["2 pictures"],
    );
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written_is_found_out_first() {
    // A file where the folder should be stops root too, whom permissions do not.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let below = file.join("x.png");
    let output = prepose(&["generate", "a dog", "-o", below.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("cannot create the folder"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_picture_is_made_described_and_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let prompt = "a dog to the left of a cat";
    let made = prepose_in(
        folder.path(),
        &[
            "generate", prompt, "--seeds", "3,4", "--steps", "4", "--batch", "2", "--device",
            "flex",
        ],
    );
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let names = [
        "a-dog-to-the-left-of-a-cat-3.png",
        "a-dog-to-the-left-of-a-cat-4.png",
    ];
    let printed = stdout(&made);
    let printed: Vec<_> = printed
        .lines()
        .map(|line| line.trim_start_matches("./"))
        .collect();
    assert_eq!(printed, names);

    let manifest = fs::read_to_string(folder.path().join("manifest.jsonl")).unwrap();
    assert_eq!(manifest.lines().count(), 2);
    let line: serde_json::Value = serde_json::from_str(manifest.lines().next().unwrap()).unwrap();
    assert_eq!(line["prompt"], prompt);
    assert_eq!(line["image_path"], names[0]);
    assert_eq!(line["gen_params"]["seed"], 3);

    let info = prepose_in(folder.path(), &["info", names[1], "--json"]);
    let info: serde_json::Value = serde_json::from_str(&stdout(&info)).unwrap();
    assert_eq!(info["request"]["seed"], 4);
    assert_eq!(info["request"]["prompt"], prompt);

    let again = prepose_in(
        folder.path(),
        &[
            "generate",
            "--again",
            names[1],
            "-o",
            "again.png",
            "--device",
            "flex",
        ],
    );
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    let pixels = |name: &str| image::open(folder.path().join(name)).unwrap().into_rgb8();
    assert_eq!(pixels(names[1]), pixels("again.png"));
    assert_ne!(pixels(names[0]), pixels("again.png"));
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 4, "two pictures, the third and the manifest");
}

#[test]
fn json_is_a_line_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let made = prepose_in(
        folder.path(),
        &[
            "generate", "a dog", "a cat", "--seed", "1", "--steps", "2", "--json", "--device",
            "flex",
        ],
    );
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    assert!(stderr(&made).is_empty(), "{}", stderr(&made));
    let lines: Vec<serde_json::Value> = stdout(&made)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["prompt"], "a cat");
    assert!(lines[1]["seconds"]["denoise"].as_f64().unwrap() > 0.0);
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_what_is_finished_and_leaves_no_halves() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = program::prepose()
        .args([
            "generate", "a dog", "--seeds", "0-500", "--steps", "3", "--device", "flex",
        ])
        .current_dir(folder.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let started = std::time::Instant::now();
    while !folder.path().join("a-dog-0.png").exists() {
        assert!(
            started.elapsed().as_secs() < 120,
            "no picture in two minutes"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let interrupt = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let manifest = fs::read_to_string(folder.path().join("manifest.jsonl")).unwrap();
    let pictures: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "manifest.jsonl")
        .collect();
    assert_eq!(pictures.len(), manifest.lines().count(), "{pictures:?}");
    for name in &pictures {
        image::open(folder.path().join(name)).unwrap();
    }
}

/// Two thousand gradients of eight pictures make a step that takes minutes; nothing comes of waiting for it.
#[cfg(unix)]
#[test]
fn a_long_step_does_not_hold_a_signal_up() {
    use std::io::{BufRead, BufReader};
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = program::prepose()
            .args(["-v", "generate", PROMPT, "--seeds", "0-7", "--batch", "8"])
            .args([
                "--steps",
                "2",
                "--guide",
                "steer",
                "--guide-updates",
                "1000",
            ])
            .args(["--guide-threshold", "0", "--device", "flex"])
            .current_dir(folder.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let loaded = |line: String| line.contains("loaded in");
        assert!(said.any(|line| loaded(line.unwrap())));
        let sent = Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        let started = std::time::Instant::now();
        let ended = loop {
            if let Some(ended) = child.try_wait().unwrap() {
                break ended;
            }
            if started.elapsed().as_secs() > 120 {
                child.kill().unwrap();
                panic!("it goes on two minutes after the signal {signal}");
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        };
        assert_eq!(ended.code(), Some(code));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn the_devices_are_listed() {
    let listed = prepose(&["devices", "--json"]);
    assert_eq!(listed.status.code(), Some(0), "{}", stderr(&listed));
    let listed: serde_json::Value = serde_json::from_str(&stdout(&listed)).unwrap();
    let devices = listed["devices"].as_array().unwrap();
    let flex = devices
        .iter()
        .find(|device| device["device"] == "flex")
        .unwrap();
    assert_eq!(flex["usable"], true);
    let products = flex["bf16"].as_str().unwrap();
    assert!(["tiles", "pairs", "widened"].contains(&products));
    for device in devices.iter().filter(|device| device["usable"] == false) {
        assert!(!device["reason"].as_str().unwrap().is_empty(), "{device}");
    }
}

#[test]
fn instructions_of_the_processor_can_be_left_unused() {
    let folder = tempfile::tempdir().unwrap();
    let with = |instructions: &str, args: &[&str]| {
        let mut command = program::prepose();
        command.current_dir(folder.path()).args(args);
        command.env("PREPOSE_INSTRUCTIONS", instructions);
        command.output().unwrap()
    };
    let refused = with("sse9", &["devices"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = stderr(&refused);
    assert!(said.contains("PREPOSE_INSTRUCTIONS is \"sse9\""), "{said}");
    assert!(said.contains("avx2") && said.lines().count() == 1, "{said}");
    let listed = with("portable", &["devices", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&stdout(&listed)).unwrap();
    let mut devices = listed["devices"].as_array().unwrap().iter();
    let flex = devices.find(|device| device["device"] == "flex").unwrap();
    assert_eq!(
        (&flex["instructions"], &flex["bf16"]),
        (&"portable".into(), &"widened".into())
    );
    let pictures = ["", "avx2"].map(|instructions| {
        let name = format!("dog{instructions}.png");
        let to = ["--seed", "3", "--device", "flex", "-o", &name];
        let made = with(
            instructions,
            &[&["generate", "a dog", "--steps", "2"], &to[..]].concat(),
        );
        assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
        image::open(folder.path().join(name)).unwrap().into_rgb8()
    });
    let pairs = pictures[0].iter().zip(pictures[1].iter());
    let apart = pairs.map(|(a, b)| a.abs_diff(*b)).max();
    assert!(apart.is_some_and(|apart| apart <= 1), "{apart:?}");
}
