//! What a run tells while it goes on, and at its end.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use prepose::check::spatialbench::record::relation_name;
use prepose::check::spatialbench::{Counts, Record, Verdict};
use prepose::sources::Refusal;
use prepose::suite::run::Watcher;
use prepose::suite::sample::Sample;
use serde_json::{Value, json};

use crate::cli::colour;
use crate::cli::input::count;
use crate::cli::progress::Progress;

/// Counts verdicts, on a bar, in lines, or as JSON.
pub struct RunProgress {
    /// The run's folder.
    location: String,
    progress: Option<Progress>,
    quiet: bool,
    json: bool,
    counts: Counts,
    objects: (usize, usize),
}

impl RunProgress {
    pub fn new(location: String, quiet: bool, json: bool) -> Self {
        Self {
            location,
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
            eprintln!("going on: {done} of {total} pictures are already there");
        }
        let quiet = self.quiet || self.json;
        self.progress = Some(Progress::new(pending as u64, "pictures", quiet));
    }

    fn finished(&mut self, sample: &Sample) {
        add(&mut self.counts, &sample.records);
        if let Some(found) = sample.scores.found {
            self.objects.0 += found;
            self.objects.1 += sample.scores.objects;
        }
        let tally = self.tally();
        let Some(progress) = &mut self.progress else {
            return;
        };
        if self.json {
            // A reader that went away does not end the run.
            let line = line(&self.location, sample).to_string();
            let _ = progress.println(&prepose_untrusted::escaped_json(&line));
        }
        progress.message(tally);
        progress.advance(1);
    }

    fn refused(&mut self, sample_id: &str, refusal: &Refusal) {
        let Some(progress) = &mut self.progress else {
            return;
        };
        if self.json {
            let Refusal { code, message } = refusal;
            let line =
                json!({"sample_id": sample_id, "refused": code, "message": message}).to_string();
            let _ = progress.println(&prepose_untrusted::escaped_json(&line));
        }
        progress.advance(1);
    }
}

fn add(counts: &mut Counts, records: &[Record]) {
    let new = Counts::of(records.iter().map(|record| record.verdict_raw));
    counts.pass += new.pass;
    counts.fail += new.fail;
    counts.undecidable += new.undecidable;
}

/// What is known of a picture, for programs. The verdict is that of the picture's worst relation; all of them are there
/// if there are several.
fn line(location: &str, sample: &Sample) -> Value {
    let Sample {
        manifest,
        records,
        scores,
        ..
    } = sample;
    let worst = records
        .iter()
        .min_by_key(|record| match record.verdict_raw {
            Verdict::Fail => 0,
            Verdict::Undecidable => 1,
            Verdict::Pass => 2,
        });
    let mut line = json!({
        "path": format!("{location}/{}/{}", manifest.run_id, manifest.image_path),
        "prompt": manifest.prompt,
        "verdict": worst.map(|record| record.verdict_raw.as_str()),
        "reason": worst.and_then(|record| record.verdict_reason.as_ref()),
        "confidence": worst.map(|record| record.conf),
        "sample_id": manifest.sample_id,
        "method": manifest.run_id,
        "seed": scores.seed,
        "found": scores.found,
        "objects": scores.objects,
        "seconds": scores.seconds,
    });
    if records.len() > 1 {
        let relation = |record: &Record| {
            json!({
                "relation": relation_name(record.relation),
                "object_a": record.object_a,
                "object_b": record.object_b,
                "verdict": record.verdict_raw.as_str(),
                "reason": record.verdict_reason,
                "confidence": record.conf,
            })
        };
        line["relations"] = records.iter().map(relation).collect();
    }
    line
}

/// What each method came to, for people.
pub fn summary(methods: &[(String, Totals)]) -> String {
    let width = methods.iter().map(|(name, _)| name.len()).max();
    let width = width.unwrap_or(0);
    let mut text = String::new();
    for (name, totals) in methods {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{name:<width$}  {}", totals.line());
        for more in totals.more() {
            let _ = writeln!(text, "{:width$}  {more}", "");
        }
    }
    text
}

/// What a method came to.
pub struct Totals {
    /// Whether somebody looked at the pictures.
    checked: bool,
    /// Pictures that the run is to have.
    planned: usize,
    /// Pictures that their source refused to make.
    refused: usize,
    pictures: usize,
    counts: Counts,
    found: usize,
    objects: usize,
    seconds: f64,
    reasons: BTreeMap<String, usize>,
    /// Pictures whose relation was not decided at all.
    undecided: usize,
    /// Pictures that were scored in depth, the sum of their PSE and that of their T2I-CompBench scores.
    in_depth: (usize, f64, f64),
    /// The width and height that were asked for of a source.
    pub asked_size: Option<[u32; 2]>,
    /// Pictures of another size, by their width and height.
    other_sizes: BTreeMap<(usize, usize), usize>,
}

impl Totals {
    pub fn new(checked: bool, planned: usize, refused: usize) -> Self {
        Self {
            checked,
            planned,
            refused,
            pictures: 0,
            counts: Counts::default(),
            found: 0,
            objects: 0,
            seconds: 0.0,
            reasons: BTreeMap::new(),
            undecided: 0,
            in_depth: (0, 0.0, 0.0),
            asked_size: None,
            other_sizes: BTreeMap::new(),
        }
    }

    pub fn add(&mut self, sample: &Sample) {
        self.pictures += 1;
        self.seconds += sample.scores.seconds;
        if let Some(found) = sample.scores.found {
            self.found += found;
            self.objects += sample.scores.objects;
        }
        if self.checked && sample.records.is_empty() && sample.manifest.relation.is_some() {
            self.undecided += 1;
        }
        if let (Some(pse), Some(t2i)) = (sample.scores.pse_3d, sample.scores.t2i_3d) {
            let (pictures, pse_sum, t2i_sum) = self.in_depth;
            self.in_depth = (pictures + 1, pse_sum + pse, t2i_sum + t2i);
        }
        let (width, height) = (
            sample.manifest.gen_params.width,
            sample.manifest.gen_params.height,
        );
        let asked = self.asked_size.map(|size| size.map(|side| side as usize));
        if asked.is_some_and(|asked| asked != [width, height]) {
            *self.other_sizes.entry((width, height)).or_default() += 1;
        }
        add(&mut self.counts, &sample.records);
        for record in &sample.records {
            if let (Verdict::Undecidable, Some(reason)) =
                (record.verdict_raw, &record.verdict_reason)
            {
                let name = reason.split([':', '(', ' ']).next().unwrap_or_default();
                *self.reasons.entry(name.to_string()).or_default() += 1;
            }
        }
    }

    fn line(&self) -> String {
        let mut text = match self.pictures < self.planned {
            true => format!("{} of {} pictures", self.pictures, self.planned),
            false => count(self.pictures, "picture"),
        };
        let decided = self.counts.total();
        if decided > 0 {
            if decided != self.pictures {
                let _ = write!(text, ", {decided} relations");
            }
            let _ = write!(
                text,
                "  {} {:.1} %  {} {:.1} %  {} {:.1} %",
                colour::verdict("PASS"),
                100.0 * self.counts.pass_rate(),
                colour::verdict("FAIL"),
                100.0 * (self.counts.coverage() - self.counts.pass_rate()),
                colour::verdict("UNDECIDABLE"),
                100.0 * self.counts.undecidable_rate()
            );
        }
        if self.objects > 0 {
            let percent = 100.0 * self.found as f64 / self.objects as f64;
            let _ = write!(text, "  objects {percent:.1} %");
        }
        if self.pictures > 0 {
            let _ = write!(text, "  {:.2} s each", self.seconds / self.pictures as f64);
        }
        text
    }

    /// Why there is no verdict: the reasons, those that occur most first.
    fn more(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut reasons: Vec<_> = self.reasons.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        if !reasons.is_empty() {
            let each = reasons
                .iter()
                .map(|(reason, count)| format!("{reason} {count}"));
            lines.push(format!(
                "undecidable: {}",
                each.collect::<Vec<_>>().join(", ")
            ));
        }
        if self.refused > 0 {
            lines.push(format!(
                "refused by the source, and left out of all figures: {}",
                count(self.refused, "picture")
            ));
        }
        if let (Some([width, height]), false) = (self.asked_size, self.other_sizes.is_empty()) {
            let each = self
                .other_sizes
                .iter()
                .map(|((width, height), count)| format!("{width}x{height} {count}"));
            lines.push(format!(
                "not {width}x{height}, which was asked for: {} ({})",
                count(self.other_sizes.values().sum(), "picture"),
                each.collect::<Vec<_>>().join(", ")
            ));
        }
        let (pictures, pse, t2i) = self.in_depth;
        if self.undecided > 0 {
            let way_out = match pictures {
                0 => " (--depth does, with a Depth Anything)",
                _ => "",
            };
            lines.push(format!(
                "no verdict on {}: boxes do not show what is in front of or behind something{way_out}",
                self.undecided
            ));
        }
        if pictures > 0 {
            let mean = |sum: f64| sum / pictures as f64;
            lines.push(format!(
                "in depth, {}: PSE {:.3}, T2I-CompBench {:.3}",
                count(pictures, "picture"),
                mean(pse),
                mean(t2i)
            ));
        }
        lines
    }
}
