//! The scoring rules against what their authors' own code says (`fixtures/rules`, `scripts/reference/cases/rules.py`).

use std::path::Path;
use std::sync::Arc;

use prepose::check::rules::depth::DepthMap;
use prepose::check::rules::opse::{Clock, Opse, OpseError};
use prepose::check::rules::read::{Reader, RunLengths};
use prepose::check::rules::{
    Case, Options, Outcome, RULES, Report, Wanted, by_name, geneval, hrs, pse, pse_depth, t2i,
    t2i_depth, visor,
};
use prepose::check::{BoundingBox, Detection, Mask};
use prepose::prompt::scene::{Relation, StatedRelation};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, from_value, json};

const PLAIN: Options = Options {
    published: false,
    min_score: None,
};
const PUBLISHED: Options = Options {
    published: true,
    min_score: None,
};

fn fixture<T: DeserializeOwned>(name: &str) -> T {
    let path = Path::new("fixtures/rules")
        .join(name)
        .with_extension("json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[track_caller]
fn close(ours: f64, theirs: f64, what: &str) {
    assert!((ours - theirs).abs() <= 1e-12, "{what}: {ours} {theirs}");
}

/// A mask of rectangles [x0, y0, x1, y1], ends excluded.
fn mask_of(parts: &[[usize; 4]], width: usize, height: usize) -> Mask {
    let inside = |x, y| {
        let covers =
            |[x0, y0, x1, y1]: &[usize; 4]| (*x0..*x1).contains(&x) && (*y0..*y1).contains(&y);
        parts.iter().any(covers)
    };
    let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    Mask::new(width, height, pixels.map(|(x, y)| inside(x, y)).collect()).unwrap()
}

fn detection(label: &str, score: f64, bbox: [f64; 4]) -> Detection {
    Detection {
        label: label.to_owned(),
        score,
        bbox: bbox.into(),
        mask: None,
    }
}

/// Two objects and a relation between them.
fn case_of(first: &str, relation: Relation, second: &str, detections: Vec<Detection>) -> Case {
    Case {
        objects: vec![Wanted::one(first), Wanted::one(second)],
        relations: vec![StatedRelation {
            subject: 0,
            relation,
            objects: vec![1],
        }],
        detections,
        ..Case::default()
    }
}

fn score(rule: &str, cases: &[Case], options: &Options) -> Report {
    let mut cases = cases.iter().cloned();
    by_name(rule).unwrap().score(&mut cases, options)
}

fn figure(report: &Report, name: &str) -> Option<f64> {
    let figure = report.figures.iter().find(|figure| figure.name == name);
    figure.unwrap_or_else(|| panic!("no {name}")).value.number()
}

fn read(value: &Value) -> Case {
    let (reader, text) = (Reader::default(), value.to_string());
    let (_, case) = reader.read(Path::new("test.jsonl"), &text).next().unwrap();
    case.unwrap()
}

#[derive(Deserialize)]
struct PseCase {
    size: [usize; 2],
    a: Vec<[usize; 4]>,
    b: Vec<[usize; 4]>,
    relation: Option<String>,
    score: Option<f64>,
    right: Option<f64>,
    missing: Option<String>,
    score_f32: Option<f64>,
    depth: Option<Vec<f64>>,
    front: Option<f64>,
    behind: Option<f64>,
    histograms: Option<[std::collections::BTreeMap<usize, usize>; 2]>,
    #[serde(default)]
    skipped: bool,
}

impl PseCase {
    fn masks(&self) -> [Mask; 2] {
        let [width, height] = self.size;
        [&self.a, &self.b].map(|parts| mask_of(parts, width, height))
    }

    /// The masks as detections of a and b.
    fn case(&self, relation: Relation) -> Case {
        let masked = |(label, mask): (&str, Mask)| Detection {
            mask: Some(Arc::new(mask)),
            ..detection(label, 0.9, [0.0; 4])
        };
        let masks = ["a", "b"].into_iter().zip(self.masks());
        case_of("a", relation, "b", masks.map(masked).collect())
    }
}

#[test]
fn pse_of_masks() {
    for (i, fixture) in fixture::<Vec<PseCase>>("pse").iter().enumerate() {
        let relation = fixture.relation.as_ref().unwrap().parse().unwrap();
        let case = fixture.case(relation);
        let outcome = pse::of_case(&case, &PLAIN).unwrap();
        let score = outcome.score.unwrap();
        close(score, fixture.score.unwrap(), &format!("{i}"));
        let missing = match fixture.missing.as_deref() {
            Some("no-obj1") => Some("a"),
            Some(_) => Some("b"),
            None => None,
        };
        assert_eq!(outcome.missing.first().map(String::as_str), missing);
        // Of boolean masks the published metric forms sums of 32 bits.
        if let Some(theirs) = fixture.score_f32 {
            assert!((score - theirs).abs() < 1e-6, "{i}");
        }
        if let Some(right) = fixture.right {
            assert!(
                outcome.note.starts_with(&format!("right {right:.4}")),
                "{i}: {}",
                outcome.note
            );
        }
    }
}

#[test]
fn pse_of_boxes_is_that_of_their_pixels() {
    for fixture in fixture::<Vec<PseCase>>("pse") {
        let relation = fixture.relation.as_ref().unwrap().parse().unwrap();
        let boxed = |(label, parts): (&str, &Vec<[usize; 4]>)| {
            let detection = |part: &[usize; 4]| detection(label, 0.9, part.map(|edge| edge as f64));
            parts.iter().map(detection).collect::<Vec<_>>()
        };
        let detections = [("a", &fixture.a), ("b", &fixture.b)]
            .into_iter()
            .flat_map(boxed);
        let mut case = case_of("a", relation, "b", detections.collect());
        let score = |case: &Case| pse::of_case(case, &PLAIN).unwrap().score.unwrap();
        // Whether or not the size of the picture is known.
        close(score(&case), fixture.score.unwrap(), "boxes");
        case.size = Some((fixture.size[0], fixture.size[1]));
        close(
            score(&case),
            fixture.score.unwrap(),
            "boxes of a known size",
        );
    }
}

#[test]
fn pse_of_a_diagonal_and_of_several_relations_is_the_worst() {
    let boxes = vec![
        detection("dog", 0.9, [0.0, 0.0, 10.0, 10.0]),
        detection("cat", 0.9, [20.0, 5.0, 30.0, 15.0]),
    ];
    let score = |relation| {
        let case = case_of("dog", relation, "cat", boxes.clone());
        pse::of_case(&case, &PLAIN).unwrap().score.unwrap()
    };
    assert_eq!(score(Relation::LeftOf), 1.0);
    let above = score(Relation::Above);
    assert!(0.5 < above && above < 1.0);
    assert_eq!(score(Relation::AboveLeft), above);
    assert_eq!(score(Relation::BelowRight), 0.0);
    let mut both = case_of("dog", Relation::LeftOf, "cat", boxes.clone());
    let mut second = both.relations[0].clone();
    second.relation = Relation::Above;
    both.relations.push(second);
    assert_eq!(pse::of_case(&both, &PLAIN).unwrap().score, Some(above));
}

#[test]
fn pse_of_depth() {
    for (i, fixture) in fixture::<Vec<PseCase>>("pse_depth").iter().enumerate() {
        let [width, height] = fixture.size;
        let depth = DepthMap::new(width, height, fixture.depth.clone().unwrap()).unwrap();
        let [a, b] = fixture.masks();
        if let Some(theirs) = &fixture.histograms {
            let ours = pse_depth::quantized(&depth, [&a, &b], true).unwrap();
            let plain = pse_depth::quantized(&depth, [&a, &b], false).unwrap();
            let mut dropped = 0;
            for ((ours, theirs), plain) in ours.iter().zip(theirs).zip(plain) {
                let full = ours.iter().enumerate().filter(|(_, count)| **count > 0.0);
                let full = full.map(|(bin, count)| (bin, *count as usize)).collect();
                assert_eq!(*theirs, full, "{i}");
                dropped += (plain[0] - ours[0]) as usize;
                assert_eq!(plain[1..], ours[1..]);
            }
            // Somebody has the least depth.
            assert!(dropped > 0, "{i}");
        }
        let found = pse_depth::nearer(&depth, [&a, &b], true);
        match (fixture.front, fixture.behind) {
            (Some(front), Some(behind)) => {
                let found = found.unwrap();
                close(found.right, front, "front");
                close(found.wrong, behind, "behind");
                let mut case = fixture.case(Relation::InFrontOf);
                case.depth = Some(Arc::new(depth));
                let score =
                    |case: &Case| pse_depth::of_case(case, &PUBLISHED).unwrap().score.unwrap();
                close(score(&case), (front - behind).max(0.0), "in front");
                case.relations[0].relation = Relation::Behind;
                close(score(&case), (behind - front).max(0.0), "behind");
            }
            _ => assert_eq!(found, None, "{i}"),
        }
        assert!(!fixture.skipped || fixture.front.is_none());
    }
}

#[test]
fn objects_at_one_depth_are_neither_nearer() {
    let flat = DepthMap::new(2, 1, vec![3.0, 3.0]).unwrap();
    let (a, b) = (
        mask_of(&[[0, 0, 1, 1]], 2, 1),
        mask_of(&[[1, 0, 2, 1]], 2, 1),
    );
    assert_eq!(pse_depth::nearer(&flat, [&a, &b], true), None);
    let nearer = pse_depth::nearer(&flat, [&a, &b], false).unwrap();
    assert_eq!((nearer.right, nearer.wrong, nearer.pse()), (1.0, 1.0, 0.0));
}

#[derive(Deserialize)]
struct VisorCases {
    pictures: Vec<VisorPicture>,
    results: Value,
    notebook_by_prompt: Vec<VisorPrompt>,
    script: VisorScores,
}

#[derive(Deserialize)]
struct VisorPicture {
    id: String,
    relation: String,
    sra: u8,
    detections: Vec<Detection>,
}

#[derive(Deserialize)]
struct VisorPrompt {
    prompt_id: String,
    #[serde(flatten)]
    scores: VisorScores,
}

#[derive(Deserialize)]
struct VisorScores {
    cond: f64,
    uncond: f64,
    at_least: [f64; 4],
    accuracy: [f64; 3],
}

#[track_caller]
fn same_visor(ours: &visor::Scores, theirs: &VisorScores) {
    close(ours.conditional.unwrap(), theirs.cond, "cond");
    close(ours.unconditional.unwrap(), theirs.uncond, "uncond");
    for (ours, theirs) in ours.at_least.iter().zip(theirs.at_least) {
        close(ours.unwrap_or(0.0), theirs, "VISOR_n");
    }
    for (ours, theirs) in ours.object_accuracy.iter().zip(theirs.accuracy) {
        close(ours.unwrap(), theirs, "OA");
    }
}

#[test]
fn visor_picture_by_picture_and_in_sum() {
    let fixture: VisorCases = fixture("visor");
    let mut judged = Vec::new();
    for picture in fixture.pictures {
        let relation = picture.relation.parse().unwrap_or(Relation::Near);
        let mut case = case_of("kite", relation, "bus", picture.detections);
        if picture.relation == "and" {
            case.relations.clear();
        }
        let found = visor::judge(&case, &PLAIN).unwrap();
        assert_eq!(found.is_none(), picture.relation == "and");
        if let Some(found) = found {
            assert_eq!(u8::from(found.right), picture.sra, "{}", picture.id);
            let prompt = picture.id.split('_').next().unwrap().to_owned();
            judged.push((prompt, found));
        }
    }
    let all = judged
        .iter()
        .map(|(prompt, found)| (prompt.as_str(), *found));
    same_visor(&visor::scores(all.clone(), false), &fixture.script);
    for prompt in &fixture.notebook_by_prompt {
        let own = all.clone().filter(|(id, _)| *id == prompt.prompt_id);
        let scores = visor::scores(own, true);
        same_visor(&scores, &prompt.scores);
    }
    // The same from VISOR's own results file.
    let (reader, text) = (Reader::default(), fixture.results.to_string());
    let read = reader.read(Path::new("results.json"), &text);
    let cases: Vec<Case> = read.map(|(_, case)| case.unwrap()).collect();
    assert_eq!(cases.len(), 120);
    let report = score("visor", &cases, &PLAIN);
    assert_eq!(figure(&report, "pictures"), Some(96.0));
    close(
        figure(&report, "VISOR_cond").unwrap(),
        fixture.script.cond,
        "file",
    );
    close(
        figure(&report, "VISOR_4").unwrap(),
        fixture.script.at_least[3],
        "file",
    );
}

#[derive(Deserialize)]
struct GenevalCases {
    pairs: Vec<GenevalPair>,
    pictures: Vec<GenevalPicture>,
}

#[derive(Deserialize)]
struct GenevalPair {
    a: BoundingBox,
    b: BoundingBox,
    held: Vec<String>,
}

#[derive(Deserialize)]
struct GenevalPicture {
    detections: Value,
    result: Value,
}

#[test]
fn geneval_relations_and_pictures() {
    let fixture: GenevalCases = fixture("geneval");
    for (i, pair) in fixture.pairs.iter().enumerate() {
        let mut held: Vec<&str> = (geneval::relations(&pair.a, &pair.b).into_iter())
            .map(Relation::as_str)
            .collect();
        held.sort();
        assert_eq!(held, pair.held, "{i}");
    }
    let mut cases = Vec::new();
    for (i, picture) in fixture.pictures.iter().enumerate() {
        let correct = picture.result["correct"].as_bool().unwrap();
        let result = read(&picture.result);
        // The same from the detections with the metadata in the line, and under COCO's name of the mouse.
        let metadata: Value =
            serde_json::from_str(picture.result["metadata"].as_str().unwrap()).unwrap();
        let line = json!({"id": "x", "detections": picture.detections, "metadata": metadata});
        let coco = line
            .to_string()
            .replace(r#""label":"computer mouse""#, r#""label":"mouse""#);
        let lines = [
            result,
            read(&line),
            read(&serde_json::from_str(&coco).unwrap()),
        ];
        for case in &lines {
            let outcome = geneval::judge(case, &PLAIN).unwrap();
            assert_eq!(outcome.score == Some(1.0), correct, "{i} {outcome:?}");
        }
        cases.extend(lines.into_iter().take(1));
    }
    let report = score("geneval", &cases, &PLAIN);
    let right = |p: &&GenevalPicture| p.result["correct"] == true;
    let right = fixture.pictures.iter().filter(right).count() as f64;
    let share = 100.0 * right / fixture.pictures.len() as f64;
    close(figure(&report, "right pictures").unwrap(), share, "right");
    assert_eq!(figure(&report, "prompts"), Some(15.0));
}

#[derive(Deserialize)]
struct T2iCases {
    pictures: Vec<Value>,
    frames: Vec<[usize; 4]>,
}

/// A picture by its file name, 479 × 479 pixels, so that the frame is the picture.
fn framed(picture: &Value) -> (Case, f64) {
    let mut line = picture.clone();
    line["width"] = json!(479);
    line["height"] = json!(479);
    (read(&line), picture["score"].as_f64().unwrap())
}

#[test]
fn t2i_compbench_in_the_plane() {
    let fixture: T2iCases = fixture("t2i");
    for [width, height, frame_width, frame_height] in fixture.frames {
        assert_eq!(t2i::frame((width, height)), (frame_width, frame_height));
    }
    let (mut cases, mut sum) = (Vec::new(), 0.0);
    for (i, picture) in fixture.pictures.iter().enumerate() {
        let (case, theirs) = framed(picture);
        let score = |options| t2i::judge(&case, options).unwrap().score.unwrap();
        close(score(&PUBLISHED), theirs, &format!("{i} {picture}"));
        let file = picture["file"].as_str().unwrap();
        // Elsewhere nothing is different by default.
        if !file.contains("on top of") && !file.contains("a man next to a woman") {
            close(score(&PLAIN), theirs, &format!("{i} {picture}"));
        }
        cases.push(case);
        sum += theirs;
    }
    let report = score("t2i-compbench", &cases, &PUBLISHED);
    close(
        figure(&report, "score").unwrap(),
        sum / cases.len() as f64,
        "mean",
    );
}

#[test]
fn t2i_compbench_by_default() {
    let boxes = vec![
        detection("person", 0.9, [0.0, 0.0, 50.0, 50.0]),
        detection("person", 0.8, [400.0, 400.0, 450.0, 450.0]),
    ];
    let case = |prompt: &str, detections: &[Detection]| {
        let line = json!({"detections": detections, "prompt": prompt, "width": 479, "height": 479});
        read(&line)
    };
    let score = |case: &Case, options| t2i::judge(case, options).unwrap();
    // Two people are two detections, as published one and the same, which is near itself.
    let people = case("a man next to a woman", &boxes);
    close(
        score(&people, &PLAIN).score.unwrap(),
        0.425 + 150.0 / 400.0 / 2.0,
        "far apart",
    );
    close(
        score(&people, &PUBLISHED).score.unwrap(),
        0.45 + 0.5,
        "one and the same",
    );
    let alone = case("a man next to a woman", &boxes[..1]);
    assert_eq!(score(&alone, &PLAIN).score, Some(0.0));
    assert!(score(&alone, &PUBLISHED).score > Some(0.9));
    // "on top of" is a relation.
    let stacked = [
        detection("cat", 0.9, [0.0, 0.0, 50.0, 50.0]),
        detection("dog", 0.9, [0.0, 100.0, 50.0, 150.0]),
    ];
    let top = case("a cat on top of a dog", &stacked);
    close(score(&top, &PLAIN).score.unwrap(), 0.95, "on top of");
    assert_eq!(score(&top, &PUBLISHED).score, Some(0.0));
    // Distances are those of the resized picture: 400 pixels of 1024 are 187 of 479.
    let mut large = case_of(
        "cat",
        Relation::Near,
        "dog",
        vec![
            detection("cat", 0.9, [0.0, 0.0, 100.0, 100.0]),
            detection("dog", 0.9, [400.0, 400.0, 500.0, 500.0]),
        ],
    );
    large.size = Some((1024, 1024));
    let near = 150.0 / (400.0 * 479.0 / 1024.0);
    close(
        score(&large, &PLAIN).score.unwrap(),
        0.45 + near / 2.0,
        "frame",
    );
}

#[test]
fn t2i_compbench_in_depth() {
    for (i, picture) in fixture::<Vec<Value>>("t2i_depth").iter().enumerate() {
        let (mut case, theirs) = framed(picture);
        let blocks: Vec<f64> = from_value(picture["blocks"].clone()).unwrap();
        let pixels = (0..479).flat_map(|y| (0..479).map(move |x| y / 80 * 6 + x / 80));
        let map = DepthMap::new(479, 479, pixels.map(|block| blocks[block]).collect()).unwrap();
        case.depth = Some(Arc::new(map));
        let score = t2i_depth::judge(&case, &PUBLISHED).unwrap().score.unwrap();
        close(score, theirs, &format!("{i} {picture}"));
    }
}

#[test]
fn depth_by_default_is_read_where_the_box_is() {
    // Near on the right.
    let map = DepthMap::new(4, 4, [0.0, 0.0, 1.0, 1.0].repeat(4)).unwrap();
    let (a, b) = (
        BoundingBox::new(1.0, 0.0, 4.0, 1.0),
        BoundingBox::new(0.0, 0.0, 3.0, 1.0),
    );
    let front = |published| t2i_depth::position(Relation::InFrontOf, &a, &b, &map, published);
    // Overlap is exactly one half.
    assert_eq!(a.iou(&b), 0.5);
    assert_eq!((front(false), front(true)), (1.0, 0.0));
    assert_eq!(
        t2i_depth::position(Relation::Behind, &a, &b, &map, false),
        0.0
    );
}

#[derive(Deserialize)]
struct HrsCases {
    pictures: Vec<HrsPicture>,
    whole: Vec<usize>,
    levels: [f64; 3],
}

#[derive(Deserialize)]
struct HrsPicture {
    objs: Vec<String>,
    relations: Vec<String>,
    detections: Vec<Detection>,
    right: Value,
}

impl HrsPicture {
    /// What its sentence says: "a car and banana over a horse and beneath a cat".
    fn case(&self) -> Case {
        let names: Vec<&str> = self.objs.iter().map(String::as_str).collect();
        let says = |subject: &str, at: usize, object: &str| {
            format!("{subject} | {} | {object}", self.relations[at])
        };
        let relations = match (names.as_slice(), self.relations.len()) {
            ([a, b], _) => vec![says(a, 0, b)],
            ([a, b, c], 1) => vec![says(a, 0, &format!("{b} | {c}"))],
            ([a, b, c], _) => vec![says(a, 0, b), says(a, 1, c)],
            ([a, b, c, d], 1) => {
                let both = format!("{c} | {d}");
                vec![says(a, 0, &both), says(b, 0, &both)]
            }
            ([a, b, c, d], _) => {
                vec![says(a, 0, c), says(b, 0, c), says(a, 1, d), says(b, 1, d)]
            }
            _ => panic!("{names:?}"),
        };
        read(&json!({"objects": names, "relations": relations, "detections": self.detections}))
    }
}

#[test]
fn hrs_as_published() {
    let fixture: HrsCases = fixture("hrs");
    let cases: Vec<Case> = fixture.pictures.iter().map(HrsPicture::case).collect();
    for (i, (picture, case)) in fixture.pictures.iter().zip(&cases).enumerate() {
        let outcome = hrs::judge_as_published(case, case, &PLAIN).unwrap();
        match &picture.right {
            Value::Bool(right) => {
                assert_eq!(outcome.score, Some(f64::from(u8::from(*right))), "{i}")
            }
            // The original stops with a KeyError.
            _ => assert_eq!(outcome.score, None, "{i}"),
        }
    }
    let whole: Vec<Case> = fixture.whole.iter().map(|i| cases[*i].clone()).collect();
    let report = score("hrs", &whole, &PUBLISHED);
    for (name, theirs) in ["easy", "medium", "hard"].into_iter().zip(fixture.levels) {
        close(figure(&report, name).unwrap(), theirs, name);
    }
    // By default the pictures are their own.
    let report = score("hrs", &whole, &PLAIN);
    let right = |(case, outcome): (&Case, &Result<Outcome, _>)| {
        let own = hrs::judge(case, &PLAIN).unwrap();
        assert_eq!(outcome.as_ref().unwrap(), &own);
    };
    whole.iter().zip(&report.outcomes).for_each(right);
}

#[test]
fn hrs_by_default_is_the_original_where_that_makes_sense() {
    let fixture: HrsCases = fixture("hrs");
    let mut compared = 0;
    for (i, picture) in fixture.pictures.iter().enumerate() {
        let Value::Bool(right) = picture.right else {
            continue;
        };
        let labels: Vec<&str> = picture
            .detections
            .iter()
            .map(|d| d.label.as_str())
            .collect();
        let once = picture
            .objs
            .iter()
            .all(|name| labels.iter().filter(|l| *l == name).count() <= 1);
        let confused = picture.objs.len() == 4 && picture.relations.len() == 2;
        if once && !confused {
            let outcome = hrs::judge(&picture.case(), &PLAIN).unwrap();
            assert_eq!(outcome.score, Some(f64::from(u8::from(right))), "{i}");
            compared += 1;
        }
    }
    assert!(compared >= 30, "{compared}");
}

#[derive(Deserialize)]
struct OpseRun {
    scores: Vec<Vec<f64>>,
    chosen: Vec<usize>,
    means: Vec<f64>,
}

#[test]
fn opse_as_published() {
    for run in fixture::<Vec<OpseRun>>("opse") {
        let mut drawn = vec![0; run.scores.len()];
        let opse = Opse {
            clock: Clock::Published,
            ..Opse::default()
        };
        let next = |model: usize| {
            drawn[model] += 1;
            let scores = &run.scores[model];
            Ok::<f64, OpseError>(scores[(drawn[model] - 1) % scores.len()])
        };
        let comparison = opse.compare(run.scores.len(), next).unwrap();
        assert_eq!(comparison.chosen, run.chosen);
        for (ours, theirs) in comparison.standings.iter().zip(run.means) {
            close(ours.mean, theirs, "mean");
        }
    }
}

#[test]
fn cocos_masks() {
    #[derive(Deserialize)]
    struct Encoded {
        parts: Vec<[usize; 4]>,
        mask: RunLengths,
    }
    for encoded in fixture::<Vec<Encoded>>("masks") {
        let [height, width] = encoded.mask.size;
        assert_eq!(
            encoded.mask.unpack(),
            Ok(mask_of(&encoded.parts, width, height))
        );
    }
}

#[test]
fn every_rule_has_a_name_of_its_own_and_survives_nothing() {
    for rule in RULES {
        let same = RULES.iter().filter(|other| other.name() == rule.name());
        assert_eq!(same.count(), 1);
        for options in [PLAIN, PUBLISHED] {
            let report = score(rule.name(), &[], &options);
            assert!(report.outcomes.is_empty());
            let zero_or_none = |figure: &prepose::check::rules::Figure| {
                figure.value.number().is_none_or(|number| number == 0.0)
            };
            assert!(report.figures.iter().all(zero_or_none), "{report:?}");
            // A picture of which nothing is known is no reason to stop either.
            let report = score(rule.name(), &[Case::default()], &options);
            assert_eq!(report.outcomes.len(), 1);
        }
    }
}
