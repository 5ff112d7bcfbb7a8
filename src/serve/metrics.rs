//! What Prometheus reads (text format 0.0.4). Nothing is labelled by prompt or client.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

/// Upper bounds of what is measured in seconds.
const SECONDS: [f64; 12] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0,
];
/// Upper bounds of batches.
const PICTURES: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];

/// Everything that is counted.
#[derive(Default)]
pub struct Metrics(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    /// By name and labels.
    counters: BTreeMap<(&'static str, String), u64>,
    histograms: BTreeMap<&'static str, Histogram>,
}

struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    all: u64,
}

impl Metrics {
    /// One more.
    pub fn count(&self, name: &'static str, labels: String) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counted.counters.entry((name, labels)).or_default() += 1;
    }

    /// So many seconds.
    pub fn seconds(&self, name: &'static str, value: f64) {
        self.observe(name, &SECONDS, value);
    }

    /// A batch of so many pictures.
    pub fn batch(&self, pictures: usize) {
        self.observe("prepose_batch_size", &PICTURES, pictures as f64);
    }

    fn observe(&self, name: &'static str, bounds: &'static [f64], value: f64) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let histogram = counted.histograms.entry(name).or_insert_with(|| Histogram {
            bounds,
            counts: vec![0; bounds.len()],
            sum: 0.0,
            all: 0,
        });
        for (count, bound) in histogram.counts.iter_mut().zip(bounds) {
            *count += u64::from(value <= *bound);
        }
        histogram.sum += value;
        histogram.all += 1;
    }

    /// The mean of a histogram; none before anything was measured.
    pub fn mean(&self, name: &str) -> Option<f64> {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let histogram = counted.histograms.get(name)?;
        Some(histogram.sum / histogram.all as f64)
    }

    /// The text, with what is measured at this moment.
    pub fn text(&self, gauges: &[(&str, u64)]) -> String {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        let mut last = "";
        for ((name, labels), count) in &counted.counters {
            if *name != last {
                let _ = writeln!(text, "# TYPE {name} counter");
                last = name;
            }
            let _ = writeln!(text, "{name}{{{labels}}} {count}");
        }
        for (name, histogram) in &counted.histograms {
            let _ = writeln!(text, "# TYPE {name} histogram");
            for (bound, count) in histogram.bounds.iter().zip(&histogram.counts) {
                let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}");
            }
            let Histogram { sum, all, .. } = histogram;
            let _ = writeln!(
                text,
                "{name}_bucket{{le=\"+Inf\"}} {all}\n{name}_sum {sum}\n{name}_count {all}"
            );
        }
        for (name, value) in gauges {
            let _ = writeln!(text, "# TYPE {name} gauge\n{name} {value}");
        }
        text
    }
}

/// Bytes that this process has in memory; none where the system does not tell.
pub fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
