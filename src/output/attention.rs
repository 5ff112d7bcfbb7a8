//! Attention maps as files: a heat map for each object, a sheet over time, and the values.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use burn::tensor::Tensor;
use safetensors::tensor::{Dtype, TensorView, serialize};
use thiserror::Error;

use super::files::{WriteError, slug, write_atomically};
use super::heatmap::{HeatMap, sheet};
use super::png::{PngError, save_plain};
use crate::attention_maps::StepMaps;
use crate::guidance::maps::{object_maps, selector};
use crate::picture::Picture;

/// What the sheet is called where maps are called after their objects.
const SHEET: &str = "steps";

/// The most steps that a sheet shows; of more, some are picked evenly.
const SHEET_STEPS: usize = 10;

/// Why attention maps could not be written.
#[derive(Debug, Error)]
pub enum MapsError {
    /// A picture could not be written.
    #[error(transparent)]
    Picture(#[from] PngError),
    /// The values could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The values could not be put into the file's form.
    #[error("cannot encode the attention maps for {}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: safetensors::SafeTensorError,
    },
}

/// The maps of the objects of one picture.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectMaps {
    /// What the maps are of, as the prompt names it.
    pub objects: Vec<String>,
    /// The steps, from 0.
    pub steps: Vec<usize>,
    /// By step and object.
    pub maps: Vec<Vec<HeatMap>>,
}

impl ObjectMaps {
    /// Brings the mean maps ([`Pooling::Mean`](crate::guidance::maps::Pooling::Mean)) of a batch to the host: for each size of
    /// map, one [`ObjectMaps`] for each picture. `objects[b]` are the names and token positions of picture b's objects.
    pub fn read(steps: &[StepMaps], objects: &[Vec<(String, Vec<usize>)>]) -> Vec<Vec<Self>> {
        let positions: Vec<Vec<Vec<usize>>> = objects
            .iter()
            .map(|objects| objects.iter().map(|(_, at)| at.clone()).collect())
            .collect();
        let sizes = steps.first().map_or(0, |step| step.groups.len());
        let mut read = Vec::with_capacity(sizes);
        for group in 0..sizes {
            let mut pictures: Vec<Self> = (objects.iter())
                .map(|objects| Self {
                    objects: objects.iter().map(|(name, _)| name.clone()).collect(),
                    steps: steps.iter().map(|step| step.step).collect(),
                    maps: Vec::new(),
                })
                .collect();
            for step in steps {
                let group = &step.groups[group];
                let selector = selector(&positions, group.maps.dims()[3], &group.maps.device());
                let maps = object_maps(group.maps.clone(), group.size, selector);
                for (b, picture) in pictures.iter_mut().enumerate() {
                    let mine = maps.clone().narrow(0, b, 1);
                    picture.maps.push(heat_maps(mine, picture.objects.len()));
                }
            }
            read.push(pictures);
        }
        read
    }

    /// The mean over the steps, one map for each object.
    pub fn mean(&self) -> Vec<HeatMap> {
        let mean = |object: usize| {
            let mut maps = self.maps.iter().map(|step| &step[object]);
            let mut sum = maps.next()?.clone();
            for map in maps {
                for (sum, value) in sum.values.iter_mut().zip(&map.values) {
                    *sum += value;
                }
            }
            let steps = self.maps.len() as f32;
            sum.values.iter_mut().for_each(|value| *value /= steps);
            Some(sum)
        };
        (0..self.objects.len()).filter_map(mean).collect()
    }

    /// What the objects are called in names of files: each by its slug, with the object's number if that name is taken by one
    /// before it, as for `dog` and `Dog`, or among those that are `taken` by other files.
    pub fn file_names(&self, taken: &[&str]) -> Vec<String> {
        let mut names: Vec<String> = Vec::with_capacity(self.objects.len());
        for (object, number) in self.objects.iter().zip(1..) {
            let slug = slug(object);
            let numbered = (number..).map(|number| format!("{slug}-{number}"));
            let mut all = std::iter::once(slug.clone()).chain(numbered);
            let free = all.find(|name| !taken.contains(&name.as_str()) && !names.contains(name));
            names.extend(free);
        }
        names
    }

    /// Writes `STEM-OBJECT.png` for each object, the mean over the steps as a heat map over `picture`; `STEM-steps.png`, a
    /// row for each object and a column for each of at most ten steps, each tile with its own brightest spot; and
    /// `STEM.safetensors` with the values as `maps`, f32 [steps, objects, rows, columns]. Returns the paths.
    ///
    /// # Errors
    /// Whatever fails to be written.
    pub fn write(
        &self,
        folder: &Path,
        stem: &str,
        picture: &Picture,
    ) -> Result<Vec<PathBuf>, MapsError> {
        let mut paths = Vec::new();
        for (object, map) in self.file_names(&[SHEET]).iter().zip(self.mean()) {
            let path = folder.join(format!("{stem}-{object}.png"));
            save_plain(&path, &map.over(picture, map.peak()))?;
            paths.push(path);
        }
        let shown = self.maps.len().min(SHEET_STEPS);
        let picked: Vec<usize> = (0..shown).map(|i| i * self.maps.len() / shown).collect();
        let rows: Vec<Vec<(String, Picture)>> = (self.objects.iter().enumerate())
            .map(|(object, name)| {
                let tile = |at: &usize| {
                    let map = &self.maps[*at][object];
                    let caption = format!("{name} {}", self.steps[*at]);
                    (caption, map.over(picture, map.peak()))
                };
                let first = (name.clone(), picture.clone());
                std::iter::once(first)
                    .chain(picked.iter().map(tile))
                    .collect()
            })
            .collect();
        if let Some(sheet) = sheet(&rows) {
            let path = folder.join(format!("{stem}-{SHEET}.png"));
            save_plain(&path, &sheet)?;
            paths.push(path);
        }
        let path = folder.join(format!("{stem}.safetensors"));
        self.write_values(&path)?;
        paths.push(path);
        Ok(paths)
    }

    fn write_values(&self, path: &Path) -> Result<(), MapsError> {
        let maps = self.maps.iter().flatten();
        let bytes: Vec<u8> = maps
            .flat_map(|map| map.values.iter().flat_map(|value| value.to_le_bytes()))
            .collect();
        let size = self.maps.first().and_then(|step| step.first());
        let (rows, columns) = size.map_or((0, 0), |map| (map.height, map.width));
        let shape = vec![self.maps.len(), self.objects.len(), rows, columns];
        let encode = |source| MapsError::Encode {
            path: path.to_path_buf(),
            source,
        };
        let view = TensorView::new(Dtype::F32, shape, &bytes).map_err(encode)?;
        let about = HashMap::from([
            (
                "objects".to_string(),
                serde_json::json!(self.objects).to_string(),
            ),
            (
                "steps".to_string(),
                serde_json::json!(self.steps).to_string(),
            ),
        ]);
        let file = serialize([("maps", view)], Some(about)).map_err(encode)?;
        Ok(write_atomically(path, &file)?)
    }
}

/// Maps [1, K, rows, columns] of which the first `count` are objects'.
fn heat_maps(maps: Tensor<4>, count: usize) -> Vec<HeatMap> {
    let [_, _, height, width] = maps.dims();
    let values: Vec<f32> = maps.to_data().iter::<f32>().collect();
    let maps = values.chunks(height * width).take(count);
    maps.map(|values| HeatMap {
        width,
        height,
        values: values.to_vec(),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_written_whole() {
        let map = |value: f32| HeatMap {
            width: 2,
            height: 2,
            values: vec![value, 0.0, 0.0, value],
        };
        let maps = ObjectMaps {
            objects: vec!["dog".into(), "steps".into()],
            steps: vec![0, 5],
            maps: vec![vec![map(0.2), map(0.4)], vec![map(0.4), map(0.8)]],
        };
        assert!((maps.mean()[0].values[0] - 0.3).abs() < 1e-6);
        let picture = Picture {
            width: 16,
            height: 16,
            rgb: vec![200; 16 * 16 * 3],
        };
        let folder = tempfile::tempdir().unwrap();
        let paths = maps.write(folder.path(), "x", &picture).unwrap();
        let names: Vec<_> = paths
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap())
            .collect();
        assert_eq!(
            names,
            ["x-dog.png", "x-steps-2.png", "x-steps.png", "x.safetensors"]
        );
        let size = |path: &PathBuf| image::image_dimensions(path).unwrap();
        // The sheet is wider than the map of an object that is called like it.
        assert_eq!(size(&paths[1]), (16, 16));
        assert!(size(&paths[2]).0 > 16);
        let bytes = std::fs::read(&paths[3]).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(file.tensor("maps").unwrap().shape(), [2, 2, 2, 2]);
    }

    #[test]
    fn no_two_objects_have_one_file() {
        let names_beside = |taken: &[&str], objects: &[&str]| {
            let maps = ObjectMaps {
                objects: objects.iter().map(|object| (*object).to_owned()).collect(),
                steps: Vec::new(),
                maps: Vec::new(),
            };
            maps.file_names(taken)
        };
        let names = |objects: &[&str]| names_beside(&[], objects);
        assert_eq!(names(&["dog", "cat", "dog"]), ["dog", "cat", "dog-3"]);
        assert_eq!(names(&["Dog", "dog", "dog!"]), ["dog", "dog-2", "dog-3"]);
        assert_eq!(names(&["dog 2", "dog", "dog"]), ["dog-2", "dog", "dog-3"]);
        assert_eq!(names(&["dog 3", "dog", "dog"]), ["dog-3", "dog", "dog-4"]);
        let beside = names_beside(&["steps"], &["steps", "Steps", "dog"]);
        assert_eq!(beside, ["steps-1", "steps-2", "dog"]);
    }
}
