//! The pictures of a method that their source refused to make.

use serde::Deserialize;

use super::Reading;
use crate::error::SourceError;
use crate::model::{Prompts, Refused};
use prepose_check::prompt::SuitePrompt;

/// Why a picture was refused.
#[derive(Default, Deserialize)]
struct Why {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl Reading<'_> {
    /// What lies in `refused/{method}_{prompt_id}_seed{seed}.json`.
    pub(super) fn refused(
        &self,
        method: &str,
        prompts: &mut Prompts,
    ) -> Result<Vec<Refused>, SourceError> {
        let folder = format!("{}refused/", self.folder);
        let mut ids: Vec<&str> = (self.found.below(&folder))
            .filter_map(|name| name.strip_suffix(".json"))
            .filter(|id| !id.contains('/'))
            .collect();
        ids.sort_unstable();
        let names: Vec<String> = ids.iter().map(|id| format!("{folder}{id}.json")).collect();
        let mut refused = Vec::with_capacity(ids.len());
        for (id, bytes) in ids.iter().zip(self.found.store.get_all(&names)?) {
            // Gone: it is asked for once more.
            let Some(bytes) = bytes else { continue };
            // Whatever it says, it was refused.
            let why: Why = serde_json::from_slice(&bytes).unwrap_or_default();
            let own = id.strip_prefix(method).and_then(|id| id.strip_prefix('_'));
            let prompt = own.and_then(|own| own.rsplit_once("_seed"));
            let prompt_id = prompt.map_or(*id, |(prompt_id, _)| prompt_id);
            let known = self.prompts.iter().find(|one| one.prompt_id == prompt_id);
            let prompt = prompts.find(self.run, prompt_id, || match known {
                Some(known) => known.clone(),
                None => SuitePrompt {
                    prompt_id: prompt_id.into(),
                    prompt: prompt_id.into(),
                    ..SuitePrompt::default()
                },
            });
            refused.push(Refused {
                prompt,
                code: why.code,
                message: why.message,
            });
        }
        Ok(refused)
    }
}
