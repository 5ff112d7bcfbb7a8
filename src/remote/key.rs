//! Keys of servers.

use std::fmt;

use thiserror::Error;

/// A key. It is sent to the server that it is for, and shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    text: String,
    variable: String,
}

/// Why a key cannot be used. The key is not in the message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// No such variable.
    #[error(
        "the environment variable {0} is not set: set it to the server's key, for example with `read -rs {0}; export {0}`, \
         which leaves no trace in the shell's history"
    )]
    Missing(String),
    /// Nothing in it.
    #[error(
        "the environment variable {0} is empty: set it to the server's key, or name another variable"
    )]
    Empty(String),
    /// Characters that a header cannot have.
    #[error(
        "the key in the environment variable {0} has spaces or other characters that no key has; was more than the key \
         copied?"
    )]
    Characters(String),
    /// Something else than a variable's name, which could be a key.
    #[error(
        "this is not the name of an environment variable (letters, digits and underscores; it is not shown, as it may be \
         the key itself): put the key into a variable and give the variable's name"
    )]
    Name,
}

impl Key {
    /// The key in an environment variable.
    ///
    /// # Errors
    /// [`KeyError`]; the key itself is in no message, nor is a name that could be one.
    pub fn from_variable(name: &str) -> Result<Self, KeyError> {
        let mut characters = name.chars();
        let begins = characters
            .next()
            .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        if !begins || !characters.all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(KeyError::Name);
        }
        // Names of variables are short and, by custom, in capitals; keys are long and mixed.
        let value = std::env::var_os(name).ok_or_else(|| match name.len() > 40 {
            true => KeyError::Name,
            false => KeyError::Missing(name.into()),
        })?;
        Self::new(value.to_str().unwrap_or("\0"), name)
    }

    /// A key that was found in `variable`.
    ///
    /// # Errors
    /// An empty key, or one that no header can hold.
    pub fn new(text: &str, variable: &str) -> Result<Self, KeyError> {
        // A file that was read into the variable ends in a line break.
        let text = text.trim_end_matches(['\r', '\n']);
        match text {
            "" => Err(KeyError::Empty(variable.into())),
            _ if !text.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Err(KeyError::Characters(variable.into()))
            }
            _ => Ok(Self {
                text: text.into(),
                variable: variable.into(),
            }),
        }
    }

    /// Where it came from.
    pub fn variable(&self) -> &str {
        &self.variable
    }

    /// For the header that it is sent in.
    pub(crate) fn secret(&self) -> &str {
        &self.text
    }

    /// `text` without the key, which servers like to repeat in their errors.
    pub(crate) fn cut_from(&self, text: &str) -> String {
        text.replace(&self.text, "***")
    }
}

/// Without the key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(from {})", self.variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_shown() {
        let key = Key::new("sk-SECRET\n", "MY_KEY").unwrap();
        assert_eq!(key.secret(), "sk-SECRET");
        assert_eq!(format!("{key:?}"), "Key(from MY_KEY)");
        assert_eq!(key.cut_from("bad key sk-SECRET."), "bad key ***.");
        for (text, error) in [
            ("", KeyError::Empty("K".into())),
            ("sk SECRET", KeyError::Characters("K".into())),
            ("sk-\u{e4}", KeyError::Characters("K".into())),
        ] {
            assert_eq!(Key::new(text, "K").unwrap_err(), error);
        }
    }

    #[test]
    fn a_key_in_place_of_a_variable_is_not_shown() {
        for name in ["sk-proj-SECRET", "", "hf SECRET", "9abc"] {
            let error = Key::from_variable(name).unwrap_err();
            assert!(!error.to_string().contains("SECRET"), "{error}");
        }
        let long = "a".repeat(60);
        assert_eq!(Key::from_variable(&long).unwrap_err(), KeyError::Name);
        let missing = Key::from_variable("PREPOSE_NO_SUCH_KEY").unwrap_err();
        assert!(
            missing
                .to_string()
                .contains("PREPOSE_NO_SUCH_KEY is not set")
        );
    }
}
