//! What a report is of, and where it comes from, as HTML.

use std::fmt::Write as _;

use serde_json::Value;

use crate::bootstrap::Rates;
use crate::model::{Method, Report, RunInfo};
use prepose_check::spatialbench::Counts;
use prepose_draw::plot::svg::escape;

/// More lines of settings than this are only in the raw file below them.
const SETTINGS: usize = 40;

/// What the report is of; `rates` are those of each method's pictures.
pub(super) fn html(report: &Report, notes: &[String], rates: &[Option<Rates>]) -> String {
    let mut html = facts(report);
    let unfinished: Vec<&Method> = report.methods.iter().filter(|m| !m.is_complete()).collect();
    if !unfinished.is_empty() {
        let each: Vec<String> = unfinished
            .iter()
            .map(|method| {
                let planned = method.planned.unwrap_or_default();
                format!(
                    "{} {} of {planned}",
                    escape(&method.name),
                    method.pictures.len()
                )
            })
            .collect();
        // Writing into a string cannot fail.
        let _ = write!(
            html,
            "<p class=\"notice\" role=\"note\"><b>Not finished.</b> Everything here is of the pictures made so far: {}.</p>",
            each.join(", ")
        );
    }
    for note in notes {
        let _ = write!(
            html,
            "<p class=\"notice\" role=\"note\">{}</p>",
            escape(note)
        );
    }
    html.push_str("<div class=\"methods\">");
    let methods = report.methods.iter().zip(rates);
    html.extend(methods.map(|(one, rates)| method(one, rates.as_ref())));
    html.push_str("</div>");
    if rates.iter().any(Option::is_some) {
        html.push_str(LEGEND);
    }
    html
}

/// What the bars' colours and the brackets mean.
const LEGEND: &str = "<p class=\"legend\"><span><i class=\"pass\"></i>pass</span> <span><i class=\"fail\"></i>fail</span> \
    <span><i class=\"undecidable\"></i>undecidable</span> <span>[low, high]: 95 % bootstrap interval, prompts drawn again</span></p>";

/// Where the runs are, how they were made, and what was written when they ran.
pub(super) fn settings(report: &Report) -> String {
    report.runs.iter().map(run).collect()
}

/// What so many things are called.
fn named<'a>(count: usize, one: &'a str, several: &'a str) -> &'a str {
    if count == 1 { one } else { several }
}

/// The numbers at the top.
fn facts(report: &Report) -> String {
    let pictures = report.pictures();
    let mut prompts: Vec<usize> = (report.methods.iter())
        .flat_map(|method| method.pictures.iter().map(|picture| picture.prompt))
        .collect();
    prompts.sort_unstable();
    prompts.dedup();
    let checked: usize = (report.methods.iter())
        .map(|method| {
            method
                .pictures
                .iter()
                .filter(|p| !p.records.is_empty())
                .count()
        })
        .sum();
    let mut facts = vec![
        (pictures, named(pictures, "picture", "pictures")),
        (
            report.methods.len(),
            named(report.methods.len(), "method", "methods"),
        ),
        (prompts.len(), named(prompts.len(), "prompt", "prompts")),
        (checked, "checked"),
    ];
    let refused = report.refused();
    if refused > 0 {
        facts.push((refused, "refused"));
    }
    let labelled = (report.methods.iter())
        .flat_map(|method| &method.pictures)
        .filter(|picture| !picture.labels.is_empty())
        .count();
    if labelled > 0 {
        facts.push((labelled, "labelled by people"));
    }
    let mut html = String::from("<dl class=\"facts\">");
    for (number, what) in facts {
        let _ = write!(
            html,
            "<div><dt>{what}</dt><dd>{}</dd></div>",
            thousands(number)
        );
    }
    html + "</dl>"
}

/// 12,345
fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A method's name above a bar of its verdicts.
fn method(method: &Method, rates: Option<&Rates>) -> String {
    let name = escape(&method.name);
    let pictures = method.pictures.len();
    let refused = match method.refused.len() {
        0 => String::new(),
        refused => format!(", {} more refused by the source", thousands(refused)),
    };
    let Some(rates) = rates else {
        return format!(
            "<article><h3>{name}</h3><p>{} {}, none checked{refused}</p></article>",
            thousands(pictures),
            named(pictures, "picture", "pictures")
        );
    };
    let counts = Counts::of(
        method
            .pictures
            .iter()
            .filter_map(|picture| method.verdict(picture).map(|(verdict, _)| verdict)),
    );
    let part = |class: &str, count: usize, what: &str| match count {
        0 => String::new(),
        _ => format!(
            "<i class=\"{class}\" style=\"flex-grow:{count}\" title=\"{count} {what}\"></i>"
        ),
    };
    format!(
        "<article><h3>{name}</h3><div class=\"bar\" role=\"img\" aria-label=\"{} pass, {} fail, {} undecidable\">{}{}{}</div>\
         <p><b>{:.1} %</b> pass [{:.1}, {:.1}]<br>{:.1} % decided, {} {}{refused}</p></article>",
        counts.pass,
        counts.fail,
        counts.undecidable,
        part("pass", counts.pass, "pass"),
        part("fail", counts.fail, "fail"),
        part("undecidable", counts.undecidable, "undecidable"),
        100.0 * rates.pass_rate.value,
        100.0 * rates.pass_rate.low,
        100.0 * rates.pass_rate.high,
        100.0 * rates.coverage.value,
        thousands(pictures),
        named(pictures, "picture", "pictures"),
    )
}

/// Where a run is, its settings, and what was written when it ran.
fn run(run: &RunInfo) -> String {
    let mut html = format!(
        "<section class=\"run\"><h3>{}</h3><p class=\"where\">{}</p>",
        escape(&run.name()),
        run.locations
            .iter()
            .map(|l| escape(l))
            .collect::<Vec<_>>()
            .join("<br>")
    );
    if let Some(config) = &run.config {
        html += &folded("Settings", config);
    }
    for (index, (name, value)) in run.provenance.iter().enumerate().rev() {
        let title = format!(
            "Provenance {} of {}: {name}",
            index + 1,
            run.provenance.len()
        );
        html += &folded(&title, value);
    }
    html + "</section>\n"
}

/// A JSON object as names and values, and as it is.
fn folded(title: &str, value: &Value) -> String {
    let mut lines = Vec::new();
    flatten("", value, &mut lines);
    let mut html = format!(
        "<details><summary>{}</summary><dl class=\"settings\">",
        escape(title)
    );
    for (name, value) in lines.iter().take(SETTINGS) {
        let _ = write!(
            html,
            "<div><dt>{}</dt><dd>{}</dd></div>",
            escape(name),
            escape(value)
        );
    }
    let raw = serde_json::to_string_pretty(value).unwrap_or_default();
    let _ = write!(
        html,
        "</dl><details><summary>JSON</summary><pre>{}</pre></details></details>",
        escape(&raw)
    );
    html
}

/// Names joined by points with what they stand for; lists of plain values are one value.
fn flatten(at: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    let below = |key: &str| match at {
        "" => key.to_owned(),
        _ => format!("{at}.{key}"),
    };
    match value {
        Value::Null => {}
        Value::Object(fields) => fields
            .iter()
            .for_each(|(key, value)| flatten(&below(key), value, lines)),
        Value::Array(items) => {
            let names: Option<Vec<String>> = items
                .iter()
                .map(|item| match item.get("name").unwrap_or(item) {
                    Value::Object(_) | Value::Array(_) => None,
                    plain => Some(text(plain)),
                })
                .collect();
            match names {
                Some(names) if names.len() <= 16 => lines.push((at.to_owned(), names.join(", "))),
                Some(names) => lines.push((at.to_owned(), format!("{} values", names.len()))),
                None => lines.push((at.to_owned(), format!("{} entries", items.len()))),
            }
        }
        Value::String(text) if text.is_empty() => {}
        plain => lines.push((at.to_owned(), text(plain))),
    }
}

fn text(value: &Value) -> String {
    match value.as_str() {
        // The whole hash is in the JSON below.
        Some(hash) if hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            format!("{}…", &hash[..12])
        }
        Some(text) => text.into(),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_lines() {
        let mut lines = Vec::new();
        let value = serde_json::json!({"suite": {"name": "x"}, "seeds": [0, 1], "methods": [{"name": "a", "guide": {}}], "none": null});
        flatten("", &value, &mut lines);
        let lines: Vec<_> = lines.iter().map(|(a, b)| format!("{a}={b}")).collect();
        assert_eq!(lines, ["suite.name=x", "seeds=0, 1", "methods=a"]);
        assert_eq!(
            [thousands(7), thousands(1234), thousands(1_000_000)],
            ["7", "1,234", "1,000,000"]
        );
    }
}
