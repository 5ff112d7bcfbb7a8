//! The labelling page: one HTML file that shows the pictures of a sample and collects what people say of them.

use std::fmt::Write as _;

use base64::Engine as _;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::table::SampleRow;
use crate::python_random::PythonRandom;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// The page for a sample. It loads nothing but the pictures, and those only if they are not inside it.
///
/// `images` has the address of each row's picture as the page should use it: from [`link`] or [`embed`]. The checker's
/// verdict is hidden at first. A sample's rows stand by stratum, which would tell the verdict, so the page shows them in
/// an order drawn with `seed`; `None` keeps the rows' own order.
pub fn page(rows: &[SampleRow], images: &[String], seed: Option<u64>) -> String {
    let samples: Vec<Value> = rows
        .iter()
        .zip(images)
        .map(|(row, image)| {
            json!({
                "id": row.sample_id,
                "image": image,
                "prompt": row.prompt,
                "relation": row.relation,
                "a": row.object_a,
                "b": row.object_b,
                "verdict": row.checker_verdict_raw,
                "conf": row.conf,
                "method": row.method,
            })
        })
        .collect();
    let mut order: Vec<usize> = (0..samples.len()).collect();
    if let Some(seed) = seed {
        PythonRandom::new(seed).shuffle(&mut order);
    }
    let sample = json!({ "key": key(rows), "samples": samples, "order": order });
    // Inside a script element, `</` and `<!--` would not be text.
    let sample = sample.to_string().replace('<', "\\u003c");
    PAGE.replace("/*{{STYLE}}*/", STYLE)
        .replace("/*{{SCRIPT}}*/", SCRIPT)
        .replace("{{SAMPLE}}", &sample)
}

/// What the browser keeps the labels under: the same for the same pictures, whatever the page's name and place.
fn key(rows: &[SampleRow]) -> String {
    let mut hash = Sha256::new();
    for row in rows {
        hash.update(&row.sample_id);
        hash.update("\n");
    }
    let digest = hash.finalize();
    let hex = digest[..8].iter().fold(String::new(), |mut hex, byte| {
        // Writing into a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    format!("prepose-audit-{hex}")
}

/// The address of a picture beside the page: a path with forward slashes, relative to the page or absolute.
pub fn link(path: &str) -> String {
    let mut address = String::new();
    if path.starts_with('/') {
        address.push_str("file://");
    }
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                address.push(char::from(byte));
            }
            _ => {
                // Writing into a string cannot fail.
                let _ = write!(address, "%{byte:02X}");
            }
        }
    }
    address
}

/// The address of a picture inside the page; `None` if the bytes are no picture that a browser shows.
pub fn embed(bytes: &[u8]) -> Option<String> {
    let kind = picture_type(bytes)?;
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    Some(format!("data:{kind};base64,{text}"))
}

/// The media type of a picture, by its first bytes; `None` if a browser would not show it.
pub fn picture_type(bytes: &[u8]) -> Option<&'static str> {
    use image::ImageFormat::{Bmp, Gif, Jpeg, Png, WebP};
    let format = image::guess_format(bytes).ok()?;
    [Png, Jpeg, WebP, Gif, Bmp]
        .contains(&format)
        .then(|| format.to_mime_type())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spatialbench::Verdict;

    fn row(id: &str) -> SampleRow {
        SampleRow {
            sample_id: id.into(),
            image_path: String::new(),
            overlay_path: String::new(),
            prompt: "</script><b>\u{2028}".into(),
            relation: "left_of".into(),
            object_a: "dog".into(),
            object_b: "cat".into(),
            checker_verdict_raw: Verdict::Pass,
            conf: 0.5,
            run_id: String::new(),
            run_path: String::new(),
            method: String::new(),
        }
    }

    #[test]
    fn a_page_stands_on_its_own() {
        let rows = [row("a"), row("b"), row("c")];
        let images = ["a.png", "b.png", "c.png"].map(String::from);
        let html = page(&rows, &images, Some(42));
        assert!(!html.contains("{{") && !html.contains("http://") && !html.contains("https://"));
        assert_eq!(html.matches("</script>").count(), 2);
        let start = html.find("id=\"sample\">").unwrap() + "id=\"sample\">".len();
        let end = start + html[start..].find("</script>").unwrap();
        let sample: Value = serde_json::from_str(&html[start..end]).unwrap();
        assert_eq!(sample["samples"][0]["prompt"], rows[0].prompt);
        assert_eq!(sample["order"], json!([1, 0, 2]));
        assert_eq!(key(&rows), key(&rows.clone()));
        assert_ne!(key(&rows), key(&rows[..2]));
    }

    #[test]
    fn addresses_are_escaped() {
        assert_eq!(link("../a b/50%#é.png"), "../a%20b/50%25%23%C3%A9.png");
        assert_eq!(link("/x/y.png"), "file:///x/y.png");
        let png = b"\x89PNG\r\n\x1a\n";
        assert_eq!(embed(png).unwrap(), "data:image/png;base64,iVBORw0KGgo=");
        assert_eq!(embed(b"<svg/>"), None);
    }
}
