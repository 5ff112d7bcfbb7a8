//! Sets derived from others.

use super::{Suite, SuiteError, SuitePrompt, given_relations};
use crate::prompt::scene::{GivenRelation, Scene, SceneObject};

/// What a name ends with to ask for [`with_and`].
pub(super) const AND: &str = "+and";

/// The same prompts with "and" for the relation, which they are still about: variant (2) of "Why Settle for Mid" (arXiv
/// 2506.23418). The model is told of two objects, guidance and checker of the relation as well.
///
/// # Errors
/// A prompt without exactly one relation of two objects, or whose text cannot do without it by this rule.
pub(super) fn with_and(mut suite: Suite) -> Result<Suite, SuiteError> {
    for prompt in &mut suite.prompts {
        prompt.prompt = joined(prompt).ok_or_else(|| SuiteError::NoAnd {
            prompt_id: prompt.prompt_id.clone(),
            prompt: prompt.prompt.clone(),
        })?;
    }
    suite.name += AND;
    Ok(suite)
}

/// Words that come before a name and belong to it.
const ARTICLES: &str = "a an the another other some this that these those my our your his her its their every each several \
    many few both all one two three four five six seven eight nine ten eleven twelve dozen";

/// What would lose its other half between the names.
const MARKS: [char; 7] = ['(', ')', '[', ']', '"', '\u{201c}', '\u{201d}'];

/// The text with "and" for all between the names of its two objects but the article and the number of the second. None if it
/// would not name the same two then, or would still say how they stand.
fn joined(prompt: &SuitePrompt) -> Option<String> {
    let ([_, _], [_]) = (prompt.objects.as_slice(), prompt.relations.as_slice()) else {
        return None;
    };
    let text = prompt.prompt.as_str();
    let given = given_relations(&prompt.objects, &prompt.relations);
    let [first, second] = two(text, &given)?;
    let between = text.get(first.bytes.end..second.bytes.start)?;
    if between.contains(MARKS) || !between.ends_with(char::is_whitespace) {
        return None;
    }
    let is_article = |word: &&str| {
        let word = word.to_lowercase();
        word.parse::<usize>().is_ok() || ARTICLES.split(' ').any(|article| article == word)
    };
    let words = between.split_whitespace().rev();
    let articles: Vec<&str> = words.take_while(is_article).collect();
    // Of a text that cannot be read, nothing else shows where the name begins.
    if articles.is_empty() && Scene::parse(text).is_err() {
        return None;
    }
    let mut parts = vec![&text[second.bytes.start..]];
    parts.extend(articles);
    parts.extend(["and", &text[..first.bytes.end]]);
    parts.reverse();
    let joined = parts.join(" ");
    let scene = Scene::parse(&joined).ok()?;
    let from_end = text.len() - second.bytes.start;
    let places = [
        (first.bytes.start, first),
        (joined.len() - from_end, second),
    ];
    let named = places.iter().all(|(start, object)| {
        let mut here = scene.objects.iter().filter(|one| one.bytes.start == *start);
        here.any(|one| one.phrase == object.phrase && one.count == object.count)
    });
    (named && scene.relations.is_empty()).then_some(joined)
}

/// The two objects of the only relation, in the order in which the text names them.
fn two(text: &str, given: &[GivenRelation]) -> Option<[SceneObject; 2]> {
    let scene = Scene::with_relations(text, given).ok()?;
    let (subject, object) = scene.relations.first()?.two()?;
    let mut two = [subject, object].map(|at| scene.objects[at].clone());
    two.sort_by_key(|object| object.bytes.start);
    Some(two)
}
