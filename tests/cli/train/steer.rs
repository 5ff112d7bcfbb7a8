//! `prepose train steer`: a classifier, its folder, and what is refused.

use std::fs;
use std::path::Path;

use super::kills::survives;
use crate::program::{prepose_in, refuses, stderr, works};

/// Prompts of pairs that SpatialBench-UC does not have, of a run with `count` pictures.
fn pairs(folder: &Path, count: usize) {
    let words = ["to the left of", "to the right of", "above", "below"];
    let objects = ["dog", "apple", "pizza", "boat", "clock", "cake"];
    let mut lines = String::new();
    for number in 0..count {
        let [one, other] = [objects[number % 6], objects[(number + 1 + number / 6) % 6]];
        if one != other {
            lines += &format!("A photo of a {one} {} a {other}.\n", words[number % 4]);
        }
    }
    fs::write(folder.join("pairs.txt"), lines).unwrap();
    works(
        folder,
        &[
            "run",
            "pairs.txt",
            "--seeds",
            "0",
            "--steps",
            "10",
            "--guidance-scale",
            "3",
            "--method",
            "psg",
            "--device",
            "flex",
            "--out",
            "pairs",
        ],
    );
}

/// A training on the run of [`pairs`], whose maps are shared.
fn small(out: &'static str, more: &[&'static str]) -> Vec<&'static str> {
    let words = [
        "train",
        "steer",
        "--pictures",
        "pairs",
        "--leave-out",
        "ots-correctness",
        "--timesteps",
        "881,481",
        "--width",
        "16",
        "--train-batch",
        "8",
        "--keep-every",
        "2",
        "--device",
        "flex",
        "--cache",
        "maps",
        "--out",
        out,
    ];
    [&words[..], more].concat()
}

/// A classifier is trained on what a run's checker saw, goes on after a stop with the same bytes, and guides.
#[test]
fn a_classifier_is_trained_resumed_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    pairs(folder, 30);
    works(folder, &small("whole", &["--train-steps", "4"]));
    let steer = fs::read(folder.join("whole/steer.safetensors")).unwrap();
    let tried = fs::read_to_string(folder.join("whole/tried.jsonl")).unwrap();
    assert_eq!(tried.lines().count(), 2);
    assert!(folder.join("whole/training.html").exists());

    // As a kill after the third step leaves it, one that was kept before: the log is longer than the state.
    fs::create_dir(folder.join("again")).unwrap();
    for name in ["training.json", "log.jsonl", "tried.jsonl"] {
        fs::copy(
            folder.join("whole").join(name),
            folder.join("again").join(name),
        )
        .unwrap();
    }
    works(folder, &small("again", &["--train-steps", "4"]));
    assert_eq!(
        fs::read(folder.join("again/steer.safetensors")).unwrap(),
        steer
    );
    assert_eq!(
        fs::read_to_string(folder.join("again/tried.jsonl")).unwrap(),
        tried
    );

    // Or as many kills leave it; its maps are recorded.
    let files = [
        "state.safetensors",
        "steer.safetensors",
        "log.jsonl",
        "tried.jsonl",
    ];
    survives(folder, |out| small(out, &["--train-steps", "8"]), 3, &files);

    let output = prepose_in(
        folder,
        &small("whole", &["--train-steps", "4", "--no-wrong-words"]),
    );
    assert_eq!(output.status.code(), Some(2));
    let message = stderr(&output);
    assert!(
        message.contains("recipe.wrong_words is true there and false here"),
        "{message}"
    );

    let picture = |guide: &str, name: &str| {
        works(
            folder,
            &[
                "generate",
                "a photo of a dog above a pizza",
                "--steps",
                "4",
                "--device",
                "flex",
                "--guide",
                guide,
                "--steer",
                "whole/steer.safetensors",
                "-o",
                name,
            ],
        );
        fs::read(folder.join(name)).unwrap()
    };
    assert_ne!(
        picture("steer", "steer.png"),
        picture("steer+psg", "both.png")
    );
    refuses(
        folder,
        &[
            "generate",
            "a dog near a cat",
            "--guide",
            "steer",
            "--steer",
            "whole/steer.safetensors",
        ],
        &["left, right, above, below", "near"],
    );
    refuses(
        folder,
        &[
            "generate",
            "a dog above a cat",
            "--guide",
            "steer",
            "--steer",
            "pairs/run.json",
        ],
        &["run.json"],
    );
    refuses(
        folder,
        &[
            "generate",
            "a dog above a cat",
            "--guide",
            "pos",
            "--steer",
            "whole/steer.safetensors",
        ],
        &["steer"],
    );
    // Nobody saw anything, or too little.
    fs::write(folder.join("few.txt"), "A photo of a dog above a pizza.\n").unwrap();
    works(
        folder,
        &[
            "run", "few.txt", "--seeds", "0", "--steps", "2", "--device", "flex", "--out", "few",
        ],
    );
    refuses(
        folder,
        &["train", "steer", "--pictures", "few", "--out", "none"],
        &["clearly show", "--most-pictures"],
    );
    refuses(
        folder,
        &["train", "steer", "--pictures", "nowhere", "--out", "none"],
        &["nowhere"],
    );
    let at_most = |number: &'static str| {
        [
            "train",
            "steer",
            "--most-pictures",
            number,
            "--seeds",
            "0-3",
            "--steps",
            "1",
            "--train-steps",
            "1",
            "--device",
            "flex",
            "--out",
            "made",
        ]
    };
    refuses(
        folder,
        &at_most("3"),
        &["--most-pictures is 3", "at least 4"],
    );
    // Seven would be one prompt's pictures and three of another's. They show nothing yet.
    prepose_in(folder, &at_most("7"));
    let made = folder.join("made/pictures/prompt-only/manifest.jsonl");
    assert_eq!(fs::read_to_string(made).unwrap().lines().count(), 4);
    refuses(
        folder,
        &[
            "train",
            "steer",
            "--pictures",
            "pairs",
            "--timesteps",
            "1,881",
            "--out",
            "none",
        ],
        &["--timesteps", "fall"],
    );
}
