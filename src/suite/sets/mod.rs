//! The sets of prompts: the benchmarks', made here or in the binary, and files of one's own.
//!
//! A new benchmark is a file here and an entry in [`SETS`].

mod compbench;
mod entities;
mod error;
mod fields;
mod file;
mod geneval;
mod lines;
mod ots;
mod pairs;
mod psg;
mod record;
mod spatialbench;
mod variant;
mod visor;

use std::path::Path;

pub use error::{LineError, SuiteError};
pub(super) use record::given_relations;

use super::{Suite, SuitePrompt};

/// A set of prompts that is in the binary.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Of the set: its authors' number, the commit of their repository, or ours where we made it.
    pub version: &'static str,
    /// One line.
    pub about: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Whose licence its texts are under.
    pub licence: &'static str,
    /// How many pictures of each prompt its authors make.
    pub pictures: usize,
    prompts: fn() -> Vec<SuitePrompt>,
    original: Option<fn() -> String>,
}

impl Set {
    /// Its prompts.
    pub fn suite(&self) -> Suite {
        let mut prompts = (self.prompts)();
        pairs::find_counterparts(&mut prompts);
        Suite {
            name: self.name.into(),
            version: self.version.into(),
            prompts,
            pictures_per_prompt: self.pictures,
        }
    }

    /// The file of prompts as its authors released it, to the byte, where they released one.
    pub fn original(&self) -> Option<String> {
        self.original.map(|make| make())
    }
}

const GENEVAL: &str = "GenEval (arXiv 2310.11513), github.com/djghosh13/geneval";
const COMPBENCH: &str = "T2I-CompBench (arXiv 2307.06350), github.com/Karine-Huang/T2I-CompBench";
const VISOR: &str = "VISOR (arXiv 2212.10015), github.com/microsoft/VISOR";
const PSG: &str = "ours, by the template of Why Settle for Mid (arXiv 2506.23418), appendix B.2";
const OTS: &str = "ours, after Order Is Not Layout (arXiv 2603.03714)";
const OTS_BENCH: &str = "drawn by us from the subjects, actions and numbers of OTS-Bench (arXiv 2603.03714), in its words";
/// Sets that are ours are under the licence of this program.
const OURS: &str = "MIT OR Apache-2.0";

/// All of them.
pub const SETS: &[Set] = &[
    Set {
        name: "spatialbench-uc",
        version: "v1.0.1",
        about: "50 pairs of 33 objects, each left of, right of, above and below",
        source: "SpatialBench-UC, github.com/amineross/SpatialBench-UC",
        licence: "CC BY 4.0",
        pictures: 4,
        prompts: spatialbench::prompts,
        original: Some(spatialbench::original),
    },
    Set {
        name: "visor",
        version: "b9e368b",
        about: "all pairs of COCO's 80 objects, in both orders and four relations",
        source: VISOR,
        licence: "MIT",
        pictures: 4,
        prompts: visor::prompts,
        original: Some(visor::original),
    },
    Set {
        name: "visor-5000",
        version: "b9e368b-1",
        about: "5,000 of VISOR's prompts, as many as Why Settle for Mid takes; the draw is ours",
        source: VISOR,
        licence: "MIT",
        pictures: 4,
        prompts: visor::drawn,
        original: None,
    },
    Set {
        name: "geneval-position",
        version: "af4902f",
        about: "GenEval's prompts of the task \"position\"",
        source: GENEVAL,
        licence: "MIT",
        pictures: 4,
        prompts: geneval::prompts,
        original: Some(geneval::original),
    },
    Set {
        name: "t2i-compbench-spatial",
        version: "1b70949",
        about: "two objects left, right, above, below or near; training and validation",
        source: COMPBENCH,
        licence: "MIT",
        pictures: 10,
        prompts: compbench::spatial,
        original: Some(compbench::spatial_original),
    },
    Set {
        name: "t2i-compbench-spatial-val",
        version: "1b70949",
        about: "its validation prompts alone, which the published scores are of",
        source: COMPBENCH,
        licence: "MIT",
        pictures: 10,
        prompts: compbench::spatial_val,
        original: None,
    },
    Set {
        name: "t2i-compbench-3d",
        version: "1b70949",
        about: "two objects in front of or behind each other; training and validation",
        source: COMPBENCH,
        licence: "MIT",
        pictures: 10,
        prompts: compbench::depth,
        original: Some(compbench::depth_original),
    },
    Set {
        name: "t2i-compbench-3d-val",
        version: "1b70949",
        about: "its validation prompts alone, which the published scores are of",
        source: COMPBENCH,
        licence: "MIT",
        pictures: 10,
        prompts: compbench::depth_val,
        original: None,
    },
    Set {
        name: "psg-three",
        version: "1",
        about: "three objects, two relations of the first",
        source: PSG,
        licence: OURS,
        pictures: 4,
        prompts: psg::three,
        original: None,
    },
    Set {
        name: "psg-four",
        version: "1",
        about: "four objects, two pairs with a relation each",
        source: PSG,
        licence: OURS,
        pictures: 4,
        prompts: psg::four,
        original: None,
    },
    Set {
        name: "ots-objects",
        version: "1",
        about: "all pairs of SpatialBench-UC's 33 objects in both orders, without a relation",
        source: OTS,
        licence: OURS,
        pictures: 1,
        prompts: ots::objects,
        original: None,
    },
    Set {
        name: "ots-objects-vertical",
        version: "1",
        about: "the same, one above the other",
        source: OTS,
        licence: OURS,
        pictures: 1,
        prompts: ots::objects_vertical,
        original: None,
    },
    Set {
        name: "ots-bench",
        version: "2",
        about: "OTS-Bench, T2I homogenization: people, animals and things with their actions, in both orders",
        source: OTS_BENCH,
        licence: OURS,
        pictures: 1,
        prompts: ots::bench,
        original: None,
    },
    Set {
        name: "ots-bench-vertical",
        version: "2",
        about: "the same, one above the other",
        source: OTS_BENCH,
        licence: OURS,
        pictures: 1,
        prompts: ots::bench_vertical,
        original: None,
    },
    Set {
        name: "ots-correctness",
        version: "1",
        about: "OTS-Bench, T2I correctness: 400 pairs whose sides are settled, in that order and the other one",
        source: OTS_BENCH,
        licence: OURS,
        pictures: 1,
        prompts: ots::correctness::prompts,
        original: None,
    },
    Set {
        name: "ots-edit",
        version: "1",
        about: "OTS-Bench, I2I homogenization: a picture of two, and one of them, nobody says which, is to act",
        source: OTS_BENCH,
        licence: OURS,
        pictures: 1,
        prompts: ots::edits::homogenization,
        original: None,
    },
    Set {
        name: "ots-edit-correctness",
        version: "1",
        about: "OTS-Bench, I2I correctness: a picture of two, and each is to act, in that order and the other one",
        source: OTS_BENCH,
        licence: OURS,
        pictures: 1,
        prompts: ots::edits::correctness,
        original: None,
    },
];

/// What stands for standard input in the place of a file.
const STANDARD_INPUT: &str = "-";

/// What the sets are called.
pub fn names() -> Vec<&'static str> {
    SETS.iter().map(|set| set.name).collect()
}

/// The set of this name.
pub fn find(name: &str) -> Option<&'static Set> {
    SETS.iter().find(|set| set.name == name)
}

/// The set of this name, or the prompts in a file: `.jsonl`, `.csv`, or `.txt` with one a line. A file that is called
/// like a set is opened by a path, such as `./visor`; `-` is standard input. With `+and` behind it, the relations in its texts become "and", and
/// the prompts are still about them.
///
/// # Errors
/// There is neither, the file is not such a file, or its prompts cannot be changed so.
pub fn open(name_or_path: &str) -> Result<Suite, SuiteError> {
    if let Some(name) = name_or_path.strip_suffix(variant::AND) {
        return variant::with_and(open(name)?);
    }
    if name_or_path == STANDARD_INPUT {
        return file::read_standard_input();
    }
    if let Some(set) = find(name_or_path) {
        return Ok(set.suite());
    }
    let path = Path::new(name_or_path);
    let looks_like_path = name_or_path.contains(['/', '\\']) || file::Format::of(path).is_some();
    match path.exists() || looks_like_path {
        true => file::read(path),
        false => Err(SuiteError::Unknown {
            name: name_or_path.into(),
            nearest: error::nearest(name_or_path, names()),
        }),
    }
}

/// `a dog`, `an apple`.
fn with_article(name: &str) -> String {
    let article = match name.starts_with(['a', 'e', 'i', 'o', 'u']) {
        true => "an",
        false => "a",
    };
    format!("{article} {name}")
}

/// The objects of a prompt as it has them.
fn owned<const N: usize>(objects: [&str; N]) -> Vec<String> {
    objects.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod damaged;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        let mut names = names();
        for name in &names {
            assert_eq!(find(name).map(|set| set.name), Some(*name));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SETS.len());
    }

    #[test]
    fn a_wrong_name_brings_the_right_one_to_mind() {
        let message = open("spatialbench").unwrap_err().to_string();
        assert!(message.contains("`spatialbench-uc`"), "{message}");
        let message = open("qqqqqq").unwrap_err().to_string();
        assert!(message.contains("prepose suites") && !message.contains("mean"));
        let message = open("no-such-file.jsonl").unwrap_err().to_string();
        assert!(message.contains("no-such-file.jsonl"), "{message}");
    }
}
