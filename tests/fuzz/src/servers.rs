//! What servers answer, and how files of pictures are named.

use prepose_remote::chat::read_answer;
use prepose_remote::images::{Workflow, decode_picture};
use prepose_remote::{Address, said_of_error};
use prepose_sources::folder::Template;
use serde_json::Value;

use crate::text_of;

/// Answers of language models: words without white space around them, and thoughts apart from them.
pub fn chat(bytes: &[u8]) {
    let Ok(json) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    if let Ok(answer) = read_answer(&json, || "http://h".into()) {
        assert_eq!(answer.text.trim(), answer.text);
        assert!(json.pointer("/choices/0").is_some());
    }
}

/// Errors of servers in words, pictures in base64, graphs of ComfyUI, addresses: messages are short and harmless, and what
/// is taken for a picture begins as one.
pub fn endpoints(bytes: &[u8]) {
    let said = said_of_error(bytes);
    assert!(!said.contains(|c: char| c.is_control()), "{said:?}");
    assert!(said.len() < 8192, "{} bytes", said.len());
    let Some(text) = text_of(bytes) else { return };
    if let Some(picture) = decode_picture(text) {
        let begins = [&b"\x89PNG"[..], b"RIFF", &[0xff, 0xd8, 0xff]];
        assert!(begins.iter().any(|begin| picture.starts_with(begin)));
    }
    let _ = Workflow::parse(text);
    if let Ok(address) = Address::parse(text) {
        let shown = address.to_string();
        assert!(!address.has_credentials() || !shown.contains('@') || shown.contains("***"));
        let _ = address.below("chat/completions");
    }
}

/// Templates of names: the first line is the template, the second a name.
pub fn templates(bytes: &[u8]) {
    let Some(text) = text_of(bytes) else { return };
    let (template, name) = text.split_once('\n').unwrap_or((text, "0"));
    if let Ok(template) = Template::parse(template) {
        let again = Template::parse(template.text()).expect("what was read is read again");
        assert_eq!(again.fits(name), template.fits(name));
    }
}
