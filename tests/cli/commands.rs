//! Every command of the pages, run in the order of its page: exit codes, and in `console` blocks the output as well.
//!
//! Commands are run as they stand, but for what would take long: runs get two prompts and one seed, searches few noises, and
//! pictures at most [`STEPS`] steps. What needs something that only its user has (real weights, a
//! bucket, labels) must fail with code 2 and one clear message.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Instant;

use crate::pages::page::{Page, files};
use crate::program::{prepose, stderr, stdout};
use crate::support::root;

/// Steps of a picture at most, unless its command names some of them.
const STEPS: usize = 6;

/// What commands of the pages name and only their users have.
const BROUGHT_ALONG: &[&str] = &[
    ".safetensors",
    "path/to/",
    "-c sd15",
    "pull sd15",
    "--checker frcnn",
    "bundle/",
    "labels_filled.json",
    "--depth depth/",
    "detect photos/",
    "evaluation_metadata.jsonl",
    "results_mymodel",
    "cases.jsonl",
    "captions.txt",
    "objects.jsonl",
    "graphs.jsonl",
    "judged/sdxl",
    "categories.txt",
    "people.csv",
    "pictures.csv",
    "notebook.toml",
    "SpatialGenEval_T2I_Prompts.jsonl",
    "scenes.txt",
    "mine.jsonl",
    "laion",
    "found.jsonl",
    // The shards of the other machines.
    "merge runs/visor",
];

/// What takes gigabytes, minutes or a network, and is run by hand.
const BY_HAND: &[&str] = &[
    "bench weights sd",
    "scripts/toybox/fewer_calls.toml",
    "--checkpoints sd15",
    "s3://",
    // Whether there is a GPU, or somebody who answers, is the machine's own affair.
    "--device wgpu",
    "://localhost",
    // The layers that the toybox has by now, from the training that made them.
    "runs/toybox-gligen-pairs/",
    // It does not end by itself; tests/cli/serve starts it.
    "prepose serve",
    // It trains for minutes; tests/cli/cure.rs has a small one.
    "ots cure",
    // As does this; tests/cli/train/steer.rs has a small one.
    "train steer",
    "runs/steer",
    // It draws hundreds of pictures; tests/cli/refine.rs draws three.
    "scene refine spatialbench-uc",
    "runs/cure/",
    "curl ",
    // Servers, programs and folders that are somebody's own.
    "--endpoint",
    "--maker",
    "--pictures outputs",
    "report runs/flux",
    "verify runs/first",
    // Weights that somebody has to download.
    "grounding-dino",
    "owlvit",
    "rtdetr-v2",
    "--preset paper",
];

#[test]
fn those_of_the_readme() {
    run_page("README.md");
}

#[test]
fn those_about_pictures() {
    for page in [
        "generate",
        "fewer-calls",
        "search",
        "attention-maps",
        "memory",
        "prompts",
        "gpu",
        "bench",
        "serve",
    ] {
        run_page(&format!("docs/{page}.md"));
    }
    run_folder("docs/guidance");
}

#[test]
fn those_about_runs() {
    for page in ["suites", "runs", "sources", "cluster", "report"] {
        run_page(&format!("docs/{page}.md"));
    }
    run_folder("docs/experiments");
}

#[test]
fn those_about_checking() {
    for page in [
        "checker",
        "detect",
        "detectors",
        "rules",
        "eyes",
        "quality",
        "audit",
        "judge",
        "spatialgeneval",
        "corpus",
        "agreement",
    ] {
        run_page(&format!("docs/{page}.md"));
    }
}

#[test]
fn those_about_training() {
    run_page("docs/training.md");
    run_page("docs/cure.md");
}

#[test]
fn no_page_is_left_out() {
    let mut pages = Vec::new();
    files(&root().join("docs"), "md", &mut pages);
    let source = include_str!("commands.rs");
    for path in pages {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let in_folder = ["guidance", "experiments"]
            .iter()
            .any(|folder| path.parent().unwrap().ends_with(folder));
        let page = Page::new(path.clone(), fs::read_to_string(&path).unwrap());
        let has_commands = page.code.iter().any(|(_, code, _)| line_of(code).is_some());
        let listed = [format!("\"{name}\""), format!("docs/{name}.md\"")];
        let listed = listed.iter().any(|name| source.contains(name));
        assert!(
            in_folder || !has_commands || listed,
            "no test runs the commands of {}",
            path.display()
        );
    }
}

fn run_folder(folder: &str) {
    let mut pages = Vec::new();
    files(&root().join(folder), "md", &mut pages);
    pages.sort();
    for page in pages {
        run_page(page.strip_prefix(root()).unwrap().to_str().unwrap());
    }
}

/// Runs the commands of a page in a folder of their own, and says all that went wrong.
fn run_page(path: &str) {
    let text = fs::read_to_string(root().join(path)).unwrap();
    let page = Page::new(PathBuf::from(path), text);
    let folder = tempfile::tempdir().unwrap();
    provide(folder.path(), path);
    let mut wrong = Vec::new();
    let mut code = page.code.iter().peekable();
    while let Some((number, text, language)) = code.next() {
        let Some(line) =
            line_of(text).filter(|line| !BY_HAND.iter().any(|part| line.contains(part)))
        else {
            continue;
        };
        let mut expected = Vec::new();
        while let Some((_, text, _)) = code.next_if(|(_, text, next)| {
            language == "console" && next == "console" && !text.starts_with("$ ")
        }) {
            expected.push(text.as_str());
        }
        let short = shortened(&line);
        let started = Instant::now();
        let output = shell(folder.path(), &short);
        // To find what takes long: `cargo test --test cli commands -- --nocapture`.
        println!("{:.1} s: {short}", started.elapsed().as_secs_f64());
        if let Some(problem) = problem(&short, &output, &expected) {
            wrong.push(format!("{path}:{number}: {short}\n{problem}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The command in a line of a code block: a call of prepose, maybe with something before or after it in a pipe.
fn line_of(code: &str) -> Option<String> {
    let line = code.strip_prefix("$ ").unwrap_or(code).trim();
    let starts =
        line.starts_with("prepose ") || (line.starts_with("echo ") && line.contains("| prepose "));
    starts.then(|| line.to_string())
}

/// The files that the commands of a page expect to find: prompts, and the records of a small run.
fn provide(folder: &Path, page: &str) {
    static MADE: OnceLock<tempfile::TempDir> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let made = tempfile::tempdir().unwrap();
        let output = prepose()
            .args("-q run spatialbench-uc --limit 2 --seeds 0 --steps 2 --out made".split(' '))
            .current_dir(made.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        made
    });
    let run = made.path().join("made/prompt-only");
    fs::create_dir_all(folder.join("out/images")).unwrap();
    let copy = |from: PathBuf, to: &str| {
        fs::copy(&from, folder.join(to))
            .unwrap_or_else(|error| panic!("{}: {error}", from.display()))
    };
    for name in [
        "per_sample.jsonl",
        "detections.jsonl",
        "sdxl.jsonl",
        "sdxl-psg.jsonl",
    ] {
        copy(run.join("eval/per_sample.jsonl"), name);
    }
    copy(run.join("eval/checker_config.yaml"), "checker_config.yaml");
    copy(run.join("manifest.jsonl"), "out/manifest.jsonl");
    for picture in fs::read_dir(run.join("images")).unwrap() {
        let picture = picture.unwrap();
        let name = picture.file_name().into_string().unwrap();
        copy(picture.path(), &format!("out/{name}"));
        copy(picture.path(), &format!("out/images/{name}"));
    }
    if ["docs/report.md", "docs/audit.md"].contains(&page) {
        for name in ["tour", "a", "b"] {
            copy_folder(&made.path().join("made"), &folder.join("runs").join(name));
        }
    }
    fs::write(
        folder.join("prompts.txt"),
        "a dog to the left of a cat\na car above a bus\n",
    )
    .unwrap();
    fs::write(
        folder.join("my-prompts.txt"),
        "a dog to the left of a cat\n",
    )
    .unwrap();
    fs::create_dir_all(folder.join(".local/share/bash-completion/completions")).unwrap();
    // As in a clone.
    for name in ["scripts", "fixtures"] {
        #[cfg(unix)]
        std::os::unix::fs::symlink(root().join(name), folder.join(name)).unwrap();
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy_folder(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// `line` with what makes it short.
fn shortened(line: &str) -> String {
    // A comment is a `#` behind a space, outside of what these pages quote.
    let (line, _) = line.split_once(" #").unwrap_or((line, ""));
    let words: Vec<&str> = line.trim().split(' ').collect();
    let command = words
        .iter()
        .position(|word| *word == "prepose")
        .map(|at| words[at + 1]);
    let mut more = String::new();
    let mut line = line.trim().to_string();
    match command {
        Some("run" | "ots" | "psg") => {
            line = without(&without(&without(&line, "--seeds"), "--every"), "--limit");
            more += " --limit 2 --seeds 0";
            if words.contains(&"scaling") {
                line = without(&line, "--noises");
                more += " --noises 2,4";
            }
        }
        Some("selftest") => more += " --only norm",
        Some("bench") if words.contains(&"roofline") => {}
        Some("bench") => {
            more += " --only search --size 64 --repeat 1 --batches 1 --budget 60s -o sheets"
        }
        _ => {}
    }
    if command == Some("bench") && !words.contains(&"roofline") {
        line = without(&without(&line, "--only"), "--checkpoints");
        more += " --checkpoints toybox --steps 2";
    } else if matches!(command, Some("generate" | "run" | "ots" | "psg")) {
        line = few_steps(&line, &mut more);
    }
    match line.split_once(" > ") {
        Some((command, file)) => format!("{command}{more} > {file}"),
        None => line + &more,
    }
}

/// `line` with at most [`STEPS`] steps, by its own words or by `more`, and with few noises to search among. Where it names some of
/// its steps, they stay.
fn few_steps(line: &str, more: &mut String) -> String {
    let names_some = line.contains("guide-steps") || line.contains("guidance-steps");
    let most = if names_some { 20 } else { STEPS };
    let mut words: Vec<String> = line.split(' ').map(str::to_string).collect();
    let mut said = false;
    for i in 1..words.len() {
        if let Some(several) = words[i].strip_prefix("steps=") {
            let count = several.split(',').count();
            let several = (0..count).map(|i| (most - i).to_string());
            words[i] = format!("steps={}", several.collect::<Vec<_>>().join(","));
            said = true;
        } else if words[i - 1] == "--steps" {
            let own: usize = words[i].parse().unwrap_or(most);
            words[i] = own.min(most).to_string();
            said = true;
        } else if words[i - 1] == "--best-of" {
            let own: usize = words[i].parse().unwrap_or(4);
            words[i] = own.min(4).to_string();
        }
    }
    if !said {
        *more += &format!(" --steps {most}");
    }
    words.join(" ")
}

/// `line` without `flag` and its value.
fn without(line: &str, flag: &str) -> String {
    let mut kept = Vec::new();
    let mut words = line.split(' ');
    while let Some(word) = words.next() {
        match word == flag {
            true => drop(words.next()),
            false => kept.push(word),
        }
    }
    kept.join(" ")
}

pub(crate) fn shell(folder: &Path, line: &str) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_prepose")).parent().unwrap();
    let path = std::env::join_paths(
        std::iter::once(program.to_path_buf())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let mut command = Command::new("sh");
    // Nor what its owner keeps elsewhere.
    for variable in [
        "CLICOLOR_FORCE",
        "HF_HOME",
        "HF_HUB_CACHE",
        "RUST_LOG",
        "TORCH_HOME",
        "XDG_CACHE_HOME",
    ] {
        command.env_remove(variable);
    }
    command
        .args(["-c", line])
        .current_dir(folder)
        .env("PATH", path.unwrap())
        .env("HOME", folder)
        // Nothing is downloaded.
        .env("HF_HUB_OFFLINE", "1")
        .output()
        .unwrap()
}

/// What is wrong with what a command did.
fn problem(line: &str, output: &Output, expected: &[&str]) -> Option<String> {
    let errors = stderr(output);
    // What the page itself has made, or the tree has, is there.
    let there = ["fixtures/", "--lora runs/", "--gligen runs/"]
        .iter()
        .any(|part| line.contains(part));
    let brought = BROUGHT_ALONG.iter().any(|part| line.contains(part)) && !there;
    let code = output.status.code();
    if errors.len() > 4_000 || errors.contains('\u{1b}') {
        return Some(format!(
            "a message of {} bytes: {errors:.400}",
            errors.len()
        ));
    }
    if brought {
        let clear = errors.matches("error:").count() == 1 && errors.len() < 1_500;
        return (code != Some(2) || !clear).then(|| format!("{code:?}: {errors}"));
    }
    let refuses = expected
        .first()
        .is_some_and(|line| line.starts_with("error:"));
    if code != Some(if refuses { 2 } else { 0 }) {
        return Some(format!("{code:?}: {errors}"));
    }
    let printed = if refuses { errors } else { stdout(output) };
    let printed: Vec<&str> = printed.trim_end().lines().collect();
    // Pages break long lines elsewhere.
    let words = |lines: &[&str]| -> Vec<String> {
        let words = lines.iter().flat_map(|line| line.split_whitespace());
        words.map(String::from).collect()
    };
    let alike = |(wanted, line): (&&str, &&str)| match wanted.split_once('…') {
        Some((start, end)) => line.starts_with(start) && line.ends_with(end),
        None => wanted.trim_end() == line.trim_end(),
    };
    let same = words(expected) == words(&printed)
        || (expected.len() == printed.len() && expected.iter().zip(&printed).all(alike));
    (!expected.is_empty() && !same).then(|| {
        format!(
            "printed:\n{}\nthe page has:\n{}",
            printed.join("\n"),
            expected.join("\n")
        )
    })
}
