//! Looking at sets of pictures, and what comes of it.

use std::path::PathBuf;

use anyhow::Context;
use prepose::eyes::clip_score;
use prepose::eyes::features::FeatureExtractor;
use prepose::eyes::kept::Kept;
use prepose::quality::figures::{self, Reference, Seen, Set, Settings, figures};
use prepose::quality::{Features, Measured, Moments};
use prepose::report::quality::{Assessment, Figure};

use super::sets::PictureSet;
use crate::cli::progress::Progress;

/// The folder of features, beside the pictures.
const FOLDER: &str = "quality";

/// A network with what is asked of it.
pub struct Measuring<'a> {
    pub extractor: &'a FeatureExtractor,
    pub settings: &'a Settings,
    pub quiet: bool,
}

/// What pictures are compared with, as the network sees it.
pub enum Against<'a> {
    Pictures { name: String, features: Features },
    Statistics { name: String, moments: &'a Moments },
}

impl Measuring<'_> {
    /// The reference's features, which are kept beside the first set: the reference may be somebody else's.
    pub fn reference<'b>(
        &self,
        reference: &PictureSet,
        first: &PictureSet,
    ) -> anyhow::Result<Against<'b>> {
        let folder = first.folder.join(FOLDER).join("reference");
        let (features, _) = self.look(reference, folder)?;
        Ok(Against::Pictures {
            name: reference.name.clone(),
            features,
        })
    }

    /// The features of a set, and everything they say.
    pub fn of(
        &self,
        set: &PictureSet,
        against: Option<&Against>,
    ) -> anyhow::Result<(Features, Assessment)> {
        let (features, logits) = self.look(set, set.folder.join(FOLDER))?;
        let reference = against.map(|against| match against {
            Against::Pictures { features, .. } => Reference::Pictures(features),
            Against::Statistics { moments, .. } => Reference::Moments(moments),
        });
        let seen = Set {
            features: &features,
            logits: logits.as_ref(),
            groups: &set.groups,
        };
        let found = figures(self.extractor.seen(), &seen, reference, self.settings);
        let found = found.with_context(|| set.name.clone())?;
        let (name, count) = match against {
            Some(Against::Pictures { name, features }) => {
                (Some(name.clone()), Some(features.rows()))
            }
            Some(Against::Statistics { name, .. }) => (Some(name.clone()), None),
            None => (None, None),
        };
        let assessment = Assessment {
            network: self.extractor.name().to_string(),
            sha256: self.extractor.hash().to_string(),
            about: self.extractor.about().to_string(),
            pictures: features.rows(),
            reference: name,
            reference_pictures: count,
            figures: found.figures.into_iter().map(figure).collect(),
            warnings: found.warnings,
        };
        Ok((features, assessment))
    }

    /// CLIPScore and the bare cosine, if the network reads texts and all pictures have prompts; `before` stands before
    /// each.
    pub fn clip_scores(
        &self,
        features: &Features,
        set: &PictureSet,
        before: &str,
    ) -> anyhow::Result<Vec<Figure>> {
        // Captions take a look into each file.
        if !matches!(self.extractor.seen(), Seen::ByClip) {
            return Ok(Vec::new());
        }
        let Some(captions) = set.captions()? else {
            return Ok(Vec::new());
        };
        let texts = captions.iter().map(|caption| format!("{before}{caption}"));
        let texts: Vec<String> = texts.collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let cosines = self.extractor.cosines(features, &texts);
        let Some(cosines) = cosines.with_context(|| set.name.clone())? else {
            return Ok(Vec::new());
        };
        let of = |name, score: fn(f64) -> f64| {
            let measured = Measured::mean(cosines.iter().copied().map(score).collect());
            figure(figures::Figure {
                name,
                estimate: measured.estimate(&set.groups, &self.settings.bootstrap),
                deviation: None,
                setting: None,
            })
        };
        Ok(vec![of("CLIPScore", clip_score), of("cosine", |one| one)])
    }

    fn look(
        &self,
        set: &PictureSet,
        folder: PathBuf,
    ) -> anyhow::Result<(Features, Option<Features>)> {
        let mut progress = Progress::new(set.pictures.len() as u64, "pictures", self.quiet);
        progress.message(format!("{} looks at {}", self.extractor.name(), set.name));
        let mut before = 0;
        let mut kept = Kept::open(&folder, self.extractor);
        let seen = kept.features(&set.folder, &set.pictures, |done| {
            progress.advance((done - before) as u64);
            before = done;
        });
        progress.finish();
        let seen = seen?;
        let features = Features::new(seen.columns, seen.features)?;
        let logits = match seen.classes {
            0 => None,
            classes => Some(Features::new(classes, seen.logits)?),
        };
        Ok((features, logits))
    }
}

/// A statistic as reports keep it.
pub fn figure(found: figures::Figure) -> Figure {
    Figure {
        name: found.name.to_string(),
        value: found.estimate.value,
        low: found.estimate.low,
        high: found.estimate.high,
        deviation: found.deviation,
        setting: found.setting,
    }
}
