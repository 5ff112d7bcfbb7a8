//! What a run tells while it goes on.

use std::collections::BTreeMap;

use prepose::check::spatialbench::Counts;
use prepose::suite::run::Watcher;
use prepose::suite::sample::Sample;
use serde_json::json;

use crate::cli::progress::Progress;

/// Counts verdicts, on a bar, in lines, or as JSON.
pub struct RunProgress {
    progress: Option<Progress>,
    quiet: bool,
    json: bool,
    counts: Counts,
    objects: (usize, usize),
}

impl RunProgress {
    pub fn new(quiet: bool, json: bool) -> Self {
        Self {
            progress: None,
            quiet,
            json,
            counts: Counts::default(),
            objects: (0, 0),
        }
    }

    pub fn end(&self) {
        if let Some(progress) = &self.progress {
            progress.finish();
        }
    }

    /// What was seen so far.
    fn tally(&self) -> String {
        let Counts {
            pass,
            fail,
            undecidable,
        } = self.counts;
        match (self.counts.total(), self.objects) {
            (0, (_, 0)) => String::new(),
            (0, (found, objects)) => format!("{found} of {objects} objects found"),
            _ => format!("{pass} PASS {fail} FAIL {undecidable} UNDECIDABLE"),
        }
    }
}

impl Watcher for RunProgress {
    fn begins(&mut self, pending: usize, total: usize) {
        if pending < total && !self.quiet && !self.json {
            let done = total - pending;
            eprintln!("going on: {done} of {total} pictures are there already");
        }
        let quiet = self.quiet || self.json;
        self.progress = Some(Progress::new(pending as u64, "pictures", quiet));
    }

    fn finished(&mut self, sample: &Sample) {
        let verdicts = sample.records.iter().map(|record| record.verdict_raw);
        let new = Counts::of(verdicts.clone());
        self.counts.pass += new.pass;
        self.counts.fail += new.fail;
        self.counts.undecidable += new.undecidable;
        if let Some(found) = sample.scores.found {
            self.objects.0 += found;
            self.objects.1 += sample.scores.objects;
        }
        let tally = self.tally();
        let Some(progress) = &mut self.progress else {
            return;
        };
        if self.json {
            let line = json!({
                "sample_id": sample.manifest.sample_id,
                "method": sample.manifest.run_id,
                "prompt": sample.manifest.prompt,
                "seed": sample.scores.seed,
                "verdicts": verdicts.map(|verdict| verdict.as_str()).collect::<Vec<_>>(),
                "found": sample.scores.found,
                "objects": sample.scores.objects,
                "seconds": sample.scores.seconds,
            });
            // A reader that went away does not end the run.
            let _ = progress.println(&line.to_string());
        }
        progress.message(tally);
        progress.advance(1);
    }
}

/// What each method came to, for people: a line each.
pub fn summary(methods: &[(String, Totals)]) -> String {
    let width = methods
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for (name, totals) in methods {
        let Totals {
            pictures,
            counts,
            found,
            objects,
            seconds,
            reasons,
        } = totals;
        text += &format!("{name:<width$}  {pictures:>6} pictures");
        if counts.total() > 0 {
            text += &format!(
                "  PASS {:>5.1} %  FAIL {:>5.1} %  UNDECIDABLE {:>5.1} %",
                100.0 * counts.pass_rate(),
                100.0 * (counts.coverage() - counts.pass_rate()),
                100.0 * counts.undecidable_rate()
            );
        }
        if *objects > 0 {
            let percent = 100.0 * *found as f64 / *objects as f64;
            text += &format!("  objects {percent:>5.1} %");
        }
        if *pictures > 0 {
            text += &format!("  {:.2} s each", seconds / *pictures as f64);
        }
        let most = reasons.iter().max_by_key(|(_, count)| **count);
        if let Some((reason, count)) = most {
            text += &format!("  ({reason} {count})");
        }
        text.push('\n');
    }
    text
}

/// What a method came to.
#[derive(Default)]
pub struct Totals {
    pub pictures: usize,
    pub counts: Counts,
    pub found: usize,
    pub objects: usize,
    pub seconds: f64,
    pub reasons: BTreeMap<String, usize>,
}

impl Totals {
    pub fn add(&mut self, sample: &Sample) {
        self.pictures += 1;
        self.seconds += sample.scores.seconds;
        if let Some(found) = sample.scores.found {
            self.found += found;
            self.objects += sample.scores.objects;
        }
        for record in &sample.records {
            let one = Counts::of([record.verdict_raw]);
            self.counts.pass += one.pass;
            self.counts.fail += one.fail;
            self.counts.undecidable += one.undecidable;
            if let Some(reason) = &record.verdict_reason
                && one.undecidable == 1
            {
                let name = reason.split([':', '(', ' ']).next().unwrap_or_default();
                *self.reasons.entry(name.to_string()).or_default() += 1;
            }
        }
    }
}
