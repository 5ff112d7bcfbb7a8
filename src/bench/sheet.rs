//! The result of a sheet, for programs and for people.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::machine::Machine;
use super::row::{Outcome, Row, What};

/// What happens when time is short, in this order.
const ORDER: &str = "fewer timed calls, fewer steps of whole pictures, no larger batches, no further types; smaller pictures \
                     where a single call of the UNet takes more than a third of the time that there is";

/// Everything that one run measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sheet {
    /// Where.
    pub machine: Machine,
    /// The command line.
    pub command: String,
    /// What it was to take.
    pub budget_seconds: f64,
    /// What it took.
    pub seconds: f64,
    /// What was left out or made smaller, and why.
    pub cuts: Vec<String>,
    /// What was measured.
    pub rows: Vec<Outcome>,
}

/// The rows of a sheet that is there, to measure the same again.
#[derive(Debug, Deserialize)]
pub struct Plan {
    /// In their order.
    pub rows: Vec<Row>,
}

impl Sheet {
    /// With what follows from the numbers: medians, rates, ratios.
    pub fn to_json(&self) -> Value {
        let mut value = json!(self);
        value["order_of_cuts"] = json!(ORDER);
        if let Some(rows) = value["rows"].as_array_mut() {
            for (row, outcome) in rows.iter_mut().zip(&self.rows) {
                row["median"] = json!(outcome.median());
                row["cpu_median"] = json!(outcome.cpu_median());
                row["spread"] = json!(outcome.spread());
                row["pictures_per_second"] = json!(self.pictures_per_second(outcome));
                row["flop_rate"] = json!(outcome.flop_rate());
                row["of_matmul"] = json!(self.of_matmul(outcome));
                row["of_plain_step"] = json!(self.of_plain_step(outcome));
            }
        }
        value
    }

    fn pictures_per_second(&self, outcome: &Outcome) -> Option<f64> {
        let pictures = match outcome.row.what {
            What::Picture | What::Decode => outcome.row.batch,
            What::Search => super::measure::BEST_OF,
            _ => return None,
        };
        Some(pictures as f64 / outcome.median()?)
    }

    /// The share of the speed of a large product of matrices in the same type that a row reaches.
    fn of_matmul(&self, outcome: &Outcome) -> Option<f64> {
        let mut products = self
            .rows
            .iter()
            .filter(|other| other.row.what == What::Matmul && other.row.dtype == outcome.row.dtype);
        let ceiling = products.find_map(Outcome::flop_rate)?;
        (outcome.row.what != What::Matmul)
            .then(|| outcome.flop_rate().map(|rate| rate / ceiling))
            .flatten()
    }

    /// A guided step over the plain one.
    fn of_plain_step(&self, outcome: &Outcome) -> Option<f64> {
        let row = &outcome.row;
        if row.what != What::Guided {
            return None;
        }
        let mut plain = self.rows.iter().filter(|other| {
            let other = &other.row;
            let like = [&other.model, &other.checkpoint] == [&row.model, &row.checkpoint];
            let sizes = (other.size, other.batch) == (row.size, row.batch);
            other.what == What::Step && other.dtype == row.dtype && like && sizes
        });
        Some(outcome.median()? / plain.find_map(Outcome::median)?)
    }

    /// The tables.
    pub fn to_markdown(&self) -> String {
        let mut text = String::new();
        self.heading(&mut text);
        self.speeds(&mut text);
        self.guided(&mut text);
        self.families(&mut text);
        self.problems(&mut text);
        text
    }

    fn heading(&self, text: &mut String) {
        let machine = &self.machine;
        let device = &machine.device;
        let unknown = || "unknown".to_string();
        let gigabytes = |bytes: u64| format!("{:.0} GB of memory", bytes as f64 / 1e9);
        line(
            text,
            &format!("# {} ({}), {}", device.name, device.device, machine.date),
        );
        line(text, "");
        let processor = machine.cpu.clone().unwrap_or_else(unknown);
        let memory = machine.memory_bytes.map_or_else(unknown, gigabytes);
        let commit = machine.git_commit.clone().unwrap_or_else(unknown);
        let facts = [
            (
                "processor",
                format!(
                    "{processor}, {} cores, {} threads, {memory}",
                    machine.cores, machine.threads
                ),
            ),
            (
                "driver",
                machine
                    .driver
                    .clone()
                    .unwrap_or_else(|| "none or unknown".into()),
            ),
            ("system", machine.system.clone()),
            (
                "prepose",
                format!(
                    "{} ({commit}), features: {}",
                    machine.version,
                    machine.features.join(", ")
                ),
            ),
            (
                "other work",
                match machine.load_average {
                    Some(load) => format!("load average {load:.1} before the first row"),
                    None => unknown(),
                },
            ),
            ("command", format!("`{}`", self.command)),
            (
                "time",
                format!("{:.0} s of {:.0} s", self.seconds, self.budget_seconds),
            ),
        ];
        line(text, "| | |");
        line(text, "| --- | --- |");
        for (name, fact) in facts {
            line(text, &format!("| {name} | {fact} |"));
        }
        line(text, "");
        if self.cuts.is_empty() {
            line(text, "Nothing was cut.");
        } else {
            line(text, &format!("When time is short: {ORDER}. Cut:"));
            line(text, "");
            for cut in &self.cuts {
                line(text, &format!("- {cut}"));
            }
        }
        line(text, "");
    }

    fn speeds(&self, text: &mut String) {
        let shown = |outcome: &&Outcome| {
            let special = matches!(outcome.row.what, What::Guided | What::Families);
            !special && outcome.median().is_some()
        };
        let rows: Vec<_> = self.rows.iter().filter(shown).collect();
        if rows.is_empty() {
            return;
        }
        line(text, "## Speed and memory");
        line(text, "");
        line(
            text,
            "| what | model | size | type | batch | median | spread | pictures/s | TFLOP/s | of matmul | peak memory |",
        );
        line(
            text,
            "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        );
        for outcome in rows {
            let row = &outcome.row;
            let what = match row.what {
                What::Picture => format!("picture, {} steps", row.steps),
                What::Search => format!(
                    "best of {} by the checker, {} steps",
                    super::measure::BEST_OF,
                    row.steps
                ),
                What::Start => format!("start to picture, {} steps, {}", row.steps, row.variant),
                what => what.name().to_string(),
            };
            let columns = [
                what,
                if row.model.is_empty() {
                    "–".into()
                } else {
                    row.model.clone()
                },
                format!("{}²", row.size),
                dtype(row),
                row.batch.to_string(),
                seconds(outcome.median()),
                percent(outcome.spread()),
                number(self.pictures_per_second(outcome)),
                number(outcome.flop_rate().map(|rate| rate / 1e12)),
                percent(self.of_matmul(outcome)),
                mebibytes(outcome.peak_bytes),
            ];
            line(text, &format!("| {} |", columns.join(" | ")));
        }
        line(text, "");
    }

    fn guided(&self, text: &mut String) {
        let guided =
            |outcome: &&Outcome| outcome.row.what == What::Guided && outcome.median().is_some();
        let rows: Vec<_> = self.rows.iter().filter(guided).collect();
        if rows.is_empty() {
            return;
        }
        line(text, "## Guided steps");
        line(text, "");
        line(
            text,
            "| guidance | model | size | type | batch | median | of a plain step | 10 of 50 steps guided | extra memory |",
        );
        line(
            text,
            "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
        );
        for outcome in rows {
            let row = &outcome.row;
            let ratio = self.of_plain_step(outcome);
            let columns = [
                row.variant.clone(),
                row.model.clone(),
                format!("{}²", row.size),
                dtype(row),
                row.batch.to_string(),
                seconds(outcome.median()),
                ratio.map_or("?".into(), |ratio| format!("{ratio:.2}")),
                ratio.map_or("?".into(), |ratio| {
                    format!("{:+.1} %", 20.0 * (ratio - 1.0))
                }),
                mebibytes(outcome.extra_bytes),
            ];
            line(text, &format!("| {} |", columns.join(" | ")));
        }
        line(text, "");
    }

    fn families(&self, text: &mut String) {
        let split: Vec<_> = self
            .rows
            .iter()
            .filter(|outcome| !outcome.families.is_empty())
            .collect();
        if split.is_empty() {
            return;
        }
        line(text, "## Where a call of the UNet spends its time");
        line(text, "");
        line(
            text,
            "Waiting for the device around every operation; shares, not speeds.",
        );
        line(text, "");
        line(
            text,
            "| model | size | type | batch | family | calls | time | share | TFLOP/s |",
        );
        line(
            text,
            "| --- | ---: | --- | ---: | --- | ---: | ---: | ---: | ---: |",
        );
        for outcome in split {
            let row = &outcome.row;
            let whole: f64 = outcome.families.iter().map(|family| family.seconds).sum();
            for family in &outcome.families {
                let rate = family.flops as f64 / family.seconds / 1e12;
                let columns = [
                    row.model.clone(),
                    format!("{}²", row.size),
                    dtype(row),
                    row.batch.to_string(),
                    family.family.clone(),
                    family.calls.to_string(),
                    seconds(Some(family.seconds)),
                    percent(Some(family.seconds / whole)),
                    number((family.flops > 0).then_some(rate)),
                ];
                line(text, &format!("| {} |", columns.join(" | ")));
            }
        }
        line(text, "");
    }

    fn problems(&self, text: &mut String) {
        let failed: Vec<_> = self
            .rows
            .iter()
            .filter(|outcome| outcome.problem.is_some())
            .collect();
        if failed.is_empty() {
            return;
        }
        line(text, "## What could not be measured");
        line(text, "");
        for outcome in failed {
            let problem = outcome.problem.as_deref().unwrap_or_default();
            line(text, &format!("- {}: {problem}", outcome.row));
        }
        line(text, "");
    }
}

fn line(text: &mut String, line: &str) {
    // A String takes everything.
    let _ = writeln!(text, "{line}");
}

fn dtype(row: &Row) -> String {
    format!("{:?}", row.dtype).to_lowercase()
}

fn seconds(value: Option<f64>) -> String {
    match value {
        None => "–".into(),
        Some(value) if value < 0.1 => format!("{:.2} ms", 1e3 * value),
        Some(value) => format!("{value:.3} s"),
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or("–".into(), |share| format!("{:.0} %", 100.0 * share))
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "–".into(),
        Some(value) if value < 10.0 => format!("{value:.3}"),
        Some(value) => format!("{value:.1}"),
    }
}

fn mebibytes(bytes: Option<u64>) -> String {
    bytes.map_or("?".into(), |bytes| format!("{} MiB", bytes >> 20))
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::machine;
    use super::super::row::FamilyTime;
    use super::super::row::tests::row;
    use super::*;

    fn measured(what: What, seconds: f64, flops: Option<u64>) -> Outcome {
        Outcome {
            seconds: vec![seconds],
            flops,
            peak_bytes: Some(3 << 20),
            ..Outcome::empty(&row(what))
        }
    }

    fn sheet() -> Sheet {
        let mut families = measured(What::Families, 2.0, None);
        let part = |family: &str, seconds, flops| FamilyTime {
            family: family.into(),
            calls: 1,
            seconds,
            flops,
        };
        families.families = vec![
            part("convolution", 1.5, 3_000_000_000_000),
            part("rest", 0.5, 0),
        ];
        let mut guided = measured(What::Guided, 3.0, None);
        guided.row.variant = "pos".into();
        let rows = vec![
            measured(What::Matmul, 1.0, Some(4_000_000_000_000)),
            measured(What::Unet, 2.0, Some(2_000_000_000_000)),
            measured(What::Step, 2.0, None),
            guided,
            families,
            measured(What::Picture, 4.0, None),
            Outcome::failed(&row(What::Decode), "out of memory"),
        ];
        Sheet {
            machine: machine(),
            command: "prepose bench sheet".into(),
            budget_seconds: 480.0,
            seconds: 12.0,
            cuts: vec!["unet: 2 timed calls instead of 5".into()],
            rows,
        }
    }

    #[test]
    fn ratios_are_of_the_right_rows() {
        let json = sheet().to_json();
        let rows = json["rows"].as_array().unwrap();
        assert_eq!(rows[1]["of_matmul"], 0.25);
        assert_eq!(rows[3]["of_plain_step"], 1.5);
        assert_eq!(rows[5]["pictures_per_second"], 0.25);
        assert!(rows[6]["median"].is_null() && rows[6]["problem"] == "out of memory");
        let plan: Plan = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(plan.rows.len(), 7);
        assert_eq!(plan.rows[3].variant, "pos");
        assert_eq!(
            serde_json::from_value::<Sheet>(json).unwrap().rows,
            sheet().rows
        );
    }

    #[test]
    fn tables_have_every_row_once() {
        let text = sheet().to_markdown();
        for part in [
            "| unet | sd15 | 512² | f16 | 1 | 2.000 s | – | – | 1.000 | 25 % | 3 MiB |",
            "| pos | sd15 | 512² | f16 | 1 | 3.000 s | 1.50 | +10.0 % | ? |",
            "| convolution | 1 | 1.500 s | 75 % | 2.000 |",
            "- decode sd15 512², f16, batch 1: out of memory",
            "- unet: 2 timed calls instead of 5",
            "| picture, 20 steps |",
        ] {
            assert_eq!(text.matches(part).count(), 1, "{part}:\n{text}");
        }
    }
}
