//! What the checker says of a picture, as the page reads it.

use prepose::check::Detection;
use prepose::check::ask::Questions;
use prepose::check::spatialbench::{Decision, Selected, Verdict};
use prepose::detect::checker::{Asked, Checked, Checker};
use prepose::picture::Picture;
use prepose::prompt::scene::Scene;
use serde_json::{Value, json};

/// Looks at a picture of a scene. Null where the checker has nothing to say of it.
///
/// # Errors
/// The detector failed.
pub fn look(checker: &Checker, scene: &Scene, picture: &Picture) -> Result<Value, String> {
    let questions = Questions::of_scene(scene, checker.primary.vocabulary(), false);
    if questions.checker.is_empty() {
        return Ok(Value::Null);
    }
    let asked = Asked {
        picture: picture.clone(),
        questions: questions.checker,
        others: Vec::new(),
        depth: false,
    };
    let checked = checker
        .check(std::slice::from_ref(&asked))
        .map_err(|error| super::plan::told(&error))?;
    Ok(checked
        .first()
        .map_or(Value::Null, |checked| said(&asked, checked)))
}

fn said(asked: &Asked, checked: &Checked) -> Value {
    let Picture { width, height, .. } = asked.picture;
    let decisions = &checked.decisions;
    let all = |verdict| decisions.iter().all(|decision| decision.verdict == verdict);
    let any = |verdict| decisions.iter().any(|decision| decision.verdict == verdict);
    let status = if all(Verdict::Pass) {
        Verdict::Pass
    } else if any(Verdict::Fail) {
        Verdict::Fail
    } else {
        Verdict::Undecidable
    };
    let reason = |decision: &Decision| decision.reason.as_ref().map(ToString::to_string);
    let first = decisions
        .iter()
        .find(|decision| decision.verdict == status)
        .and_then(reason);
    let relations = asked.questions.iter().zip(decisions).map(|(question, decision)| {
        json!({
            "subject": question.object_a, "relation": question.relation.as_str(), "object": question.object_b,
            "status": decision.verdict.as_str(), "confidence": decision.confidence, "reason": reason(decision),
        })
    });
    let selected = decisions
        .first()
        .and_then(|decision| decision.selected.as_ref());
    let role = |detection: &Detection| match selected {
        Some(Selected { a, .. }) if a.bbox == detection.bbox && a.label == detection.label => {
            Some("a")
        }
        Some(Selected { b, .. }) if b.bbox == detection.bbox && b.label == detection.label => {
            Some("b")
        }
        _ => None,
    };
    let detections = checked.primary.iter().map(|detection| {
        let [x0, y0, x1, y1] = <[f64; 4]>::from(detection.bbox);
        let (width, height) = (width as f64, height as f64);
        json!({
            "label": detection.label, "score": detection.score, "box": [x0 / width, y0 / height, x1 / width, y1 / height],
            "role": role(detection),
        })
    });
    let confidence = decisions
        .iter()
        .map(|decision| decision.confidence)
        .fold(1.0, f64::min);
    json!({
        "status": status.as_str(), "confidence": confidence, "reason": first,
        "relations": relations.collect::<Vec<_>>(), "detections": detections.collect::<Vec<_>>(),
    })
}
