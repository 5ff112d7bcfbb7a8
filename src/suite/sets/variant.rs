//! Sets derived from others.

use super::{Suite, SuiteError};

/// What a name ends with to ask for [`with_and`].
pub(super) const AND: &str = "+and";

/// The same prompts with "and" for the relation, which they are still about: variant (2) of "Why Settle for Mid" (arXiv
/// 2506.23418). The model is told of two objects, guidance and checker of the relation as well.
///
/// # Errors
/// A prompt without exactly one relation of two objects, or whose text does not have the objects' names.
pub(super) fn with_and(mut suite: Suite) -> Result<Suite, SuiteError> {
    for prompt in &mut suite.prompts {
        let text = match (prompt.objects.as_slice(), prompt.relations.as_slice()) {
            ([first, second], [_]) => joined(&prompt.prompt, first, second),
            _ => None,
        };
        prompt.prompt = text.ok_or_else(|| SuiteError::NoAnd {
            prompt_id: prompt.prompt_id.clone(),
            prompt: prompt.prompt.clone(),
        })?;
    }
    suite.name += AND;
    Ok(suite)
}

/// The text with "and" for all between two names but the article of the second.
fn joined(text: &str, first: &str, second: &str) -> Option<String> {
    let end = text.find(first)? + first.len();
    let start = end + text[end..].find(second)?;
    let between = &text[end..start];
    let article = between.split_whitespace().next_back();
    let article = article.filter(|word| ["a", "an", "the"].contains(word));
    let article = article.map(|word| format!("{word} ")).unwrap_or_default();
    Some(format!("{} and {article}{}", &text[..end], &text[start..]))
}
