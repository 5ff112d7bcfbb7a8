//! What the tests of several files make.

use crate::model::{Method, Picture, Prompts, Report};
use prepose_check::prompt::SuitePrompt;
use prepose_check::spatialbench::Record;
use prepose_scene::{Relation, StatedRelation};

/// A prompt with a relation between its first two objects.
pub(crate) fn related(id: &str, relation: Relation, objects: &[&str]) -> SuitePrompt {
    SuitePrompt {
        prompt_id: id.into(),
        prompt: id.into(),
        objects: objects.iter().map(|&object| object.into()).collect(),
        relations: vec![StatedRelation::of_two(0, relation, 1)],
        ..SuitePrompt::default()
    }
}

/// A picture that nobody has looked at.
pub(crate) fn picture(method: &str, prompt: usize, seed: u64) -> Picture {
    Picture {
        sample_id: format!("{method}_p{prompt}_seed{seed:04}"),
        prompt,
        seed,
        size: None,
        place: 0,
        image: None,
        maps: Vec::new(),
        masks: Vec::new(),
        records: Vec::new(),
        scores: None,
        labels: Vec::new(),
    }
}

/// What the checker says of a picture by method `m`, which is to have a dog to the left of a cat.
pub(crate) fn record(prompt: usize, seed: u64, verdict: &str) -> Record {
    serde_json::from_value(serde_json::json!({
        "sample_id": format!("m_p{prompt}_seed{seed:04}"), "prompt_id": format!("p{prompt}"),
        "relation": "left_of", "object_a": "dog", "object_b": "cat",
        "verdict_raw": verdict, "verdict_reason": null, "conf": 0.5,
        "conf_components": { "detection": 1.0, "geometry": 1.0, "stability": 1.0, "agreement": 1.0 },
        "detectors": { "primary": { "type": "toybox", "detections": [] } },
        "selected": {}, "geometry": { "delta": null, "margin": 0.1, "iou_ab": null }, "overlay_path": null,
    }))
    .unwrap()
}

/// A method of the first run, without records.
pub(crate) fn method(name: &str, pictures: Vec<Picture>) -> Method {
    Method {
        name: name.into(),
        run: 0,
        pictures,
        records: Vec::new(),
        others: Vec::new(),
        quality: Vec::new(),
        planned: None,
        refused: Vec::new(),
    }
}

/// A report of methods whose run and folders nobody asks for.
pub(crate) fn report(methods: Vec<Method>, prompts: Prompts) -> Report {
    Report {
        runs: Vec::new(),
        places: Vec::new(),
        methods,
        prompts,
        ambiguous_labels: 0,
    }
}
