//! Parquet files: captions with the pictures in them, as Hugging Face's data sets have them (`image.bytes`), or with the names
//! of pictures beside them.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use parquet::basic::Type;
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use prepose_untrusted::open_regular;

use crate::error::DatasetError;
use crate::listed;
use crate::open::Options;
use crate::sample::{Dataset, Layout, Place, Sample};

/// What columns of whole pictures are called.
const PICTURES: [&str; 4] = ["image.bytes", "image", "jpg", "png"];

/// Reads files, one after the other.
pub(crate) fn read(paths: &[PathBuf], options: &Options) -> Result<Dataset, DatasetError> {
    let mut dataset = Dataset::new(Layout::Parquet);
    for path in paths {
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let inside = open(path).is_ok_and(|reader| column(&reader).is_some());
        if !inside {
            let base = path.parent().unwrap_or(Path::new("."));
            listed::each_row(path, options, |row| match row {
                Ok(row) => listed::add(&mut dataset, base, row, options),
                Err(place) => dataset.skip(place, listed::LOST),
            })?;
            continue;
        }
        for (row, caption) in captions(path, options)?.into_iter().enumerate() {
            let name = format!("{file}:{row}");
            let caption = caption.filter(|caption| !caption.trim().is_empty());
            match caption.or_else(|| options.caption.clone()) {
                Some(caption) => dataset.samples.push(Sample {
                    name,
                    place: Place::Row {
                        path: path.clone(),
                        row: row as u64,
                    },
                    caption: caption.trim().to_owned(),
                    repeats: 1,
                    objects: Vec::new(),
                    shown: None,
                }),
                None => dataset.skip(name, "it has no caption"),
            }
        }
    }
    Ok(dataset)
}

fn open(path: &Path) -> io::Result<SerializedFileReader<File>> {
    let file = open_regular(path)?;
    guarded(|| SerializedFileReader::new(file))
}

/// The column that has pictures, if one has.
fn column(reader: &SerializedFileReader<File>) -> Option<usize> {
    let schema = reader.metadata().file_metadata().schema_descr();
    let mut names = PICTURES.iter();
    names.find_map(|name| {
        let mut columns = schema.columns().iter();
        columns.position(|column| {
            column.path().string() == *name
                && column.physical_type() == Type::BYTE_ARRAY
                && column.max_rep_level() == 0
        })
    })
}

/// The captions of all rows; none where there is none. Unlike the readers of captions alone this keeps the rows' numbers.
fn captions(path: &Path, options: &Options) -> Result<Vec<Option<String>>, DatasetError> {
    let io = |error| DatasetError::io(path, error);
    let reader = open(path).map_err(io)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let wanted = options.columns().caption;
    let at = wanted.iter().find_map(|name| {
        let mut columns = schema.columns().iter();
        columns.position(|column| {
            column.path().string() == *name
                && column.physical_type() == Type::BYTE_ARRAY
                && column.max_rep_level() == 0
        })
    });
    let Some(at) = at else {
        if options.caption.is_some() {
            let rows = reader.metadata().file_metadata().num_rows();
            return Ok(vec![None; usize::try_from(rows).unwrap_or(0)]);
        }
        let names: Vec<String> = schema
            .columns()
            .iter()
            .map(|column| column.path().string())
            .collect();
        return Err(DatasetError::Captions(
            prepose_corpus::read::ReadError::NoCaptions {
                path: path.to_owned(),
                wanted,
                found: names.join(", "),
            },
        ));
    };
    let mut all = Vec::new();
    for group in 0..reader.num_row_groups() {
        let rows = usize::try_from(reader.metadata().row_group(group).num_rows()).unwrap_or(0);
        let values = cells(&reader, group, at, 0, rows).map_err(io)?;
        all.extend(values.into_iter().map(|cell| {
            let text = std::str::from_utf8(cell.as_ref()?.data()).ok();
            text.map(str::to_owned)
        }));
    }
    Ok(all)
}

/// Some rows of a column; none where a value is missing.
fn cells(
    reader: &SerializedFileReader<File>,
    group: usize,
    column: usize,
    skip: usize,
    rows: usize,
) -> io::Result<Vec<Option<ByteArray>>> {
    let schema = reader.metadata().file_metadata().schema_descr();
    let defined = schema.column(column).max_def_level();
    guarded(|| {
        let mut column = reader.get_row_group(group)?.get_column_reader(column)?;
        let ColumnReader::ByteArrayColumnReader(column) = &mut column else {
            return Ok(Vec::new());
        };
        if skip > 0 {
            column.skip_records(skip)?;
        }
        let (mut values, mut levels, mut read) = (Vec::new(), Vec::new(), 0);
        while read < rows {
            let given = (defined > 0).then_some(&mut levels);
            let (more, ..) = column.read_records(rows - read, given, None, &mut values)?;
            if more == 0 {
                break;
            }
            read += more;
        }
        let mut values = values.into_iter();
        Ok(match defined {
            0 => values.map(Some).collect(),
            _ => (levels.iter())
                .map(|level| (*level == defined).then(|| values.next()).flatten())
                .collect(),
        })
    })
}

/// The picture in a row.
pub(crate) fn picture(path: &Path, row: u64) -> io::Result<Vec<u8>> {
    let reader = open(path)?;
    let lost = || io::Error::other("the row has no picture");
    let column = column(&reader).ok_or_else(lost)?;
    let mut before = row;
    for group in 0..reader.num_row_groups() {
        let rows = u64::try_from(reader.metadata().row_group(group).num_rows()).unwrap_or(0);
        if before < rows {
            let skip = usize::try_from(before).unwrap_or(usize::MAX);
            let cell = cells(&reader, group, column, skip, 1)?.into_iter().next();
            return cell
                .flatten()
                .map(|bytes| bytes.data().to_vec())
                .ok_or_else(lost);
        }
        before -= rows;
    }
    Err(lost())
}

/// What the library makes of a file, whose damage it may not have foreseen.
fn guarded<T>(of: impl FnOnce() -> Result<T, ParquetError>) -> io::Result<T> {
    match catch_unwind(AssertUnwindSafe(of)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(io::Error::other(error)),
        Err(_) => Err(io::Error::other("the Parquet file is damaged")),
    }
}
