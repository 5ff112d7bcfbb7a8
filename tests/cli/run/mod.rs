//! `prepose run`: what it writes, what it refuses, and what is left when it is killed.

mod boxes;
mod damage;
mod growth;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use prepose::check::spatialbench::read_records;
use prepose::sampling::noise::NoiseSource;
use serde_json::Value;

use crate::program;

pub(crate) fn prepose(arguments: &[&str]) -> Command {
    let mut command = program::prepose();
    command.args([arguments[0], "--device", "flex"]);
    command.args(&arguments[1..]);
    command
}

/// A small run of two methods into `out`.
fn small(out: &Path, more: &[&str]) -> Command {
    let mut command = prepose(&["run", "spatialbench-uc", "--steps", "2", "--batch", "4"]);
    command
        .args(["--method", "prompt-only,psg", "--out"])
        .arg(out);
    command.args(more);
    command
}

pub(crate) fn finish(mut command: Command) -> Output {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    output
}

/// The one message of a command that fails.
pub(crate) fn refused(mut command: Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert_eq!(errors.matches("error: ").count(), 1, "{errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    errors
}

/// Every file of a run but for its provenance; without what tells when and how fast.
pub(crate) fn files(run: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, found),
                false => found.push(path),
            }
        }
    }
    let mut found = Vec::new();
    walk(run, &mut found);
    let mut files = BTreeMap::new();
    for path in found {
        let name = path.strip_prefix(run).unwrap().to_path_buf();
        // Digests tell of times too.
        if name.starts_with("provenance") || name == Path::new("digests.jsonl") {
            continue;
        }
        let mut bytes = fs::read(&path).unwrap();
        if name.extension().is_some_and(|extension| extension != "png") {
            let text = String::from_utf8(bytes).unwrap();
            bytes = text.lines().map(timeless).collect::<String>().into_bytes();
        }
        files.insert(name, bytes);
    }
    files
}

/// A line without its times.
fn timeless(line: &str) -> String {
    let mut line = line.to_string();
    for key in ["\"timestamp_utc\": ", "\"seconds\": "] {
        if let Some(at) = line.find(key) {
            let from = at + key.len();
            let len = line[from..].find([',', '}']).unwrap_or(line.len() - from);
            line.replace_range(from..from + len, "0");
        }
    }
    line + "\n"
}

#[test]
fn a_run_is_complete_and_like_a_released_one() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let more = [
        "--every",
        "50",
        "--seeds",
        "0-1",
        "--save-attention-maps",
        "--json",
    ];
    let output = finish(small(&run, &more));
    let told: Vec<Value> = (String::from_utf8(output.stdout).unwrap().lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(told.len(), 16);
    assert_eq!(told[0]["sample_id"], "prompt-only_v1_000000_seed0000");
    assert_eq!(told[0]["prompt"], "A photo of a cake to the left of a bed.");
    for line in &told {
        assert!(Path::new(line["path"].as_str().unwrap()).exists(), "{line}");
        assert!(
            line["verdict"].is_string() && line["confidence"].is_number(),
            "{line}"
        );
        let undecidable = line["verdict"] == "UNDECIDABLE";
        assert_eq!(line["reason"].is_string(), undecidable, "{line}");
    }
    for method in ["prompt-only", "psg"] {
        let text = |name: &str| fs::read_to_string(run.join(method).join(name)).unwrap();
        let manifest = text("manifest.jsonl");
        assert_eq!(manifest.lines().count(), 8);
        let line: Value = serde_json::from_str(manifest.lines().next().unwrap()).unwrap();
        assert_eq!(line["object_a"], "cake");
        assert_eq!(line["relation"], "left_of");
        assert!(
            run.join(method)
                .join(line["image_path"].as_str().unwrap())
                .exists()
        );
        let records = read_records(&text("eval/per_sample.jsonl")).unwrap();
        assert_eq!(records.len(), 8);
        let metrics: Value = serde_json::from_str(&text("eval/metrics.json")).unwrap();
        assert_eq!(metrics["total_samples"], 8);
        assert_eq!(text("eval/scores.jsonl").lines().count(), 8);
        let maps = fs::read_dir(run.join(method).join("maps")).unwrap();
        assert_eq!(maps.count(), 16);
    }
    // A picture of the run is the one that `generate` makes.
    let alone = folder.path().join("alone.png");
    finish({
        let mut command = prepose(&[
            "generate",
            "A photo of a cake to the left of a bed.",
            "--steps",
            "2",
        ]);
        command
            .args(["--seed", "1", "--guide", "pos", "-o"])
            .arg(&alone);
        command
    });
    let pixels = |path: &Path| image::open(path).unwrap().to_rgb8();
    let there = run.join("psg/images/psg_v1_000000_seed0001.png");
    let (a, b) = (pixels(&alone), pixels(&there));
    let worst = a.iter().zip(b.iter()).map(|(a, b)| a.abs_diff(*b)).max();
    assert!(worst <= Some(1), "{worst:?}");
    // Again, there is nothing to do; checked again by the other command, the verdicts are the same.
    let before = files(&run);
    finish(small(
        &run,
        &["--every", "50", "--seeds", "0-1", "--save-attention-maps"],
    ));
    assert_eq!(files(&run), before);
    finish({
        let mut command = prepose(&["check"]);
        command
            .arg("--manifest")
            .arg(run.join("psg/manifest.jsonl"))
            .arg("--out")
            .arg(folder.path().join("again"));
        command
    });
    let verdicts = |path: PathBuf| -> Vec<_> {
        let records = read_records(&fs::read_to_string(path).unwrap()).unwrap();
        records
            .into_iter()
            .map(|record| (record.sample_id, record.verdict_raw, record.conf))
            .collect()
    };
    assert_eq!(
        verdicts(run.join("psg/eval/per_sample.jsonl")),
        verdicts(folder.path().join("again/per_sample.jsonl"))
    );
}

/// Fifty kills at random instants, then once to the end: every file is as if nothing had happened.
#[test]
fn kills_leave_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (calm, killed) = (folder.path().join("calm"), folder.path().join("killed"));
    let more = ["--every", "2", "--seeds", "0-1", "--size", "64"];
    let started = Instant::now();
    finish(small(&calm, &more));
    let whole = started.elapsed();

    // From before the first file to a twentieth of the run, so that it is not over before the last of the 50 kills.
    let latest = (whole / 20).max(Duration::from_millis(400));
    let random = NoiseSource::new(Default::default(), 5).randn(50);
    let mut running = 0;
    for number in random {
        let share = 0.5 * (9.0 * f64::from(number)).sin() + 0.5;
        let mut child = small(&killed, &more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(latest.mul_f64(share));
        running += usize::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    println!("{running} of 50 kills hit the run, which takes {whole:.1?}");
    assert!(running >= 25, "only {running} of 50 kills hit the run");
    finish(small(&killed, &more));
    let (calm, killed) = (files(&calm), files(&killed));
    let names = |files: &BTreeMap<PathBuf, _>| files.keys().cloned().collect::<Vec<_>>();
    // Files that were being written when a kill came are left beside their place, hidden.
    let left = |name: &PathBuf| {
        name.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with(".prepose-")
    };
    let whole: BTreeMap<_, _> = killed.into_iter().filter(|(name, _)| !left(name)).collect();
    assert_eq!(names(&whole), names(&calm));
    for (name, bytes) in calm {
        assert!(whole[&name] == bytes, "{}", name.display());
    }
}

#[test]
fn wrong_input_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let run = |suite: &str, more: &[&str]| {
        let mut command = prepose(&["run", suite, "--steps", "2", "--out"]);
        command.arg(&out).args(more);
        refused(command)
    };
    let methods = folder.path().join("methods.toml");
    fs::write(&methods, "[[method]]\nname = \"x\"\nguid = 3\n").unwrap();
    let prompts = folder.path().join("prompts.txt");
    fs::write(&prompts, "a dog to the left of a spaceship\n").unwrap();
    let (methods, prompts) = (methods.to_str().unwrap(), prompts.to_str().unwrap());
    for (suite, more, wanted) in [
        ("spatialbench", &[][..], "spatialbench-uc"),
        ("visor", &[], "--known-objects"),
        (prompts, &[], "spaceship"),
        ("spatialbench-uc", &["--method", "best-of-0"], "best-of-0"),
        (
            "spatialbench-uc",
            &["--method", "psg,psg"],
            "two methods called",
        ),
        ("spatialbench-uc", &["--methods", methods], "guid"),
        (
            "spatialbench-uc",
            &["--methods", "nowhere.toml"],
            "nowhere.toml",
        ),
        (
            "spatialbench-uc",
            &["--method", "delayed-order-2"],
            "can change at step 1 to 1",
        ),
        ("spatialbench-uc", &["--every", "0"], "--every is 0"),
        ("spatialbench-uc", &["--limit", "0"], "--limit 0"),
        ("spatialbench-uc", &["--batch", "0"], "auto or at least 1"),
        ("spatialbench-uc", &["--seeds", "1,1"], "seeds has 1 twice"),
        ("spatialbench-uc", &["--size", "100"], "100x100"),
        ("spatialbench-uc", &["--checker", "nobody"], "nobody"),
        (
            "spatialbench-uc",
            &["--checker", "none", "--known-objects"],
            "--known-objects",
        ),
        (
            "spatialbench-uc",
            &["--checker", "none", "--published"],
            "leave out --secondary, --checker-config, --known-objects and --published",
        ),
    ] {
        let message = run(suite, more);
        assert!(message.contains(wanted), "{more:?}: {message}");
        assert!(!out.exists(), "{more:?} left something");
    }
    // Prompts that a search's reward cannot score are named before anything is loaded.
    fs::write(
        prompts,
        "a dog near a cat\na dog to the left of a cat\na dog behind a cat\n",
    )
    .unwrap();
    for reward in ["pse", "checker"] {
        let search = format!("search = {{ best_of = 2, reward = \"{reward}\" }}");
        fs::write(methods, format!("[[method]]\nname = \"x\"\n{search}\n")).unwrap();
        let message = run(prompts, &["--methods", methods]);
        let named = "2 of 3 prompts (line-00001, line-00003)";
        assert!(message.contains(named), "{message}");
        let message = run(prompts, &["--methods", methods, "--checker", "none"]);
        assert!(message.contains("--checker none"), "{message}");
        assert!(!out.exists(), "{reward} left something");
    }
    // A configuration's secondary detector is not dropped silently.
    let config = folder.path().join("checker.yaml");
    fs::write(
        &config,
        "detector:\n  secondary:\n    type: grounding_dino\n",
    )
    .unwrap();
    let config = ["--checker-config", config.to_str().unwrap()];
    let message = run("spatialbench-uc", &config);
    assert!(
        message.contains("grounding_dino") && message.contains("--secondary none"),
        "{message}"
    );
    // A place where nothing can be written.
    fs::write(&out, "a file").unwrap();
    let message = run("spatialbench-uc", &["--limit", "1"]);
    assert!(
        message.contains("cannot read digests.jsonl in"),
        "{message}"
    );
    fs::remove_file(&out).unwrap();

    // Other settings in the same folder.
    finish(small(
        &out,
        &["--every", "100", "--seeds", "0", "--size", "64"],
    ));
    let before = files(&out);
    let message = refused(small(
        &out,
        &["--every", "100", "--seeds", "0", "--size", "64", "-g", "2"],
    ));
    assert!(
        message.contains("guidance_scale: 3.0 there, 2.0 asked for"),
        "{message}"
    );
    let mut command = small(&out, &["--every", "100", "--seeds", "0-1", "--size", "64"]);
    command.arg("--negative-prompt=fog");
    let message = refused(command);
    // More seeds are no contradiction.
    assert!(
        message.contains("negative_prompt: \"\" there, \"fog\" asked for")
            && !message.contains("seeds"),
        "{message}"
    );
    assert_eq!(files(&out), before);
}

/// The exit code says which signal ended it; what was finished is there.
#[cfg(unix)]
#[test]
fn an_interrupted_run_says_by_what() {
    use std::io::{BufRead, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let mut command = small(&out, &["--json", "--size", "64"]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let sent = Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        assert!(lines.all(|line| line.is_ok()));
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert!(
            Path::new(first["path"].as_str().unwrap()).exists(),
            "{first}"
        );
    }
    let mut command = program::prepose();
    command.arg("verify").arg(&out);
    finish(command);
}
