//! What several tests need, and the tests by subject.

mod answers;
mod asking;
mod foreign;
mod ots;
mod pictures;
mod prompted;
mod scene;
mod servers;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use image::RgbaImage;
use prepose_check::rules::{Case as Boxes, Wanted};
use prepose_check::{BoundingBox, Detection};
use prepose_draw::table::{Cell, Table};
use prepose_remote::chat::{Chat, Dialect};
use prepose_remote::stub::{Asked as Heard, Stub};
use prepose_remote::{Client, Retry, Settings, Timeouts};
use prepose_statistics::python_random::PythonRandom;
use serde_json::{Value, json};

use crate::ask::{Asked, Manner};
use crate::chat::{ChatJudge, Sampling};
use crate::ots::{self as benchmark, Case, Judged};
use crate::picture::Named;
use crate::question::Question;

pub fn case(line: Value) -> Case {
    benchmark::read(&line.to_string()).unwrap().remove(0)
}

/// Boxes of a dog and a cat, some of them not found, beside each other or not.
pub fn boxes(count: usize) -> Vec<Boxes> {
    let mut random = PythonRandom::new(7);
    (0..count)
        .map(|number| {
            let mut detections = Vec::new();
            for label in ["dog", "cat", "dog"] {
                let [x, y] = [0, 1].map(|_| f64::from(random.below(80)));
                let score = f64::from(random.below(100)) / 100.0;
                detections.push(Detection {
                    label: label.into(),
                    score,
                    bbox: BoundingBox::new(x, y, x + 20.0, y + 20.0),
                    mask: None,
                });
            }
            detections.sort_by(|a, b| b.score.total_cmp(&a.score));
            Boxes {
                id: number.to_string(),
                prompt_id: number.to_string(),
                size: Some((100, 100)),
                objects: ["dog", "cat"].map(Wanted::one).to_vec(),
                detections,
                ..Boxes::default()
            }
        })
        .collect()
}

pub fn pictures(folder: &Path, count: usize) -> Vec<Named> {
    (0..count)
        .map(|number| {
            let path = folder.join(format!("{number}.png"));
            let shade = [number as u8, (number >> 8) as u8, 9, 255];
            RgbaImage::from_pixel(3, 2, image::Rgba(shade))
                .save(&path)
                .unwrap();
            Named {
                id: number.to_string(),
                path,
            }
        })
        .collect()
}

pub fn pairs(count: usize) -> Vec<Case> {
    let of = |number: usize| {
        case(
            json!({"id": number.to_string(), "picture": format!("{number}.png"), "setting": "t2i_homogenization", "a": "dog", "b": "cat",
            "group": (number / 2).to_string()}),
        )
    };
    (0..count).map(of).collect()
}

pub fn both_orders(cases: &[Case]) -> Vec<Question> {
    let each =
        |(at, case): (usize, &Case)| [false, true].map(|exchanged| case.question(at, exchanged));
    cases.iter().enumerate().flat_map(each).collect()
}

pub fn judged<'a>(cases: &'a [Case], asked: &Asked) -> Vec<Judged<'a>> {
    let outcomes = asked.outcomes.chunks(2);
    (cases.iter().zip(outcomes))
        .map(|(case, outcomes)| Judged {
            case,
            as_published: outcomes[0].clone(),
            exchanged: Some(outcomes[1].clone()),
        })
        .collect()
}

pub fn manner(concurrency: usize) -> Manner<'static> {
    static GO_ON: AtomicBool = AtomicBool::new(false);
    Manner {
        concurrency,
        progress: &|_| (),
        stop: &GO_ON,
    }
}

pub fn number(table: &Table, row: usize, column: &str) -> f64 {
    let at = table
        .columns
        .iter()
        .position(|name| name == column)
        .unwrap();
    match &table.rows[row][at] {
        Cell::Mean(number) | Cell::Percent(number) => *number,
        Cell::Count(count) => *count as f64,
        other => panic!("{column}: {other:?}"),
    }
}

pub fn model(stub: &Stub, name: &str, sampling: Sampling) -> ChatJudge {
    let settings = Settings {
        retry: Retry {
            attempts: 60,
            first: Duration::from_millis(1),
            longest: Duration::from_millis(4),
            ..Retry::default()
        },
        timeouts: Timeouts::default(),
        ..Settings::default()
    };
    let client = Client::new(&format!("{}/v1", stub.address), None, settings).unwrap();
    ChatJudge::new(Chat::new(client, name, Dialect::Plain), sampling)
}

/// The question's text, of a request.
pub fn text(heard: &Heard) -> String {
    let json = heard.json();
    let parts = json
        .pointer("/messages/0/content")
        .and_then(Value::as_array)
        .unwrap();
    assert_eq!(parts[0]["type"], "image_url", "the picture comes first");
    parts[1]["text"].as_str().unwrap().to_owned()
}

pub const GRAPHS: &str = r#"{"id":"kick","objects":["person.1","person.2","sports ball.1"],"relationships":[{"source":"person.2","target":"sports ball.1","relation":"kicking"},{"source":"person.2","target":"person.1","relation":"near"}]}
{"objects":["umbrella.1"],"relationships":[]}
{"id":"sides","objects":["dog.1","cat.1","car.1","bird.1"],"relationships":[{"source":"dog.1","target":"cat.1","relation":"left of"},{"source":"cat.1","target":"dog.1","relation":"right of"},{"source":"bird.1","target":"car.1","relation":"above"},{"source":"dog.1","target":"car.1","relation":"holding"}]}"#;
