//! Tables and plots as HTML.

use std::fmt::Write as _;

use crate::figures::Figure;
use crate::tables::Titled;
use prepose_draw::plot::svg::{escape, inline};
use prepose_draw::table::Cell;

/// Longer tables show so many rows at first.
const ROWS: usize = 25;

/// A table whose head sorts it.
pub(super) fn table(titled: &Titled) -> String {
    let Titled { title, note, table } = titled;
    let long = if table.rows.len() > ROWS { " long" } else { "" };
    let mut html = format!(
        "<figure class=\"table{long}\" id=\"table-{name}\"><figcaption><h3>{title}</h3><p>{}</p>\
         <span class=\"files\"><a href=\"tables/{name}.csv\" class=\"file\">CSV</a> \
         <a href=\"tables/{name}.md\" class=\"file\">Markdown</a> <a href=\"tables/{name}.tex\" class=\"file\">LaTeX</a> \
         <button type=\"button\" data-copy=\"markdown\">Copy Markdown</button> \
         <button type=\"button\" data-copy=\"latex\">Copy LaTeX</button></span></figcaption>\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table><thead><tr>",
        escape(note),
        name = table.name,
    );
    for (index, column) in table.columns.iter().enumerate() {
        let class = if table.is_named(index) {
            ""
        } else {
            " class=\"number\""
        };
        // Writing into a string cannot fail.
        let _ = write!(
            html,
            "<th scope=\"col\"{class}><button type=\"button\">{}</button></th>",
            escape(column)
        );
    }
    html.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        html.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            let text = escape(&cell.shown());
            let _ = match cell {
                Cell::Name(_) if index == 0 => write!(html, "<th scope=\"row\">{text}</th>"),
                Cell::Name(_) => write!(html, "<td>{text}</td>"),
                Cell::Empty => write!(html, "<td class=\"number\">{text}</td>"),
                // Sorted by what is not rounded.
                _ => write!(
                    html,
                    "<td class=\"number\" data-value=\"{}\">{text}</td>",
                    cell.text()
                ),
            };
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>");
    if !long.is_empty() {
        let _ = write!(
            html,
            "<button type=\"button\" class=\"whole\" aria-expanded=\"false\">All {} rows</button>",
            table.rows.len()
        );
    }
    html.push_str("</figure>\n");
    html
}

/// A plot with links to its files, in a wide form and in one for a phone's screen.
pub(super) fn figure(figure: &Figure) -> String {
    let Figure {
        name,
        caption,
        drawing,
        narrow,
        ..
    } = figure;
    format!(
        "<figure class=\"chart\" id=\"plot-{name}\"><div class=\"wide\">{}</div><div class=\"narrow\">{}</div><figcaption><p>{}</p>\
         <a href=\"plots/{name}.svg\" class=\"file\">SVG</a> <a href=\"plots/{name}.png\" class=\"file\">PNG</a></figcaption></figure>\n",
        inline(drawing),
        inline(narrow),
        escape(caption),
    )
}
