//! Folders of pictures, named as benchmarks name them.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{engine, four, same};
use crate::program::{prepose_in, stderr, works};
use crate::run::{finish, refused};

/// Copies the engine's pictures to the names that `name` gives them: of the prompt's id, its number, its text and the
/// seed.
pub fn lay_out(root: &Path, name: impl Fn(&str, u64, &str, u64) -> String) {
    for (id, prompt, seed, path) in &engine().pictures {
        let number = id.rsplit('_').next().unwrap().parse().unwrap();
        let to = root.join(name(id, number, prompt, *seed));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(path, to).unwrap();
    }
}

#[test]
fn pictures_in_every_layout_come_to_what_the_engines_run_came_to() {
    let folder = tempfile::tempdir().unwrap();
    let root = |name: &str| folder.path().join(name);
    lay_out(&root("visor"), |_, number, _, seed| {
        format!("{number}_{seed}.png")
    });
    lay_out(&root("geneval"), |_, number, _, seed| {
        format!("{number:05}/samples/{seed:04}.png")
    });
    lay_out(&root("t2i-compbench"), |_, _, prompt, seed| {
        format!("{prompt}_{:06}.png", seed + 40)
    });
    lay_out(&root("own"), |id, _, _, seed| format!("{seed}/{id}.png"));
    lay_out(&root("manifest"), |id, _, _, seed| {
        format!("images/x{id}-{seed}.png")
    });
    let line = |(id, prompt, seed, _): &(String, String, u64, _)| {
        let path = format!("images/x{id}-{seed}.png");
        json!({"prompt_id": id, "prompt": prompt, "image_path": path, "gen_params": {"seed": seed}})
            .to_string()
            + "\n"
    };
    let lines: String = engine().pictures.iter().map(line).collect();
    fs::write(root("manifest").join("manifest.jsonl"), lines).unwrap();
    for (name, layout) in [
        ("visor", &["--layout", "visor"][..]),
        ("geneval", &["--layout", "geneval"]),
        ("t2i-compbench", &["--layout", "t2i-compbench"]),
        ("own", &["--name-template", "{seed}/{prompt_id}.png"]),
        // A manifest is found by itself.
        ("manifest", &[]),
    ] {
        let run = folder.path().join(format!("run-{name}"));
        let pictures = root(name);
        let more = [&["--pictures", pictures.to_str().unwrap()], layout].concat();
        finish(four(&run, &more));
        same(&run, &engine().run);
        let config: Value =
            serde_json::from_slice(&fs::read(run.join("run.json")).unwrap()).unwrap();
        assert_eq!(config["source"]["kind"], "pictures");
        assert_eq!(config["source"]["name"], name);
        // Where each picture comes from is beside it.
        let (id, ..) = &engine().pictures[0];
        let origin = run.join(format!("prompt-only/origin/prompt-only_{id}_seed0000.json"));
        let origin: Value = serde_json::from_slice(&fs::read(origin).unwrap()).unwrap();
        assert!(
            root(name).join(origin["file"].as_str().unwrap()).is_file(),
            "{origin}"
        );
    }
    // Shards of it, joined.
    let (visor, sharded) = (root("visor"), root("sharded"));
    for shard in ["0/2", "1/2"] {
        let more = [
            "--pictures",
            visor.to_str().unwrap(),
            "--layout",
            "visor",
            "--shard",
            shard,
        ];
        finish(four(&sharded, &more));
    }
    let joined = root("joined");
    let mut merge = crate::program::prepose();
    merge.arg("merge").arg(&sharded).arg("--out").arg(&joined);
    finish(merge);
    same(&joined, &engine().run);
}

#[test]
fn one_picture_a_prompt_is_a_layout_too() {
    let folder = tempfile::tempdir().unwrap();
    let (root, run) = (folder.path().join("p"), folder.path().join("run"));
    lay_out(&root, |_, number, _, seed| match seed {
        0 => format!("{number:06}.png"),
        _ => format!("other/{number}.png"),
    });
    let pictures = [
        "--pictures",
        root.to_str().unwrap(),
        "--layout",
        "spatialgeneval",
    ];
    let error = refused(four(&run, &pictures));
    assert!(
        error
            .contains("the layout spatialgeneval has one picture of each prompt, but 2 are wanted"),
        "{error}"
    );
    let mut command = four(&run, &pictures);
    command.args(["--seeds", "0"]);
    // The later of two --seeds would be refused.
    let error = refused(command);
    assert!(error.contains("--seeds"), "{error}");
    let mut command = crate::run::prepose(&super::FOUR);
    command
        .args(["--seeds", "0", "--out"])
        .arg(&run)
        .args(pictures);
    finish(command);
    let ours = fs::read_to_string(run.join("prompt-only/eval/per_sample.jsonl")).unwrap();
    let theirs =
        fs::read_to_string(engine().run.join("prompt-only/eval/per_sample.jsonl")).unwrap();
    let first: Vec<&str> = theirs
        .lines()
        .filter(|line| line.contains("_seed0000"))
        .collect();
    assert_eq!(ours.lines().collect::<Vec<_>>(), first);
}

#[test]
fn what_is_missing_is_told_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (root, run) = (folder.path().join("p"), folder.path().join("run"));
    lay_out(&root, |_, number, _, seed| format!("{number}_{seed}.png"));
    let names: Vec<_> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let taken = folder.path().join("taken");
    fs::create_dir(&taken).unwrap();
    for path in &names[..3] {
        fs::rename(path, taken.join(path.file_name().unwrap())).unwrap();
    }
    let pictures = ["--pictures", root.to_str().unwrap(), "--layout", "visor"];
    let error = refused(four(&run, &pictures));
    assert!(
        error.contains("lacks 3 of 8 pictures: v1_0")
            && error.contains("--partial begins with those"),
        "{error}"
    );
    assert!(!run.exists());
    finish(four(&run, &[&pictures[..], &["--partial"]].concat()));
    let samples = fs::read_dir(run.join("prompt-only/samples"))
        .unwrap()
        .count();
    assert_eq!(samples, 5);
    // More pictures come; those that are done need not be there any more.
    for path in &names[3..] {
        fs::remove_file(path).unwrap();
    }
    for path in &names[..3] {
        fs::rename(taken.join(path.file_name().unwrap()), path).unwrap();
    }
    finish(four(&run, &pictures));
    same(&run, &engine().run);
    let empty = ["--pictures", taken.to_str().unwrap(), "--layout", "visor"];
    let error = refused(four(&folder.path().join("none"), &empty));
    assert!(
        error.contains("lacks 8 of 8") && error.contains("are its files named as"),
        "{error}"
    );
}

/// A run that grows: each seed keeps the number of its picture.
#[test]
fn pictures_that_are_counted_keep_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("one.txt"), "a dog to the left of a cat\n").unwrap();
    fs::create_dir_all(at.join("pics/line-00001")).unwrap();
    for number in 0..4u8 {
        let picture = image::RgbImage::from_pixel(8, 8, image::Rgb([number * 50, 9, 9]));
        let name = format!("pics/line-00001/{number}.png");
        picture.save(at.join(name)).unwrap();
    }
    let run = |seeds: &'static str, out: &'static str| {
        [
            "-q",
            "run",
            "one.txt",
            "--pictures",
            "pics",
            "--name-template",
            "{prompt_id}/{index}.png",
            "--checker",
            "none",
            "--seeds",
            seeds,
            "--out",
            out,
        ]
    };
    works(at, &run("2-3", "grown"));
    works(at, &run("0-3", "grown"));
    for (seed, number) in [(2, 0), (3, 1), (0, 2), (1, 3)] {
        let name = format!("grown/prompt-only/origin/prompt-only_line-00001_seed000{seed}.json");
        let origin: Value = serde_json::from_slice(&fs::read(at.join(name)).unwrap()).unwrap();
        assert_eq!(origin["file"], format!("line-00001/{number}.png"));
    }
    works(at, &["-q", "verify", "grown"]);
    // Those of the new seeds would be 4 to 7.
    works(at, &run("0-3", "whole"));
    let output = prepose_in(at, &run("4-7", "whole"));
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("lacks 4 of 4 pictures: line-00001 (picture 4)"),
        "{error}"
    );
    let config = fs::read_to_string(at.join("whole/run.json")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["seeds"], json!([0, 1, 2, 3]));
}

#[test]
fn sizes_and_formats_may_be_mixed_and_what_is_no_picture_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (root, run) = (folder.path().join("p"), folder.path().join("run"));
    lay_out(&root, |_, number, _, seed| format!("{number}_{seed}.png"));
    let mut names: Vec<_> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    let open = |path: &Path| image::open(path).unwrap().to_rgb8();
    let wide = image::imageops::resize(
        &open(&names[0]),
        300,
        200,
        image::imageops::FilterType::Triangle,
    );
    wide.save(names[0].with_extension("jpg")).unwrap();
    fs::remove_file(&names[0]).unwrap();
    let exact = open(&names[1]);
    exact.save(names[1].with_extension("webp")).unwrap();
    fs::remove_file(&names[1]).unwrap();
    let pictures = ["--pictures", root.to_str().unwrap(), "--layout", "visor"];
    finish(four(&run, &pictures));
    let manifest = fs::read_to_string(run.join("prompt-only/manifest.jsonl")).unwrap();
    let sizes: Vec<Value> = manifest
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let wide: Vec<&Value> = sizes
        .iter()
        .filter(|line| line["gen_params"]["width"] == 300)
        .collect();
    assert_eq!(
        (wide.len(), &wide[0]["gen_params"]["height"]),
        (1, &json!(200))
    );
    // A picture that another format held exactly has the same records.
    let records = |run: &Path| -> HashMap<String, String> {
        let text = fs::read_to_string(run.join("prompt-only/eval/per_sample.jsonl")).unwrap();
        let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["sample_id"].to_string();
        text.lines()
            .map(|line| (id(line), line.to_owned()))
            .collect()
    };
    let (ours, theirs) = (records(&run), records(&engine().run));
    let different = ours
        .iter()
        .filter(|(id, line)| theirs[*id] != **line)
        .count();
    assert!(different <= 1, "{different}");
    // Something else.
    fs::write(&names[2], b"no picture").unwrap();
    let other = folder.path().join("other");
    let error = refused(four(&other, &pictures));
    let name = names[2].file_name().unwrap().to_str().unwrap();
    assert!(
        error.contains("is not a picture") && error.contains(name),
        "{error}"
    );
}

/// A picture of nothing and one of the engine's: a search takes the better one.
#[test]
fn the_best_of_several_pictures_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let (root, run) = (folder.path().join("p"), folder.path().join("run"));
    lay_out(&root, |_, number, _, seed| {
        format!("{number}_{}.png", 2 * seed + 1)
    });
    for (id, _, seed, _) in &engine().pictures {
        let number: u64 = id.rsplit('_').next().unwrap().parse().unwrap();
        image::RgbImage::new(64, 64)
            .save(root.join(format!("{number}_{}.png", 2 * seed)))
            .unwrap();
    }
    let methods = folder.path().join("methods.toml");
    fs::write(
        &methods,
        "[[method]]\nname = \"best\"\nsearch = { best_of = 2, reward = \"pse\" }\n",
    )
    .unwrap();
    let pictures = [
        "--pictures",
        root.to_str().unwrap(),
        "--layout",
        "visor",
        "--methods",
        methods.to_str().unwrap(),
    ];
    finish(four(&run, &pictures));
    let scores = |run: &Path, method: &str| -> Vec<Value> {
        let text = fs::read_to_string(run.join(method).join("eval/scores.jsonl")).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let (ours, theirs) = (scores(&run, "best"), scores(&engine().run, "prompt-only"));
    let mut better = 0;
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours["candidates"], 2);
        let pse = |line: &Value| line["pse"].as_f64().unwrap_or(0.0);
        if pse(theirs) > 0.0 {
            assert_eq!(pse(ours), pse(theirs));
            better += 1;
        }
    }
    assert!(
        better > 0,
        "no picture of the engine scores anything: {theirs:?}"
    );
}

#[test]
fn wrong_input_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (root, run) = (folder.path().join("p"), folder.path().join("run"));
    lay_out(&root, |_, number, _, seed| format!("{number}_{seed}.png"));
    let root = root.to_str().unwrap();
    for (more, wanted) in [
        (
            &["--pictures", root][..],
            "--pictures needs --layout or --name-template",
        ),
        (
            &["--pictures", "/no/such", "--layout", "visor"],
            "/no/such cannot be used as a folder of pictures",
        ),
        (
            &["--pictures", root, "--layout", "viso"],
            "there are manifest, geneval, t2i-compbench, visor, spatialgeneval",
        ),
        (
            &["--pictures", root, "--name-template", "{index}.png"],
            "does not say which prompt a picture is of",
        ),
        (
            &["--pictures", root, "--layout", "visor", "--steps", "3"],
            "--steps is about making pictures here, but the pictures are there already",
        ),
        (
            &["--pictures", root, "--layout", "visor", "--checkpoint", "x"],
            "--checkpoint is about making pictures here",
        ),
        (
            &["--pictures", root, "--layout", "visor", "-m", "psg"],
            "psg guides the network from inside",
        ),
        (
            &["--pictures", root, "--layout", "visor", "-m", "best-of-2"],
            "scores candidates by where the network looks",
        ),
        (
            &["--pictures", root, "--layout", "visor", "--maker", "x"],
            "cannot be used with",
        ),
        (&["--layout", "visor"], "--pictures"),
        (&["--endpoint-model", "m"], "--endpoint"),
    ] {
        let error = refused(four(&run, more));
        assert!(error.contains(wanted), "{more:?}: {error}");
        assert!(!run.exists(), "{more:?}");
    }
    // A run of other pictures.
    let visor = ["--pictures", root, "--layout", "visor"];
    finish(four(&run, &visor));
    let error = refused(four(
        &run,
        &[
            "--pictures",
            root,
            "--layout",
            "visor",
            "--source-name",
            "other",
        ],
    ));
    assert!(
        error.contains("name: \"p\" there, \"other\" asked for"),
        "{error}"
    );
    let error = refused(four(&run, &["--steps", "2"]));
    assert!(
        error.contains("source: ") && error.contains("not given asked for"),
        "{error}"
    );
    let mut verify = crate::program::prepose();
    verify.arg("verify").arg(&run);
    finish(verify);
    // What is damaged comes again by the same command.
    let before = super::results(&run);
    let (id, ..) = &engine().pictures[0];
    fs::write(
        run.join(format!("prompt-only/origin/prompt-only_{id}_seed0000.json")),
        "x",
    )
    .unwrap();
    fs::write(
        run.join(format!("prompt-only/images/prompt-only_{id}_seed0001.png")),
        "x",
    )
    .unwrap();
    finish(four(&run, &visor));
    assert_eq!(super::results(&run), before);
    let mut verify = crate::program::prepose();
    verify.arg("verify").arg(&run);
    finish(verify);
}

/// Blank pictures lose against the engine's; what is drawn is kept, and is not made again.
#[test]
fn the_best_of_several_sources_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    lay_out(&path("good"), |_, number, _, seed| {
        format!("{number}_{seed}.png")
    });
    lay_out(&path("blank"), |_, number, _, seed| {
        format!("{number}_{seed}.png")
    });
    for entry in fs::read_dir(path("blank")).unwrap() {
        image::RgbImage::new(64, 64)
            .save(entry.unwrap().path())
            .unwrap();
    }
    let arm = |name: &str| {
        format!(
            "{name} --pictures '{}' --layout visor",
            path(name).display()
        )
    };
    let opse = |arms: &[String], more: &str| {
        let mut command = crate::program::prepose();
        command
            .args([
                "opse",
                "spatialbench-uc",
                "--rounds",
                "12",
                "--batch",
                "2",
                "--of",
                "pse",
                "--json",
                "--out",
            ])
            .arg(path("out"));
        for arm in arms {
            command.args(["--arm", arm]);
        }
        let common = format!("--every 50 --seeds 0-1 --device flex {more}");
        command.args(["--common", &common]);
        command
    };
    let arms = [arm("blank"), arm("good")];
    let told = |command| -> Value { serde_json::from_slice(&finish(command).stdout).unwrap() };
    let first = told(opse(&arms, ""));
    assert_eq!(first["best"], "good", "{first}");
    assert_eq!(first["arms"][0]["mean"], 0.0);
    assert!(first["arms"][1]["mean"].as_f64() > Some(0.0), "{first}");
    assert_eq!(first["chosen"].as_array().unwrap().len(), 12);
    let again = told(opse(&arms, ""));
    assert_eq!(again["chosen"], first["chosen"]);
    assert_eq!(
        (&again["arms"][0]["made"], &again["arms"][1]["made"]),
        (&json!(0), &json!(0))
    );
    for (arms, more, wanted) in [
        (
            &["flux".to_owned()][..],
            "",
            "does not say where its pictures come from",
        ),
        (
            &[arm("good"), arm("good")],
            "",
            "there are two arms called good",
        ),
        (
            &["a/b --maker x".to_owned()],
            "",
            "--arm must begin with a name of letters",
        ),
        (
            &["a --no-such".to_owned()],
            "",
            "--arm a: unexpected argument '--no-such'",
        ),
        (
            &[arm("good")],
            "--checker none",
            "but there is no checker (--checker none)",
        ),
    ] {
        let error = refused(opse(arms, more));
        assert!(error.contains(wanted), "{error}");
    }
}
