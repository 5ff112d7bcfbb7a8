//! What a checkpoint does, with a LoRA or without: sides of neutral prompts, stated sides, and how far its pictures are from
//! those that were trained on.

use anyhow::Context;
use burn::tensor::FloatDType;
use prepose::eyes::features::FeatureExtractor;
use prepose::quality::figures::Settings as QualitySettings;
use prepose::report::experiments::ots::cure::Arm;
use prepose::suite::experiments::pictures;
use prepose::suite::method::Method;
use prepose_statistics::bootstrap::Estimate;

use super::pairs::Pairs;
use super::{Args, BEFORE, Cure, seeds};
use crate::cli::model;
use crate::cli::run::carry_out_suite;
use crate::cli::score::quality::{Measuring, sets_in};
use crate::cli::values::Seeds;

/// Distances between sets of pictures, by how well they do with few of them; which there are depends on the network.
const DISTANCES: [&str; 3] = ["KID x 1000", "CMMD", "FD"];

/// The network whose features are compared.
pub fn extractor(args: &Args) -> anyhow::Result<FeatureExtractor> {
    let device = model::open(args.settings.model.device)?.device;
    FeatureExtractor::load(&args.features, &device, FloatDType::F32)
        .with_context(|| format!("cannot use --features {}", args.features))
}

impl Cure<'_> {
    /// Makes the pictures of an arm, and has them looked at.
    pub fn measure(&self, name: &str, pairs: &Pairs) -> anyhow::Result<Arm> {
        let lora = (name != BEFORE).then(|| self.lora(name));
        let [neutral, stated] = [
            ("neutral", &self.split.neutral),
            ("stated", &self.split.stated),
        ]
        .map(|(kind, suite)| {
            let place = format!("measured/{name}/{kind}");
            let mut settings = self.settings(&place, lora.clone());
            settings.seeds = Some(Seeds(seeds(self.args)));
            let folder = carry_out_suite(
                suite.clone(),
                vec![Method::prompt_only()],
                &settings,
                self.quiet,
            )?;
            anyhow::Ok(pictures(&folder)?)
        });
        Ok(Arm {
            name: name.to_owned(),
            neutral: neutral?,
            stated: stated?,
            distance: self.distance(name, pairs)?,
        })
    }

    /// How far the neutral pictures are from those of the pairs, as a network sees both.
    fn distance(&self, name: &str, pairs: &Pairs) -> anyhow::Result<Option<(String, Estimate)>> {
        let extractor = extractor(self.args)?;
        let settings = QualitySettings::default();
        let measuring = Measuring {
            extractor: &extractor,
            settings: &settings,
            quiet: self.quiet,
        };
        let place = self.out.join(format!("measured/{name}/neutral"));
        let sets = sets_in(&place)?;
        let references = sets_in(pairs.run.as_ref())?;
        let (Some(set), Some(reference)) = (sets.first(), references.first()) else {
            return Ok(None);
        };
        let against = measuring.reference(reference, set)?;
        let (_, found) = measuring.of(set, Some(&against))?;
        let named = |name: &&str| found.figures.iter().find(|figure| figure.name == **name);
        Ok(DISTANCES.iter().find_map(named).map(|figure| {
            let estimate = Estimate {
                value: figure.value,
                low: figure.low,
                high: figure.high,
            };
            (figure.name.clone(), estimate)
        }))
    }
}
