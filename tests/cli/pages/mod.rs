//! The pages against the program and the tree: links and anchors, command lines, `--flags`, paths in help texts, the book's summary.
//!
//! Nothing is hard-coded: commands and flags are read from `--help`, files from the tree.

pub(crate) mod page;
mod program;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use page::{Page, Tree, files, normal};
use program::Program;

use crate::support::root;

#[test]
fn links_and_anchors_lead_somewhere() {
    let tree = Tree::new();
    report(tree.pages.values().flat_map(|page| tree.broken_links(page)));
}

#[test]
fn paths_in_code_exist() {
    let tree = Tree::new();
    report(
        tree.pages
            .values()
            .flat_map(|page| tree.missing_paths(page)),
    );
}

#[test]
fn commands_and_flags_exist() {
    let tree = Tree::new();
    let program = Program::new();
    report(
        tree.pages
            .values()
            .flat_map(|page| program.unknown_words(&tree, page)),
    );
}

#[test]
fn help_names_files_and_flags_that_exist() {
    let program = Program::new();
    report(program.commands.values().flat_map(|command| {
        let missing = doc_paths(&command.help)
            .into_iter()
            .filter(|path| !root().join(path).exists());
        let missing = missing.map(|path| format!("{path} does not exist"));
        let flags = flags_in(&command.help)
            .into_iter()
            .filter(|flag| !program.has_anywhere(flag));
        let flags = flags.map(|flag| format!("{flag} is no flag of any command"));
        let from = format!("prepose {} --help", command.path.join(" "));
        missing
            .chain(flags)
            .map(move |problem| format!("{from}: {problem}"))
            .collect::<Vec<_>>()
    }));
}

/// clap shows what the arguments' struct says of a command only if the command's variant says nothing.
#[test]
fn help_is_whole() {
    let program = Program::new();
    report(
        [
            ("check", "Exit codes: 0"),
            ("verify", "keeps the digests"),
            ("pull", "HF_HUB_OFFLINE"),
            ("selftest", "loops in f64"),
            ("ots propose", "a critic reviews"),
            ("audit calibrate", "point of a grid"),
        ]
        .into_iter()
        .filter_map(|(command, words)| {
            let path: Vec<String> = command.split(' ').map(str::to_owned).collect();
            let help = &program.commands[&path].help;
            let shown = help.split_whitespace().collect::<Vec<_>>().join(" ");
            (!shown.contains(words)).then(|| format!("{command} --help has no {words:?}"))
        }),
    );
}

#[test]
fn messages_of_the_program_name_pages_that_exist() {
    let mut sources = Vec::new();
    for folder in ["src", "kernels", "models", "weights"] {
        files(&root().join(folder), "rs", &mut sources);
    }
    report(sources.iter().flat_map(|path| {
        let text = std::fs::read_to_string(path).expect("sources are UTF-8");
        let missing = doc_paths(&text)
            .into_iter()
            .filter(|page| !root().join(page).exists());
        missing
            .map(|page| format!("{}: {page} does not exist", path.display()))
            .collect::<Vec<_>>()
    }));
}

#[test]
fn the_summary_lists_every_page_once() {
    let tree = Tree::new();
    let summary = &tree.pages[Path::new("docs/SUMMARY.md")];
    let mut listed = BTreeSet::new();
    let mut problems = Vec::new();
    for (line, target) in summary.links() {
        let path = normal(&Path::new("docs").join(&target));
        if !tree.pages.contains_key(&path) {
            problems.push(format!("docs/SUMMARY.md:{line}: {target} is no page"));
        }
        if !listed.insert(path) {
            problems.push(format!("docs/SUMMARY.md:{line}: {target} is listed twice"));
        }
    }
    let pages = tree
        .pages
        .keys()
        .filter(|path| path.starts_with("docs") && **path != summary.path);
    problems.extend(
        pages
            .filter(|path| !listed.contains(*path))
            .map(|path| format!("{} is not in docs/SUMMARY.md", path.display())),
    );
    report(problems);
}

/// The README of `scripts`, or that of the script's folder, says what it is for.
#[test]
fn every_script_is_described() {
    let entries = |folder: &Path| {
        let entries = std::fs::read_dir(folder).expect("folders of the tree can be listed");
        entries.map(|entry| entry.expect("folders of the tree can be listed").path())
    };
    let scripts = root().join("scripts");
    let mut problems = Vec::new();
    let hidden = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.as_encoded_bytes()[0] == b'.')
    };
    // Linters leave folders behind.
    for folder in entries(&scripts).filter(|path| path.is_dir() && !hidden(path)) {
        let pages = [&scripts, &folder]
            .map(|folder| std::fs::read_to_string(folder.join("README.md")).unwrap_or_default())
            .concat();
        for file in entries(&folder).filter(|path| path.is_file()) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if name != "README.md" && !name.starts_with('.') && !names(&pages, &name) {
                problems.push(format!("{} is in no README of scripts/", file.display()));
            }
        }
    }
    report(problems);
    assert!(!names(
        "`diffusers_gligen.py` and `a-gligen.py`",
        "gligen.py"
    ));
}

/// Every kind of mistake is found, so that the tests above can fail.
#[test]
fn planted_mistakes_are_found() {
    let tree = Tree::new();
    let program = Program::new();
    for (text, word) in [
        ("[a](missing.md)", "missing.md"),
        ("[a](runs.md#no-such-heading)", "no-such-heading"),
        ("![a](missing.png)", "missing.png"),
        ("```sh\nprepose generat \"a dog\"\n```", "generat"),
        ("```sh\nprepose bench shet\n```", "shet"),
        (
            "```sh\nPREPOSE_X=1 prepose generate \"a --dog\" \\\n  --sedd 3 # --nothing\n```",
            "--sedd",
        ),
        ("```sh\ncargo run --release -- generate dog -Y 3\n```", "-Y"),
        (
            "```console\n$ prepose parse dog --guide pos\n```",
            "--guide",
        ),
        (
            "```sh\nexport PREPOSE_ARGS='visor --metod psg'\n```",
            "--metod",
        ),
        ("see `--checker-weights FILE`", "--checker-weights"),
        ("see `generate --switch-too K`", "--switch-too"),
        ("see `prepose reprot`", "reprot"),
        ("see `--guided-…`", "--guided-"),
        ("see `src/no_such_file.rs`", "src/no_such_file.rs"),
        (
            "```sh\npython scripts/missing.py\n```",
            "scripts/missing.py",
        ),
    ] {
        let page = Page::new(PathBuf::from("docs/planted.md"), text.to_owned());
        let found: Vec<String> = tree
            .broken_links(&page)
            .into_iter()
            .chain(tree.missing_paths(&page))
            .chain(program.unknown_words(&tree, &page))
            .collect();
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].contains(word), "{text}: {found:?}");
    }
    let sound = "`--guide-…` and [a](runs.md#the-folder) `cargo build --no-default-features`\n```sh\nprepose run visor --shard 0/4 | head -1 # --no\n```";
    let page = Page::new(PathBuf::from("docs/sound.md"), sound.to_owned());
    assert_eq!(tree.broken_links(&page), Vec::<String>::new());
    assert_eq!(program.unknown_words(&tree, &page), Vec::<String>::new());
}

/// Fails with all problems at once.
fn report(problems: impl IntoIterator<Item = String>) {
    let problems: Vec<String> = problems.into_iter().collect();
    assert!(
        problems.is_empty(),
        "{} problems:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

/// Whether `text` has the file name `name`, not only as the end of a longer one.
fn names(text: &str, name: &str) -> bool {
    let before = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let mut places = text.match_indices(name);
    places.any(|(at, _)| !text[..at].ends_with(before))
}

/// Paths of pages and pictures in `docs/` that a text names.
fn doc_paths(text: &str) -> BTreeSet<String> {
    let of_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let words = text
        .split(|c| !of_path(c))
        .map(|word| word.trim_end_matches('.'));
    words
        .filter(|word| word.starts_with("docs/") && word.contains('.'))
        .map(str::to_owned)
        .collect()
}

/// `--flags` in running text; `--guide-…` stands for all that begin so and keeps its last dash.
fn flags_in(text: &str) -> BTreeSet<String> {
    let of_flag = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let words = text.split(|c| !of_flag(c));
    words
        .filter(|word| word.starts_with("--") && word.len() > 2 && !word.starts_with("---"))
        .map(str::to_owned)
        .collect()
}
