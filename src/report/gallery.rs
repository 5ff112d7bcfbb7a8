//! The pictures as the page's script reads them: one array a picture, everything that repeats in lists beside them.
//!
//! `page/data.js` reads this; the order of values is the same there.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::model::{Method, Picture, Report};
use super::pictures::{Addresses, Shown};
use prepose_check::sample::Scores;
use prepose_check::spatialbench::record::relation_name;
use prepose_check::spatialbench::{Record, Verdict};

/// The data of a page.
pub fn data(report: &Report, addresses: &Addresses) -> Value {
    let mut lists = Lists::default();
    let mut pictures = Vec::with_capacity(report.pictures());
    for (index, (method, shown)) in report.methods.iter().zip(&addresses.shown).enumerate() {
        for (picture, shown) in method.pictures.iter().zip(shown) {
            pictures.push(lists.picture(report, (index, method), picture, shown));
        }
    }
    let prompts: Vec<Value> = report
        .prompts
        .list()
        .iter()
        .map(|prompt| {
            let relations = prompt
                .relations
                .iter()
                .map(|stated| relation_name(stated.relation));
            let relations: Vec<usize> =
                relations.map(|name| lists.relations.index(&name)).collect();
            json!([prompt.prompt_id, prompt.prompt, relations])
        })
        .collect();
    json!({
        "methods": report.methods.iter().map(|method| &method.name).collect::<Vec<_>>(),
        "bases": addresses.bases,
        "relations": lists.relations.list,
        "words": lists.words.list,
        "reasons": lists.reasons.list,
        "sizes": lists.sizes,
        "prompts": prompts,
        "pictures": pictures,
    })
}

/// Strings that occur often, by number.
#[derive(Default)]
struct Names {
    list: Vec<String>,
    places: HashMap<String, usize>,
}

impl Names {
    fn index(&mut self, name: &str) -> usize {
        if let Some(&place) = self.places.get(name) {
            return place;
        }
        self.list.push(name.into());
        self.places.insert(name.into(), self.list.len() - 1);
        self.list.len() - 1
    }
}

#[derive(Default)]
struct Lists {
    relations: Names,
    words: Names,
    reasons: Names,
    sizes: Vec<[u32; 2]>,
}

fn code(verdict: Verdict) -> usize {
    match verdict {
        Verdict::Pass => 0,
        Verdict::Fail => 1,
        Verdict::Undecidable => 2,
    }
}

/// What people say; −1 if nobody does.
fn said(human: Option<Verdict>) -> Value {
    human.map_or(json!(-1), |verdict| json!(code(verdict)))
}

/// Nobody looked.
const UNCHECKED: usize = 3;

impl Lists {
    fn picture(
        &mut self,
        report: &Report,
        (index, method): (usize, &Method),
        picture: &Picture,
        shown: &Shown,
    ) -> Value {
        let prompt_id = &report.prompts.list()[picture.prompt].prompt_id;
        let id = &picture.sample_id;
        let usual = *id == format!("{}_{prompt_id}_seed{:04}", method.name, picture.seed);
        let (verdict, conf) = match method.verdict(picture) {
            Some((verdict, conf)) => (json!(code(verdict)), number(conf, 4)),
            None => (json!(UNCHECKED), Value::Null),
        };
        let records = || picture.records.iter().map(|&i| &method.records[i]);
        let mut boxes = self.boxes(records().next());
        let records: Vec<Value> = records()
            .map(|record| {
                let relation = record.sample_id != *id;
                let human = picture.label(&record.sample_id).filter(|_| relation);
                let human = human.map(|label| label.human_verdict);
                self.record(record, human, &mut boxes)
            })
            .collect();
        let image = match &shown.image {
            None => json!(0),
            // What most of them are is not written down.
            Some(address) if *address == format!("images/{id}.png") => json!(1),
            Some(address) => json!(address),
        };
        let maps: Vec<Value> = shown
            .maps
            .iter()
            .map(|(object, address)| json!([object, address]))
            .collect();
        let notes = picture.labels.iter().map(|label| label.notes.as_str());
        let notes: Vec<&str> = notes.filter(|notes| !notes.is_empty()).collect();
        let size = picture.size.map_or(json!(-1), |size| {
            let known = self.sizes.iter().position(|s| *s == size);
            json!(known.unwrap_or_else(|| {
                self.sizes.push(size);
                self.sizes.len() - 1
            }))
        });
        json!([
            index,
            picture.place,
            picture.prompt,
            // As text: JavaScript's numbers have no more than 53 bits.
            picture.seed.to_string(),
            if usual { json!(0) } else { json!(id) },
            size,
            image,
            verdict,
            conf,
            records,
            boxes.into_iter().flatten().collect::<Vec<Value>>(),
            maps,
            picture.scores.as_ref().map_or(json!(0), scores),
            said(method.human_verdict(picture)),
            picture.masks,
            notes.join("; "),
        ])
    }

    /// Label, score and corners of everything that was detected.
    fn boxes(&mut self, record: Option<&Record>) -> Vec<[Value; 6]> {
        let detections = record.map_or(&[][..], |record| &record.detectors.primary.detections);
        detections
            .iter()
            .map(|found| self.detection(&found.label, found.score, found.bbox.into()))
            .collect()
    }

    fn detection(&mut self, label: &str, score: f64, corners: [f64; 4]) -> [Value; 6] {
        let [x0, y0, x1, y1] = corners.map(|at| number(at, 1));
        [
            json!(self.words.index(label)),
            number(score, 3),
            x0,
            y0,
            x1,
            y1,
        ]
    }

    /// `human` is what people say of this relation alone.
    fn record(
        &mut self,
        record: &Record,
        human: Option<Verdict>,
        boxes: &mut Vec<[Value; 6]>,
    ) -> Value {
        let chosen = &record.selected;
        let mut index = |bbox: Option<_>, score: Option<f64>, word: &str| {
            let Some(bbox) = bbox else { return -1 };
            let wanted = self.detection(word, score.unwrap_or_default(), bbox);
            let known = boxes.iter().position(|there| there[2..] == wanted[2..]);
            let place = known.unwrap_or_else(|| {
                boxes.push(wanted);
                boxes.len() - 1
            });
            place as i64
        };
        let a = index(
            chosen.box_a_xyxy.map(Into::into),
            chosen.score_a,
            &record.object_a,
        );
        let b = index(
            chosen.box_b_xyxy.map(Into::into),
            chosen.score_b,
            &record.object_b,
        );
        let reason = record
            .verdict_reason
            .as_deref()
            .filter(|reason| !reason.is_empty());
        let parts = &record.conf_components;
        let parts = [
            parts.detection,
            parts.geometry,
            parts.stability,
            parts.agreement,
        ];
        json!([
            self.relations.index(&relation_name(record.relation)),
            self.words.index(&record.object_a),
            self.words.index(&record.object_b),
            code(record.verdict_raw),
            reason.map_or(json!(-1), |reason| json!(self.reasons.index(reason))),
            number(record.conf, 4),
            parts.map(|part| number(part, 3)).to_vec(),
            record.geometry.delta.map_or(Value::Null, |v| number(v, 4)),
            record.geometry.iou_ab.map_or(Value::Null, |v| number(v, 4)),
            number(record.geometry.margin, 4),
            a,
            b,
            said(human),
        ])
    }
}

fn scores(scored: &Scores) -> Value {
    let rate = |value: Option<f64>| value.map_or(Value::Null, |value| number(value, 4));
    json!([
        scored.unet_calls,
        scored.guided_calls,
        scored.candidates,
        number(scored.seconds, 3),
        scored.found,
        scored.objects,
        scored.centre,
        scored.geneval,
        rate(scored.t2i),
        scored.hrs,
        rate(scored.pse),
        scored.side,
        scored.level,
    ])
}

/// Rounded, and whole where it is whole.
fn number(value: f64, digits: i32) -> Value {
    let scale = 10f64.powi(digits);
    let rounded = (value * scale).round() / scale;
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        json!(rounded as i64)
    } else {
        json!(rounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let text = [
            number(0.123456, 3),
            number(512.0, 1),
            number(-0.0, 1),
            number(f64::NAN, 1),
        ];
        assert_eq!(json!(text).to_string(), "[0.123,512,0,null]");
    }
}
