//! Prompts in a file of one's own: JSON Lines, CSV, or one a line.

use std::collections::HashMap;
use std::path::Path;

use super::error::{LINE_LIMIT, LineError, SuiteError};
use super::lines::Lines;
use super::pairs;
use super::record::{COLUMNS, Given, KEYS, Row, check_key};
use crate::suite::{Suite, SuitePrompt};

/// More prompts than anybody makes pictures of; it keeps an endless file from filling the memory.
const MOST: usize = 1_000_000;

/// As many pictures of each prompt as most of the benchmarks have.
const PICTURES: usize = 4;

/// Why a line that goes on after the end of a row is none.
const SECOND_ROW: &str = "a carriage return (CR) ends it and more follows; save the file with line ends of LF or CR LF, or put the \
    field in quotation marks";

/// How a file is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Jsonl,
    Csv,
    Text,
}

impl Format {
    /// By its ending.
    pub fn of(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "csv" => Some(Self::Csv),
            "txt" => Some(Self::Text),
            _ => None,
        }
    }
}

/// Reads the prompts in a file.
pub(super) fn read(path: &Path) -> Result<Suite, SuiteError> {
    let lines = Lines::open(path)?;
    let format = Format::of(path).ok_or_else(|| SuiteError::Format(path.into()))?;
    read_lines(lines, format, path)
}

/// Reads the prompts on standard input: JSON Lines if they begin with a brace, CSV if the first line has a column
/// "prompt", else one a line.
pub(super) fn read_standard_input() -> Result<Suite, SuiteError> {
    let mut lines = Lines::standard_input();
    let beginning = String::from_utf8_lossy(lines.peek()?).into_owned();
    let first = beginning.trim_start_matches('\u{feff}').trim_start();
    let first = first.lines().next().unwrap_or_default();
    let is_prompt = |column: &str| {
        let name = column.trim().trim_matches('"').trim();
        name.eq_ignore_ascii_case("prompt")
    };
    let format = if first.starts_with('{') {
        Format::Jsonl
    } else if first.split(',').any(is_prompt) {
        Format::Csv
    } else {
        Format::Text
    };
    read_lines(lines, format, Path::new("standard-input"))
}

fn read_lines(lines: Lines, format: Format, path: &Path) -> Result<Suite, SuiteError> {
    let mut reader = Reader::new(lines);
    match format {
        Format::Jsonl => reader.lines(Row::from_json)?,
        Format::Text => reader.lines(|line| {
            Ok(Row {
                prompt: line.to_owned(),
                ..Row::default()
            })
        })?,
        Format::Csv => reader.csv()?,
    }
    reader.suite(path)
}

struct Reader {
    lines: Lines,
    prompts: Vec<SuitePrompt>,
    /// Where each prompt_id is, in lower case, with the id as it is written.
    ids: HashMap<String, (usize, String)>,
    /// The empty lines between others: how many, and the first.
    empty: Option<(usize, usize)>,
    /// Empty lines that nothing came after so far.
    trailing: Option<(usize, usize)>,
}

impl Reader {
    fn new(lines: Lines) -> Self {
        Self {
            lines,
            prompts: Vec::new(),
            ids: HashMap::new(),
            empty: None,
            trailing: None,
        }
    }

    /// The next line with something in it.
    fn next(&mut self) -> Result<Option<String>, SuiteError> {
        while let Some(line) = self.lines.next()? {
            if !line.trim().is_empty() {
                if let Some((number, first)) = self.trailing.take() {
                    let before = self.empty.map_or((0, first), |empty| empty);
                    self.empty = Some((before.0 + number, before.1));
                }
                return Ok(Some(line));
            }
            let (number, first) = self.trailing.unwrap_or((0, self.lines.number));
            self.trailing = Some((number + 1, first));
        }
        Ok(None)
    }

    /// A prompt a line.
    fn lines(&mut self, row: impl Fn(&str) -> Result<Row, LineError>) -> Result<(), SuiteError> {
        while let Some(line) = self.next()? {
            self.add(self.lines.number, row(&line))?;
        }
        Ok(())
    }

    /// A prompt a row, after a row with the names of the columns.
    fn csv(&mut self) -> Result<(), SuiteError> {
        let Some((number, header)) = self.record()? else {
            return Ok(());
        };
        let columns: Vec<String> = header
            .iter()
            .map(|name| name.trim().to_ascii_lowercase())
            .collect();
        check_columns(&columns).map_err(|error| self.lines.wrong(number, error))?;
        while let Some((number, fields)) = self.record()? {
            self.add(number, row(&columns, &fields))?;
        }
        Ok(())
    }

    /// The fields of the next row and the number of its first line. A field in quotation marks may go over several.
    fn record(&mut self) -> Result<Option<(usize, Vec<String>)>, SuiteError> {
        let Some(mut text) = self.next()? else {
            return Ok(None);
        };
        let number = self.lines.number;
        let mut open = ends_open(&text, false);
        while open {
            let Some(line) = self.lines.next()? else {
                return Err(self.lines.wrong(number, LineError::OpenQuote));
            };
            open = ends_open(&line, true);
            text.push('\n');
            text.push_str(&line);
            if text.len() > LINE_LIMIT {
                return Err(self.lines.wrong(number, LineError::OpenQuote));
            }
        }
        let mut rows = csv::ReaderBuilder::new()
            .has_headers(false)
            .buffer_capacity(256)
            .from_reader(text.as_bytes())
            .into_records();
        let row = match (rows.next(), rows.next()) {
            (Some(Err(error)), _) => Err(error.to_string()),
            // What comes after it would be lost.
            (_, Some(_)) => Err(SECOND_ROW.to_owned()),
            (row, None) => Ok(row.and_then(Result::ok).unwrap_or_default()),
        };
        let row = row.map_err(|why| self.lines.wrong(number, LineError::Csv(why)))?;
        Ok(Some((number, row.iter().map(str::to_owned).collect())))
    }

    fn add(&mut self, number: usize, row: Result<Row, LineError>) -> Result<(), SuiteError> {
        let prompt = row.and_then(|row| row.prompt(number));
        let prompt = prompt.and_then(|prompt| {
            let id = prompt.prompt_id.clone();
            let known = self.ids.insert(id.to_lowercase(), (number, id.clone()));
            match known {
                None => Ok(prompt),
                Some((first, before)) => Err(LineError::TwiceId {
                    exactly: before == id,
                    id,
                    first,
                }),
            }
        });
        if self.prompts.len() == MOST {
            return Err(self.lines.too_many(MOST));
        }
        self.prompts
            .push(prompt.map_err(|error| self.lines.wrong(number, error))?);
        Ok(())
    }

    fn suite(self, path: &Path) -> Result<Suite, SuiteError> {
        let Self {
            lines,
            mut prompts,
            empty,
            ..
        } = self;
        if prompts.is_empty() {
            return Err(SuiteError::Empty(path.into()));
        }
        let file = path.display();
        if let Some((number, first)) = empty {
            tracing::warn!("{file}: empty lines are skipped: {number}, the first is line {first}");
        }
        if lines.bom {
            tracing::info!("{file}: the byte order mark is skipped");
        }
        if lines.crlf > 0 {
            tracing::info!("{file}: {} lines end in CR LF", lines.crlf);
        }
        // A part of a set may lack the other halves of its pairs.
        let lost = pairs::forget_lost_counterparts(&mut prompts);
        if lost > 0 {
            tracing::warn!(
                "{file}: {lost} prompts have a counterpart that is not in the file; they count as without one"
            );
        }
        pairs::find_counterparts(&mut prompts);
        Ok(Suite {
            name: path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into(),
            version: format!("sha256:{}", lines.short_hash()),
            prompts,
            pictures_per_prompt: PICTURES,
        })
    }
}

/// Whether a field in quotation marks goes on after this line, in which it may be `open` from the start. A mark opens a
/// field only where that begins; anywhere else in a plain field it is a letter, as in `a 5" tablet`.
fn ends_open(line: &str, mut open: bool) -> bool {
    let mut begins = !open;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '"' && open {
            // Two of them are one within the field.
            open = letters.next_if_eq(&'"').is_some();
        } else if letter == '"' {
            open = begins;
        }
        begins = !open && letter == ',';
    }
    open
}

fn check_columns(columns: &[String]) -> Result<(), LineError> {
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    for (i, name) in names.iter().enumerate() {
        // It would be dropped without a word.
        if KEYS.contains(name) && !COLUMNS.contains(name) {
            return Err(LineError::OnlyJsonl((*name).to_owned()));
        }
        check_key(name, &names, &COLUMNS)?;
        if !name.is_empty() && names[..i].contains(name) {
            return Err(LineError::TwiceColumn((*name).to_owned()));
        }
    }
    match names.contains(&"prompt") {
        true => Ok(()),
        false => Err(LineError::NoPromptColumn(names.join(", "))),
    }
}

fn row(columns: &[String], fields: &[String]) -> Result<Row, LineError> {
    if fields.len() != columns.len() {
        return Err(LineError::Fields {
            found: fields.len(),
            wanted: columns.len(),
        });
    }
    // An empty field is as none.
    let field = |name: &str| {
        let place = columns.iter().position(|column| column == name)?;
        Some(fields[place].trim().to_owned()).filter(|text| !text.is_empty())
    };
    let tags = field("tags").unwrap_or_default();
    let tags = tags.split(';').map(str::trim).filter(|tag| !tag.is_empty());
    Ok(Row {
        prompt_id: field("prompt_id"),
        prompt: field("prompt").unwrap_or_default(),
        given: Given::one(field("relation"), field("object_a"), field("object_b"))?,
        counterpart: field("counterpart"),
        tags: tags.map(str::to_owned).collect(),
        neutral: field("neutral"),
        reverse: field("reverse"),
        edit: None,
        boxes: Vec::new(),
    })
}
