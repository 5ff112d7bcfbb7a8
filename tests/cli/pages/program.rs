//! The program's commands and flags, and the command lines that pages show.

use std::collections::{BTreeMap, BTreeSet};

use super::flags_in;
use super::page::{Page, Tree};
use crate::program::prepose;

/// One command, as its `--help` has it.
pub struct Help {
    pub path: Vec<String>,
    pub help: String,
    subcommands: Vec<String>,
    flags: BTreeSet<String>,
}

/// All commands of the program.
pub struct Program {
    pub commands: BTreeMap<Vec<String>, Help>,
}

impl Program {
    pub fn new() -> Self {
        let mut program = Self {
            commands: BTreeMap::new(),
        };
        program.read(Vec::new());
        program
    }

    fn read(&mut self, path: Vec<String>) {
        let output = prepose()
            .args(&path)
            .arg("--help")
            .output()
            .expect("prepose runs");
        assert!(
            output.status.success(),
            "prepose {} --help fails",
            path.join(" ")
        );
        let help = String::from_utf8(output.stdout).expect("help is UTF-8");
        let listed = help
            .lines()
            .skip_while(|line| *line != "Commands:")
            .skip(1)
            .take_while(|line| !line.is_empty());
        // Descriptions that go on in the next line are indented further.
        let named = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let subcommands: Vec<String> = named
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help")
            .map(str::to_owned)
            .collect();
        let mut flags = BTreeSet::new();
        for line in help
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with('-') || line.starts_with("[aliases:"))
        {
            // "-o, --output <FILE>": the names end where the value or the description begins.
            let names = line
                .split(" <")
                .next()
                .unwrap_or(line)
                .split("  ")
                .next()
                .unwrap_or(line);
            flags.extend(flags_in(names));
            flags.extend(
                names
                    .split([' ', ','])
                    .filter(|name| name.len() == 2 && name.starts_with('-'))
                    .map(str::to_owned),
            );
        }
        for name in &subcommands {
            self.read([path.as_slice(), std::slice::from_ref(name)].concat());
        }
        self.commands.insert(
            path.clone(),
            Help {
                path,
                help,
                subcommands,
                flags,
            },
        );
    }

    pub fn has_anywhere(&self, flag: &str) -> bool {
        self.commands.values().any(|command| command.has(flag))
    }

    pub fn unknown_words(&self, tree: &Tree, page: &Page) -> Vec<String> {
        let mut problems = Vec::new();
        for (line, code, language) in &page.code {
            let code = match language.as_str() {
                "console" => code.strip_prefix("$ ").unwrap_or_default(),
                "" | "sh" | "bash" => code,
                _ => "",
            };
            for words in invocations(&shell_words(code)) {
                problems.extend(self.check(&words).map(|problem| (*line, problem)));
            }
        }
        for (line, span) in page.spans() {
            let words = shell_words(span);
            let first = words.first().map(String::as_str).unwrap_or_default();
            if first == "prepose" {
                for words in invocations(&words) {
                    problems.extend(self.check(&words).map(|problem| (line, problem)));
                }
            } else if self.commands[&Vec::new()]
                .subcommands
                .iter()
                .any(|name| name == first)
            {
                if span.contains(" --") {
                    problems.extend(self.check(&words).map(|problem| (line, problem)));
                }
            } else if first.starts_with("--") {
                let unknown = flags_in(span)
                    .into_iter()
                    .filter(|flag| !self.has_anywhere(flag) && !tree.is_of_script(flag, page));
                problems.extend(
                    unknown.map(|flag| (line, format!("{flag} is no flag of any command"))),
                );
            }
        }
        problems
            .into_iter()
            .map(|(line, problem)| format!("{}:{line}: {problem}", page.path.display()))
            .collect()
    }

    /// The first thing that is wrong with the arguments of a command line.
    fn check(&self, words: &[String]) -> Option<String> {
        let mut path = Vec::new();
        let mut rest = words.iter().peekable();
        while let Some(word) = rest
            .peek()
            .filter(|_| !self.commands[&path].subcommands.is_empty())
        {
            if word.starts_with('-') || *word == "help" || word.contains(['…', '.']) {
                break;
            }
            if !self.commands[&path].subcommands.contains(word) {
                // "COMMAND" in capitals stands for any of them.
                let any = word.chars().all(|c| c.is_ascii_uppercase());
                return (!any)
                    .then(|| format!("prepose {} has no command {word:?}", path.join(" ")));
            }
            path.extend(rest.next().cloned());
        }
        let command = &self.commands[&path];
        rest.filter(|word| word.starts_with('-')).find_map(|word| {
            let flag = match flags_in(word).pop_first() {
                Some(flag) if word.starts_with("--") => flag,
                None if word.len() > 1 && word.chars().skip(1).all(|c| c.is_ascii_alphabetic()) => {
                    word.chars().take(2).collect()
                }
                _ => return None,
            };
            (!command.has(&flag)).then(|| format!("prepose {} has no flag {flag}", path.join(" ")))
        })
    }
}

impl Help {
    /// Whether the command takes `flag`, or one that begins with it where it ends in a dash.
    fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
            || (flag.ends_with('-') && self.flags.iter().any(|known| known.starts_with(flag)))
    }
}

/// Words of a shell's line without its comment. What was quoted begins with a space, so that it is taken for no flag.
pub fn shell_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => word.push(c),
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                if word.is_empty() {
                    word.push(' ');
                }
            }
            None if c == '#' && word.is_empty() => break,
            None if c.is_whitespace() => words.push(std::mem::take(&mut word)),
            None if "|;&".contains(c) => words.extend([std::mem::take(&mut word), c.to_string()]),
            None => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// The arguments of each call of prepose in a line: by name, by `cargo run … --`, in the variable of the cluster scripts.
pub fn invocations(words: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for part in words.split(|word| ["|", ";", "&"].contains(&word.as_str())) {
        if let Some(arguments) = part
            .iter()
            .find_map(|word| word.strip_prefix("PREPOSE_ARGS="))
        {
            found.push([vec!["run".to_owned()], shell_words(arguments)].concat());
        }
        let assignment = |word: &&String| {
            word.split('=').next().is_some_and(|name| {
                word.contains('=') && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
            })
        };
        let part: Vec<String> = part.iter().skip_while(assignment).cloned().collect();
        match part.first().map(String::as_str) {
            Some("prepose" | "./prepose") => found.push(part[1..].to_vec()),
            Some("cargo") if part.get(1).is_some_and(|word| word == "run") => {
                found.extend(
                    part.split(|word| word == "--")
                        .nth(1)
                        .map(<[String]>::to_vec),
                );
            }
            _ => {}
        }
    }
    found
}
