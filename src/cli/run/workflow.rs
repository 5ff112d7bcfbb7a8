//! ComfyUI's graphs, by which it makes pictures.

use std::path::Path;

use anyhow::{Context, ensure};
use prepose::remote::images::Workflow;
use prepose::sources::Wishes;
use prepose_untrusted::read_text;

/// A file with ComfyUI's graph, which must have a place for everything that is asked for: its text, and what it says.
pub fn open_workflow(path: &Path, wishes: &Wishes) -> anyhow::Result<(String, Workflow)> {
    let text = read_text(path).with_context(|| format!("cannot read {}", path.display()))?;
    let graph = Workflow::parse(&text);
    let graph = graph.with_context(|| format!("{} cannot be used", path.display()))?;
    for (option, asked, has_place, way) in [
        (
            "--steps",
            wishes.steps.is_some(),
            graph.takes_steps(),
            "give a node a number called steps in place of its link",
        ),
        (
            "--guidance-scale",
            wishes.guidance_scale.is_some(),
            graph.takes_guidance_scale(),
            "give a node a number called cfg in place of its link",
        ),
        (
            "--negative-prompt",
            !wishes.negative_prompt.is_empty(),
            graph.takes_negative_prompt(),
            "write {negative_prompt} into the text of the node for it",
        ),
    ] {
        ensure!(
            !asked || has_place,
            "{option} would do nothing, since {} has no place for it: {way} and export the workflow again, or leave {option} out",
            path.display()
        );
    }
    Ok((text, graph))
}
