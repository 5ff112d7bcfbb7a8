//! Text from a file, a server or a file's name, for a message.

use std::fmt;

/// How many characters of a foreign name a message shows.
pub const MAX_SHOWN: usize = 160;

/// Foreign text as a message shows it: control characters and those that change the direction of
/// writing are escaped, and of a long text only the beginning and the end are given.
pub fn printable(text: &str) -> Printable<'_> {
    Printable(text)
}

/// See [`printable`].
#[derive(Debug, Clone, Copy)]
pub struct Printable<'a>(&'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const END: usize = 40;
        let text = self.0;
        // A character has at most four bytes, so a text this short need not be counted.
        if text.len() <= MAX_SHOWN || text.chars().nth(MAX_SHOWN).is_none() {
            return write(f, text);
        }
        let start = text.char_indices().nth(MAX_SHOWN - END);
        let end = text.char_indices().rev().nth(END - 1);
        let (start, end) = (start.map_or(0, |(at, _)| at), end.map_or(0, |(at, _)| at));
        write(f, &text[..start])?;
        f.write_str("…")?;
        write(f, &text[end..])?;
        write!(f, " ({} bytes)", text.len())
    }
}

fn write(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.chars().try_for_each(|c| match is_unsafe(c) {
        true => write!(f, "{}", c.escape_unicode()),
        false => fmt::Write::write_char(f, c),
    })
}

/// A whole message with its control characters escaped and its line breaks kept.
pub fn escaped(message: &str) -> String {
    let mut shown = String::with_capacity(message.len());
    for c in message.chars() {
        match c != '\n' && c != '\t' && is_unsafe(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown
}

/// As [`escaped`], for a text that has one line, such as a path: its line breaks are escaped as well.
pub fn escaped_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_unsafe(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown
}

/// JSON text that means the same, with the characters escaped that a terminal would do something else with than show
/// them; JSON itself asks for only some of them.
pub fn escaped_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        match is_unsafe(c) && !c.is_ascii_whitespace() {
            true => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    shown.push_str(&format!("\\u{unit:04x}"));
                }
            }
            false => shown.push(c),
        }
    }
    shown
}

/// How many characters of a whole message are shown, and of each of its reasons.
const MAX_MESSAGE: usize = 3000;
const MAX_REASON: usize = 1000;

/// A message from an error and its reasons, the nearest first, as it can be printed: joined by colons, with control
/// characters escaped, and never as long as what it is about. Of a reason that is too long the beginning, which names
/// the place, and the end, which has the way out, are kept.
pub fn message(reasons: impl IntoIterator<Item = String>) -> String {
    let reasons = reasons.into_iter();
    let shown: Vec<String> = reasons
        .map(|reason| shortened(escaped(&reason), MAX_REASON))
        .collect();
    shortened(shown.join(": "), MAX_MESSAGE)
}

/// The first three quarters and the last quarter of what may be shown of `text`.
fn shortened(text: String, most: usize) -> String {
    if text.len() <= most || text.chars().nth(most).is_none() {
        return text;
    }
    let at = |index| text.char_indices().nth(index).map_or(0, |(at, _)| at);
    let all = text.chars().count();
    let (start, end) = (at(most / 4 * 3), at(all - most / 4));
    format!("{} […] {}", &text[..start], &text[end..])
}

/// Whether a terminal would do something else with it than show it in its place.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{feff}'
        )
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_safe_to_show_and_means_the_same() {
        let shown = escaped_json("{\"a\": \"x\u{9b}2J\u{202e}y \u{e9}\"}\n");
        assert_eq!(shown, "{\"a\": \"x\\u009b2J\\u202ey \u{e9}\"}\n");
    }

    #[test]
    fn terminals_are_left_alone() {
        assert_eq!(printable("unet/weights ä").to_string(), "unet/weights ä");
        assert_eq!(printable("a\u{1b}[2Jb").to_string(), "a\\u{1b}[2Jb");
        assert_eq!(printable("a\u{202e}b\nc").to_string(), "a\\u{202e}b\\u{a}c");
        assert_eq!(escaped("a\n\tb\u{9b}\u{7}"), "a\n\tb\\u{9b}\\u{7}");
    }

    #[test]
    fn messages_are_never_as_long_as_the_input() {
        let plain = ["a: b".to_string(), "c\n\td".to_string()];
        assert_eq!(message(plain), "a: b: c\n\td");
        let long = |c: &str| format!("from {} to", c.repeat(1_000_000));
        let shown = message([
            long("ä"),
            "x\u{1b}".into(),
            long("\u{9b}"),
            long("ö"),
            long("ü"),
        ]);
        assert!(
            shown.starts_with("from ää") && shown.ends_with("üü to"),
            "{shown}"
        );
        assert!(
            !shown.contains('\u{9b}') && shown.contains("x\\u{1b}: from"),
            "{shown}"
        );
        assert!(shown.chars().count() <= MAX_MESSAGE + 10, "{shown}");
    }

    #[test]
    fn paths_have_one_line() {
        assert_eq!(escaped_line("a\n\u{1b}b ä"), "a\\u{a}\\u{1b}b ä");
    }

    #[test]
    fn long_names_are_shortened() {
        let long = format!("start{}end", "ä".repeat(100_000));
        let shown = printable(&long).to_string();
        assert!(shown.starts_with("startä") && shown.ends_with("end (200008 bytes)"));
        assert!(shown.chars().count() < MAX_SHOWN + 30, "{shown}");
        let fits = "ä".repeat(MAX_SHOWN);
        assert_eq!(printable(&fits).to_string(), fits);
    }
}
