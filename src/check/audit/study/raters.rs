//! People, judges and metrics: whoever says something of each of many things.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::sheet::Sheet;

/// The columns that hold a person's or a judge's word, where a file has one of them.
const WORDS: [&str; 6] = [
    "human_verdict",
    "label",
    "choice",
    "code",
    "answer",
    "verdict",
];

/// What a run's `scores.jsonl` has beside scores: where a picture comes from, what it cost, and counts.
const NO_METRICS: [&str; 8] = [
    "prompt_id",
    "seed",
    "unet_calls",
    "guided_calls",
    "candidates",
    "seconds",
    "found",
    "objects",
];
/// So many words are named in a message.
const NAMED: usize = 12;

/// Who says what of which thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Rater {
    /// As it stands in tables.
    pub name: String,
    /// What is said, by the thing's name.
    pub said: BTreeMap<String, String>,
}

/// Why nothing can be compared.
#[derive(Debug, Error, PartialEq)]
pub enum RaterError {
    /// No column has this name.
    #[error("there is no column {name:?} in {sheet}; it has {there}")]
    NoColumn {
        /// The column that was asked for.
        name: String,
        /// The sheet.
        sheet: String,
        /// Its columns.
        there: String,
    },
    /// A sheet says nothing of its things.
    #[error("{0} says nothing about its items: it has only their names")]
    NothingSaid(String),
    /// A word stands where a number has to.
    #[error("{rater}: what it says about {item} is not a number: {word:?}{}", .hint)]
    NoNumber {
        /// Who said it.
        rater: String,
        /// Of what.
        item: String,
        /// What was said.
        word: String,
        /// What could be done about it.
        hint: &'static str,
    },
    /// Neither a yes nor a no stands where one has to.
    #[error(
        "{rater}: what it says about {item} is {word:?}, which is neither 0 nor 1; say which words mean yes (--right)"
    )]
    NoTruth {
        /// Who said it.
        rater: String,
        /// Of what.
        item: String,
        /// What was said.
        word: String,
    },
    /// A word that should mean something was said by nobody.
    #[error("nobody says {word:?}, which --right names; what is said is {there}")]
    Unsaid {
        /// The word that was given.
        word: String,
        /// The words that were said.
        there: String,
    },
    /// Words have no order of their own.
    #[error(
        "weights go by the order of words, and {0} have none of their own; say it with --words, or leave out --weights"
    )]
    NoOrder(String),
    /// A word is none of those that were given.
    #[error("{rater}: what it says about {item} is {word:?}, which is not one of {there}")]
    Unknown {
        /// Who said it.
        rater: String,
        /// Of what.
        item: String,
        /// What was said.
        word: String,
        /// The words that were given.
        there: String,
    },
    /// No thing has been looked at by both.
    #[error(
        "{first} and {second} have no items in common: the names differ, such as {a:?} and {b:?}"
    )]
    NothingInCommon {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// A thing of the first.
        a: String,
        /// A thing of the second.
        b: String,
    },
}

/// The raters of sheets: the named columns, or else the one that holds a word, or else all columns.
///
/// # Errors
/// A column is not there, or a sheet has none.
pub fn raters(sheets: &[Sheet], columns: &[String]) -> Result<Vec<Rater>, RaterError> {
    by_columns(sheets, |sheet| chosen(sheet, columns))
}

/// The metrics of sheets: the named columns, or else the one that holds a judge's word, or else all that hold numbers, but for
/// what a run's `scores.jsonl` has beside scores.
///
/// # Errors
/// As of [`raters`].
pub fn metrics(sheets: &[Sheet], columns: &[String]) -> Result<Vec<Rater>, RaterError> {
    by_columns(sheets, |sheet| {
        let mut all = chosen(sheet, columns)?;
        if columns.is_empty() && all.len() > 1 {
            // One with a number and a word is left in, so that the word is refused rather than the column missed.
            let is_metric = |name: &String| {
                let mut said = sheet.rows.iter().filter_map(|(_, row)| row.get(name));
                !NO_METRICS.contains(&name.as_str()) && said.any(|word| number(word).is_some())
            };
            let some: Vec<String> = all.iter().filter(|name| is_metric(name)).cloned().collect();
            // Without any, what is wrong is said of the first of all.
            if !some.is_empty() {
                all = some;
            }
        }
        Ok(all)
    })
}

fn by_columns(
    sheets: &[Sheet],
    chosen: impl Fn(&Sheet) -> Result<Vec<String>, RaterError>,
) -> Result<Vec<Rater>, RaterError> {
    let mut raters = Vec::new();
    for sheet in sheets {
        let chosen = chosen(sheet)?;
        let alone = chosen.len() == 1 && sheets.len() > 1;
        for column in chosen {
            let said = (sheet.rows.iter())
                .filter_map(|(id, row)| Some((id.clone(), row.get(&column)?.clone())));
            raters.push(Rater {
                name: match (alone, sheets.len()) {
                    (true, _) => sheet.name.clone(),
                    (false, 1) => column.clone(),
                    (false, _) => format!("{}:{column}", sheet.name),
                },
                said: said.collect(),
            });
        }
    }
    Ok(raters)
}

fn chosen(sheet: &Sheet, columns: &[String]) -> Result<Vec<String>, RaterError> {
    if let Some(name) = columns.iter().find(|name| !sheet.columns.contains(name)) {
        return Err(RaterError::NoColumn {
            name: name.clone(),
            sheet: sheet.name.clone(),
            there: sheet.columns.join(", "),
        });
    }
    if !columns.is_empty() {
        return Ok(columns.to_vec());
    }
    let word = WORDS
        .iter()
        .find(|word| sheet.columns.iter().any(|name| name == *word));
    match (word, sheet.columns.is_empty()) {
        (Some(word), _) => Ok(vec![(*word).to_owned()]),
        (None, false) => Ok(sheet.columns.clone()),
        (None, true) => Err(RaterError::NothingSaid(sheet.name.clone())),
    }
}

/// What words are worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Worth {
    /// They are numbers; true is 1, false is 0.
    Number,
    /// They are 0 or 1; true is 1, false is 0.
    Truth,
    /// 1 if they are one of these, else 0.
    Right(Vec<String>),
    /// Their place in this list, from 0.
    Grade(Vec<String>),
}

impl Worth {
    fn of(&self, rater: &Rater, item: &str, word: &str) -> Result<f64, RaterError> {
        let same = |other: &String| other.eq_ignore_ascii_case(word);
        match self {
            Self::Number => rater.number(
                item,
                word,
                "; say which words are right (--right), or in which order they are (--grades)",
            ),
            Self::Truth => {
                let truth = number(word).filter(|value| *value == 0.0 || *value == 1.0);
                truth.ok_or_else(|| RaterError::NoTruth {
                    rater: rater.name.clone(),
                    item: item.to_owned(),
                    word: word.to_owned(),
                })
            }
            Self::Right(right) => Ok(f64::from(u8::from(right.iter().any(same)))),
            Self::Grade(grades) => {
                let place = grades.iter().position(same);
                place
                    .map(|place| place as f64)
                    .ok_or_else(|| RaterError::Unknown {
                        rater: rater.name.clone(),
                        item: item.to_owned(),
                        word: word.to_owned(),
                        there: grades.join(", "),
                    })
            }
        }
    }

    /// What a rater says of each thing, as numbers.
    ///
    /// # Errors
    /// A word is worth nothing.
    pub fn values(&self, rater: &Rater) -> Result<BTreeMap<String, f64>, RaterError> {
        let said = rater.said.iter();
        said.map(|(item, word)| Ok((item.clone(), self.of(rater, item, word)?)))
            .collect()
    }
}

impl Rater {
    /// What it says of each thing, as numbers. `hint` says what could be done about a word that is none.
    ///
    /// # Errors
    /// Something is no number.
    pub fn numbers(&self, hint: &'static str) -> Result<BTreeMap<String, f64>, RaterError> {
        let said = self.said.iter();
        said.map(|(item, word)| Ok((item.clone(), self.number(item, word, hint)?)))
            .collect()
    }

    fn number(&self, item: &str, word: &str, hint: &'static str) -> Result<f64, RaterError> {
        number(word).ok_or_else(|| RaterError::NoNumber {
            rater: self.name.clone(),
            item: item.to_owned(),
            word: word.to_owned(),
            hint,
        })
    }
}

/// A finite number, or whether something is true.
fn number(word: &str) -> Option<f64> {
    match word {
        "true" | "True" | "TRUE" => Some(1.0),
        "false" | "False" | "FALSE" => Some(0.0),
        word => word.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

/// What several people say together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Together {
    /// By the thing's name.
    pub values: BTreeMap<String, f64>,
    /// Things of which no more than half say the same.
    pub divided: usize,
}

/// What more than half of the people who looked say of each thing; things on which they are divided are left out. With
/// `mean`, the mean of what they say instead.
///
/// # Errors
/// A word is worth nothing, or one that is right was said by nobody.
pub fn together(people: &[Rater], worth: &Worth, mean: bool) -> Result<Together, RaterError> {
    if let Worth::Right(right) = worth {
        said_by_somebody(people, right)?;
    }
    let values: Vec<_> = (people.iter())
        .map(|rater| worth.values(rater))
        .collect::<Result<_, _>>()?;
    let items: BTreeSet<&String> = values.iter().flat_map(BTreeMap::keys).collect();
    let mut together = Together::default();
    for item in items {
        let given: Vec<f64> = (values.iter())
            .filter_map(|of| of.get(item).copied())
            .collect();
        let value = match mean {
            true => Some(given.iter().sum::<f64>() / given.len() as f64),
            false => (given.iter())
                .find(|one| 2 * given.iter().filter(|other| other == one).count() > given.len())
                .copied(),
        };
        match value {
            Some(value) => _ = together.values.insert(item.clone(), value),
            None => together.divided += 1,
        }
    }
    Ok(together)
}

/// A word that nobody says is misspelt, and all would be a no.
fn said_by_somebody(people: &[Rater], words: &[String]) -> Result<(), RaterError> {
    let said: BTreeSet<&String> = (people.iter())
        .flat_map(|rater| rater.said.values())
        .collect();
    let unsaid = (words.iter()).find(|word| !said.iter().any(|one| one.eq_ignore_ascii_case(word)));
    match unsaid {
        None => Ok(()),
        Some(word) => Err(RaterError::Unsaid {
            word: word.clone(),
            there: some(said),
        }),
    }
}

/// Words for a message, not too many of them.
pub(super) fn some<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    let mut words = words.into_iter();
    let mut shown: Vec<String> = words.by_ref().take(NAMED).cloned().collect();
    match words.count() {
        0 => {}
        more => shown.push(format!("and {more} more")),
    }
    shown.join(", ")
}

/// The things of which both say something.
///
/// # Errors
/// There are none.
pub fn in_common<'a, A, B>(
    [first, second]: [&str; 2],
    a: &'a BTreeMap<String, A>,
    b: &'a BTreeMap<String, B>,
) -> Result<Vec<(&'a A, &'a B)>, RaterError> {
    let pairs: Vec<_> = (a.iter())
        .filter_map(|(item, mine)| Some((mine, b.get(item)?)))
        .collect();
    if pairs.is_empty() {
        let one = |item: Option<&String>| item.cloned().unwrap_or_default();
        return Err(RaterError::NothingInCommon {
            first: first.to_owned(),
            second: second.to_owned(),
            a: one(a.keys().next()),
            b: one(b.keys().next()),
        });
    }
    Ok(pairs)
}
