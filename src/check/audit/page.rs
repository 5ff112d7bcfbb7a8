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
    let answer = |value: &str, label: &str, hint: &str, sign: &str| json!({ "value": value, "label": label, "hint": hint, "key": sign });
    let question = json!({
        "name": "human_verdict",
        "answers": [
            answer("PASS", "Pass", "yes", "P"),
            answer("FAIL", "Fail", "no, it stands elsewhere", "F"),
            answer("UNDECIDABLE", "Undecidable", "missing, several, or on the line", "U"),
        ],
    });
    let ids = rows.iter().map(|row| row.sample_id.as_str());
    let help = "Pass if the picture shows what the question asks. Fail if both things are there and it does not. Undecidable if \
                one is missing, if it is not clear which one is meant, or if they stand too close to the line.";
    render(&key(ids), &samples, &[question], help, seed)
}

/// A picture of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Names it in what is exported.
    pub id: String,
    /// Its address, from [`link`] or [`embed`].
    pub image: String,
    /// What it should show; may be empty.
    pub prompt: String,
    /// Each with its address, if people choose among pictures. Their names are not shown.
    pub candidates: Vec<(String, String)>,
}

/// What people are asked about each picture of a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// One of these words.
    Words(Vec<String>),
    /// A number from 1 to 7 for each of these.
    Scales(Vec<String>),
    /// One of the candidates.
    Choice,
}

/// The page of a study: as [`page`], with its own question and answers. Candidates are shown in another order for each
/// picture.
pub fn study(items: &[Item], ask: &Ask, question: &str, seed: Option<u64>) -> String {
    let mut random = PythonRandom::new(seed.unwrap_or(0));
    let samples: Vec<Value> = (items.iter())
        .map(|item| {
            let mut candidates = item.candidates.clone();
            random.shuffle(&mut candidates);
            let candidates: Vec<Value> = (1..)
                .zip(candidates)
                .map(|(number, (value, image))| {
                    json!({ "value": value, "image": image, "label": format!("Picture {number}") })
                })
                .collect();
            json!({
                "id": item.id, "image": item.image, "prompt": item.prompt, "question": question, "candidates": candidates,
            })
        })
        .collect();
    let questions: Vec<Value> = match ask {
        Ask::Words(words) => {
            let answers: Vec<Value> = (words.iter())
                .map(|word| json!({ "value": word, "label": capitalized(word) }))
                .collect();
            vec![json!({ "name": "label", "answers": answers })]
        }
        Ask::Scales(axes) => {
            let answers: Vec<Value> = (1..=7)
                .map(|number| json!({ "value": number, "label": number.to_string() }))
                .collect();
            (axes.iter())
                .map(|axis| json!({ "name": axis, "title": capitalized(axis), "answers": answers }))
                .collect()
        }
        Ask::Choice => vec![json!({ "name": "choice" })],
    };
    let help = match ask {
        Ask::Words(_) => "Choose the word that fits the picture best.",
        Ask::Scales(_) => {
            "Give each a number from 1, the worst, to 7, the best. Keys answer the first that is open."
        }
        Ask::Choice => "Choose the picture that fits best what is asked.",
    };
    let ids = items.iter().map(|item| item.id.as_str());
    let asked = asked(items, ask, question, &questions);
    let key = key(ids.chain(asked.iter().map(String::as_str)));
    render(&key, &samples, &questions, help, seed)
}

/// What tells a study from another one of the same pictures: the question, and the names and values of its answers.
fn asked(items: &[Item], ask: &Ask, question: &str, questions: &[Value]) -> Vec<String> {
    let mut asked = vec![question.to_owned()];
    for one in questions {
        asked.push(one["name"].to_string());
        let answers = one["answers"].as_array().into_iter().flatten();
        asked.extend(answers.map(|answer| answer["value"].to_string()));
    }
    if *ask == Ask::Choice {
        let candidates = items.iter().flat_map(|item| &item.candidates);
        asked.extend(candidates.map(|(name, _)| name.clone()));
    }
    asked
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn render(
    key: &str,
    samples: &[Value],
    questions: &[Value],
    help: &str,
    seed: Option<u64>,
) -> String {
    let mut order: Vec<usize> = (0..samples.len()).collect();
    if let Some(seed) = seed {
        PythonRandom::new(seed).shuffle(&mut order);
    }
    let sample = json!({ "key": key, "samples": samples, "order": order, "questions": questions, "help": help });
    // Inside a script element, `</` and `<!--` would not be text.
    let sample = sample.to_string().replace('<', "\\u003c");
    PAGE.replace("/*{{STYLE}}*/", STYLE)
        .replace("/*{{SCRIPT}}*/", SCRIPT)
        .replace("{{SAMPLE}}", &sample)
}

/// What the browser keeps the labels under: the same for the same pictures and what is asked of them, whatever the page's name
/// and place.
fn key<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
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
        assert_eq!(key(["a", "b"].into_iter()), key(["a", "b"].into_iter()));
        assert_ne!(key(["a", "b"].into_iter()), key(["a"].into_iter()));
    }

    #[test]
    fn studies_ask_in_words_numbers_and_pictures() {
        let item = |id: &str| Item {
            id: id.into(),
            image: format!("{id}.png"),
            prompt: "a <dog>".into(),
            candidates: ["sd", "xl"]
                .map(|name| (name.into(), format!("{id}-{name}.png")))
                .to_vec(),
        };
        let items = ["a", "b", "c", "d", "e", "f"].map(item);
        let data = |ask: &Ask| -> Value {
            let html = study(&items, ask, "Which?", Some(1));
            let start = html.find("id=\"sample\">").unwrap() + "id=\"sample\">".len();
            let end = start + html[start..].find("</script>").unwrap();
            serde_json::from_str(&html[start..end]).unwrap()
        };
        let words = data(&Ask::Words(["missing", "right"].map(String::from).to_vec()));
        assert_eq!(
            words["questions"][0]["answers"][1],
            json!({ "value": "right", "label": "Right" })
        );
        assert_eq!(words["samples"][0]["prompt"], "a <dog>");
        let scales = data(&Ask::Scales(vec!["overall".into(), "fidelity".into()]));
        assert_eq!(scales["questions"][1]["name"], "fidelity");
        assert_eq!(scales["questions"][1]["answers"][6]["value"], 7);
        let choice = data(&Ask::Choice);
        let firsts: Vec<&str> = (choice["samples"].as_array().unwrap().iter())
            .filter_map(|sample| sample["candidates"][0]["value"].as_str())
            .collect();
        assert!(
            firsts.contains(&"sd") && firsts.contains(&"xl"),
            "in another order each: {firsts:?}"
        );
    }

    /// A browser keeps the labels of both, and must not take the ones for the others.
    #[test]
    fn studies_of_the_same_pictures_are_told_apart() {
        let item = |names: [&str; 2]| Item {
            id: "a".into(),
            image: "a.png".into(),
            prompt: String::new(),
            candidates: names.map(|name| (name.into(), "b.png".into())).to_vec(),
        };
        let kept_under = |names, ask: &Ask, question: &str, seed| -> String {
            let html = study(&[item(names)], ask, question, Some(seed));
            let (_, data) = html.split_once("id=\"sample\">").unwrap();
            let (data, _) = data.split_once("</script>").unwrap();
            let data: Value = serde_json::from_str(data).unwrap();
            data["key"].as_str().unwrap().to_owned()
        };
        let (two, others) = (["sd", "xl"], ["sd", "ours"]);
        let words = |words: [&str; 2]| Ask::Words(words.map(String::from).to_vec());
        let scales = |axes: [&str; 2]| Ask::Scales(axes.map(String::from).to_vec());
        let asked = [
            (two, words(["yes", "no"]), "Is it left?"),
            (two, words(["good", "bad"]), "Is it beautiful?"),
            (two, words(["yes", "no"]), "Is it beautiful?"),
            (two, scales(["overall", "fidelity"]), "How good is it?"),
            (two, scales(["overall", "alignment"]), "How good is it?"),
            (two, scales(["overall", "fidelity"]), "How new is it?"),
            (two, words(["overall", "fidelity"]), "How good is it?"),
            (two, Ask::Choice, "Which?"),
            (others, Ask::Choice, "Which?"),
        ];
        let keys: std::collections::HashSet<String> = (asked.iter())
            .map(|(names, ask, question)| kept_under(*names, ask, question, 1))
            .collect();
        assert_eq!(keys.len(), asked.len());
        // Made again with another order, it goes on.
        let [first, again] = [1, 2].map(|seed| kept_under(two, &asked[0].1, asked[0].2, seed));
        assert_eq!(first, again);
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
