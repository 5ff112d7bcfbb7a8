//! From the prompt's words to a detector's labels.

use thiserror::Error;

use prepose_scene::SceneObject;

/// A detector that knows a fixed list of things does not know this one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the checker does not know {object:?}; {}: {}",
    if *others { "the nearest things that it knows" } else { "it knows" },
    nearest.join(", ")
)]
pub struct UnknownObject {
    /// As in the prompt.
    pub object: String,
    /// Labels, those that look alike first: all of a short list, or three.
    pub nearest: Vec<String>,
    /// Whether it knows others than these.
    pub others: bool,
}

/// A vocabulary of at most so many labels is told whole.
const SHORT: usize = 40;

/// Other words for COCO's labels: GenEval's names, British ones, people.
const ALIASES: [(&str, &str); 37] = [
    ("adult", "person"),
    ("aeroplane", "airplane"),
    ("bike", "bicycle"),
    ("boy", "person"),
    ("cellphone", "cell phone"),
    ("child", "person"),
    ("computer keyboard", "keyboard"),
    ("computer mouse", "mouse"),
    ("doughnut", "donut"),
    ("fridge", "refrigerator"),
    ("girl", "person"),
    ("hair dryer", "hair drier"),
    ("houseplant", "potted plant"),
    ("human", "person"),
    ("hydrant", "fire hydrant"),
    ("kid", "person"),
    ("kitten", "cat"),
    ("man", "person"),
    ("mobile phone", "cell phone"),
    ("motorbike", "motorcycle"),
    ("phone", "cell phone"),
    ("plane", "airplane"),
    ("plant", "potted plant"),
    ("pottedplant", "potted plant"),
    ("puppy", "dog"),
    ("remote control", "remote"),
    ("sailboat", "boat"),
    ("ship", "boat"),
    ("sofa", "couch"),
    ("stop-sign", "stop sign"),
    ("table", "dining table"),
    ("teddy", "teddy bear"),
    ("teddybear", "teddy bear"),
    ("television", "tv"),
    ("tv remote", "remote"),
    ("tvmonitor", "tv"),
    ("woman", "person"),
];

/// COCO's label for what is also called `name`, in lower case.
pub(crate) fn alias(name: &str) -> Option<&'static str> {
    let known = ALIASES.iter().find(|(alias, _)| *alias == name);
    known.map(|(_, label)| *label)
}

/// The label in `vocabulary` for a thing that a prompt calls `phrase` and that is, in one word, a `noun`: the phrase
/// itself, the noun, or another word for one of them ("sofa" for `couch`).
///
/// # Errors
/// [`UnknownObject`] with the nearest labels.
pub fn label<'a>(
    vocabulary: &'a [String],
    phrase: &str,
    noun: &str,
) -> Result<&'a str, UnknownObject> {
    let known = |word: &str| vocabulary.iter().find(|label| *label == word);
    let names = [phrase.trim().to_lowercase(), noun.trim().to_lowercase()];
    let exact = names.iter().find_map(|name| known(name));
    let found = exact.or_else(|| names.iter().find_map(|name| alias(name).and_then(&known)));
    found.map(String::as_str).ok_or_else(|| {
        let told = match vocabulary.len() {
            all if all <= SHORT => all,
            _ => 3,
        };
        UnknownObject {
            object: phrase.trim().into(),
            nearest: nearest(vocabulary, &names, told),
            others: told < vocabulary.len(),
        }
    })
}

/// As [`label`], for an object of a scene; a detector without a vocabulary is asked for the phrase itself.
///
/// # Errors
/// [`UnknownObject`].
pub fn label_of(
    vocabulary: Option<&[String]>,
    object: &SceneObject,
) -> Result<String, UnknownObject> {
    match vocabulary {
        Some(vocabulary) => label(vocabulary, &object.phrase, &object.noun).map(Into::into),
        None => Ok(object.phrase.to_lowercase()),
    }
}

/// So many labels, those first that look most like one of `names`.
fn nearest(vocabulary: &[String], names: &[String], told: usize) -> Vec<String> {
    let likeness = |label: &str| {
        let alike = names.iter().map(|name| strsim::jaro_winkler(name, label));
        alike.fold(0.0, f64::max)
    };
    let mut labels: Vec<_> = vocabulary
        .iter()
        .map(|label| (likeness(label), label))
        .collect();
    labels.sort_by(|a, b| b.0.total_cmp(&a.0));
    labels
        .into_iter()
        .take(told)
        .map(|(_, label)| label.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> Vec<String> {
        ["cat", "couch", "teddy bear", "bear", "car", "zebra"]
            .map(String::from)
            .to_vec()
    }

    #[test]
    fn phrases_find_their_label() {
        let vocabulary = vocabulary();
        for (phrase, noun, wanted) in [
            ("cat", "cat", "cat"),
            ("Red Cars", "car", "car"),
            ("teddy bear", "bear", "teddy bear"),
            ("brown bear", "bear", "bear"),
            ("a sofa", "sofa", "couch"),
        ] {
            assert_eq!(label(&vocabulary, phrase, noun).unwrap(), wanted);
        }
    }

    #[test]
    fn what_is_unknown_is_told_with_what_is_near() {
        let error = label(&vocabulary(), "zebras", "zebr").unwrap_err();
        assert_eq!(error.nearest[0], "zebra");
        assert!(error.to_string().contains("; it knows: zebra, "), "{error}");
        let many: Vec<String> = (0..50).map(|n| format!("thing {n}")).collect();
        let error = label(&many, "thing", "thing").unwrap_err();
        assert_eq!(error.nearest.len(), 3);
        assert!(error.to_string().contains("nearest things"), "{error}");
        // A word for something that this detector does not know either.
        let error = label(&vocabulary(), "television", "television").unwrap_err();
        assert!(error.to_string().contains("does not know \"television\""));
    }

    #[test]
    fn aliases_are_sorted_and_no_word_is_its_own() {
        assert!(ALIASES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(ALIASES.iter().all(|(alias, label)| alias != label));
    }
}
