//! `sample.csv`: the pictures that people judge, in the schema of SpatialBench-UC's released audit.

use std::collections::HashSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::spatialbench::Verdict;
use prepose_draw::table::{from_no_formula, no_formula};

/// One row of `sample.csv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleRow {
    /// Names the picture among all runs.
    pub sample_id: String,
    /// The picture, relative to the table.
    pub image_path: String,
    /// The picture with the checker's boxes, relative to the table; empty if there is none.
    #[serde(default)]
    pub overlay_path: String,
    /// What was asked for; empty if it is not known.
    #[serde(default)]
    pub prompt: String,
    /// The relation that the prompt states, such as `left_of`.
    pub relation: String,
    /// What should be there, …
    pub object_a: String,
    /// … and in relation to what.
    pub object_b: String,
    /// What the checker said when the sample was drawn.
    pub checker_verdict_raw: Verdict,
    /// How sure the checker was, in 0..=1, to four decimals.
    #[serde(serialize_with = "four_decimals")]
    pub conf: f64,
    /// Names the run.
    #[serde(default)]
    pub run_id: String,
    /// The run's folder.
    #[serde(default)]
    pub run_path: String,
    /// How the run made its pictures.
    #[serde(default)]
    pub method: String,
}

impl SampleRow {
    /// What may come from anywhere.
    fn texts(&mut self) -> [&mut String; 10] {
        [
            &mut self.sample_id,
            &mut self.image_path,
            &mut self.overlay_path,
            &mut self.prompt,
            &mut self.relation,
            &mut self.object_a,
            &mut self.object_b,
            &mut self.run_id,
            &mut self.run_path,
            &mut self.method,
        ]
    }
}

/// Why a table is no sample.
#[derive(Debug, Error)]
pub enum TableError {
    /// There are no rows.
    #[error("there are no samples in it")]
    Empty,
    /// A column is missing, or a value is not what its column holds.
    #[error("{0}")]
    Csv(#[from] csv::Error),
    /// A picture is there twice.
    #[error("line {line}: {sample_id} appears twice")]
    Duplicate {
        /// Of the second row, from 1.
        line: u64,
        /// The picture.
        sample_id: String,
    },
}

/// Reads a table; a byte order mark, either kind of line ending and columns beyond the schema do not matter.
pub fn read(text: &str) -> Result<Vec<SampleRow>, TableError> {
    let mut reader = csv::Reader::from_reader(super::without_bom(text).as_bytes());
    let headers = reader.headers()?.clone();
    let mut rows: Vec<SampleRow> = Vec::new();
    let mut seen = HashSet::new();
    for record in reader.records() {
        let record = record?;
        let mut row: SampleRow = record.deserialize(Some(&headers))?;
        for text in row.texts() {
            *text = from_no_formula(text).to_owned();
        }
        if !seen.insert(row.sample_id.clone()) {
            return Err(TableError::Duplicate {
                line: record.position().map_or(0, csv::Position::line),
                sample_id: row.sample_id,
            });
        }
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(TableError::Empty);
    }
    Ok(rows)
}

/// Writes a table as Python's `csv` does: lines end in CR LF, and only fields that need quotes have them. No cell is a
/// formula to a spreadsheet.
pub fn write(rows: &[SampleRow]) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    for row in rows {
        let mut row = row.clone();
        for text in row.texts() {
            *text = no_formula(text).into_owned();
        }
        writer.serialize(row)?;
    }
    writer
        .into_inner()
        .map_err(|error| csv::Error::from(error.into_error()))
}

/// The method that a run's name tells, as SpatialBench-UC reads it: without `smoke_`, `exp_` and `sd15_` or the like in
/// front, the first word.
pub fn method_of_run(run: &str) -> String {
    let name = run.to_lowercase();
    let mut rest = name.as_str();
    for prefix in ["smoke_", "exp_"] {
        rest = rest.strip_prefix(prefix).unwrap_or(rest);
    }
    if let Some(after) = rest.strip_prefix("sd") {
        let version = after.bytes().take_while(u8::is_ascii_digit).count();
        if version > 0
            && let Some(after) = after[version..].strip_prefix('_')
        {
            rest = after;
        }
    }
    rest.split('_').next().unwrap_or(rest).to_owned()
}

/// How `path` is reached from `folder`, with forward slashes; both absolute, or both relative to the same folder and
/// without `..`. An absolute path if they have no root in common.
pub fn relative(path: &Path, folder: &Path) -> String {
    let path_parts: Vec<_> = path.components().collect();
    let folder_parts: Vec<_> = folder.components().collect();
    let common = path_parts
        .iter()
        .zip(&folder_parts)
        .take_while(|(a, b)| a == b)
        .count();
    if common == 0 && path.is_absolute() {
        return path.display().to_string();
    }
    let up = folder_parts[common..].iter().map(|_| "..".into());
    let down = path_parts[common..]
        .iter()
        .map(|part| part.as_os_str().to_string_lossy());
    up.chain(down).collect::<Vec<_>>().join("/")
}

fn four_decimals<S: serde::Serializer>(conf: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{conf:.4}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "sample_id,image_path,overlay_path,prompt,relation,object_a,object_b,checker_verdict_raw,conf,run_id,run_path,method\r\n\
        r_p1_seed0000,a.png,,\"A \"\"dog\"\", left of a cat.\",left_of,dog,cat,PASS,0.5745,r,runs/r,r\r\n";

    #[test]
    fn a_table_is_read_and_written_as_it_was() {
        let rows = read(TABLE).unwrap();
        assert_eq!(rows[0].prompt, "A \"dog\", left of a cat.");
        assert_eq!(rows[0].checker_verdict_raw, Verdict::Pass);
        assert_eq!(String::from_utf8(write(&rows).unwrap()).unwrap(), TABLE);
        let plain = format!("\u{feff}{}", TABLE.replace("\r\n", "\n"));
        assert_eq!(read(&plain).unwrap(), rows);
    }

    #[test]
    fn no_cell_is_a_formula() {
        let mut rows = read(TABLE).unwrap();
        rows[0].prompt = "=HYPERLINK(\"http://127.0.0.1\",\"x\")".into();
        rows[0].sample_id = "@x".into();
        let text = String::from_utf8(write(&rows).unwrap()).unwrap();
        assert!(
            text.contains("\r\n'@x,") && text.contains("\"'=HYPERLINK("),
            "{text}"
        );
        assert_eq!(read(&text).unwrap(), rows);
    }

    #[test]
    fn what_is_no_sample_is_refused() {
        let refused = |text: &str, part: &str| {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error:?} lacks {part:?}");
        };
        refused("", "no samples");
        refused(TABLE.split_inclusive('\n').next().unwrap(), "no samples");
        refused(
            &TABLE.replace("relation,", "").replace("left_of,", ""),
            "relation",
        );
        refused(&TABLE.replace("PASS", "pass?"), "pass?");
        let last = TABLE.split_inclusive('\n').nth(1).unwrap();
        refused(&format!("{TABLE}{last}"), "r_p1_seed0000 appears twice");
    }

    #[test]
    fn a_run_tells_its_method() {
        let method = |run| method_of_run(run);
        assert_eq!(method("sd15_promptonly"), "promptonly");
        assert_eq!(method("sd14_gligen"), "gligen");
        assert_eq!(method("smoke_SD3_boxdiff_strong"), "boxdiff");
        assert_eq!(method("sdxl_pos"), "sdxl");
        assert_eq!(method("pos"), "pos");
    }

    #[test]
    fn paths_are_relative_to_the_table() {
        let relative = |path, folder| relative(Path::new(path), Path::new(folder));
        assert_eq!(
            relative("/a/runs/x.png", "/a/audits/v1"),
            "../../runs/x.png"
        );
        assert_eq!(relative("runs/x.png", "audits/v1"), "../../runs/x.png");
        assert_eq!(relative("/a/x.png", "/a"), "x.png");
    }
}
