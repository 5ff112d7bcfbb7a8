//! What a checker says of a picture, as far as a judge is asked the same.

use prepose_check::prompt::SuitePrompt;
use prepose_check::rules::Options;
use prepose_check::rules::ots::{Verdict as Placed, verdict};
use prepose_check::spatialbench::{Question as Asked, Record, Verdict};

/// What a checker says of a picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checked {
    /// In OTS-Bench's codes of 1, 2 and 3, behind its gate: where the first of two is, or whether the stated side is right; none
    /// if that was not looked at.
    pub code: Option<u8>,
    /// Of each object whether it was found, none if that is not known; empty if nobody looked.
    pub objects: Vec<Option<bool>>,
    /// Of each relation between two: whether it holds, none if that is undecidable; empty if nobody looked.
    pub relations: Vec<Option<bool>>,
}

impl Checked {
    /// From a picture's records, one for each relation that boxes show, in the order of the prompt's relations.
    ///
    /// A stated side goes by the rule that the oracle goes by, on the detections in the record.
    pub fn of_records<'a>(
        prompt: &SuitePrompt,
        records: impl IntoIterator<Item = &'a Record>,
    ) -> Self {
        let mut records = records.into_iter().peekable();
        let Some(first) = records.peek().copied() else {
            return Self::default();
        };
        let code = match prompt.relations.len() {
            1 => placed(first),
            _ => None,
        };
        let stated = prompt
            .relations
            .iter()
            .filter(|stated| stated.two().is_some());
        let relations = stated.map(|stated| {
            let record = records.next_if(|record| record.relation == stated.relation)?;
            match record.verdict_raw {
                Verdict::Pass => Some(true),
                Verdict::Fail => Some(false),
                Verdict::Undecidable => None,
            }
        });
        Self {
            code,
            objects: Vec::new(),
            relations: relations.collect(),
        }
    }

    /// Adds where the first-mentioned object is where no side is stated: `left`, `right` or `invalid`.
    #[must_use]
    pub fn with_side(self, side: Option<&str>) -> Self {
        let side = side.map(|side| match side {
            "left" => 1,
            "right" => 2,
            _ => 3,
        });
        Self {
            code: self.code.or(side),
            ..self
        }
    }

    /// Adds which of the prompt's objects were found; of a second one of the same name that does not tell.
    #[must_use]
    pub fn with_objects(self, prompt: &SuitePrompt, found: &[bool]) -> Self {
        let objects = (prompt.objects.iter().zip(found).enumerate())
            .map(|(at, (name, found))| (!prompt.objects[..at].contains(name)).then_some(*found));
        Self {
            objects: objects.collect(),
            ..self
        }
    }
}

/// Whether the side that a record is about is right, in OTS-Bench's codes; none of other relations.
fn placed(record: &Record) -> Option<u8> {
    let found = record.detectors.primary.detections.clone();
    let case = Asked::case(&[record.question()], record.size(), found);
    Some(match verdict(&case, &Options::default()).ok()? {
        Placed::Correct => 1,
        Placed::Wrong => 2,
        Placed::Invalid => 3,
    })
}
