//! Parquet, by the columns that are needed and a few thousand rows at a time.
//!
//! The library is used without Arrow: its column readers are all that flat tables of texts and numbers need.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use parquet::basic::{Compression, Type};
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use prepose_untrusted::open_regular;

use super::{Columns, Place, ReadError, Row, Rows, caption_at, position, size};

/// Rows that are decoded at a time.
const STEP: usize = 4096;

/// A file that is being read.
pub(super) struct Parquet {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    /// The columns' numbers: caption, picture, address, width and height.
    at: [Option<usize>; 5],
    /// [`Columns::uncaptioned`].
    uncaptioned: bool,
    group: usize,
    /// The readers of the group, as in `at`.
    open: Option<[Option<Reader>; 5]>,
    /// Rows of the group that were read.
    done: u64,
    rows: u64,
}

/// A column of a group of rows.
struct Reader {
    column: ColumnReader,
    /// Whether a value may be missing.
    optional: bool,
}

/// Values of a column, none where there is none.
enum Values {
    Texts(Vec<Option<String>>),
    Numbers(Vec<Option<f64>>),
}

impl Parquet {
    pub(super) fn open(path: &Path, columns: &Columns, from: Place) -> Result<Self, ReadError> {
        let file = open_regular(path).map_err(|error| ReadError::io(path, error))?;
        let reader = guarded(path, || SerializedFileReader::new(file))?;
        let schema = reader.metadata().file_metadata().schema_descr();
        let names: Vec<String> = schema
            .columns()
            .iter()
            .map(|column| column.path().string())
            .collect();
        let caption = caption_at(columns, &names, path)?;
        // Of the others, those of another kind are none: `image.path` has no namesake, but a `key` may be anything.
        let usable = |wanted: &[String], numbers: bool| {
            position(wanted, &names).filter(|at| fits(&schema.columns()[*at], numbers).is_ok())
        };
        let at = [
            caption,
            usable(&columns.picture, false),
            usable(&columns.url, false),
            usable(&columns.width, true),
            usable(&columns.height, true),
        ];
        if let Some(caption) = caption
            && let Err(why) = fits(&schema.columns()[caption], false)
        {
            return Err(ReadError::Column {
                path: path.to_owned(),
                column: names[caption].clone(),
                why,
            });
        }
        for group in reader.metadata().row_groups() {
            let unread = |at: &usize| {
                group
                    .columns()
                    .get(*at)
                    .and_then(|chunk| unread(chunk.compression()))
            };
            if let Some(name) = at.iter().flatten().find_map(unread) {
                return Err(ReadError::Parquet {
                    path: path.to_owned(),
                    why: format!(
                        "it is compressed by {name}, and only snappy, gzip and none are read; write it again with one of them"
                    ),
                });
            }
        }
        let mut this = Self {
            path: path.to_owned(),
            reader,
            at,
            uncaptioned: columns.uncaptioned,
            group: 0,
            open: None,
            done: 0,
            rows: 0,
        };
        this.skip(from.row)?;
        Ok(this)
    }

    /// Goes to a row.
    fn skip(&mut self, to: u64) -> Result<(), ReadError> {
        while self.rows < to && self.group < self.groups() {
            let left = to - self.rows;
            let all = self.rows_of_group();
            if all <= left {
                self.rows += all;
                self.group += 1;
                continue;
            }
            self.begin_group()?;
            let path = self.path.clone();
            if let Some(readers) = &mut self.open {
                for reader in readers.iter_mut().flatten() {
                    let step = usize::try_from(left).unwrap_or(usize::MAX);
                    guarded(&path, || reader.skip(step))?;
                }
            }
            (self.done, self.rows) = (left, to);
        }
        Ok(())
    }

    fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    fn rows_of_group(&self) -> u64 {
        let group = self.reader.metadata().row_group(self.group);
        u64::try_from(group.num_rows()).unwrap_or(0)
    }

    fn begin_group(&mut self) -> Result<(), ReadError> {
        let mut readers = [const { None }; 5];
        let schema = self.reader.metadata().file_metadata().schema_descr();
        for (reader, at) in readers.iter_mut().zip(self.at) {
            if let Some(at) = at {
                let column = guarded(&self.path, || {
                    self.reader.get_row_group(self.group)?.get_column_reader(at)
                })?;
                let optional = schema.column(at).max_def_level() > 0;
                *reader = Some(Reader { column, optional });
            }
        }
        self.open = Some(readers);
        self.done = 0;
        Ok(())
    }

    /// The next rows of the group, at least one.
    fn step(&mut self, most: usize) -> Result<[Option<Values>; 5], ReadError> {
        let mut all = [const { None }; 5];
        if let Some(readers) = &mut self.open {
            for (values, reader) in all.iter_mut().zip(readers) {
                if let Some(reader) = reader {
                    *values = Some(guarded(&self.path, || reader.read(most))?);
                }
            }
        }
        Ok(all)
    }
}

impl Rows for Parquet {
    fn next(&mut self, most: usize, rows: &mut Vec<Row>) -> Result<u64, ReadError> {
        rows.clear();
        let mut passed = 0;
        while rows.len() < most && passed < most as u64 && self.group < self.groups() {
            let left = self.rows_of_group().saturating_sub(self.done);
            if left == 0 {
                self.group += 1;
                self.open = None;
                self.done = 0;
                continue;
            }
            if self.open.is_none() {
                self.begin_group()?;
            }
            let wanted = STEP
                .min(most - rows.len())
                .min(usize::try_from(left).unwrap_or(STEP));
            let [captions, pictures, urls, widths, heights] = self.step(wanted)?;
            let captions = match self.at[0] {
                Some(_) => texts(captions),
                None => vec![None; wanted],
            };
            if captions.len() != wanted {
                return Err(ReadError::Parquet {
                    path: self.path.clone(),
                    why: format!(
                        "its rows end before their number, {}, is reached",
                        self.rows_of_group()
                    ),
                });
            }
            self.done += wanted as u64;
            self.rows += wanted as u64;
            let mut pictures = texts(pictures).into_iter();
            let mut urls = texts(urls).into_iter();
            let (mut widths, mut heights) =
                (numbers(widths).into_iter(), numbers(heights).into_iter());
            for caption in captions {
                let row = Row {
                    picture: pictures.next().flatten(),
                    url: urls.next().flatten(),
                    size: size(widths.next().flatten(), heights.next().flatten()),
                    objects: None,
                    shown: None,
                    caption: match caption {
                        Some(caption) => caption,
                        None if self.uncaptioned => String::new(),
                        None => {
                            passed += 1;
                            continue;
                        }
                    },
                };
                rows.push(row);
            }
        }
        Ok(passed)
    }

    fn place(&self) -> Place {
        Place {
            row: self.rows,
            byte: 0,
        }
    }
}

fn texts(values: Option<Values>) -> Vec<Option<String>> {
    match values {
        Some(Values::Texts(texts)) => texts,
        Some(Values::Numbers(_)) | None => Vec::new(),
    }
}

fn numbers(values: Option<Values>) -> Vec<Option<f64>> {
    match values {
        Some(Values::Numbers(numbers)) => numbers,
        Some(Values::Texts(_)) | None => Vec::new(),
    }
}

impl Reader {
    /// The next values; fewer than `most` only at the end.
    fn read(&mut self, most: usize) -> Result<Values, ParquetError> {
        macro_rules! all {
            ($reader:expr) => {{
                let (mut values, mut levels) = (Vec::new(), Vec::new());
                let mut rows = 0;
                while rows < most {
                    let given = self.optional.then_some(&mut levels);
                    let (read, ..) = $reader.read_records(most - rows, given, None, &mut values)?;
                    if read == 0 {
                        break;
                    }
                    rows += read;
                }
                (values, levels, rows)
            }};
        }
        let optional = self.optional;
        Ok(match &mut self.column {
            ColumnReader::ByteArrayColumnReader(reader) => {
                let (values, levels, rows) = all!(reader);
                let text = |value: &ByteArray| {
                    let text = std::str::from_utf8(value.data()).ok();
                    text.map(str::to_owned)
                };
                let values = values.iter().map(text);
                Values::Texts(spread(values, &levels, rows, optional))
            }
            ColumnReader::Int32ColumnReader(reader) => {
                let (values, levels, rows) = all!(reader);
                let values = values.into_iter().map(|value| Some(f64::from(value)));
                Values::Numbers(spread(values, &levels, rows, optional))
            }
            ColumnReader::Int64ColumnReader(reader) => {
                let (values, levels, rows) = all!(reader);
                let values = values.into_iter().map(|value| Some(value as f64));
                Values::Numbers(spread(values, &levels, rows, optional))
            }
            ColumnReader::FloatColumnReader(reader) => {
                let (values, levels, rows) = all!(reader);
                let values = values.into_iter().map(|value| Some(f64::from(value)));
                Values::Numbers(spread(values, &levels, rows, optional))
            }
            ColumnReader::DoubleColumnReader(reader) => {
                let (values, levels, rows) = all!(reader);
                Values::Numbers(spread(
                    values.into_iter().map(Some),
                    &levels,
                    rows,
                    optional,
                ))
            }
            // Of other kinds none is opened.
            _ => Values::Numbers(Vec::new()),
        })
    }

    fn skip(&mut self, rows: usize) -> Result<usize, ParquetError> {
        match &mut self.column {
            ColumnReader::ByteArrayColumnReader(reader) => reader.skip_records(rows),
            ColumnReader::Int32ColumnReader(reader) => reader.skip_records(rows),
            ColumnReader::Int64ColumnReader(reader) => reader.skip_records(rows),
            ColumnReader::FloatColumnReader(reader) => reader.skip_records(rows),
            ColumnReader::DoubleColumnReader(reader) => reader.skip_records(rows),
            _ => Ok(0),
        }
    }
}

/// Puts values where there is one, by the levels of a flat column: 1 there is one, 0 there is none.
fn spread<T>(
    mut values: impl Iterator<Item = Option<T>>,
    levels: &[i16],
    rows: usize,
    optional: bool,
) -> Vec<Option<T>> {
    match optional {
        false => values.take(rows).collect(),
        true => levels
            .iter()
            .take(rows)
            .map(|level| (*level > 0).then(|| values.next().flatten()).flatten())
            .collect(),
    }
}

/// The name of a compression that is not read.
fn unread(compression: Compression) -> Option<&'static str> {
    match compression {
        Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::GZIP(_) => None,
        Compression::ZSTD(_) => Some("zstd"),
        Compression::BROTLI(_) => Some("Brotli"),
        Compression::LZ4 | Compression::LZ4_RAW => Some("LZ4"),
        Compression::LZO => Some("LZO"),
    }
}

/// Whether a column can be read as texts, or as numbers.
fn fits(
    column: &parquet::schema::types::ColumnDescriptor,
    numbers: bool,
) -> Result<(), &'static str> {
    if column.max_rep_level() > 0 || column.max_def_level() > 1 {
        return Err("is part of a list or another column");
    }
    match (column.physical_type(), numbers) {
        (Type::BYTE_ARRAY, false)
        | (Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE, true) => Ok(()),
        (_, false) => Err("has no texts"),
        (_, true) => Err("has no numbers"),
    }
}

/// What the library makes of a file, whose damage it may not have foreseen.
fn guarded<T>(path: &Path, of: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ReadError> {
    let wrong = |why: String| ReadError::Parquet {
        path: path.to_owned(),
        why,
    };
    match catch_unwind(AssertUnwindSafe(of)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(wrong(error.to_string())),
        Err(_) => Err(wrong("it is damaged".into())),
    }
}
