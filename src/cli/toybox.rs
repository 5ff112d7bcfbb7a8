//! What the built-in checkpoint can draw.

use std::path::Path;

use anyhow::Context;
use prepose::check::vocabulary::label_of;
use prepose::detect::RcnnDetector;
use prepose::prompt::scene::Scene;
use prepose_weights::{DetectorWeights, TOYBOX};

/// The objects that it can draw, which are those that its detector knows.
///
/// # Errors
/// A program that was built without it.
pub fn objects() -> anyhow::Result<Vec<String>> {
    let weights =
        DetectorWeights::open(Path::new(TOYBOX)).context("the toybox is not in this program")?;
    Ok(RcnnDetector::labels(weights.config()))
}

/// Whether `prompt` names any of `objects`.
pub fn draws_anything_of(prompt: &str, objects: &[String]) -> bool {
    let lower = prompt.to_lowercase();
    let in_text = objects.iter().any(|object| lower.contains(&**object));
    in_text
        || Scene::parse(prompt).is_ok_and(|scene| {
            let known = |object| label_of(Some(objects), object).is_ok();
            scene.objects.iter().any(known)
        })
}

/// Says on the log which of `prompts` will come out as blobs.
///
/// # Errors
/// As [`objects`].
pub fn warn_of_blobs<'a>(prompts: impl IntoIterator<Item = &'a str>) -> anyhow::Result<()> {
    let objects = objects()?;
    let mut strange: Vec<&str> = Vec::new();
    for prompt in prompts {
        if !strange.contains(&prompt) && !draws_anything_of(prompt, &objects) {
            strange.push(prompt);
        }
    }
    let Some(first) = strange.first() else {
        return Ok(());
    };
    let others = match strange.len() {
        1 => String::new(),
        several => format!(" (nor do {} other prompts)", several - 1),
    };
    tracing::warn!(
        "{first:?} names nothing that the toybox can draw{others}, so expect blobs. It knows {} objects: {}. Other models: \
         --checkpoint",
        objects.len(),
        objects.join(", ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_knows_its_own_objects() {
        let objects = objects().unwrap();
        assert_eq!(objects.len(), 35);
        for prompt in ["a dog to the left of a cat", "a big DOG", "two cats"] {
            assert!(draws_anything_of(prompt, &objects), "{prompt}");
        }
        for prompt in ["an astronaut", "a castle above the clouds"] {
            assert!(!draws_anything_of(prompt, &objects), "{prompt}");
        }
    }
}
