//! What people type, and what messages show.

use prepose_scene::neutral::{neutral, swapped};
use prepose_scene::{Scene, schedule, weights};
use prepose_untrusted::{escaped, escaped_line, message, printable, redact, redact_address};

use crate::text_of;

/// Weights in a prompt: the origins of a piece are places in the prompt, in order.
pub fn prompt_weights(bytes: &[u8]) {
    let Some(prompt) = text_of(bytes) else { return };
    let Ok(pieces) = weights::parse(prompt) else {
        return;
    };
    for piece in pieces {
        assert_eq!(piece.origin.len(), piece.text.len() + 1);
        assert!(piece.origin.is_sorted());
        assert!(piece.origin.iter().all(|at| *at <= prompt.len()));
        assert!(piece.weight.abs() <= weights::MAX_WEIGHT);
    }
}

/// Prompts that change on the way: the steps ascend from 0, and what two passes have of them are such prompts, too.
pub fn prompt_schedule(bytes: &[u8]) {
    const STEPS: usize = 20;
    let Some(prompt) = text_of(bytes) else { return };
    if let Ok(left) = schedule::second_pass(prompt, STEPS, STEPS) {
        assert!(schedule::segments(&left, STEPS).is_ok(), "{left:?}");
    }
    if let Ok(shown) = schedule::first_pass(prompt, STEPS, STEPS) {
        assert!(schedule::segments(&shown, STEPS).is_ok(), "{shown:?}");
    }
    let Ok(segments) = schedule::segments(prompt, STEPS) else {
        return;
    };
    let steps: Vec<usize> = segments.iter().map(|segment| segment.first_step).collect();
    assert_eq!(steps.first(), Some(&0));
    assert!(steps.is_sorted_by(|a, b| a < b) && steps.iter().all(|step| *step < STEPS));
}

/// Objects and relations of a prompt: they lie in the prompt, and other forms of it can be read as well.
pub fn scene(bytes: &[u8]) {
    let Some(prompt) = text_of(bytes) else { return };
    let _ = Scene::unread(prompt);
    let Ok(scene) = Scene::parse(prompt) else {
        return;
    };
    for object in &scene.objects {
        assert!(prompt.get(object.bytes.clone()).is_some(), "{object:?}");
    }
    for relation in &scene.relations {
        let mut objects = relation.objects.iter().chain([&relation.subject]);
        assert!(objects.all(|object| *object < scene.objects.len()));
    }
    let _ = (neutral(prompt), swapped(prompt));
}

/// Foreign text in messages: no control characters, no length without bounds, no secret.
pub fn messages(bytes: &[u8]) {
    let Some(text) = text_of(bytes) else { return };
    let shown = printable(text).to_string();
    assert!(!shown.contains(|c: char| c.is_control()));
    assert!(shown.len() < 4096);
    let plain = |c: char| c == '\n' || c == '\t' || !c.is_control();
    assert!(escaped(text).chars().all(plain));
    assert!(!escaped_line(text).contains(|c: char| c.is_control()));
    let shown = message([text.to_string(), "why".to_string(), text.to_string()]);
    assert!(shown.chars().all(plain) && shown.contains(": why: "));
    assert!(shown.chars().count() < 4096);
    redact(text);
    let address = format!(
        "https://user:p{}SECRET@host.example/",
        text.replace('@', "")
    );
    assert!(!redact_address(&address).contains("SECRET"), "{address:?}");
}
