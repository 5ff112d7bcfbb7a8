//! Runs that get more methods, prompts and seeds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{files, finish, prepose, refused};
use crate::program;
use crate::support::root;

fn run(out: &Path, suite: &str, more: &[&str]) -> std::process::Command {
    let mut command = prepose(&["run", suite, "--steps", "2", "--size", "64", "--out"]);
    command.arg(out).args(more);
    command
}

/// Each step adds something; at its end the run is as one that was as large from the beginning.
#[test]
fn methods_prompts_and_seeds_can_be_added() {
    let folder = tempfile::tempdir().unwrap();
    let (grown, calm) = (folder.path().join("grown"), folder.path().join("calm"));
    let suite = "spatialbench-uc";
    let mut before: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    for (more, told) in [
        (&["--every", "25", "--seeds", "0", "--limit", "2"][..], ""),
        (
            &["--every", "25", "--seeds", "0", "--limit", "4"],
            "of new prompts (2)",
        ),
        (&["--every", "25", "--seeds", "0"], "of new prompts (4)"),
        (
            &[
                "--every",
                "25",
                "--seeds",
                "0-1",
                "--method",
                "pos,prompt-only,gligen",
            ],
            "from new seeds (1)",
        ),
    ] {
        let output = finish(run(&grown, suite, more));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.contains(told), "{more:?}: {errors}");
        let now = files(&grown);
        for (name, bytes) in &before {
            let kept = name.extension().is_some_and(|extension| extension == "png");
            assert!(!kept || now[name] == *bytes, "{}", name.display());
        }
        before = now;
    }
    let all = [
        "--every",
        "25",
        "--seeds",
        "0-1",
        "--method",
        "psg,prompt-only,gligen",
    ];
    finish(run(&calm, suite, &all));
    let calm = files(&calm);
    assert!(before.keys().eq(calm.keys()), "{:?}", before.keys());
    for (name, bytes) in &calm {
        assert!(before[name] == *bytes, "{}", name.display());
    }
    // Less is asked for: what is there stays.
    let output = finish(run(
        &grown,
        suite,
        &["--every", "25", "--seeds", "0", "--limit", "1"],
    ));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        errors.contains("that were not asked for this time"),
        "{errors}"
    );
    assert!(files(&grown) == before);
    let mut command = program::prepose();
    command.arg("verify").arg(&grown);
    finish(command);
}

#[test]
fn prompts_can_be_added_to_a_file_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let prompts = folder.path().join("mine.txt");
    let file = prompts.to_str().unwrap();
    fs::write(&prompts, "a dog to the left of a cat\na cup above a dog\n").unwrap();
    let more = ["--seeds", "0"];
    finish(run(&out, file, &more));
    fs::write(
        &prompts,
        "a dog to the left of a cat\na cup above a dog\na cat to the right of a dog\n",
    )
    .unwrap();
    finish(run(&out, file, &more));
    let manifest = fs::read_to_string(out.join("prompt-only/manifest.jsonl")).unwrap();
    assert_eq!(manifest.lines().count(), 3);
    let before = files(&out);
    fs::write(&prompts, "a dog to the left of a cat\na cup below a dog\n").unwrap();
    let message = refused(run(&out, file, &more));
    let wanted =
        "prompt line-00002, prompt: \"a cup above a dog\" there, \"a cup below a dog\" asked for";
    assert!(message.contains(wanted), "{message}");
    assert!(files(&out) == before);
    // A method of the same name with other settings.
    let methods = folder.path().join("methods.toml");
    fs::write(&prompts, "a dog to the left of a cat\na cup above a dog\n").unwrap();
    for (scale, refused_now) in [("20.0", false), ("40.0", true)] {
        let text = format!(
            "[[method]]\nname = \"mine\"\nguide = {{ method = \"pos\", scale = {scale} }}\n"
        );
        fs::write(&methods, text).unwrap();
        let more = ["--seeds", "0", "--methods", methods.to_str().unwrap()];
        match refused_now {
            false => drop(finish(run(&out, file, &more))),
            true => {
                let message = refused(run(&out, file, &more));
                let wanted = "method mine, guide.scale: 20.0 there, 40.0 asked for";
                assert!(message.contains(wanted), "{message}");
            }
        }
    }
}

/// A method's classifier is what is in its file, not the file's name.
#[test]
fn another_classifier_in_its_place_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (prompts, methods) = (path("mine.txt"), path("methods.toml"));
    fs::write(&prompts, "a dog to the left of a cat\n").unwrap();
    let classifier = path("classifier.safetensors");
    let first = fs::read(root().join("weights/toybox/steer/steer.safetensors")).unwrap();
    fs::write(&classifier, &first).unwrap();
    let guide = format!("{{ method = \"steer\", updates = 1, classifier = {classifier:?} }}");
    let text = format!("[[method]]\nname = \"learned\"\nguide = {guide}\n");
    fs::write(&methods, text).unwrap();
    let out = path("run");
    let command = |seeds: &str| {
        let methods = methods.to_str().unwrap();
        let more = ["--seeds", seeds, "--methods", methods, "--checker", "none"];
        run(&out, prompts.to_str().unwrap(), &more)
    };
    finish(command("0"));
    let before = files(&out);
    // The lowest bit of the last number.
    let mut other = first.clone();
    other[first.len() - 2] ^= 1;
    fs::write(&classifier, &other).unwrap();
    let message = refused(command("0-1"));
    assert!(
        message.contains("method learned, guide.classifier_sha256: "),
        "{message}"
    );
    assert!(files(&out) == before);
    fs::write(&classifier, &first).unwrap();
    finish(command("0"));
}

#[test]
fn prompts_come_from_standard_input() {
    use std::io::Write;
    use std::process::Stdio;
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    for text in [
        "a dog to the left of a cat\n",
        "{\"prompt\": \"a dog to the left of a cat\"}\n",
        "prompt_id,prompt\nline-00001,a dog to the left of a cat\n",
    ] {
        let mut command = run(&out, "-", &["--seeds", "0", "--limit", "1"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        assert!(child.wait().unwrap().success(), "{text}");
        let _ = fs::remove_dir_all(&out);
    }
}

#[test]
fn options_of_generate_are_answered_with_where_to_say_it() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    for (option, wanted) in [
        ("--guide-scale=40", "--methods FILE.toml"),
        ("--guide=pos", "--method prompt-only,pos"),
        ("--best-of=4", "--method best-of-4"),
    ] {
        let message = refused(run(&out, "spatialbench-uc", &[option]));
        assert!(message.contains(wanted), "{message}");
    }
    let message = refused(run(&out, "spatialbench-uc", &["--seeds", "0-999999"]));
    assert!(
        message.contains("more than the 10000000 pictures"),
        "{message}"
    );
    assert!(!out.exists());
}
