//! CSV with a header.

use std::fs::File;
use std::io::{BufReader, SeekFrom};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, Position, Reader, ReaderBuilder};
use prepose_untrusted::open_regular;

use super::{Columns, Place, ReadError, Row, Rows, caption_at, position, size};

/// A file that is being read.
pub(super) struct Table {
    path: PathBuf,
    reader: Reader<BufReader<File>>,
    at: Places,
    /// [`Columns::uncaptioned`].
    uncaptioned: bool,
    rows: u64,
}

/// Which columns are what.
struct Places {
    caption: Option<usize>,
    picture: Option<usize>,
    url: Option<usize>,
    width: Option<usize>,
    height: Option<usize>,
    shown: Option<usize>,
}

impl Table {
    pub(super) fn open(path: &Path, columns: &Columns, from: Place) -> Result<Self, ReadError> {
        let io = |error| ReadError::io(path, error);
        let file = open_regular(path).map_err(io)?;
        let mut reader = ReaderBuilder::new()
            .flexible(true)
            .from_reader(BufReader::new(file));
        let header = reader.byte_headers().map_err(|error| ReadError::Line {
            path: path.to_owned(),
            line: 1,
            why: error.to_string(),
        })?;
        let names: Vec<String> = header
            .iter()
            .map(|name| {
                let name = String::from_utf8_lossy(name);
                name.trim_start_matches('\u{feff}').trim().to_owned()
            })
            .collect();
        let caption = caption_at(columns, &names, path)?;
        if from.row > 0 {
            let mut place = Position::new();
            place.set_byte(from.byte);
            // The bytes alone say where to go on.
            reader
                .seek_raw(SeekFrom::Start(from.byte), place)
                .map_err(|error| io(error.into()))?;
        }
        Ok(Self {
            path: path.to_owned(),
            reader,
            at: Places {
                caption,
                picture: position(&columns.picture, &names),
                url: position(&columns.url, &names),
                width: position(&columns.width, &names),
                height: position(&columns.height, &names),
                shown: position(&columns.shown, &names),
            },
            uncaptioned: columns.uncaptioned,
            rows: from.row,
        })
    }
}

impl Rows for Table {
    fn next(&mut self, most: usize, rows: &mut Vec<Row>) -> Result<u64, ReadError> {
        rows.clear();
        let mut passed = 0;
        let mut record = ByteRecord::new();
        while rows.len() < most && passed < most as u64 {
            let more = self
                .reader
                .read_byte_record(&mut record)
                .map_err(|error| ReadError::io(&self.path, error.into()))?;
            if !more {
                break;
            }
            self.rows += 1;
            let text = |at: Option<usize>| std::str::from_utf8(record.get(at?)?).ok();
            let number = |at: Option<usize>| text(at)?.trim().parse::<f64>().ok();
            let caption = match text(self.at.caption) {
                Some(caption) => caption,
                None if self.uncaptioned => "",
                None => {
                    passed += 1;
                    continue;
                }
            };
            let filled = |at| text(at).filter(|text| !text.is_empty()).map(str::to_owned);
            rows.push(Row {
                caption: caption.to_owned(),
                picture: filled(self.at.picture),
                url: filled(self.at.url),
                size: size(number(self.at.width), number(self.at.height)),
                objects: None,
                shown: filled(self.at.shown),
            });
        }
        Ok(passed)
    }

    fn place(&self) -> Place {
        Place {
            row: self.rows,
            byte: self.reader.position().byte(),
        }
    }
}
