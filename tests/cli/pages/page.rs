//! Markdown files: links, headings, code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::flags_in;
use crate::support::root;

/// The folders in whose files pages are interested.
const TOP: [&str; 12] = [
    ".ci", ".github", "benches", "docs", "examples", "fixtures", "kernels", "models", "scripts",
    "src", "tests", "weights",
];

/// All files below `folder` that end in `.extension`, without what git ignores or hides.
pub fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("folders of the tree can be listed") {
        let path = entry.expect("folders of the tree can be listed").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let hidden = name.starts_with('.') && name != ".github";
        if path.is_dir() && !hidden && !["target", "book", "node_modules"].contains(&name.as_str())
        {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
}

/// `path` without `.` and `..`.
pub fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut whole, part| {
        match part {
            Component::ParentDir => drop(whole.pop()),
            Component::CurDir => {}
            part => whole.push(part),
        }
        whole
    })
}

/// All pages of the repository.
pub struct Tree {
    pub pages: BTreeMap<PathBuf, Page>,
    /// Flags that scripts name, by the script's file name.
    scripts: BTreeMap<String, BTreeSet<String>>,
}

impl Tree {
    pub fn new() -> Self {
        let mut paths = Vec::new();
        files(root(), "md", &mut paths);
        let pages = paths.into_iter().map(|path| {
            let text = std::fs::read_to_string(&path).expect("pages are UTF-8");
            let path = path
                .strip_prefix(root())
                .expect("found below the root")
                .to_owned();
            (path.clone(), Page::new(path, text))
        });
        let mut scripts = BTreeMap::new();
        for extension in ["py", "sh", "mjs"] {
            let mut paths = Vec::new();
            files(&root().join("scripts"), extension, &mut paths);
            scripts.extend(paths.iter().map(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                (
                    name.into_owned(),
                    flags_in(&std::fs::read_to_string(path).expect("scripts are UTF-8")),
                )
            }));
        }
        Self {
            pages: pages.collect(),
            scripts,
        }
    }

    /// Whether `flag` belongs to a script that the page names.
    pub fn is_of_script(&self, flag: &str, page: &Page) -> bool {
        self.scripts
            .iter()
            .any(|(name, flags)| flags.contains(flag) && page.text.contains(name))
    }

    /// Paths of the repository in a page's code, inline or in blocks, that do not exist.
    pub fn missing_paths(&self, page: &Page) -> Vec<String> {
        // These tell of commands that were run at an older commit.
        if page.path.starts_with("benches/results") {
            return Vec::new();
        }
        let of_path = |c: char| c.is_ascii_alphanumeric() || "/._-*".contains(c);
        let blocks = page
            .code
            .iter()
            .map(|(line, code, _)| (*line, code.as_str()));
        let words = page.spans().chain(blocks).flat_map(|(line, code)| {
            let words = code.split(move |c| !of_path(c));
            words.map(move |word| (line, word.trim_end_matches(['.', '/'])))
        });
        let problems = words.filter(|(_, word)| {
            let (folder, rest) = word.split_once('/').unwrap_or_default();
            // "NAME.rs" and "DIR" stand for any name.
            let placeholder =
                |part: &str| part.len() > 1 && !part.chars().any(|c| c.is_ascii_lowercase());
            TOP.contains(&folder)
                && !rest.contains('*')
                && !rest.split(['/', '.', '-']).any(placeholder)
                && !root().join(word).exists()
        });
        let at = |line| format!("{}:{line}", page.path.display());
        problems
            .map(|(line, word)| format!("{}: there is no {word}", at(line)))
            .collect()
    }

    pub fn broken_links(&self, page: &Page) -> Vec<String> {
        let mut problems = Vec::new();
        for (line, target) in page.links() {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = match file {
                "" => page.path.clone(),
                file => normal(&page.path.parent().unwrap_or(Path::new("")).join(file)),
            };
            let at = format!("{}:{line}", page.path.display());
            if !file.is_empty() && !root().join(&path).exists() {
                problems.push(format!("{at}: {target}: there is no {}", path.display()));
            } else if !anchor.is_empty() {
                let found = if file.is_empty() {
                    Some(page)
                } else {
                    self.pages.get(&path)
                };
                if !found.is_some_and(|page| page.anchors().contains(anchor)) {
                    problems.push(format!("{at}: {target}: no heading gives #{anchor}"));
                }
            }
        }
        problems
    }
}

/// A Markdown file, taken apart by line.
pub struct Page {
    pub path: PathBuf,
    /// Lines outside of code blocks, with their numbers.
    pub prose: Vec<(usize, String)>,
    /// Lines of code blocks, continuations joined, with their numbers and the block's language.
    pub code: Vec<(usize, String, String)>,
    text: String,
}

impl Page {
    pub fn new(path: PathBuf, text: String) -> Self {
        let (mut prose, mut code) = (Vec::new(), Vec::<(usize, String, String)>::new());
        let mut language: Option<String> = None;
        let mut continued = false;
        for (number, line) in text.lines().enumerate() {
            if let Some(tag) = line.trim_start().strip_prefix("```") {
                language = language.is_none().then(|| tag.trim().to_owned());
                continued = false;
            } else if let Some(language) = &language {
                let part = line.trim_end().trim_end_matches('\\');
                match code.last_mut().filter(|_| continued) {
                    Some((_, whole, _)) => whole.push_str(part),
                    None => code.push((number + 1, part.to_owned(), language.clone())),
                }
                continued = line.trim_end().ends_with('\\');
            } else {
                prose.push((number + 1, line.to_owned()));
            }
        }
        Self {
            path,
            prose,
            code,
            text,
        }
    }

    /// Targets of links and pictures within the repository.
    pub fn links(&self) -> Vec<(usize, String)> {
        let mut links = Vec::new();
        for (number, line) in &self.prose {
            let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
            for rest in line.split("](").skip(1) {
                let target = rest.split([')', ' ']).next().unwrap_or_default();
                if !target.contains("://") && !target.starts_with("mailto:") {
                    links.push((*number, target.to_owned()));
                }
            }
        }
        links
    }

    /// What headings are called in links, as GitHub and mdBook do it.
    pub fn anchors(&self) -> BTreeSet<String> {
        let mut anchors = BTreeSet::new();
        for (_, line) in self.prose.iter().filter(|(_, line)| line.starts_with('#')) {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
            let again = (1..).map(|count| format!("{name}-{count}"));
            let free = std::iter::once(name.clone())
                .chain(again)
                .find(|name| !anchors.contains(name));
            anchors.extend(free);
        }
        anchors
    }

    /// Code within lines.
    pub fn spans(&self) -> impl Iterator<Item = (usize, &str)> {
        self.prose.iter().flat_map(|(number, line)| {
            line.split('`')
                .skip(1)
                .step_by(2)
                .map(move |span| (*number, span))
        })
    }
}
