//! What can be wrong with a set of prompts.

use std::path::PathBuf;

use thiserror::Error;

use crate::prompt::scene::SceneError;

/// The most characters of a prompt.
pub(super) const PROMPT_LIMIT: usize = 10_000;

/// The longest line that is read, in bytes.
pub(super) const LINE_LIMIT: usize = 1 << 20;

/// How long a prompt_id may be: file names have up to 255 bytes, and others are in them too.
pub(super) const ID_LIMIT: usize = 100;

/// Why there is no such set of prompts.
#[derive(Debug, Error)]
pub enum SuiteError {
    /// Neither a set nor a file.
    #[error(
        "there is no set of prompts called {name:?}{}; `prepose suites` lists them, and a file of your own ends in \
         .jsonl, .csv or .txt",
        nearest.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The set whose name looks most like it, if one does.
        nearest: Option<&'static str>,
    },
    /// The file cannot be opened or read.
    #[error("cannot read the prompts in {}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// It is not clear how to read the file.
    #[error(
        "{}: a file of prompts ends in .jsonl (a JSON object a line), .csv (with a column \"prompt\") or .txt (a prompt \
         a line)",
        .0.display()
    )]
    Format(PathBuf),
    /// Another encoding.
    #[error("{} is in UTF-16; save it as UTF-8", .0.display())]
    Utf16(PathBuf),
    /// Nothing in it.
    #[error("{} has no prompts in it", .0.display())]
    Empty(PathBuf),
    /// More than anybody means.
    #[error("{} has more than {limit} prompts; split it", path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
        /// How many are read.
        limit: usize,
    },
    /// A prompt that "and" cannot be put into.
    #[error(
        "\"+and\" puts \"and\" in place of the relation of two objects in each prompt, which cannot be done in {prompt_id} \
         ({prompt:?}): it needs one relation, said between the two names, and no brackets or quotation marks there"
    )]
    NoAnd {
        /// Its name.
        prompt_id: String,
        /// Its text.
        prompt: String,
    },
    /// A line that cannot be used.
    #[error("{}, line {line}: {error}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        error: Box<LineError>,
    },
}

/// What is wrong with a line of a file of prompts.
#[derive(Debug, Error)]
pub enum LineError {
    /// Not a line that somebody wrote.
    #[error(
        "it is longer than {} KiB, which no prompt is; is this a file of prompts, with line breaks?",
        LINE_LIMIT / 1024
    )]
    TooLong,
    /// A text that is no prompt.
    #[error(
        "the prompt has {0} characters; prompts have at most {PROMPT_LIMIT}, and the networks read a few hundred"
    )]
    LongPrompt(usize),
    /// Another encoding.
    #[error("byte {0} of the line is not UTF-8; save the file as UTF-8")]
    NotUtf8(usize),
    /// No JSON.
    #[error("not a JSON object: {0}; a line looks like {{\"prompt\": \"a dog left of a cat\"}}")]
    Json(String),
    /// A value of another kind.
    #[error("\"{key}\" is {found}; it should be {wanted}")]
    Kind {
        /// The key.
        key: &'static str,
        /// What it is.
        found: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// No CSV.
    #[error("not a row of CSV: {0}")]
    Csv(String),
    /// A row that is longer or shorter than the header.
    #[error(
        "{found} fields, but the header has {wanted}; a field with a comma in it needs quotation marks"
    )]
    Fields {
        /// How many there are.
        found: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// A quotation mark without another one.
    #[error("a quotation mark is opened but not closed before the end of the file")]
    OpenQuote,
    /// CSV without prompts.
    #[error("no column \"prompt\"; the first line names the columns, and here they are: {0}")]
    NoPromptColumn(String),
    /// A column twice.
    #[error("two columns are called {0:?}")]
    TwiceColumn(String),
    /// A column for what CSV has no form for.
    #[error(
        "the column {0:?} is read only in .jsonl files; write the prompts as JSON Lines, or leave the column out"
    )]
    OnlyJsonl(String),
    /// A key that is almost one that means something.
    #[error("{found:?} means nothing here; did you mean {meant:?}?")]
    Key {
        /// What is written.
        found: String,
        /// What may be meant.
        meant: &'static str,
    },
    /// No text.
    #[error(
        "no \"prompt\", or an empty one; remove the line, or write what the picture should show"
    )]
    NoPrompt,
    /// No name for a file.
    #[error(
        "the prompt_id {0:?} becomes part of file names; letters, digits, \".\", \"_\" and \"-\" are fine, up to \
         {ID_LIMIT} of them, not beginning with \".\" or \"-\""
    )]
    Id(String),
    /// The same name again.
    #[error(
        "the prompt_id {id:?} is already in line {first}{}; give each prompt its own",
        if *exactly { "" } else { " in different letter case, and some file systems see no difference" }
    )]
    TwiceId {
        /// The name.
        id: String,
        /// Where it was first.
        first: usize,
        /// In the same letter case.
        exactly: bool,
    },
    /// A relation of nothing.
    #[error(
        "\"relation\", \"object_a\" and \"object_b\" go together; {0} is missing, or leave out all three"
    )]
    Incomplete(&'static str),
    /// Objects and relations without each other.
    #[error(
        "\"objects\" and \"relations\" go together; {0} is missing ([] for none), or leave out both"
    )]
    Unpaired(&'static str),
    /// Two ways to say the same.
    #[error("\"relation\" and \"relations\" are both given; one is enough")]
    Both,
    /// An index without an object.
    #[error(
        "a relation is between objects {a} and {b}, counted from 0, but there are {objects} objects"
    )]
    Index {
        /// The subject's index.
        a: usize,
        /// The object's.
        b: usize,
        /// How many there are.
        objects: usize,
    },
    /// A relation that is none.
    #[error("{error}{}", nearest.map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default())]
    Relation {
        /// As given.
        error: SceneError,
        /// The one that looks most like it, if one does.
        nearest: Option<&'static str>,
    },
    /// A relation of three objects.
    #[error(
        "\"between\" is about three objects, but the relations of a set of prompts are about two; say it with two \
         relations, right of one and left of the other"
    )]
    Between,
    /// What is given does not fit the prompt, or nothing can be read from the prompt.
    #[error("the prompt {prompt:?}: {error}")]
    Given {
        /// The prompt.
        prompt: String,
        /// Why not.
        error: SceneError,
    },
    /// Nothing is given and nothing can be read from the prompt.
    #[error(
        "the prompt {prompt:?}: {error}; in a file of prompts, give \"relation\", \"object_a\" and \"object_b\""
    )]
    Unread {
        /// The prompt.
        prompt: String,
        /// Why not.
        error: SceneError,
    },
    /// A prompt of several whose parts cannot be told apart.
    #[error("the prompt cannot be used: {0}")]
    Composed(#[from] crate::prompt::PromptError),
    /// A prompt that changes on the way in a way that cannot be.
    #[error(transparent)]
    Schedule(#[from] crate::prompt::schedule::ScheduleError),
    /// A box that is none.
    #[error(transparent)]
    Box(#[from] crate::guidance::boxes::BoxError),
}

/// The name of `known` that looks most like `name`, if one does.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.trim().to_lowercase();
    let alike = |known: &'a str| {
        let begins = name.len() > 2 && known.starts_with(&name);
        let likeness = strsim::normalized_damerau_levenshtein(&name, known);
        (likeness.max(if begins { 0.99 } else { 0.0 }), known)
    };
    let best = known.into_iter().map(alike);
    best.filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// The beginning of a text, as a message quotes it.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
