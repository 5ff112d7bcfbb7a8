//! A line of prepose's own form, or a record of the checker, which has other names for the same things.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::{ReadError, read_depth};
use crate::rules::{Case, Label, Task, Wanted};
use crate::run_lengths::{RunLengths, bounds};
use crate::spatialbench::record::RELEASED_SIZE;
use crate::{BoundingBox, Detection};
use prepose_scene::{Relation, Scene, SceneError, StatedRelation};

/// One picture. Keys that are not here are passed over.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Line {
    id: Option<String>,
    sample_id: Option<String>,
    #[serde(alias = "image_path")]
    file: Option<PathBuf>,
    prompt_id: Option<String>,
    prompt: Option<String>,
    width: Option<usize>,
    height: Option<usize>,
    image_size: Option<[usize; 2]>,
    objects: Option<Vec<Object>>,
    object_a: Option<Object>,
    object_b: Option<Object>,
    relation: Option<String>,
    relations: Option<Vec<String>>,
    detections: Option<Vec<LineDetection>>,
    detectors: Option<Detectors>,
    depth: Option<PathBuf>,
    label: Option<u8>,
    task: Option<String>,
}

/// `"dog"`, or `{"name": "dog", "count": 2}`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Object {
    Name(String),
    Full {
        name: String,
        #[serde(default = "one")]
        count: usize,
    },
}

fn one() -> usize {
    1
}

impl From<Object> for Wanted {
    fn from(object: Object) -> Self {
        let (name, count) = match object {
            Object::Name(name) => (name, 1),
            Object::Full { name, count } => (name, count),
        };
        Self {
            name: name.trim().to_lowercase(),
            count,
        }
    }
}

/// What the checker's records have.
#[derive(Debug, Deserialize)]
struct Detectors {
    primary: Primary,
}

#[derive(Debug, Deserialize)]
struct Primary {
    detections: Vec<LineDetection>,
}

#[derive(Debug, Deserialize)]
struct LineDetection {
    label: Option<String>,
    #[serde(default = "certain")]
    score: f64,
    box_xyxy: Option<[f64; 4]>,
    /// COCO's: the left upper corner, width and height.
    bbox: Option<[f64; 4]>,
    #[serde(alias = "segmentation")]
    mask: Option<RunLengths>,
}

fn certain() -> f64 {
    1.0
}

/// The picture of a line. `size` is that of pictures whose lines do not say.
pub(super) fn case(
    line: Line,
    number: usize,
    folder: &Path,
    size: Option<(usize, usize)>,
) -> Result<Case, ReadError> {
    // Records leave out the size that all pictures of the benchmark have.
    let usual = line.detectors.is_some().then(|| {
        let [width, height] = RELEASED_SIZE;
        (width as usize, height as usize)
    });
    let given = line
        .width
        .zip(line.height)
        .or(line.image_size.map(Into::into));
    let size = given.or(size).or(usual);
    let label = line.label.map(|code| {
        let task = match line.task.as_deref() {
            None | Some("t2i") => Task::TextToImage,
            Some("i2i") => Task::ImageToImage,
            Some(other) => return Err(ReadError::Task(other.to_owned())),
        };
        Ok(Label { task, code })
    });
    let label = label.transpose()?;
    let detections = match (line.detections, line.detectors) {
        (Some(detections), _) => detections,
        (None, Some(detectors)) => detectors.primary.detections,
        (None, None) if label.is_some() => Vec::new(),
        (None, None) => return Err(ReadError::NoDetections),
    };
    let file = line.file.as_deref().or(line.id.as_deref().map(Path::new));
    let name = line.id.clone().or(line.sample_id);
    let id = name.or_else(|| Some(line.file.as_ref()?.display().to_string()));
    let prompt = line.prompt.or_else(|| {
        // Only where nothing else says what was asked for.
        let asked = line.objects.is_some() || line.object_a.is_some() || line.relations.is_some();
        (!asked).then(|| prompt_of(file?)).flatten()
    });
    let asked = if let Some(relations) = line.relations {
        if line.relation.is_some() {
            return Err(ReadError::Both);
        }
        explicit(line.objects.unwrap_or_default(), &relations)?
    } else if let Some(objects) = line.objects {
        related(objects, line.relation.as_deref())?
    } else if let (Some(a), Some(b)) = (line.object_a, line.object_b) {
        related(vec![a, b], line.relation.as_deref())?
    } else if let Some(prompt) = &prompt {
        in_prompt(prompt, line.relation.as_deref())?
    } else if label.is_some() {
        Case::default()
    } else {
        return Err(ReadError::NothingAsked);
    };
    let id = id.unwrap_or_else(|| format!("line {number}"));
    let read = |path: PathBuf| read_depth(&folder.join(path)).map(Arc::new);
    let prompt_id = line.prompt_id.or_else(|| prompt.clone());
    Ok(Case {
        prompt_id: prompt_id.unwrap_or_else(|| id.clone()),
        id,
        prompt,
        size,
        detections: (detections.into_iter().zip(1..))
            .map(|(line, number)| detection(line, number))
            .collect::<Result<_, _>>()?,
        depth: line.depth.map(read).transpose()?,
        picture: line.file.map(|file| folder.join(file)),
        label,
        ..asked
    })
}

fn detection(line: LineDetection, number: usize) -> Result<Detection, ReadError> {
    let label = line.label.ok_or(ReadError::NoLabel(number))?;
    let mask = match line.mask {
        Some(mask) => Some(mask.unpack().map_err(|error| ReadError::Mask {
            label: label.clone(),
            error,
        })?),
        None => None,
    };
    let corners = match (line.box_xyxy, line.bbox, &mask) {
        (Some(corners), _, _) => corners,
        (None, Some([x, y, width, height]), _) => [x, y, x + width, y + height],
        (None, None, Some(mask)) => bounds(mask),
        (None, None, None) => return Err(ReadError::NoBox(label)),
    };
    let [x0, y0, x1, y1] = corners;
    // Also false for what is no number.
    if !(x0 <= x1 && y0 <= y1 && corners.iter().all(|edge| edge.is_finite())) {
        return Err(ReadError::Box { label, corners });
    }
    Ok(Detection {
        label,
        score: line.score,
        bbox: BoundingBox::new(x0, y0, x1, y1),
        mask: mask.map(Arc::new),
    })
}

/// The prompt in a file name of T2I-CompBench's: `a dog on the left of a cat_000012.png`.
fn prompt_of(file: &Path) -> Option<String> {
    let name = file.file_stem()?.to_str()?;
    let (prompt, _) = name.split_once('_')?;
    prompt.contains(' ').then(|| prompt.to_owned())
}

/// The objects of a prompt and what it states, or `relation` between them instead.
fn in_prompt(prompt: &str, relation: Option<&str>) -> Result<Case, ReadError> {
    let scene = Scene::parse(prompt).map_err(|error| ReadError::Prompt {
        prompt: prompt.to_owned(),
        error,
    })?;
    let read = Case::of_scene("", &scene, Vec::new());
    match relation {
        Some(_) => related(read.objects, relation),
        None => Ok(read),
    }
}

/// Two objects and a relation between them, or objects alone.
pub(super) fn related(
    objects: Vec<impl Into<Wanted>>,
    relation: Option<&str>,
) -> Result<Case, ReadError> {
    let objects: Vec<Wanted> = objects.into_iter().map(Into::into).collect();
    let relation = relation
        .filter(|relation| *relation != "and")
        .map(relation_named);
    let relations = match relation.transpose()? {
        None => Vec::new(),
        Some(relation) if objects.len() == 2 => vec![StatedRelation {
            subject: 0,
            relation,
            objects: vec![1],
        }],
        Some(_) => return Err(ReadError::Objects(objects.len())),
    };
    Ok(Case {
        objects,
        relations,
        ..Case::default()
    })
}

/// Relations written as `dog | left of | cat`, whose names are objects in the order of mention, after those given.
fn explicit(objects: Vec<Object>, relations: &[String]) -> Result<Case, ReadError> {
    let mut objects: Vec<Wanted> = objects.into_iter().map(Into::into).collect();
    let mut stated = Vec::new();
    for text in relations {
        let notation = || ReadError::Notation(text.clone());
        let fields: Vec<&str> = text.split('|').map(str::trim).collect();
        let [subject, relation, others @ ..] = fields.as_slice() else {
            return Err(notation());
        };
        let relation = relation_named(relation)?;
        let needed = if relation == Relation::Between { 2 } else { 1 };
        if others.len() != needed || subject.is_empty() || others.contains(&"") {
            return Err(notation());
        }
        let mut index = |name: &str| {
            let name = name.to_lowercase();
            let at = objects.iter().position(|object| object.name == name);
            at.unwrap_or_else(|| {
                objects.push(Wanted::one(name));
                objects.len() - 1
            })
        };
        stated.push(StatedRelation {
            subject: index(subject),
            relation,
            objects: others.iter().map(|name| index(name)).collect(),
        });
    }
    Ok(Case {
        objects,
        relations: stated,
        ..Case::default()
    })
}

/// A relation by any of its names; also by HRS-Bench's, which no prompt could be read by alone.
fn relation_named(name: &str) -> Result<Relation, ReadError> {
    match name.trim() {
        "on" => Ok(Relation::Above),
        "among" | "in the middle of" => Ok(Relation::Between),
        name => name
            .parse()
            .map_err(|error: SceneError| ReadError::Relation(error)),
    }
}
