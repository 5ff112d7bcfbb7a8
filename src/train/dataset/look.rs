//! A look at every picture: can it be read, how large is it, which file is it?

use std::path::Path;

use prepose_draw::picture::Picture;
use prepose_untrusted::printable;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::bucket::{Chooser, Fit};
use crate::error::DatasetError;
use crate::sample::{Dataset, Place, Sample, Skipped};

/// What is transparent is seen over white.
pub const BACKGROUND: [u8; 3] = [255; 3];

/// A picture that can be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Looked {
    /// It.
    pub sample: Sample,
    /// Its file's SHA-256, in hexadecimal.
    pub sha256: String,
    /// Width and height in pixels, upright.
    pub size: [usize; 2],
    /// How it comes to a size that is trained on.
    pub fit: Fit,
    /// The SHA-256 of [`Sample::shown`], if there is one.
    pub shown_sha256: Option<String>,
}

impl Sample {
    /// The picture upright, what is transparent over white.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn picture(&self) -> Result<Picture, String> {
        self.place.picture()
    }

    fn look(&self) -> Result<([usize; 2], String, Option<String>), String> {
        let (picture, sha256) = self.place.with_hash()?;
        let shown = self.shown.as_ref().map(|place| {
            let found = place.with_hash();
            found.map_err(|why| format!("the picture that is shown for it cannot be read: {why}"))
        });
        let shown = shown.transpose()?.map(|(_, sha256)| sha256);
        Ok(([picture.width, picture.height], sha256, shown))
    }
}

impl Place {
    /// As [`Sample::picture`].
    ///
    /// # Errors
    /// Why it cannot be had.
    pub fn picture(&self) -> Result<Picture, String> {
        self.with_hash().map(|(picture, _)| picture)
    }

    fn with_hash(&self) -> Result<(Picture, String), String> {
        let bytes = self.read().map_err(|error| error.to_string())?;
        let picture = Picture::decode_as_seen(&bytes, BACKGROUND).map_err(|error| {
            let source = std::error::Error::source(&error);
            match source {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            }
        })?;
        Ok((picture, format!("{:x}", Sha256::digest(&bytes))))
    }
}

/// Reads every picture, several at a time; those that cannot be read, or come to none of the sizes of `chooser`, are left out.
/// `seen` is called after each.
///
/// # Errors
/// More than the share `most_skipped` of all are of no use, those included that had no caption, but not those that were passed
/// over.
pub fn look(
    path: &Path,
    dataset: Dataset,
    chooser: &Chooser,
    most_skipped: f64,
    seen: &(dyn Fn() + Sync),
) -> Result<(Vec<Looked>, Vec<Skipped>), DatasetError> {
    let Dataset {
        samples,
        mut skipped,
        passed_over,
        ..
    } = dataset;
    let all = samples.len() + skipped.len();
    let looked: Vec<Result<Looked, Skipped>> = samples
        .into_par_iter()
        .map(|sample| {
            let found = sample.look();
            let found = found.and_then(|found| Ok((chooser.fit(found.0)?, found)));
            seen();
            match found {
                Ok((fit, (size, sha256, shown_sha256))) => Ok(Looked {
                    size,
                    fit,
                    sha256,
                    shown_sha256,
                    sample,
                }),
                Err(why) => Err(Skipped {
                    name: sample.name,
                    why,
                }),
            }
        })
        .collect();
    let mut good = Vec::with_capacity(looked.len());
    for one in looked {
        match one {
            Ok(looked) => good.push(looked),
            Err(bad) => skipped.push(bad),
        }
    }
    if good.is_empty() || skipped.len() as f64 > most_skipped * all as f64 {
        return Err(DatasetError::Skipped {
            path: path.to_owned(),
            skipped: skipped.len(),
            all,
            most: most_skipped,
            first: some(&skipped),
        });
    }
    skipped.extend(passed_over);
    Ok((good, skipped))
}

/// The first few for a message.
fn some(skipped: &[Skipped]) -> String {
    const SHOWN: usize = 3;
    let shown = skipped.iter().take(SHOWN);
    let shown: Vec<String> = shown
        .map(|one| format!("{}: {}", printable(&one.name), one.why))
        .collect();
    let more = match skipped.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    shown.join("; ") + &more
}
