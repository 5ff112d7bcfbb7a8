//! Why something is no method.

use std::path::PathBuf;

use prepose_untrusted::printable;
use thiserror::Error;

use super::{MOST_METHODS, MOST_NOISES, Method};
use crate::prompt::compose::OpeningError;

/// Why something is no method.
#[derive(Debug, Error)]
pub enum MethodError {
    /// A name that nobody knows.
    #[error(
        "{name:?} is not a method; the methods are {}, and several joined by '+', such as psg+best-of-4; anything else can \
         be given in a file (--methods)",
        Method::names()
    )]
    Unknown {
        /// As typed.
        name: String,
    },
    /// Two of a kind.
    #[error("{name:?} asks for two kinds of {what}; a method has one")]
    Twice {
        /// As typed.
        name: String,
        /// What there are two of.
        what: &'static str,
    },
    /// A number that makes no sense.
    #[error(
        "{name:?} has the number 0 or one that is too large; write, for instance, best-of-8 or delayed-order-2"
    )]
    Number {
        /// As typed.
        name: String,
    },
    /// When a prompt changes, in none of the ways to say it.
    #[error(
        "{0:?} does not say when the prompt changes: give a number of steps, at least 1 (such as 2), a share of them with \
         a decimal point, above 0 and below 1 (such as 0.1), or a noise level (such as sigma5.5)"
    )]
    Moment(String),
    /// A name that cannot be a folder's.
    #[error(
        "{name:?} cannot be a method's name: it becomes a folder, may have letters, digits, '.', '_', '+' and '-', and \
         must begin with a letter or digit"
    )]
    Name {
        /// As given.
        name: String,
    },
    /// The same name for two methods.
    #[error("there are two methods called {name:?}; give one of them another name")]
    Duplicate {
        /// Theirs.
        name: String,
    },
    /// The file is not what it should be.
    #[error(
        "not a file of methods, which has tables [[method]] with name, guide, search and begin: {why}{}",
        line.map(|line| format!(" in line {line}")).unwrap_or_default()
    )]
    File {
        /// From 1, where it is known.
        line: Option<usize>,
        /// What is wrong there.
        why: String,
    },
    /// A file that cannot be used.
    #[error("cannot read the methods in {}", path.display())]
    In {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// More methods than anybody compares.
    #[error("there are {methods} methods; a run has at most {MOST_METHODS}")]
    TooMany {
        /// How many.
        methods: usize,
    },
    /// A search without end.
    #[error("the method {name:?} searches {best_of} noises; it can be from 1 to {MOST_NOISES}")]
    Search {
        /// Whose.
        name: String,
        /// How many noises.
        best_of: usize,
    },
    /// A file without a method.
    #[error("the file has no [[method]]")]
    Empty,
    /// A prompt that has no other form.
    #[error("{method} begins with another form of {prompt:?}, which cannot be derived")]
    Opening {
        /// Whose.
        method: String,
        /// Which prompt.
        prompt: String,
        /// Why not.
        source: Box<OpeningError>,
    },
}

impl MethodError {
    /// What is wrong with a file, in one piece: the parser's own message shows the line, however long it is.
    pub(super) fn file(error: &toml::de::Error, text: &str) -> Self {
        let before = error.span().and_then(|span| text.get(..span.start));
        Self::File {
            line: before.map(|before| before.matches('\n').count() + 1),
            why: printable(error.message()).to_string(),
        }
    }
}
