//! JSON lines.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use prepose_untrusted::open_regular;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::{Columns, Place, ReadError, Row, Rows, size, some};

/// Longer lines are passed over.
const LONGEST: usize = 1 << 20;
/// Lines that are looked at before a file is given up in which none is of use.
const TRIED: u64 = 1000;

/// A file that is being read.
pub(super) struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    columns: Columns,
    place: Place,
    /// Whether any line was of use.
    useful: bool,
    /// The first line that was not, and why.
    wrong: Option<(u64, String)>,
}

impl Lines {
    pub(super) fn open(path: &Path, columns: &Columns, from: Place) -> Result<Self, ReadError> {
        let io = |error| ReadError::io(path, error);
        let mut file = open_regular(path).map_err(io)?;
        file.seek(SeekFrom::Start(from.byte)).map_err(io)?;
        Ok(Self {
            path: path.to_owned(),
            reader: BufReader::with_capacity(1 << 16, file),
            columns: columns.clone(),
            place: from,
            useful: from.row > 0,
            wrong: None,
        })
    }

    fn given_up(&self) -> ReadError {
        let (line, why) = self.wrong.clone().unwrap_or_default();
        ReadError::Line {
            path: self.path.clone(),
            line,
            why,
        }
    }
}

impl Rows for Lines {
    fn next(&mut self, most: usize, rows: &mut Vec<Row>) -> Result<u64, ReadError> {
        rows.clear();
        let mut passed = 0;
        let mut line = Vec::new();
        // Lines without use must not be without end either.
        while rows.len() < most && passed < most as u64 {
            let read = bounded_line(&mut self.reader, &mut line)
                .map_err(|error| ReadError::io(&self.path, error))?;
            let Some((length, whole)) = read else {
                if !self.useful && rows.is_empty() && self.wrong.is_some() {
                    return Err(self.given_up());
                }
                break;
            };
            self.place.row += 1;
            self.place.byte += length;
            if whole && line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let parsed = match whole {
                true => row(&line, &self.columns),
                false => Err(format!("it is longer than {LONGEST} bytes")),
            };
            match parsed {
                Ok(row) => {
                    self.useful = true;
                    rows.push(row);
                }
                Err(why) => {
                    passed += 1;
                    self.wrong.get_or_insert((self.place.row, why));
                    if !self.useful && passed >= TRIED {
                        return Err(self.given_up());
                    }
                }
            }
        }
        Ok(passed)
    }

    fn place(&self) -> Place {
        self.place
    }
}

/// Reads a line without its end: how many bytes it took, and whether it is whole; what is longer is passed over. None is the
/// end.
fn bounded_line(
    reader: &mut impl BufRead,
    line: &mut Vec<u8>,
) -> std::io::Result<Option<(u64, bool)>> {
    line.clear();
    let (mut taken, mut whole) = (0, true);
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok((taken > 0).then_some((taken, whole)));
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = end.map_or(buffer, |end| &buffer[..end]);
        match line.len() + part.len() <= LONGEST {
            true => line.extend_from_slice(part),
            false => whole = false,
        }
        let used = part.len() + usize::from(end.is_some());
        taken += used as u64;
        reader.consume(used);
        if end.is_some() {
            return Ok(Some((taken, whole)));
        }
    }
}

/// The row that a line is.
pub(super) fn row(line: &[u8], columns: &Columns) -> Result<Row, String> {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    let mut json = serde_json::Deserializer::from_slice(line);
    let found = Keys(columns)
        .deserialize(&mut json)
        .and_then(|found| json.end().map(|()| found))
        .map_err(|error| match error.to_string().rsplit_once(" at line ") {
            Some((why, _)) => why.to_owned(),
            None => error.to_string(),
        })?;
    let caption = match found.caption {
        Some((_, text)) => text,
        None if columns.uncaptioned => String::new(),
        None => {
            return Err(format!(
                "none of its keys is called {}; it has {}; say which has the caption with --caption-column",
                columns.caption.join(", "),
                some(&found.names)
            ));
        }
    };
    Ok(Row {
        caption,
        picture: found.picture.map(|(_, text)| text),
        url: found.url.map(|(_, text)| text),
        size: size(
            found.width.map(|(_, side)| side),
            found.height.map(|(_, side)| side),
        ),
        objects: found.objects,
        shown: found.shown.map(|(_, text)| text),
    })
}

/// What is of use in a line, each with the place of its name among the names that are looked for.
#[derive(Default)]
struct Found {
    caption: Option<(usize, String)>,
    picture: Option<(usize, String)>,
    url: Option<(usize, String)>,
    width: Option<(usize, f64)>,
    height: Option<(usize, f64)>,
    objects: Option<Value>,
    shown: Option<(usize, String)>,
    /// All names, of a line without a caption.
    names: Vec<String>,
}

/// Reads an object, and nothing of it but the columns.
struct Keys<'a>(&'a Columns);

impl<'de> DeserializeSeed<'de> for Keys<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
        let mut found = Found::default();
        while let Some(name) = map.next_key::<String>()? {
            let at = |wanted: &[String]| wanted.iter().position(|one| *one == name);
            let columns = self.0;
            if let Some(place) = at(&columns.caption) {
                put(&mut found.caption, place, text(map.next_value()?));
            } else if let Some(place) = at(&columns.picture) {
                put(&mut found.picture, place, text(map.next_value()?));
            } else if let Some(place) = at(&columns.url) {
                put(&mut found.url, place, text(map.next_value()?));
            } else if let Some(place) = at(&columns.width) {
                put(&mut found.width, place, map.next_value::<Value>()?.as_f64());
            } else if let Some(place) = at(&columns.height) {
                put(
                    &mut found.height,
                    place,
                    map.next_value::<Value>()?.as_f64(),
                );
            } else if at(&columns.objects).is_some() {
                found.objects = Some(map.next_value()?);
            } else if let Some(place) = at(&columns.shown) {
                put(&mut found.shown, place, text(map.next_value()?));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
            if found.caption.is_none() && found.names.len() < 64 {
                found.names.push(name);
            }
        }
        Ok(found)
    }
}

/// Keeps a value if its name comes before that of the one that is there.
fn put<T>(kept: &mut Option<(usize, T)>, place: usize, value: Option<T>) {
    if let Some(value) = value
        && kept.as_ref().is_none_or(|(other, _)| place < *other)
    {
        *kept = Some((place, value));
    }
}

/// A text, or a number that stands for one, as keys of pictures may be.
fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
