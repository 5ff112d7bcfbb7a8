//! The files of a checked run, as SpatialBench-UC's released run folders have them.

use std::path::Path;

use prepose::check::spatialbench::tables::{self, Run, Table};
use prepose::check::spatialbench::{
    Buckets, CheckerConfig, Metrics, Provenance, Record, metrics_json, write_records,
};
use prepose::output::files::{prepare_folder, write_atomically};

/// The folder of the tables, within the output's.
const TABLES: &str = "tables";

/// What is known of a run once all of it is decided.
pub struct Results {
    pub metrics: Metrics,
    pub tables: Vec<Table>,
    /// The texts of `metrics.json` and `per_sample.jsonl`.
    metrics_file: String,
    records_file: String,
}

impl Results {
    pub fn new(
        records: &[Record],
        buckets: Buckets,
        provenance: &Provenance,
    ) -> serde_json::Result<Self> {
        let metrics = Metrics::of(records, buckets);
        Ok(Self {
            tables: tables::all(&[Run::of(records)]),
            metrics_file: metrics_json(&metrics, provenance)?,
            records_file: write_records(records)?,
            metrics,
        })
    }

    /// What it comes to, for people.
    pub fn summary(&self) -> String {
        let counts = &self.metrics.counts;
        let mut text = format!(
            "{} in all: {} PASS, {} FAIL, {} UNDECIDABLE; coverage {:.4}, pass rate {:.4}, of the decided {:.4}, mean \
             confidence {:.4}",
            counts.total(),
            counts.pass,
            counts.fail,
            counts.undecidable,
            counts.coverage(),
            counts.pass_rate(),
            counts.pass_rate_conditional(),
            self.metrics.mean_confidence
        );
        for (reason, count) in &self.metrics.undecidable_reasons {
            text += &format!("\n  {count:>5} {reason}");
        }
        text
    }

    /// Writes the files into `folder`; the metrics last, so that a folder which has them has everything.
    pub fn write(&self, folder: &Path, config: &CheckerConfig) -> anyhow::Result<()> {
        prepare_folder(folder)?;
        prepare_folder(&folder.join(TABLES))?;
        for table in &self.tables {
            let name = format!("{}.csv", table.name);
            let path = folder.join(TABLES).join(name);
            write_atomically(&path, table.to_csv().as_bytes())?;
        }
        let yaml = config.to_yaml();
        write_atomically(&folder.join("checker_config.yaml"), yaml.as_bytes())?;
        let output = &config.output;
        let (records, metrics) = (&output.results_file, &output.metrics_file);
        write_atomically(&folder.join(records), self.records_file.as_bytes())?;
        write_atomically(&folder.join(metrics), self.metrics_file.as_bytes())?;
        Ok(())
    }
}
