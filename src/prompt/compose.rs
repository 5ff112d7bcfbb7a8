//! Prompts that are composed of several: Composable Diffusion (Liu et al. 2022) in AUTOMATIC1111's notation.
//!
//! `a dog AND a cat :0.8` is two prompts. Each is told to the network by itself, and what each adds to the empty prompt
//! is added up, times its weight. `AND` stands in capitals as a word of its own; a colon with a number at the end of a
//! part is its weight. In a prompt without `AND` nothing is a weight.

use prepose_scene::neutral::{NeutralError, Opening};
use prepose_scene::schedule::{self, ScheduleError};
use prepose_scene::{GivenRelation, Scene, SceneError};
use thiserror::Error;

use super::PromptError;

/// The most parts a prompt may have: each is a row of every UNet call.
pub const MAX_PARTS: usize = 16;

/// The largest weight, of either sign.
pub const MAX_PART_WEIGHT: f64 = 100.0;

/// One prompt of those that a prompt is composed of.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Its text, without the weight.
    pub text: String,
    /// What it counts; negative for what should not be there.
    pub weight: f64,
}

/// The parts of `prompt`: itself, if it is not composed.
///
/// # Errors
/// More than [`MAX_PARTS`], a weight beyond [`MAX_PART_WEIGHT`].
pub fn parts(prompt: &str) -> Result<Vec<Part>, PromptError> {
    let texts = split(prompt);
    if texts.len() == 1 {
        let text = prompt.to_string();
        return Ok(vec![Part { text, weight: 1.0 }]);
    }
    if texts.len() > MAX_PARTS {
        return Err(PromptError::TooManyParts { parts: texts.len() });
    }
    let part = |text: &&str| {
        let (text, weight) = weighted(text);
        match weight.abs() <= MAX_PART_WEIGHT {
            true => Ok(Part {
                text: text.to_string(),
                weight,
            }),
            false => Err(PromptError::PartWeight { weight }),
        }
    };
    texts.iter().map(part).collect()
}

/// The part of `prompt` that objects and relations are read from: the first.
///
/// # Errors
/// As [`parts`].
pub fn first_part(prompt: &str) -> Result<String, PromptError> {
    let first = parts(prompt)?.into_iter().next();
    Ok(first.map(|part| part.text).unwrap_or_default())
}

/// Why it cannot be said what a prompt is about.
#[derive(Debug, Error)]
pub enum ReadError {
    /// As [`parts`].
    #[error(transparent)]
    Parts(#[from] PromptError),
    /// Words that are not understood, or relations that do not fit them.
    #[error(transparent)]
    Scene(#[from] SceneError),
}

/// The objects of `prompt` and what it states, or `relations` instead. Of a composed prompt the first part is read, as for
/// guidance; what is given is about all of it where that part does not name it.
///
/// # Errors
/// A prompt that cannot be read, relations that do not fit it.
pub fn scene_of(prompt: &str, relations: &[GivenRelation]) -> Result<Scene, ReadError> {
    let first = first_part(prompt)?;
    Ok(match relations {
        [] => Scene::parse(&first)?,
        given => Scene::with_relations(&first, given)
            .or_else(|_| Scene::with_relations(prompt, given))?,
    })
}

/// Why a prompt has no other form to begin with.
#[derive(Debug, Error)]
pub enum OpeningError {
    /// As [`parts`].
    #[error(transparent)]
    Parts(#[from] PromptError),
    /// A change that the run does not reach.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// There is no such form of these words.
    #[error(transparent)]
    Neutral(#[from] NeutralError),
}

/// The `form` of `prompt`, in which nothing is scheduled, to begin with. Of a composed prompt it is that of the first part,
/// which the objects are read from; the other parts and the weights stay.
///
/// # Errors
/// [`OpeningError`].
pub fn opening(form: Opening, prompt: &str) -> Result<String, OpeningError> {
    let texts = split(prompt);
    let [first, _, ..] = texts[..] else {
        return Ok(form.of(prompt)?);
    };
    parts(prompt)?;
    let (text, _) = weighted(first);
    let start = first.len() - first.trim_start().len();
    let (before, after) = (&prompt[..start], &prompt[start + text.len()..]);
    Ok(format!("{before}{}{after}", form.of(text)?))
}

/// The `form` of `prompt` to begin a run of `steps` steps with: the [`opening`] of what the run ends with.
///
/// # Errors
/// [`OpeningError`].
pub fn opening_of_run(form: Opening, prompt: &str, steps: usize) -> Result<String, OpeningError> {
    let last = schedule::segments(prompt, steps)?.pop();
    opening(form, last.as_ref().map_or(prompt, |last| &last.text))
}

/// What stands between the words `AND`.
fn split(prompt: &str) -> Vec<&str> {
    const JOIN: &str = "AND";
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut texts = Vec::new();
    let mut start = 0;
    for (at, _) in prompt.match_indices(JOIN) {
        let end = at + JOIN.len();
        let before = prompt[..at].chars().next_back();
        let after = prompt[end..].chars().next();
        if !before.is_some_and(is_word) && !after.is_some_and(is_word) {
            texts.push(&prompt[start..at]);
            start = end;
        }
    }
    texts.push(&prompt[start..]);
    texts
}

/// A part's text and its weight.
fn weighted(part: &str) -> (&str, f64) {
    let found = part.rsplit_once(':').and_then(|(text, number)| {
        let number = number.trim();
        let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
        let plain = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
        Some((text, number.parse().ok().filter(|_| plain)?))
    });
    let (text, weight) = found.unwrap_or((part, 1.0));
    (text.trim(), weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(prompt: &str) -> Vec<(String, f64)> {
        let parts = parts(prompt).unwrap().into_iter();
        parts.map(|part| (part.text, part.weight)).collect()
    }

    fn pairs(expected: &[(&str, f64)]) -> Vec<(String, f64)> {
        let owned = expected.iter();
        owned
            .map(|(text, weight)| (text.to_string(), *weight))
            .collect()
    }

    #[test]
    fn prompts_are_split_at_the_word_in_capitals() {
        for whole in [
            "a dog and a cat",
            "SAND and BAND",
            "an ANDROID",
            "cat_AND dog",
            "AND2",
            "a screen of 16:9",
            "a cat :0.5",
            "",
        ] {
            assert_eq!(read(whole), pairs(&[(whole, 1.0)]), "{whole}");
        }
        for (prompt, expected) in [
            ("a dog AND a cat", &[("a dog", 1.0), ("a cat", 1.0)][..]),
            ("a dog AND, a cat", &[("a dog", 1.0), (", a cat", 1.0)]),
            ("a\nAND\nb", &[("a", 1.0), ("b", 1.0)]),
            (
                "a dog :2 AND a cat: -0.5",
                &[("a dog", 2.0), ("a cat", -0.5)],
            ),
            (
                "16:9 AND b :.7 AND c:+3.",
                &[("16", 9.0), ("b", 0.7), ("c", 3.0)],
            ),
            ("(cat:1.3) AND a: b", &[("(cat:1.3)", 1.0), ("a: b", 1.0)]),
            ("a AND", &[("a", 1.0), ("", 1.0)]),
            (
                "a :1e3 AND b :inf AND c :1.2.3",
                &[("a :1e3", 1.0), ("b :inf", 1.0), ("c :1.2.3", 1.0)],
            ),
        ] {
            assert_eq!(read(prompt), pairs(expected), "{prompt}");
        }
    }

    #[test]
    fn the_first_part_is_read_and_what_is_given_is_about_all() {
        let nouns = |scene: &Scene| -> Vec<String> {
            let nouns = scene.objects.iter().map(|object| object.noun.clone());
            nouns.collect()
        };
        let first = scene_of("a dog AND a cat :0.5", &[]).unwrap();
        assert_eq!(nouns(&first), ["dog"]);
        let given = ["dog | left of | cat".parse().unwrap()];
        let all = scene_of("a dog AND a cat", &given).unwrap();
        assert_eq!((nouns(&all).len(), all.relations.len()), (2, 1));
        // The second dog is none of guidance's.
        let named = scene_of("a dog and a cat AND a dog", &given).unwrap();
        assert_eq!(nouns(&named), ["dog", "cat"]);
        let none = scene_of("a dog AND a bird", &given).unwrap_err();
        assert!(matches!(none, ReadError::Scene(_)), "{none}");
        let heavy = scene_of("a dog :101 AND a cat", &[]).unwrap_err();
        assert!(matches!(heavy, ReadError::Parts(_)), "{heavy}");
    }

    #[test]
    fn a_form_is_of_what_the_run_ends_with() {
        let begin = |form, prompt: &str| match opening_of_run(form, prompt, 20) {
            Ok(text) => text,
            Err(error) => format!("error: {error}"),
        };
        for (prompt, neutral, swapped) in [
            (
                "a [red:blue:10] car and a dog",
                "two things",
                "a dog and a blue car",
            ),
            (
                "a dog and a [cat:bird:.5]",
                "two animals",
                "a bird and a dog",
            ),
            (
                " a dog and a cat :2 AND a tree :0.5 AND a house",
                " two animals :2 AND a tree :0.5 AND a house",
                " a cat and a dog :2 AND a tree :0.5 AND a house",
            ),
            (
                "a dog and a [cat:bird:.5][ AND a tree:5]",
                "two animals AND a tree",
                "a bird and a dog AND a tree",
            ),
        ] {
            assert_eq!(begin(Opening::Neutral, prompt), neutral);
            assert_eq!(begin(Opening::Swapped, prompt), swapped);
        }
        for (prompt, part) in [
            ("a dog on grass AND a cat on grass :0.7", "--neutral-prompt"),
            ("AND a dog and a cat", "no object"),
            ("a dog and a cat :101 AND a tree", "101"),
            ("a dog and a [cat:bird:20]", "20 steps"),
        ] {
            let message = begin(Opening::Neutral, prompt);
            assert!(
                message.starts_with("error: ") && message.contains(part),
                "{message}"
            );
        }
    }

    #[test]
    fn what_would_never_end_is_refused() {
        let many = ["a"; MAX_PARTS + 1].join(" AND ");
        let error = parts(&many).unwrap_err().to_string();
        assert!(error.contains("17 parts"), "{error}");
        let error = parts("a :101 AND b").unwrap_err().to_string();
        assert!(error.contains("101"), "{error}");
        let digits = format!("a :{} AND b", "9".repeat(400));
        assert!(parts(&digits).is_err());
    }
}
