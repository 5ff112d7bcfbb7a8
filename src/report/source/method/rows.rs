//! The line of a picture that no manifest lists, and what a line says of its prompt.

use prepose_check::manifest::{Entry, ManifestLine};
use prepose_check::prompt::SuitePrompt;
use prepose_check::spatialbench::Record;
use prepose_check::spatialbench::record::relation_name;
use prepose_scene::{Relation, StatedRelation};

/// The seed that was asked for. The manifest has the one that the picture was made from: of a search, the best.
pub(super) fn seed_of(sample_id: &str) -> Option<u64> {
    sample_id.rsplit_once("_seed")?.1.parse().ok()
}

/// A picture's line in a run that is going on.
pub(super) fn entry_of(line: ManifestLine) -> Entry {
    let side = |pixels: usize| u32::try_from(pixels).ok();
    let size = side(line.gen_params.width).zip(side(line.gen_params.height));
    Entry {
        line: 0,
        sample_id: line.sample_id,
        prompt_id: line.prompt_id,
        image_path: line.image_path,
        prompt: Some(line.prompt),
        relation: line.relation,
        object_a: line.object_a,
        object_b: line.object_b,
        seed: line.gen_params.seed,
        size: size.map(Into::into),
    }
}

/// What a record says of a picture that no manifest lists.
pub(super) fn row_of(record: &Record, sample_id: &str) -> Entry {
    Entry {
        line: 0,
        sample_id: sample_id.into(),
        prompt_id: record.prompt_id.clone(),
        image_path: format!("images/{sample_id}.png"),
        prompt: None,
        relation: Some(relation_name(record.relation)),
        object_a: Some(record.object_a.clone()),
        object_b: Some(record.object_b.clone()),
        seed: seed_of(sample_id).unwrap_or_default(),
        size: None,
    }
}

/// What a line says of its prompt.
pub(super) fn prompt_of(row: &Entry) -> SuitePrompt {
    let objects: Vec<String> = [&row.object_a, &row.object_b]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    let relation = (row.relation.as_deref()).and_then(|name| name.parse::<Relation>().ok());
    let stated = |relation| StatedRelation::of_two(0, relation, 1);
    let in_words = || match (objects.as_slice(), &relation) {
        ([a, b], Some(relation)) => format!("{a} {relation} {b}"),
        _ => row.sample_id.clone(),
    };
    SuitePrompt {
        prompt_id: row.prompt_id.clone(),
        prompt: row.prompt.clone().unwrap_or_else(in_words),
        relations: relation
            .filter(|_| objects.len() == 2)
            .map(stated)
            .into_iter()
            .collect(),
        objects,
        counterpart: None,
        tags: Vec::new(),
        ..SuitePrompt::default()
    }
}
