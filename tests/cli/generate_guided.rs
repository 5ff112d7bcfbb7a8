//! `prepose generate` with guidance, prompt schedules, searches and attention maps on the built-in toybox, wrong input first.

use std::fs;
use std::path::Path;

use crate::program::{self, prepose_in, stderr, stdout};

/// The command fails with code 2 and one message that contains each of `parts`, in an empty folder that stays empty.
#[track_caller]
fn refuses(args: &[&str], parts: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    program::refuses(folder.path(), args, parts);
}

const PROMPT: &str = "a dog to the left of a cat";

#[test]
fn impossible_guidance_is_refused_before_anything_is_loaded() {
    let guided = |rest: &[&str], parts: &[&str]| {
        refuses(
            &[&["generate", PROMPT, "--steps", "10"], rest].concat(),
            parts,
        );
    };
    guided(&["--guide", "magic"], &["magic", "boxdiff"]);
    guided(&["--guide-steps", "5"], &["--guide"]);
    guided(&["--guide", "pos", "--guide-steps", "11"], &["11", "10"]);
    guided(&["--guide", "pos", "--guide-scale=-1"], &["-1", "positive"]);
    guided(
        &["--guide", "pos", "--guide-resolution", "5"],
        &["5 cells", "8, 16"],
    );
    guided(
        &["--guide", "pos", "--guide-layers", "up_blocks.7"],
        &["up_blocks.7"],
    );
    guided(
        &[
            "--guide",
            "pos",
            "--guide-layers",
            "up_blocks.1.attentions.9",
        ],
        &["up_blocks.1.attentions.9", "up_blocks.1.attentions.0"],
    );
    guided(
        &["--guide", "layout", "--guide-loss", "paper"],
        &["layout", "loss"],
    );
    guided(&["--relation", "dog | left of | zebra"], &["zebra"]);
    guided(&["--relation", "dog | left of | dog"], &["dog"]);
    guided(
        &["--relation", "dog | beside itself | cat"],
        &["beside itself"],
    );
    guided(
        &[
            "--relation",
            "dog | left of | cat",
            "--relation",
            "cat | left of | dog",
        ],
        &["cat", "dog"],
    );
    guided(
        &["--guide", "boxdiff", "--box", "dog: 0,0,2,1"],
        &["not within the picture"],
    );
    guided(
        &["--guide", "boxdiff", "--box", "dog: 0.5,0,0.5,1"],
        &["empty"],
    );
    guided(
        &["--guide", "boxdiff", "--box", "zebra: 0,0,0.5,1"],
        &["zebra"],
    );
    guided(&["--guide", "pos", "--box", "dog: 0,0,0.5,1"], &["box"]);
    refuses(
        &["generate", "a dog and a cat", "--guide", "pos"],
        &["no relation", "left of"],
    );
    refuses(
        &["generate", "a dog behind a cat", "--guide", "pos"],
        &["depth"],
    );
}

#[test]
fn impossible_changes_and_searches_are_refused_before_anything_is_loaded() {
    let changed = |rest: &[&str], parts: &[&str]| {
        refuses(
            &[&["generate", PROMPT, "--steps", "10"], rest].concat(),
            parts,
        );
    };
    changed(&["--switch-to", "a cat"], &["--switch-at"]);
    changed(&["--switch-to", "a cat", "--switch-at", "10"], &["1 to 9"]);
    changed(&["--switch-to", " ", "--switch-at", "3"], &["empty"]);
    changed(&["--delay-order", "0"], &["1 to 9"]);
    changed(&["--neutral-prompt", "two animals"], &["--delay-order"]);
    changed(
        &["a [dog:cat:12] and a bird", "--delay-order", "2"],
        &["changes after step 12", "10 steps"],
    );
    refuses(
        &["generate", "a [dog:cat:12]", "--steps", "10"],
        &["12", "10 steps"],
    );
    refuses(
        &["generate", "a quiet evening", "--delay-order", "2"],
        &["--neutral-prompt"],
    );
    // "two animals" would be those of neither part.
    refuses(
        &["generate", "a dog AND a cat :0.7", "--delay-order", "2"],
        &["\"a dog\" names one object", "--neutral-prompt"],
    );
    changed(&["--best-of", "0"], &["at least 1"]);
    changed(&["--best-of", "4", "--prune=3,3"], &["ascend"]);
    changed(&["--best-of", "4", "--prune=10"], &["at most 9"]);
    changed(&["--prune"], &["--best-of"]);
    refuses(
        &["generate", "a dog and a cat", "--best-of", "4"],
        &["no relation"],
    );
    changed(
        &["--attention-maps", "maps", "--attention-words", "zebra"],
        &["zebra"],
    );
    changed(
        &["--attention-maps", "maps", "--attention-layers", "attic"],
        &["attic", "mid_block"],
    );
    changed(
        &["--attention-maps", "maps", "--attention-heads", "99,100"],
        &["--attention-heads", "heads 0 to"],
    );
}

/// The numbers of a JSON line.
fn line(text: &str) -> serde_json::Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[test]
fn a_search_keeps_the_best_and_says_how_it_was_found() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let output = prepose_in(folder.path(), &[&["-q", "generate", PROMPT], args].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let short = ["--steps", "6", "--seed", "1", "--json"];
    let all = run(&[
        &short[..],
        &["--best-of", "4", "--batch", "3", "--keep-all", "-o", "all"],
    ]
    .concat());
    let all: Vec<_> = all.lines().map(line).collect();
    assert_eq!(all.len(), 4);
    let score = |i: usize| all[i]["score"].as_f64().unwrap();
    assert!(
        (0..3).all(|i| score(i) > score(i + 1)),
        "best first, and no two alike"
    );
    assert_eq!(all[0]["unet_calls"], 24);

    // The winner is the picture of its seed, and can be made again.
    let seed = all[0]["seed"].to_string();
    run(&["--steps", "6", "--seed", &seed, "-o", "plain.png"]);
    let pixels = |path: &Path| image::open(folder.path().join(path)).unwrap().into_rgb8();
    let best = Path::new(all[0]["path"].as_str().unwrap());
    let difference = |a: &image::RgbImage, b: &image::RgbImage| {
        let pairs = a.iter().zip(b.iter());
        pairs.map(|(a, b)| a.abs_diff(*b)).max().unwrap()
    };
    assert!(difference(&pixels(best), &pixels(Path::new("plain.png"))) <= 1);
    let best = best.to_str().unwrap();
    let output = prepose_in(
        folder.path(),
        &["-q", "generate", "--again", best, "-o", "again.png"],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(difference(&pixels(Path::new(best)), &pixels(Path::new("again.png"))) <= 1);

    // Pruned, the same candidates cost less, and fewer are finished.
    let few = run(&[
        &short[..],
        &["--best-of", "4", "--prune=1,3", "--keep-all", "-o", "few"],
    ]
    .concat());
    let few: Vec<_> = few.lines().map(line).collect();
    assert_eq!(few.len(), 1);
    assert_eq!(few[0]["unet_calls"], 4 + 2 * 2 + 3);
    assert!(all.iter().any(|line| line["seed"] == few[0]["seed"]));
}

#[test]
fn attention_maps_are_written_beside_a_guided_picture() {
    let folder = tempfile::tempdir().unwrap();
    let args = [
        "-q", "generate", PROMPT, "--steps", "4", "--seed", "1", "--guide", "pos", "-o", "a.png",
    ];
    let maps = ["--attention-maps", "maps", "--attention-every", "2"];
    let output = prepose_in(folder.path(), &[&args[..], &maps].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let mut names: Vec<_> = fs::read_dir(folder.path().join("maps"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["a-cat.png", "a-dog.png", "a-steps.png", "a.safetensors"]
    );
    let bytes = fs::read(folder.path().join("maps/a.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.tensor("maps").unwrap().shape(), [2, 2, 16, 16]);
}
