//! The files of a checked run, as SpatialBench-UC's released run folders have them.

use super::metrics::{Buckets, Metrics, Provenance, metrics_json};
use super::record::Record;
use super::tables::{self, Run};

/// The folder of the tables, within that of the records.
pub const TABLES: &str = "tables";

/// The tables of a run as `tables/NAME.csv`, and its `metrics.json` under the name `metrics_file`, which comes last: a
/// folder that has it has everything.
///
/// # Errors
/// A number that JSON does not have.
pub fn summary_files(
    records: &[Record],
    buckets: Buckets,
    provenance: &Provenance,
    metrics_file: &str,
) -> serde_json::Result<Vec<(String, String)>> {
    let tables = tables::all(&[Run::of(records)]).into_iter();
    let mut files: Vec<_> = tables
        .map(|table| (format!("{TABLES}/{}.csv", table.name), table.to_csv()))
        .collect();
    let metrics = Metrics::of(records, buckets);
    files.push((metrics_file.into(), metrics_json(&metrics, provenance)?));
    Ok(files)
}
