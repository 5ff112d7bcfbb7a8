//! Features that are kept in files, so that no picture is looked at twice by the same network.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use prepose_formats::{StoredType, TensorFile, TensorPart};
use prepose_untrusted::read_regular;
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::EyeError;
use super::features::{FeatureExtractor, Rows};
use crate::picture::Picture;

/// Pictures in a file, which are looked at before it is written: what a kill can cost.
const IN_A_FILE: usize = 64;
/// Pictures that are looked at together.
const TOGETHER: usize = 16;
/// More than any picture's file has.
const MOST_BYTES: u64 = prepose_untrusted::MAX_PICTURE;
/// The key of the pictures' names in a file's metadata.
const PICTURES: &str = "pictures";
/// The key of the network's hash there.
const NETWORK: &str = "network";

/// Why pictures have no features.
#[derive(Debug, Error)]
pub enum KeptError {
    /// A picture that is none, or cannot be looked at.
    #[error("{}: {why}", path.display())]
    Picture {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The features cannot be written.
    #[error("cannot keep features in {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}

/// A picture's file as it was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Known {
    file: String,
    bytes: u64,
    /// When it was changed last, in nanoseconds since 1970.
    changed: u128,
}

impl Known {
    fn of(path: &Path, base: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        let name = path.strip_prefix(base).unwrap_or(path);
        let changed = metadata.modified()?.duration_since(UNIX_EPOCH);
        Ok(Self {
            file: name.to_string_lossy().into_owned(),
            bytes: metadata.len(),
            changed: changed.map_or(0, |since| since.as_nanos()),
        })
    }
}

/// A row of features, and one of classes.
type Row = (Vec<f32>, Vec<f32>);

/// A folder of features by one network.
pub struct Kept<'a> {
    extractor: &'a FeatureExtractor,
    folder: PathBuf,
    known: HashMap<Known, Row>,
    /// The number of the next file.
    next: usize,
}

impl<'a> Kept<'a> {
    /// Reads what is kept below `folder` of this network. What cannot be read there is looked at again.
    pub fn open(folder: &Path, extractor: &'a FeatureExtractor) -> Self {
        let hash = extractor.hash().get(..12).unwrap_or_default();
        let name: String = (extractor.name().chars())
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let folder = folder.join(format!("{name}-{hash}"));
        let mut kept = Self {
            extractor,
            known: HashMap::new(),
            next: 0,
            folder,
        };
        let files = std::fs::read_dir(&kept.folder).into_iter().flatten();
        let mut files: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
        files.sort();
        for path in files {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let number = stem.and_then(|stem| stem.parse::<usize>().ok());
            let Some(number) = number.filter(|_| path.extension() == Some("safetensors".as_ref()))
            else {
                continue;
            };
            kept.next = kept.next.max(number.saturating_add(1));
            if let Some(rows) = rows_of(&path, extractor.hash()) {
                kept.known.extend(rows);
            }
        }
        kept
    }

    /// The features of these pictures, in their order. What is not known is looked at, and kept while it goes on, under
    /// the pictures' names within `base`; `told` is called with how many are done.
    ///
    /// # Errors
    /// The first picture that cannot be looked at, or features that cannot be written.
    pub fn features(
        &mut self,
        base: &Path,
        pictures: &[PathBuf],
        mut told: impl FnMut(usize),
    ) -> Result<Rows, KeptError> {
        let mut all = Vec::with_capacity(pictures.len());
        for path in pictures {
            let known = Known::of(path, base).map_err(|error| KeptError::Picture {
                path: path.clone(),
                why: error.to_string(),
            })?;
            all.push((path, known));
        }
        let is_new = |(_, known): &&(&PathBuf, Known)| !self.known.contains_key(known);
        let new: Vec<_> = all.iter().filter(is_new).collect();
        let mut done = all.len() - new.len();
        told(done);
        for some in new.chunks(IN_A_FILE) {
            let mut seen = Rows::default();
            for together in some.chunks(TOGETHER) {
                let paths: Vec<&Path> = together.iter().map(|(path, _)| path.as_path()).collect();
                let rows = look(self.extractor, &paths)?;
                (seen.columns, seen.classes) = (rows.columns, rows.classes);
                seen.features.extend(rows.features);
                seen.logits.extend(rows.logits);
                done += together.len();
                told(done);
            }
            let names: Vec<Known> = some.iter().map(|(_, known)| known.clone()).collect();
            self.write(&names, &seen)?;
            self.known.extend(names.into_iter().zip(rows(&seen)));
        }
        let mut whole = Rows::default();
        for (_, known) in &all {
            // All are known by now.
            if let Some((features, logits)) = self.known.get(known) {
                (whole.columns, whole.classes) = (features.len(), logits.len());
                whole.features.extend(features);
                whole.logits.extend(logits);
            }
        }
        Ok(whole)
    }

    /// Writes a file of rows, whole or not at all.
    fn write(&mut self, names: &[Known], seen: &Rows) -> Result<(), KeptError> {
        let path = self.folder.join(format!("{:06}.safetensors", self.next));
        let error = |source: io::Error| KeptError::Write {
            path: path.clone(),
            source,
        };
        std::fs::create_dir_all(&self.folder).map_err(error)?;
        let bytes = |values: &[f32]| -> Vec<u8> {
            values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect()
        };
        let (features, logits) = (bytes(&seen.features), bytes(&seen.logits));
        let view = |shape: [usize; 2], bytes| {
            let view = TensorView::new(Dtype::F32, shape.to_vec(), bytes);
            view.map_err(|why| error(io::Error::other(why)))
        };
        let mut views = vec![("features", view([names.len(), seen.columns], &features)?)];
        if seen.classes > 0 {
            views.push(("logits", view([names.len(), seen.classes], &logits)?));
        }
        let listed = serde_json::to_string(names).map_err(|why| error(io::Error::other(why)))?;
        let metadata = HashMap::from([
            (PICTURES.to_string(), listed),
            (NETWORK.to_string(), self.extractor.hash().to_string()),
        ]);
        let whole = safetensors::serialize(views, Some(metadata));
        let whole = whole.map_err(|why| error(io::Error::other(why)))?;
        let mut file = tempfile::NamedTempFile::new_in(&self.folder).map_err(error)?;
        io::Write::write_all(&mut file, &whole).map_err(error)?;
        file.persist(&path).map_err(|why| error(why.error))?;
        self.next += 1;
        Ok(())
    }
}

/// What a network sees in pictures; of those that it cannot look at the first is named.
fn look(extractor: &FeatureExtractor, paths: &[&Path]) -> Result<Rows, KeptError> {
    let refused = |path: &Path, why: &dyn std::fmt::Display| KeptError::Picture {
        path: path.to_path_buf(),
        why: why.to_string(),
    };
    let mut pictures = Vec::with_capacity(paths.len());
    for path in paths {
        let bytes = read_regular(path, MOST_BYTES).map_err(|error| refused(path, &error))?;
        pictures.push(Picture::decode(&bytes).map_err(|error| refused(path, &error))?);
    }
    let together: Vec<&Picture> = pictures.iter().collect();
    extractor.look(&together).map_err(|whole: EyeError| {
        let alone = |picture| extractor.look(&[picture]).err();
        let each = paths.iter().zip(&pictures);
        let mut wrong = each.filter_map(|(path, picture)| Some((path, alone(picture)?)));
        match wrong.next() {
            Some((path, error)) => refused(path, &error),
            None => refused(paths[0], &whole),
        }
    })
}

/// The rows of each picture.
fn rows(seen: &Rows) -> impl Iterator<Item = Row> + '_ {
    let features = seen.features.chunks_exact(seen.columns.max(1));
    features.enumerate().map(|(i, row)| {
        let classes = &seen.logits[i * seen.classes..(i + 1) * seen.classes];
        (row.to_vec(), classes.to_vec())
    })
}

/// The rows in a file; none if it is damaged or another network's.
fn rows_of(path: &Path, hash: &str) -> Option<Vec<(Known, Row)>> {
    let file = TensorFile::open(path).ok()?;
    let metadata = file.metadata()?;
    if metadata.get(NETWORK)? != hash {
        return None;
    }
    let names: Vec<Known> = serde_json::from_str(metadata.get(PICTURES)?).ok()?;
    let (columns, features) = numbers(&file, "features", names.len())?;
    // Only Inception has classes.
    let (classes, logits) = match file.info("logits") {
        Some(_) => numbers(&file, "logits", names.len())?,
        None => (0, Vec::new()),
    };
    let seen = Rows {
        columns,
        features,
        classes,
        logits,
    };
    Some(names.into_iter().zip(rows(&seen)).collect())
}

/// A tensor `[count, n]` of finite f32: `n` and the numbers. None if there is none, or another.
fn numbers(file: &TensorFile, name: &str, count: usize) -> Option<(usize, Vec<f32>)> {
    let info = file.info(name)?;
    let [rows, columns] = info.shape[..] else {
        return None;
    };
    if rows != count || columns == 0 || info.dtype != StoredType::F32 {
        return None;
    }
    let mut bytes = Vec::new();
    file.pieces(name, TensorPart::WHOLE, &mut |piece| {
        bytes.extend_from_slice(piece);
    });
    let values = bytes.as_chunks::<4>().0.iter();
    let values: Vec<f32> = values.map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let sound = values.iter().all(|value| value.is_finite());
    sound.then_some((columns, values))
}
