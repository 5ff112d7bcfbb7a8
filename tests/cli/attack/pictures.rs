//! Requests and texts inside of pictures that somebody else made.

use std::fs;
use std::io::Cursor;

use serde_json::{Value, json};

use super::Folder;

/// A PNG of 8 × 8 pixels with this text under `prepose`, and other texts that are packed.
fn png(request: &str, packed: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(Cursor::new(&mut bytes), 8, 8);
    encoder.set_color(png::ColorType::Rgb);
    let request = request.to_string();
    encoder.add_itxt_chunk("prepose".into(), request).unwrap();
    for (keyword, text) in packed {
        encoder
            .add_ztxt_chunk((*keyword).into(), (*text).into())
            .unwrap();
    }
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&[100; 8 * 8 * 3]).unwrap();
    writer.finish().unwrap();
    bytes
}

fn request() -> Value {
    json!({
        "prompt": "a dog to the left of a cat", "seed": 1, "width": 128, "height": 128, "steps": 2, "guidance_scale": 4.0,
        "noise": "torch", "model": {"checkpoint": "toybox", "dtype": "f32"},
    })
}

/// The request with `value` at `place`, in a picture.
fn changed(place: &str, value: Value) -> Vec<u8> {
    let mut request = request();
    *request.pointer_mut(place).unwrap_or(&mut Value::Null) = value.clone();
    if let Some((outer, key)) = place.rsplit_once('/') {
        request.pointer_mut(outer).unwrap()[key] = value;
    }
    png(&stored("0.1.0", &request), &[])
}

fn stored(version: &str, request: &Value) -> String {
    json!({"version": version, "device": "flex", "request": request}).to_string()
}

#[test]
fn a_sound_request_is_made_again() {
    let folder = Folder::new();
    folder.write("x.png", changed("/seed", json!(2)));
    let output = folder.run(&["generate", "--again", "x.png", "-o", "y.png"]);
    let message = super::sound(&[], &output);
    assert!(output.status.success(), "{message}");
    assert!(folder.path().join("y.png").exists());
}

#[test]
fn numbers_in_a_request() {
    let folder = Folder::new();
    for (place, values, part) in [
        (
            "/clip_skip",
            vec![json!(5), json!(100), json!(1u64 << 63), json!(u64::MAX)],
            "clip skip",
        ),
        ("/clip_skip", vec![json!(-1), json!("x")], "the request in"),
        (
            "/width",
            vec![
                json!(0),
                json!(1),
                json!(129),
                json!(1 << 20),
                json!(u64::MAX),
            ],
            "is not a size",
        ),
        ("/height", vec![json!(8), json!(u64::MAX)], "is not a size"),
        (
            "/steps",
            vec![json!(0), json!(1001), json!(u64::MAX)],
            "steps",
        ),
        (
            "/guidance_scale",
            vec![json!(-1), json!(1e30)],
            "guidance scale",
        ),
        (
            "/scheduler",
            vec![json!("\u{1b}[2J"), json!("x".repeat(1 << 20))],
            "unknown scheduler",
        ),
        (
            "/noise",
            vec![json!("x".repeat(1 << 20)), json!("\u{1b}[2J")],
            "the request in",
        ),
        ("/model/dtype", vec![json!("\u{1b}[2J")], "the request in"),
        (
            "/model/checkpoint",
            vec![
                json!("\u{1b}[2J\u{0}"),
                json!("y".repeat(1 << 20)),
                json!("/dev/zero"),
            ],
            "",
        ),
        (
            "/init",
            vec![json!({"path": "/dev/zero", "strength": 0.5})],
            "a device",
        ),
        (
            "/init",
            vec![json!({"path": "x.png", "strength": 0.0})],
            "strength",
        ),
        (
            "/prompt",
            vec![
                json!(""),
                json!("\u{1b}[2J(".repeat(1000)),
                json!("[a:b:".repeat(10_000)),
            ],
            "",
        ),
        (
            "/prompt",
            vec![json!("dog ".repeat(250_000)), json!("(".repeat(1 << 20))],
            "cannot",
        ),
        (
            "/guide",
            vec![
                json!({"method": "psg", "scale": 1e300}),
                json!({"method": "psg", "from_step": u64::MAX, "steps": u64::MAX}),
                json!({"method": "psg", "from_step": 1, "steps": u64::MAX}),
                json!({"method": "\u{1b}[2J"}),
            ],
            "",
        ),
        ("/model/config", vec![json!("/etc")], "is for a single file"),
        (
            "/switch",
            vec![json!({"to": "a cat", "at": u64::MAX})],
            "change at step",
        ),
    ] {
        for value in values {
            folder.write("x.png", changed(place, value));
            folder.refuses(&["generate", "--again", "x.png", "-o", "y.png"], &[part]);
        }
    }
}

#[test]
fn what_stands_beside_the_request() {
    let folder = Folder::new();
    let long = "v\u{1b}[31m".repeat(100_000);
    let unknown = json!({"\u{1b}[2Jfield": 1});
    for (text, part) in [
        (stored(&long, &json!(1)), "made by prepose v"),
        (stored("1", &unknown), "the request in"),
        ("{".repeat(100_000), "an unknown version"),
        (String::new(), "an unknown version"),
    ] {
        folder.write("x.png", png(&text, &[]));
        folder.refuses(&["generate", "--again", "x.png"], &["x.png", part]);
        let output = folder.run(&["info", "x.png"]);
        let standard = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!standard.contains('\u{1b}'), "{standard:?}");
    }
    // Texts with what moves a terminal are shown with it escaped.
    folder.write("x.png", png("{}", &[("key", "a\u{9b}2J\nb\u{7}")]));
    let output = folder.run(&["info", "x.png"]);
    super::sound(&["info"], &output);
    let standard = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        standard.contains("key:\na\\u{9b}2J\nb\\u{7}"),
        "{standard:?}"
    );
}

/// Kilobytes that unpack to gigabytes.
#[test]
fn texts_do_not_become_much() {
    let folder = Folder::new();
    let zeros = "0".repeat(15 << 20);
    let one = ("bomb", zeros.as_str());
    let bytes = png("{}", &[one; 100]);
    assert!(bytes.len() < 16 << 20);
    fs::write(folder.path().join("x.png"), bytes).unwrap();
    for args in [
        &["info", "x.png"][..],
        &["info", "x.png", "--json"],
        &["generate", "--again", "x.png"],
        &["check", "x.png"],
    ] {
        folder.refuses(args, &["the text bomb in x.png"]);
    }
}
