//! A sheet as tables for people.

use std::fmt::Write;

use super::{ORDER, Sheet};
use crate::bench::row::{BEST_OF, Outcome, Row, What};

impl Sheet {
    /// The tables.
    pub fn to_markdown(&self) -> String {
        let mut text = String::new();
        heading(self, &mut text);
        speeds(self, &mut text);
        guided(self, &mut text);
        families(self, &mut text);
        problems(self, &mut text);
        text
    }
}

fn heading(sheet: &Sheet, text: &mut String) {
    let machine = &sheet.machine;
    let device = &machine.device;
    let unknown = || "unknown".to_string();
    let gigabytes = |bytes: u64| format!("{:.0} GB of memory", bytes as f64 / 1e9);
    line(
        text,
        &format!("# {} ({}), {}", device.name, device.device, machine.date),
    );
    line(text, "");
    let processor = machine.cpu.clone().unwrap_or_else(unknown);
    let instructions = match machine.instructions.as_str() {
        "" => String::new(),
        known => format!(" up to {known}"),
    };
    let memory = machine.memory_bytes.map_or_else(unknown, gigabytes);
    let commit = machine.git_commit.clone().unwrap_or_else(unknown);
    let facts = [
        (
            "processor",
            format!(
                "{processor}{instructions}, {} cores, {} threads, {memory}",
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
        ("command", format!("`{}`", sheet.command)),
        (
            "time",
            format!("{:.0} s of {:.0} s", sheet.seconds, sheet.budget_seconds),
        ),
    ];
    line(text, "| | |");
    line(text, "| --- | --- |");
    for (name, fact) in facts {
        line(text, &format!("| {name} | {fact} |"));
    }
    line(text, "");
    if sheet.cuts.is_empty() {
        line(text, "Nothing was cut.");
    } else {
        line(text, &format!("When time is short: {ORDER}. Cut:"));
        line(text, "");
        for cut in &sheet.cuts {
            line(text, &format!("- {cut}"));
        }
    }
    line(text, "");
}

fn speeds(sheet: &Sheet, text: &mut String) {
    let shown = |outcome: &&Outcome| {
        let special = matches!(outcome.row.what, What::Guided | What::Families);
        !special && outcome.median().is_some()
    };
    let rows: Vec<_> = sheet.rows.iter().filter(shown).collect();
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
            What::Picture if !row.savings.is_none() => {
                format!("picture, {} steps, {}", row.steps, row.savings)
            }
            What::Picture => format!("picture, {} steps", row.steps),
            What::Search => format!("best of {} by the checker, {} steps", BEST_OF, row.steps),
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
            number(sheet.pictures_per_second(outcome)),
            number(outcome.flop_rate().map(|rate| rate / 1e12)),
            percent(sheet.of_matmul(outcome)),
            mebibytes(outcome.peak_bytes),
        ];
        line(text, &format!("| {} |", columns.join(" | ")));
    }
    line(text, "");
}

fn guided(sheet: &Sheet, text: &mut String) {
    let guided =
        |outcome: &&Outcome| outcome.row.what == What::Guided && outcome.median().is_some();
    let rows: Vec<_> = sheet.rows.iter().filter(guided).collect();
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
        let ratio = sheet.of_plain_step(outcome);
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

fn families(sheet: &Sheet, text: &mut String) {
    let split: Vec<_> = sheet
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

fn problems(sheet: &Sheet, text: &mut String) {
    let failed: Vec<_> = sheet
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
