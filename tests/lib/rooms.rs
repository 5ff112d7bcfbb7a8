//! Rooms import from rows below their own in ARCHITECTURE.md's picture, and crates from the crates that their table allows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::root;

/// Crates of ours that know no tensor, and what each may depend on.
const WITHOUT_TENSORS: [(&str, &[&str]); 15] = [
    ("prepose-scene", &[]),
    ("prepose-draw", &[]),
    ("prepose-statistics", &[]),
    (
        "prepose-check",
        &[
            "prepose-draw",
            "prepose-scene",
            "prepose-statistics",
            "prepose-untrusted",
        ],
    ),
    ("prepose-untrusted", &[]),
    ("prepose-formats", &["prepose-untrusted"]),
    ("prepose-store", &["prepose-untrusted"]),
    ("prepose-serve", &["prepose-store", "prepose-untrusted"]),
    ("prepose-remote", &["prepose-untrusted"]),
    (
        "prepose-sources",
        &[
            "prepose-check",
            "prepose-draw",
            "prepose-remote",
            "prepose-untrusted",
        ],
    ),
    (
        "prepose-judge",
        &[
            "prepose-check",
            "prepose-draw",
            "prepose-remote",
            "prepose-scene",
            "prepose-statistics",
            "prepose-untrusted",
        ],
    ),
    (
        "prepose-corpus",
        &[
            "prepose-check",
            "prepose-draw",
            "prepose-judge",
            "prepose-scene",
            "prepose-statistics",
            "prepose-store",
            "prepose-untrusted",
        ],
    ),
    ("prepose-optimizer", &["prepose-formats", "prepose-store"]),
    (
        "prepose-dataset",
        &[
            "prepose-check",
            "prepose-corpus",
            "prepose-draw",
            "prepose-optimizer",
            "prepose-scene",
            "prepose-untrusted",
        ],
    ),
    (
        "prepose-report",
        &[
            "prepose-check",
            "prepose-draw",
            "prepose-scene",
            "prepose-statistics",
            "prepose-store",
            "prepose-untrusted",
        ],
    ),
];

/// The rooms of ARCHITECTURE.md's picture, each with its row from the top.
fn rows() -> BTreeMap<String, usize> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let picture = page.split("```").nth(1).unwrap();
    let rows = picture.lines().take_while(|line| !line.starts_with('─'));
    let exists = |name: &str| {
        let src = root().join("src");
        src.join(name).is_dir() || src.join(name).with_extension("rs").is_file()
    };
    rows.enumerate()
        .flat_map(|(row, line)| {
            // Names are at the beginning; what they are for comes after more than two spaces.
            let names = line.split("   ").next().unwrap_or_default();
            let names = names.split_whitespace().map(|name| (name.to_owned(), row));
            names.collect::<Vec<_>>()
        })
        .inspect(|(name, _)| assert!(exists(name), "ARCHITECTURE.md: there is no room {name}"))
        .collect()
}

/// The files of a room, without the crates below `src`.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.join("Cargo.toml").exists() {
                files(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The rooms that a file's code names, as `crate::room` or, in the program, as `prepose::room`.
fn named(code: &str) -> BTreeSet<String> {
    let lines = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join("\n");
    let mut named = BTreeSet::new();
    for start in ["crate::", "prepose::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                continue;
            }
            // The library's alias of the detectors' room.
            let path = code[at + start.len()..].replacen("check::detect", "detect", 1);
            let word = |c: char| !c.is_alphanumeric() && c != '_';
            named.extend(path.split(word).next().map(str::to_owned));
        }
    }
    named
}

#[test]
fn rooms_import_from_below() {
    let rows = rows();
    let mut all = Vec::new();
    files(&root().join("src"), &mut all);
    let mut wrong = Vec::new();
    for file in all {
        let inside = file.strip_prefix(root().join("src")).unwrap();
        let first = inside.iter().next().unwrap().to_string_lossy();
        let room = first.trim_end_matches(".rs");
        if matches!(room, "lib" | "main") {
            continue;
        }
        let row = rows.get(room);
        let row = row.unwrap_or_else(|| panic!("ARCHITECTURE.md's picture lacks {room}"));
        for other in named(&fs::read_to_string(&file).unwrap()) {
            if other != room && rows.get(&other).is_some_and(|below| below <= row) {
                wrong.push(format!("{} imports {other}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn imports_are_found() {
    let code =
        "use crate::suite::Plan; // crate::cli\nlet x = prepose::check::detect::y(mycrate::z());";
    assert_eq!(named(code), ["detect", "suite"].map(str::to_owned).into());
}

/// The packages of Cargo.lock with what each depends on.
fn locked() -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let lock: toml::Table = text.parse().unwrap();
    let packages = lock["package"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let name = |value: &toml::Value| {
                let text = value.as_str().unwrap();
                text.split(' ').next().unwrap().to_owned()
            };
            let needs = package.get("dependencies").and_then(toml::Value::as_array);
            let needs = needs.into_iter().flatten().map(name).collect();
            (name(&package["name"]), needs)
        })
        .collect()
}

#[test]
fn crates_without_tensors_stay_without() {
    let locked = locked();
    for (name, allowed) in WITHOUT_TENSORS {
        let ours = locked[name]
            .iter()
            .filter(|need| need.starts_with("prepose"));
        for need in ours {
            assert!(allowed.contains(&need.as_str()), "{name} imports {need}");
        }
        let mut open = vec![name.to_owned()];
        let mut seen = BTreeSet::new();
        while let Some(package) = open.pop() {
            assert!(
                !package.starts_with("burn") && !package.starts_with("cubecl"),
                "{name} depends on {package}"
            );
            for need in &locked[&package] {
                if seen.insert(need.clone()) {
                    open.push(need.clone());
                }
            }
        }
    }
}
