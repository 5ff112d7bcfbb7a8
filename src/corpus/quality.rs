//! Which captions are natural language: the quality gate of appendix F.2.
//!
//! The paper names spam indicators, meta-tags and abnormal lengths, and gives no lists; these are ours.

/// Words of a caption, at least and at most.
pub const WORDS: std::ops::RangeInclusive<usize> = 3..=40;
/// Bytes of a caption at most.
pub const LONGEST: usize = 400;

/// Parts that captions of shops, galleries and pages have, and descriptions of pictures do not; in lower case.
pub const SPAM: [&str; 28] = [
    "http:",
    "https:",
    "www.",
    ".com",
    ".net",
    ".org",
    "click here",
    "buy now",
    "for sale",
    "free shipping",
    "free download",
    "% off",
    "best price",
    "discount",
    "coupon",
    "wholesale",
    "subscribe",
    "sign up",
    "royalty free",
    "royalty-free",
    "stock photo",
    "stock image",
    "stock illustration",
    "stock vector",
    "clipart",
    "clip art",
    "wallpaper",
    "t-shirt",
];

/// Parts of markup, file names and lists of keywords.
pub const META: [&str; 14] = [
    "<", ">", "{", "}", "|", "#", "@", "=", "_", ".jpg", ".jpeg", ".png", ".gif", "untitled",
];

/// What is wrong with a caption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Too few or too many words, or too long a text.
    Length,
    /// One of [`META`].
    Meta,
    /// One of [`SPAM`].
    Spam,
    /// Fewer than four in five of its characters are letters and spaces, or one in ten is no ASCII: not English sentences.
    Language,
}

/// Whether a caption is a natural description; `lower` is it in lower case.
pub fn fault(lower: &str) -> Option<Fault> {
    if lower.len() > LONGEST || !WORDS.contains(&lower.split_ascii_whitespace().count()) {
        return Some(Fault::Length);
    }
    // Most of META are single characters: one pass for all of them.
    let bytes = lower.as_bytes();
    if bytes.iter().any(|byte| b"<>{}|#@=_".contains(byte)) {
        return Some(Fault::Meta);
    }
    let dotted = bytes.contains(&b'.');
    let found = |part: &&str| (dotted || !part.starts_with('.')) && lower.contains(*part);
    if META.iter().filter(|part| part.len() > 1).any(found) {
        return Some(Fault::Meta);
    }
    if SPAM.iter().any(found) {
        return Some(Fault::Spam);
    }
    let plain = bytes
        .iter()
        .filter(|byte| byte.is_ascii_alphabetic() || **byte == b' ')
        .count();
    let foreign = bytes.iter().filter(|byte| !byte.is_ascii()).count();
    (5 * plain < 4 * bytes.len() || 10 * foreign >= bytes.len()).then_some(Fault::Language)
}
