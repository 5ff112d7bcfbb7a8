//! The classifiers that methods which learn go by.

use std::path::{Path, PathBuf};

use prepose_weights::sha256_file;
use prepose_weights::steer::SteerFile;

use crate::engine::blueprint::Blueprint;
use crate::engine::error::EngineError;
use crate::guidance::{GuidanceConfig, GuidanceError};

/// The classifier that comes with a checkpoint, in its folder.
const STEER: &str = "steer/steer.safetensors";

impl Blueprint {
    /// Records the SHA-256 of the classifier's file of a method that learns. The toybox's is part of the program and has none.
    ///
    /// # Errors
    /// It cannot be read, or is not the one that was recorded.
    pub fn record_classifier(&self, config: &mut GuidanceConfig) -> Result<(), EngineError> {
        if config.method.is_learned()
            && let Some(path) = self.classifier_file(config)
        {
            config.classifier_sha256 = Some(recorded_classifier(&path, config)?);
        }
        Ok(())
    }

    /// The file of the classifier that a method which learns goes by: the one that is named, or that comes with the checkpoint.
    fn classifier_file(&self, config: &GuidanceConfig) -> Option<PathBuf> {
        let own = || Some(self.checkpoint.path().join(STEER)).filter(|own| own.is_file());
        config.classifier.clone().or_else(own)
    }

    /// The classifier that a method which learns goes by: the one that is named, or that comes with the checkpoint; none for
    /// other methods.
    ///
    /// # Errors
    /// There is none, it is another network's, or not the one that was recorded.
    pub(in crate::engine) fn classifier(
        &self,
        config: &GuidanceConfig,
    ) -> Result<Option<SteerFile>, EngineError> {
        if !config.method.is_learned() {
            return Ok(None);
        }
        let checkpoint = self.checkpoint.path();
        let (path, file) = match self.classifier_file(config) {
            Some(path) => {
                if config.classifier_sha256.is_some() {
                    recorded_classifier(&path, config)?;
                }
                let file = SteerFile::open(&path)?;
                (path, file)
            }
            #[cfg(feature = "toybox")]
            None if self.network() == crate::guidance::Network::Toybox => {
                (checkpoint.join(STEER), SteerFile::toybox()?)
            }
            None => {
                return Err(GuidanceError::NoClassifier {
                    method: config.method,
                    checkpoint: checkpoint.display().to_string(),
                }
                .into());
            }
        };
        file.check(&path, &self.checkpoint.unet_config()?)?;
        Ok(Some(file))
    }
}

/// The SHA-256 of the file of a classifier, which is the recorded one if one was.
fn recorded_classifier(path: &Path, config: &GuidanceConfig) -> Result<String, EngineError> {
    let found = sha256_file(path)?;
    match &config.classifier_sha256 {
        Some(recorded) if *recorded != found => Err(GuidanceError::ClassifierChanged {
            path: path.into(),
            found,
            recorded: recorded.clone(),
        }
        .into()),
        _ => Ok(found),
    }
}
