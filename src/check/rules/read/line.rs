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
    #[serde(default)]
    unknown_objects: Vec<String>,
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
    let from_prompt = line.relations.is_none() && line.objects.is_none() && line.object_a.is_none();
    let mut unknown = line.unknown_objects;
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
    if !from_prompt {
        // What is called otherwise now, somebody has said in labels.
        let asks = |name: &String| {
            let name = name.to_lowercase();
            asked.objects.iter().any(|object| object.name == name)
        };
        unknown.retain(asks);
    }
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
        unknown,
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

/// Relations written as `dog | left of | cat`, whose names are objects in the order of mention, after those given; `dog#2`
/// is the second dog among those.
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
            let at = position(&objects, &name);
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

/// Where the object of that name is: the first, or that with the number behind a `#`.
fn position(objects: &[Wanted], name: &str) -> Option<usize> {
    let called = |name: &str, nth: usize| {
        let all = objects.iter().enumerate();
        let mut all = all.filter(|(_, object)| object.name == name);
        Some(all.nth(nth)?.0)
    };
    called(name, 0).or_else(|| {
        let (name, number) = name.rsplit_once('#')?;
        let number: usize = number.parse().ok()?;
        called(name.trim(), number.checked_sub(1)?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_detector_has_no_label_for_leaves_the_picture_out() {
        let read = |text: &str| {
            let line: Line = serde_json::from_str(text).unwrap();
            case(line, 1, Path::new("."), None).unwrap().known()
        };
        let asked = r#"{"prompt": "a dog to the left of a unicorn", "unknown_objects": ["unicorn"], "detections": []"#;
        let error = read(&format!("{asked}}}")).unwrap_err().to_string();
        assert!(error.contains("does not know unicorn; "), "{error}");
        // Where somebody has said it in labels since.
        let told = format!(r#"{asked}, "objects": ["dog", "horse"], "relation": "left of"}}"#);
        assert_eq!(read(&told).unwrap().objects[1], Wanted::one("horse"));
        // What no relation needs is known to be unknown, and that is all.
        let more = r#""objects": ["dog", "cat", "unicorn"], "relations": ["dog | left of | cat"]"#;
        let read_more = read(&format!("{asked}, {more}}}")).unwrap();
        assert_eq!(read_more.unknown, ["unicorn"]);
        let between = more.replace("| cat", "| Unicorn");
        assert!(read(&format!("{asked}, {between}}}")).is_err());
        let alone = more.split(", \"relations\"").next().unwrap();
        assert!(read(&format!("{asked}, {alone}}}")).is_err());
    }

    #[test]
    fn the_second_of_a_name_has_its_number() {
        let objects = ["cat", "dog", "cat"].map(|name| Object::Name(name.into()));
        let relations = ["cat | left of | dog", "Cat#2 | above | cup"].map(String::from);
        let case = explicit(objects.into(), &relations).unwrap();
        let ends = |at: usize| (case.relations[at].subject, case.relations[at].objects[0]);
        assert_eq!([ends(0), ends(1)], [(0, 1), (2, 3)]);
        // There is no third; it is a name like others.
        let case = explicit(Vec::new(), &["cat#3 | above | cup".into()]).unwrap();
        assert_eq!(case.objects[0].name, "cat#3");
    }
}
