//! `prepose train`: what it leaves, what it refuses, and what is left when it is killed.

mod gligen;
mod half;
mod ip_adapter;
mod kills;
mod recompute;
mod steer;
mod threads;

use std::fs;
use std::path::Path;

use prepose::output::png::read_request;
use serde_json::Value;

use crate::program::{prepose_in, refuses, stderr, stdout, works};

/// Seven pictures of 96 × 64 and 64 × 64 with captions beside them.
fn provide(folder: &Path) {
    let photos = folder.join("photos");
    fs::create_dir_all(&photos).unwrap();
    for number in 0..7u8 {
        let width = if number % 3 == 0 { 96 } else { 64 };
        let picture = image::RgbImage::from_fn(width, 64, |x, y| {
            let inside = (x / 16 + y / 16 + u32::from(number)) % 3 == 0;
            image::Rgb(if inside {
                [250, 40 * number, 30]
            } else {
                [20, 90, 30 * number]
            })
        });
        picture.save(photos.join(format!("{number}.png"))).unwrap();
        let caption = match number {
            2 => "a dog to the left of a cat",
            _ => "a dog and a cat",
        };
        fs::write(photos.join(format!("{number}.txt")), caption).unwrap();
    }
}

/// A training of a few steps on 64 × 64 pixels.
const SMALL: [&str; 14] = [
    "train",
    "lora",
    "photos",
    "--resolution",
    "64",
    "--rank",
    "3",
    "--alpha",
    "2",
    "--batch",
    "2",
    "--device",
    "flex",
    "--rate=1e-2",
];

fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SMALL[..], more].concat()
}

/// The files that decide and those that come out of a LoRA.
const LORA: [&str; 4] = [
    "state.safetensors",
    "lora.safetensors",
    "pytorch_lora_weights.safetensors",
    "log.jsonl",
];

/// What is in files.
fn read(folder: &Path, names: &[&str]) -> Vec<Vec<u8>> {
    let read =
        |name: &&str| fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    names.iter().map(read).collect()
}

/// The pixels of the toybox's picture for `prompt` from noise `seed` in so many steps.
fn picture(
    folder: &Path,
    prompt: &str,
    [seed, steps]: [&str; 2],
    more: &[&str],
    name: &str,
) -> Vec<u8> {
    let args = [
        "generate", prompt, "--size", "64x64", "--device", "flex", "--seed", seed, "--steps",
        steps, "-o", name,
    ];
    works(folder, &[&args, more].concat());
    image::open(folder.join(name))
        .unwrap()
        .into_rgb8()
        .into_raw()
}

#[test]
fn a_lora_is_trained_and_both_its_files_make_the_same_picture() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    let args = small(&[
        "--steps",
        "4",
        "--accumulate",
        "2",
        "--warmup",
        "1",
        "--schedule",
        "cosine",
        "--ema",
        "0.9",
        "--dropout",
        "0.2",
        "--conv-rank",
        "2",
        "--flips",
        "without-sides",
        "--buckets",
        "--sample",
        "a dog and a cat",
        "--sample-steps",
        "1",
        "--out",
        "out",
        "--json",
    ]);
    let told = works(folder, &args);
    let lines: Vec<Value> = told
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |event: &str| {
        lines
            .iter()
            .filter(|line| line["event"] == event)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("data")[0]["pictures"], 7);
    // Seven pictures and six mirror images.
    assert_eq!(of("begun")[0]["samples"], 13);
    let steps = of("step");
    assert_eq!(steps.len(), 4);
    assert_eq!(steps[0]["rate"], 0.0);
    assert!(
        steps
            .iter()
            .all(|step| step["loss"].as_f64().unwrap() > 0.0)
    );
    assert_eq!(of("sample").len(), 2);
    let page = fs::read_to_string(folder.join("out/training.html")).unwrap();
    assert!(
        page.contains("00-000000.png") && page.contains("00-000004.png") && page.contains("<svg")
    );

    let info = works(folder, &["info", "out"]);
    assert!(
        info.contains("LoRA") && info.contains("lora.safetensors"),
        "{info}"
    );
    let picture =
        |more: &[&str], name: &str| picture(folder, "a dog and a cat", ["1", "2"], more, name);
    let plain = picture(&[], "plain.png");
    let kohya = picture(&["--lora", "out/lora.safetensors"], "kohya.png");
    let diffusers = picture(
        &["--lora", "out/pytorch_lora_weights.safetensors"],
        "diffusers.png",
    );
    assert_eq!(kohya, diffusers);
    assert_ne!(kohya, plain);
    let none = picture(&["--lora", "out/lora.safetensors:0"], "none.png");
    assert_eq!(none, plain);

    // It is done; once more changes nothing.
    let before = read(&folder.join("out"), &LORA);
    works(folder, &args);
    assert_eq!(read(&folder.join("out"), &LORA), before);
}

#[test]
fn another_training_is_refused_and_only_what_differs_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    works(folder, &small(&["--steps", "1", "--out", "out"]));
    let before = read(&folder.join("out"), &LORA);
    let output = prepose_in(
        folder,
        &small(&["--steps", "2", "--dropout", "0.5", "--out", "out"]),
    );
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    assert!(
        message.contains("recipe.dropout is 0.0 there and 0.5 here"),
        "{message}"
    );
    assert!(
        message.contains("recipe.steps is 1 there and 2 here"),
        "{message}"
    );
    assert!(
        !message.contains("recipe.seed") && !message.contains("recipe.rate"),
        "{message}"
    );
    // Other captions are another training as well.
    fs::write(folder.join("photos/0.txt"), "a horse").unwrap();
    let output = prepose_in(folder, &small(&["--steps", "1", "--out", "out"]));
    let message = stderr(&output);
    assert!(
        message.contains("data_sha256") && !message.contains("recipe."),
        "{message}"
    );
    assert_eq!(read(&folder.join("out"), &LORA), before);
    // A state that is none is said, and not overwritten.
    fs::write(folder.join("photos/0.txt"), "a dog and a cat").unwrap();
    fs::write(folder.join("out/state.safetensors"), b"half a file").unwrap();
    let output = prepose_in(folder, &small(&["--steps", "1", "--out", "out"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("state.safetensors"));
    assert_eq!(
        fs::read(folder.join("out/state.safetensors")).unwrap(),
        b"half a file"
    );
}

#[test]
fn a_loss_that_is_no_number_stops_it_at_the_last_good_state() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    let args = small(&[
        "--steps",
        "50",
        "--rate",
        "1e6",
        "--clip",
        "0",
        "--keep-every",
        "1",
        "--out",
        "out",
    ]);
    let args: Vec<&str> = args
        .into_iter()
        .filter(|arg| *arg != "--rate=1e-2")
        .collect();
    let output = prepose_in(folder, &args);
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    let message = stderr(&output);
    assert!(
        message.contains(".png") && message.contains("the last good state, of step"),
        "{message}"
    );
    // The state is a whole one, and with it the training ends at the same sample.
    let again = stderr(&prepose_in(folder, &args));
    let said = |text: &str| {
        text.lines()
            .find(|line| line.contains("the loss of step"))
            .unwrap()
            .to_owned()
    };
    assert_eq!(said(&again), said(&message));
    // Where none was kept yet, none is named.
    let other = |arg: &&'static str| match *arg {
        "1" => "50",
        "out" => "new",
        same => same,
    };
    let none: Vec<&str> = args.iter().map(other).collect();
    let message = stderr(&prepose_in(folder, &none));
    assert!(
        message.contains("no state was kept") && !message.contains("state.safetensors"),
        "{message}"
    );
    assert!(!folder.join("new/state.safetensors").exists());
}

#[test]
fn info_says_what_came_out_of_a_training() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let toybox = Path::new(env!("CARGO_MANIFEST_DIR")).join("weights/toybox");
    for (name, file, kind) in [
        ("gligen", "gligen.safetensors", "a file of GLIGEN layers"),
        ("ip-adapter", "ip_adapter.safetensors", "an IP-Adapter"),
        ("steer", "steer.safetensors", "a classifier of relations"),
    ] {
        fs::create_dir(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("training.json"), "{}").unwrap();
        refuses(folder, &["info", name], &[name, "has not ended"]);
        fs::copy(toybox.join(name).join(file), folder.join(name).join(file)).unwrap();
        let told = works(folder, &["info", name]);
        assert!(told.contains(kind), "{told}");
    }
}

#[test]
fn samples_of_another_prompt_are_made_again_and_are_no_data() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    // In the folder of the data, which the same command still finds as they were.
    let sampled = |prompt: &str| {
        let more = [
            "--steps",
            "1",
            "--sample",
            prompt,
            "--sample-steps",
            "1",
            "--out",
            "photos/out",
            "--json",
        ];
        let told = works(folder, &small(&more));
        let lines = told
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["event"] == "sample").count()
    };
    assert_eq!(sampled("a dog"), 2);
    assert_eq!(sampled("a dog"), 0);
    // Before the first step it was another network.
    assert_eq!(sampled("a cat"), 1);
    let made = |name: &str| {
        let path = folder.join("photos/out/samples").join(name);
        read_request(&path).unwrap().prompt
    };
    assert_eq!(made("00-000000.png"), "a dog");
    assert_eq!(made("00-000001.png"), "a cat");
    let page = fs::read_to_string(folder.join("photos/out/training.html")).unwrap();
    assert!(page.contains("a cat after 1 steps") && !page.contains("00-000000.png"));
    assert_eq!(sampled("a cat"), 0);
}

#[test]
fn the_unet_is_trained_into_a_checkpoint_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    let args = [
        "train",
        "unet",
        "photos",
        "--resolution",
        "64",
        "--only",
        "attn2",
        "--steps",
        "2",
        "--rate",
        "1e-3",
        "--device",
        "flex",
        "--optimizer",
        "adafactor",
        "--layout-share",
        "0.5",
        "--offset-noise",
        "0.05",
        "--out",
        "out",
    ];
    works(folder, &args);
    let picture =
        |more: &[&str], name: &str| picture(folder, "a dog and a cat", ["1", "2"], more, name);
    let trained = picture(&["--checkpoint", "out/checkpoint"], "trained.png");
    assert_ne!(trained, picture(&[], "plain.png"));
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    fs::create_dir(folder.join("empty")).unwrap();
    let on = |data: &'static str, more: &[&'static str]| -> Vec<&'static str> {
        let args = [
            "train", "lora", data, "--device", "flex", "--out", "out", "--steps", "1",
        ];
        [&args[..], more].concat()
    };
    refuses(folder, &on("lost", &[]), &["lost"]);
    refuses(
        folder,
        &on("empty", &[]),
        &["nothing to train on in empty", "metadata.jsonl"],
    );
    refuses(
        folder,
        &on("photos", &["--rank", "1000"]),
        &["rank 1000", "smaller of the two"],
    );
    refuses(folder, &on("photos", &["--rank", "0"]), &["rank 0"]);
    for option in ["--methods", "--caption-column"] {
        let told = format!("{option} says nothing of photos");
        refuses(folder, &on("photos", &[option, "x"]), &[told.as_str()]);
    }
    refuses(
        folder,
        &on("photos", &["--resolution", "100"]),
        &["multiples of 8", "100"],
    );
    refuses(
        folder,
        &on("photos", &["--dropout", "2"]),
        &["--dropout is 2"],
    );
    refuses(
        folder,
        &on("photos", &["--rate", "NaN"]),
        &["--rate is NaN"],
    );
    let two = "--betas takes two numbers";
    for (options, told) in [
        (&["--betas", "0.9"][..], two),
        (&["--betas", "0.1,0.2,0.3"], two),
        (
            &["--optimizer", "adafactor", "--betas", "0.9,0.99"],
            "--betas is AdamW's",
        ),
        (
            &["--optimizer", "adafactor", "--eps", "1e-3"],
            "--eps is AdamW's",
        ),
        (&["--verdicts", "FAIL"], "--verdicts says nothing of photos"),
        (&["--conv-alpha", "3"], "--conv-rank or --layers all"),
        (&["--sample-every", "5"], "--sample <PROMPT>"),
        (&["--sample-steps", "5"], "--sample <PROMPT>"),
        (&["--sample-seed", "5"], "--sample <PROMPT>"),
    ] {
        refuses(folder, &on("photos", options), &[told]);
    }
    for [option, value] in [["--alpha", "0"], ["--weight-decay", "NaN"]] {
        let told = format!("{option} is {value}");
        refuses(folder, &on("photos", &[option, value]), &[told.as_str()]);
    }
    refuses(
        folder,
        &on("photos", &["--checkpoint", "nowhere"]),
        &["nowhere"],
    );
    for number in 0..7 {
        fs::remove_file(folder.join(format!("photos/{number}.txt"))).unwrap();
    }
    refuses(
        folder,
        &on("photos", &[]),
        &["it has no caption", "--caption"],
    );
    fs::write(folder.join("photos/3.png"), b"torn").unwrap();
    refuses(
        folder,
        &on("photos", &["--caption", "a dog"]),
        &["1 of 7 pictures", "3.png", "--most-skipped"],
    );
}

#[test]
fn captions_are_exchanged_and_a_folder_has_one_training_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    provide(folder);
    let exchanged = [
        "--flips",
        "exchange",
        "--timesteps",
        "sigmoid",
        "--steps",
        "1",
        "--json",
        "--out",
        "out",
    ];
    let told = works(folder, &small(&exchanged));
    // Each of the seven captions names two things, and can be turned round.
    assert!(told.contains("\"samples\":14"), "{told}");

    let lock = fs::File::options()
        .append(true)
        .open(folder.join("out/lock"))
        .unwrap();
    lock.lock().unwrap();
    let wrong = ["another training is at work in out"];
    refuses(folder, &small(&exchanged), &wrong);
    drop(lock);
    works(folder, &small(&exchanged));

    for number in 0..7 {
        fs::write(folder.join(format!("photos/{number}.txt")), "a dog").unwrap();
    }
    fs::create_dir_all(folder.join("alone")).unwrap();
    refuses(
        folder,
        &small(&["--flips", "exchange", "--steps", "1", "--out", "alone"]),
        &["no caption names two objects", "the first is \"a dog\""],
    );
}
