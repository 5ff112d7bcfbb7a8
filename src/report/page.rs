//! The page: one HTML file with its styles, its script and its data, that asks for nothing but the pictures.

mod overview;
mod parts;

use super::bootstrap::Rates;
use super::figures::Figure;
use super::gallery;
use super::model::Report;
use super::pictures::Addresses;
use super::published::{self, Beside};
use super::tables::Titled;
use prepose_draw::plot::svg;

const PAGE: &str = include_str!("page/page.html");
const BESIDE: &str = include_str!("page/beside.html");
const STYLES: [&str; 3] = [
    include_str!("page/page.css"),
    include_str!("page/gallery.css"),
    include_str!("page/detail.css"),
];
const DOM: &str = include_str!("page/dom.js");
const TABLES: &str = include_str!("page/tables.js");
const THEME: &str = include_str!("page/theme.js");
/// In the order in which they need each other.
const SCRIPTS: [&str; 9] = [
    DOM,
    include_str!("page/data.js"),
    include_str!("page/overlay.js"),
    include_str!("page/filter.js"),
    include_str!("page/grid.js"),
    include_str!("page/detail.js"),
    TABLES,
    THEME,
    include_str!("page/main.js"),
];

/// What a report's page shows besides the pictures.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    /// At its top.
    pub title: &'a str,
    /// All tables.
    pub tables: &'a [Titled],
    /// All plots.
    pub figures: &'a [Figure],
    /// What a reader should know.
    pub notes: &'a [String],
    /// What lies next to it, with a link.
    pub beside: Option<&'a Beside>,
}

/// The page of a report. `rates` are those of each method's pictures.
pub fn page(
    report: &Report,
    parts: &Parts,
    addresses: &Addresses,
    rates: &[Option<Rates>],
) -> String {
    let Parts {
        title,
        tables,
        figures,
        notes,
        beside,
    } = *parts;
    let link = beside.map(|beside| {
        let name = published::NAME;
        format!(
            "<p class=\"beside\"><a href=\"{name}.html\">{}</a></p>",
            svg::escape(beside.title)
        )
    });
    // Inside a script element, `</` and `<!--` would not be text.
    let data = gallery::data(report, addresses)
        .to_string()
        .replace('<', "\\u003c");
    let values = [
        ("TITLE", svg::escape(title)),
        ("STYLE", STYLES.join("\n") + &svg::style()),
        ("OVERVIEW", overview::html(report, notes, rates)),
        ("SETTINGS", overview::settings(report)),
        (
            "TABLES",
            link.into_iter()
                .chain(tables.iter().map(parts::table))
                .collect(),
        ),
        ("PLOTS", figures.iter().map(parts::figure).collect()),
        ("DATA", data),
        ("SCRIPT", SCRIPTS.join("\n")),
    ];
    fill(PAGE, &values)
}

/// The page of the paper's tables with the run's, a file of its own that lies next to the report.
pub fn beside(beside: &Beside) -> String {
    let notes = beside.notes.iter();
    let values = [
        ("TITLE", svg::escape(beside.title)),
        ("STYLE", STYLES[0].to_owned() + &svg::style()),
        ("NAME", published::NAME.to_owned()),
        (
            "NOTES",
            notes
                .map(|note| format!("<p>{}</p>\n", svg::escape(note)))
                .collect(),
        ),
        ("TABLES", beside.tables.iter().map(parts::table).collect()),
        ("SCRIPT", [DOM, TABLES, THEME].join("\n")),
    ];
    fill(BESIDE, &values)
}

/// Puts values where their names stand in double braces; values are not looked into.
fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut text = String::with_capacity(values.iter().map(|(_, value)| value.len()).sum());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        let Some((name, after)) = after.split_once("}}") else {
            rest = after;
            break;
        };
        let value = values.iter().find(|(known, _)| *known == name);
        text.push_str(value.map_or("", |(_, value)| value));
        rest = after;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_looked_into() {
        let values = [("A", "{{B}}".to_owned()), ("B", "b".to_owned())];
        assert_eq!(fill("x {{A}} {{B}} {{C}}.", &values), "x {{B}} b .");
    }

    #[test]
    fn the_page_names_every_part() {
        for name in [
            "TITLE", "STYLE", "OVERVIEW", "TABLES", "PLOTS", "SETTINGS", "DATA", "SCRIPT",
        ] {
            assert!(PAGE.contains(&format!("{{{{{name}}}}}")), "{name}");
        }
        assert!(!SCRIPTS.join("").contains("</script"));
    }
}
