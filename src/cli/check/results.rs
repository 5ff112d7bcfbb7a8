//! The files of a checked run, as SpatialBench-UC's released run folders have them.

use std::path::Path;

use prepose::check::spatialbench::results::{TABLES, summary_files};
use prepose::check::spatialbench::{
    Buckets, CheckerConfig, Metrics, Provenance, Record, write_records,
};
use prepose::output::files::{prepare_folder, write_atomically};

/// What is known of a run once all of it is decided.
pub struct Results<'a> {
    pub metrics: Metrics,
    records: &'a [Record],
    buckets: Buckets,
    provenance: Provenance,
}

impl<'a> Results<'a> {
    pub fn new(records: &'a [Record], buckets: Buckets, provenance: Provenance) -> Self {
        Self {
            metrics: Metrics::of(records, buckets),
            records,
            buckets,
            provenance,
        }
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
        let output = &config.output;
        let put = |name: &str, text: &str| write_atomically(&folder.join(name), text.as_bytes());
        put("checker_config.yaml", &config.to_yaml())?;
        put(&output.results_file, &write_records(self.records)?)?;
        let (provenance, name) = (&self.provenance, &output.metrics_file);
        for (name, text) in summary_files(self.records, self.buckets, provenance, name)? {
            put(&name, &text)?;
        }
        Ok(())
    }
}
