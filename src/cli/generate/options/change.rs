//! Changes of the prompt on the way.

use prepose::prompt::compose::opening_of_run;
use prepose::prompt::neutral::Opening;

/// Change the prompt on the way (docs/prompts.md).
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Prompt changes")]
pub struct ChangeArgs {
    /// Switch to this prompt at the step that --switch-at gives.
    #[arg(
        long,
        value_name = "TEXT",
        requires = "switch_at",
        hide_short_help = true
    )]
    switch_to: Option<String>,
    /// The step from which --switch-to applies, counted from 0.
    #[arg(
        long,
        value_name = "STEP",
        requires = "switch_to",
        hide_short_help = true
    )]
    switch_at: Option<usize>,
    /// Begin with a neutral prompt for this many steps.
    ///
    /// "two animals" for "a dog and a cat", so that the order of the words does not decide the layout.
    #[arg(
        long,
        value_name = "STEPS",
        conflicts_with = "switch_to",
        hide_short_help = true
    )]
    pub(in crate::cli::generate) delay_order: Option<usize>,
    /// The neutral prompt [default: derived from the prompt].
    #[arg(
        long,
        value_name = "TEXT",
        requires = "delay_order",
        hide_short_help = true
    )]
    neutral_prompt: Option<String>,
}

impl ChangeArgs {
    /// The prompt to go on with, and from which step on.
    pub(in crate::cli::generate) fn switch(&self) -> Option<(String, usize)> {
        self.switch_to.clone().zip(self.switch_at)
    }

    /// The neutral prompt for `prompt` in a run of `steps` steps; `known` is that of the file that the prompt is from.
    ///
    /// # Errors
    /// None is given, and none can be derived.
    pub(in crate::cli::generate) fn neutral(
        &self,
        prompt: &str,
        known: Option<&str>,
        steps: usize,
    ) -> anyhow::Result<String> {
        match self.neutral_prompt.as_deref().or(known) {
            Some(given) => Ok(given.to_owned()),
            None => {
                let derived = opening_of_run(Opening::Neutral, prompt, steps)?;
                tracing::info!("the first steps use {derived:?}, the neutral form of {prompt:?}");
                Ok(derived)
            }
        }
    }
}
