//! `--extract-with`: a language model reads the prompts' relations.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use anyhow::Context;
use prepose::engine::Blueprint;
use prepose::prompt::scene::{Extractor, GivenRelation, Scene};
use prepose::request::Request;

/// Whom to ask for relations.
#[derive(Debug, Default, clap::Args)]
pub struct ExtractArgs {
    /// Let a language model find the relations, at an OpenAI-compatible address such as http://localhost:8080/v1. If
    /// its answer cannot be used, the prompt is read by rules instead. A key is read from PREPOSE_EXTRACT_KEY.
    #[arg(
        long,
        value_name = "URL",
        requires = "extract_model",
        hide_short_help = true,
        conflicts_with = "relation"
    )]
    extract_with: Option<String>,
    /// The model's name on that server.
    #[arg(
        long,
        value_name = "NAME",
        requires = "extract_with",
        hide_short_help = true
    )]
    extract_model: Option<String>,
    /// How many seconds the server has to answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, requires = "extract_with", hide_short_help = true,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    extract_timeout: u64,
}

impl ExtractArgs {
    /// Whom they name.
    pub fn extractor(&self) -> anyhow::Result<Option<Extractor>> {
        let Some(url) = self.extract_with.clone() else {
            return Ok(None);
        };
        let model = self.extract_model.clone();
        let key = std::env::var("PREPOSE_EXTRACT_KEY").ok();
        Ok(Some(Extractor {
            url,
            model: model.context("--extract-with needs --extract-model")?,
            key: key.filter(|key| !key.is_empty()),
            timeout: Duration::from_secs(self.extract_timeout),
        }))
    }
}

/// The relations that the model finds in `prompt`; none, after a warning that says why, where the rules are to read it.
pub fn relations(extractor: &Extractor, prompt: &str) -> Option<Vec<GivenRelation>> {
    match extractor.relations(prompt) {
        Ok(relations) => Some(relations),
        Err(reason) => {
            tracing::warn!("{reason}; {prompt:?} is read by rules instead");
            None
        }
    }
}

/// Gives `requests` the relations that the model finds in the prompts they end with. It is asked once for each prompt,
/// however many pictures there are of it, and only about requests that are in order otherwise.
pub fn give_relations(
    extractor: &Extractor,
    blueprint: &Blueprint,
    requests: &mut [Request],
) -> anyhow::Result<()> {
    let mut known: HashMap<String, Vec<GivenRelation>> = HashMap::new();
    for request in requests {
        let relations = match known.entry(blueprint.final_text(request)?) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                // Guidance reads the scene, which is not there yet.
                blueprint.check(&mut Request {
                    guide: None,
                    ground: None,
                    ..request.clone()
                })?;
                let relations = relations(extractor, new.key());
                match relations.as_deref() {
                    // A request without relations is one whose prompt the rules read.
                    Some([]) if rules_find_relations(new.key()) => tracing::warn!(
                        "the model finds no relation in {:?}; those that the rules read are used",
                        new.key()
                    ),
                    Some(found) => {
                        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
                        tracing::info!("{:?}: {}", new.key(), found.join("; "));
                    }
                    None => {}
                }
                new.insert(relations.unwrap_or_default())
            }
        };
        request.relations.clone_from(relations);
    }
    Ok(())
}

fn rules_find_relations(prompt: &str) -> bool {
    Scene::parse(prompt).is_ok_and(|scene| !scene.relations.is_empty())
}
