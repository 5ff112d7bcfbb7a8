//! One file of a study: a row each thing that something is said of, a column each thing that is said.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use thiserror::Error;

/// What names the thing that a row is about, the first that is there; see [`id_key`].
const IDS: [&str; 4] = ["id", "sample_id", "custom_id", "item"];
/// What is written beside labels and says nothing that could be compared.
const ASIDE: [&str; 3] = ["notes", "timestamp", "prompt"];

/// The names of columns that [`Sheet::read`] does not take for something that is said of the rows' things.
pub fn reserved() -> impl Iterator<Item = &'static str> {
    IDS.into_iter().chain(ASIDE)
}

/// What one file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// Whose it is: the file's name without its ending.
    pub name: String,
    /// What is said, in the order in which it first occurs.
    pub columns: Vec<String>,
    /// Of which thing, by column.
    pub rows: Vec<(String, BTreeMap<String, String>)>,
}

/// Why a text is no sheet.
#[derive(Debug, Error)]
pub enum SheetError {
    /// Nothing is in it.
    #[error("there are no rows in it")]
    Empty,
    /// A row is no JSON.
    #[error("row {row}: {error}")]
    Json {
        /// Which, from 1.
        row: usize,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// It is no table.
    #[error("{0}")]
    Csv(#[from] csv::Error),
    /// A row is something else than names with values.
    #[error("row {0}: it is not a JSON object, {{\"id\": …, …}}")]
    NotAnObject(usize),
    /// A row does not say what it is about.
    #[error(
        "row {0}: it does not say what it is about: there is no id, sample_id, custom_id or item"
    )]
    NoId(usize),
    /// Two rows are about the same.
    #[error(
        "rows {first} and {second} are both about {id}; keep one of them, or give each person a file of their own"
    )]
    Twice {
        /// The row that was there first, from 1.
        first: usize,
        /// The other row.
        second: usize,
        /// What they are about.
        id: String,
    },
}

impl Sheet {
    /// Reads a CSV table, a JSON list of objects or one JSON object a line: names of things (`id`, `sample_id`,
    /// `custom_id` or `item`) with words and numbers. Lists and objects inside a row are passed over, but for the answers
    /// of OpenAI's batches, which become the column `answer`.
    ///
    /// # Errors
    /// It is none of these, a row has no name, or two rows have the same.
    pub fn read(name: &str, text: &str) -> Result<Self, SheetError> {
        Self::of(name, objects(text)?, true, &ASIDE)
    }

    /// As [`read`](Self::read), with prompts and notes: what people should look at.
    ///
    /// # Errors
    /// As of [`read`](Self::read).
    pub fn read_items(name: &str, text: &str) -> Result<Self, SheetError> {
        Self::of(name, objects(text)?, true, &[])
    }

    /// As [`read`](Self::read), where several rows may be about the same thing: candidates of one choice.
    ///
    /// # Errors
    /// As of [`read`](Self::read), but for the last.
    pub fn read_candidates(name: &str, text: &str) -> Result<Self, SheetError> {
        Self::of(name, objects(text)?, false, &ASIDE)
    }

    fn of(
        name: &str,
        objects: Vec<Map<String, Value>>,
        once: bool,
        aside: &[&str],
    ) -> Result<Self, SheetError> {
        let mut sheet = Self {
            name: name.to_owned(),
            columns: Vec::new(),
            rows: Vec::new(),
        };
        let mut seen: HashMap<String, usize> = HashMap::new();
        for (number, object) in (1..).zip(&objects) {
            let key = id_key(object).ok_or(SheetError::NoId(number))?;
            let id = object.get(key).and_then(word).unwrap_or_default();
            if let Some(first) = seen.insert(id.clone(), number).filter(|_| once) {
                let second = number;
                return Err(SheetError::Twice { first, second, id });
            }
            let mut said = BTreeMap::new();
            let plain = (object.iter()).filter(|(name, _)| {
                !IDS.contains(&name.as_str()) && !aside.contains(&name.as_str())
            });
            let plain = plain.filter_map(|(name, value)| Some((name.clone(), word(value)?)));
            let answer = batch_answer(object).map(|text| ("answer".to_owned(), text));
            for (name, value) in plain.chain(answer) {
                if !sheet.columns.contains(&name) {
                    sheet.columns.push(name.clone());
                }
                said.insert(name, value);
            }
            sheet.rows.push((id, said));
        }
        match sheet.rows.is_empty() {
            true => Err(SheetError::Empty),
            false => Ok(sheet),
        }
    }
}

/// Which key of a row names what it is about. Answers of OpenAI's batches have an `id` as well, which is that of the request
/// and new each time.
fn id_key(row: &Map<String, Value>) -> Option<&'static str> {
    let named = |key: &&str| row.get(*key).and_then(word).is_some();
    let batch = Some("custom_id").filter(|_| row.contains_key("response"));
    batch.filter(named).or_else(|| IDS.into_iter().find(named))
}

/// The rows of a text, in whichever of the forms it is.
fn objects(text: &str) -> Result<Vec<Map<String, Value>>, SheetError> {
    let text = super::super::without_bom(text).trim_start();
    let object = |(i, value): (usize, Value)| match value {
        Value::Object(object) => Ok(object),
        _ => Err(SheetError::NotAnObject(i + 1)),
    };
    if text.starts_with('[') {
        let list: Vec<Value> =
            serde_json::from_str(text).map_err(|error| SheetError::Json { row: 1, error })?;
        return list.into_iter().enumerate().map(object).collect();
    }
    if text.starts_with('{') {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        return (lines.enumerate())
            .map(|(i, line)| {
                let value = serde_json::from_str(line)
                    .map_err(|error| SheetError::Json { row: i + 1, error })?;
                object((i, value))
            })
            .collect();
    }
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers()?.clone();
    (reader.records())
        .map(|record| {
            let record = record?;
            let fields = headers.iter().zip(record.iter());
            let field = |(name, value): (&str, &str)| {
                let value = prepose_draw::table::from_no_formula(value);
                (name.trim().to_owned(), Value::from(value))
            };
            Ok(fields.map(field).collect())
        })
        .collect()
}

/// A value as a word; none of nothing, and of what is made of several.
fn word(value: &Value) -> Option<String> {
    let word = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Bool(yes) => yes.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    (!word.is_empty()).then_some(word)
}

/// The text of an answer in the output file of OpenAI's batches.
fn batch_answer(row: &Map<String, Value>) -> Option<String> {
    let choice = row
        .get("response")?
        .pointer("/body/choices/0/message/content")?;
    word(choice)
}
