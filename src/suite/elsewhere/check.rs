//! Whether a source can make a run's pictures, found out before it is asked for one.

use super::{jobs, scene};
use crate::detect::reward::PictureReward;
use crate::make::reward_kind;
use crate::request::RewardKind;
use crate::sources::Editing;
use crate::suite::plan::{Plan, SourceId};
use crate::suite::run::RunError;

/// Checks every method, every prompt whose candidates a search scores, and every picture that is to be changed. `labels` are
/// those of the run's detector; none if there is no detector. `editing` says whether the source changes pictures.
///
/// # Errors
/// A method that works inside of the engine, a search that needs a detector, prompts whose candidates it cannot score; prompts
/// that change pictures and a source that cannot, or the other way round; pictures that are to be changed and not there.
pub fn check(plan: &Plan, labels: Option<&[String]>, editing: Editing) -> Result<(), RunError> {
    check_starts(plan, editing)?;
    for method in &plan.config.methods {
        let inside = |why| RunError::Inside {
            method: method.name.clone(),
            why,
        };
        if method.guide.is_some() {
            return Err(inside("guides the network from inside"));
        }
        if method.begin.is_some() {
            return Err(inside("changes the prompt while the picture is made"));
        }
        let Some(search) = &method.search else {
            continue;
        };
        if search.pruning.is_some() {
            return Err(inside("drops candidates while they are made"));
        }
        if search.reward == RewardKind::Judge {
            continue;
        }
        let Some(kind) = reward_kind(search.reward) else {
            return Err(inside("scores candidates by where the network looks"));
        };
        if labels.is_none() {
            return Err(RunError::NoChecker {
                method: method.name.clone(),
            });
        }
        let (mut unscored, mut why) = (Vec::new(), None);
        for prompt in &plan.prompts {
            if let Err(error) = PictureReward::new(kind, &scene(prompt), labels) {
                unscored.push(prompt.prompt_id.clone());
                why.get_or_insert(error);
            }
        }
        if let Some(why) = why {
            return Err(RunError::Unscored {
                method: method.name.clone(),
                reward: search.reward,
                prompts: plan.prompts.len(),
                unscored,
                why: why.into(),
            });
        }
    }
    Ok(())
}

/// Checks what is to be changed.
fn check_starts(plan: &Plan, editing: Editing) -> Result<(), RunError> {
    let Some(source) = plan.config.source.as_ref().filter(|s| s.is_dear()) else {
        // Those that are there were changed by somebody.
        return Ok(());
    };
    let name = || source.name().to_owned();
    for prompt in &plan.prompts {
        match (&prompt.edit, editing) {
            (Some(_), Editing::Never) => {
                return Err(RunError::CannotEdit {
                    name: name(),
                    how: how_to_edit(source),
                    prompt_id: prompt.prompt_id.clone(),
                });
            }
            (None, Editing::Only) => {
                return Err(RunError::OnlyEdits {
                    name: name(),
                    prompt_id: prompt.prompt_id.clone(),
                });
            }
            _ => {}
        }
    }
    // The first method's pictures begin with what all methods' begin with.
    (plan.jobs(0)).try_for_each(|job| jobs::check_start(plan, source, job))
}

/// What a source would need.
fn how_to_edit(source: &SourceId) -> &'static str {
    match source {
        SourceId::Maker { .. } => {
            "a maker that can says \"edits\": true with its hello (docs/sources.md)"
        }
        _ => "a ComfyUI workflow that can has {image} in its LoadImage node (docs/sources.md)",
    }
}
