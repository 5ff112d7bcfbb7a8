//! Tables and plots as HTML.

use std::fmt::Write as _;

use crate::figures::Figure;
use crate::tables::Titled;
use prepose_draw::plot::svg::{escape, inline};
use prepose_draw::table::Cell;

/// A table whose head sorts it.
pub(super) fn table(titled: &Titled) -> String {
    let Titled { title, note, table } = titled;
    let mut html = format!(
        "<figure class=\"table\" id=\"table-{name}\"><figcaption><h3>{title}</h3><p>{}</p>\
         <a href=\"tables/{name}.csv\" class=\"file\">{name}.csv</a></figcaption>\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table><thead><tr>",
        escape(note),
        name = table.name,
    );
    for column in &table.columns {
        // Writing into a string cannot fail.
        let _ = write!(
            html,
            "<th scope=\"col\"><button type=\"button\">{}</button></th>",
            escape(column)
        );
    }
    html.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        html.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            let text = escape(&cell.text());
            let _ = match cell {
                Cell::Name(_) if index == 0 => write!(html, "<th scope=\"row\">{text}</th>"),
                Cell::Name(_) => write!(html, "<td>{text}</td>"),
                _ => write!(html, "<td class=\"number\">{text}</td>"),
            };
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div></figure>\n");
    html
}

/// A plot with links to its files.
pub(super) fn figure(figure: &Figure) -> String {
    let Figure {
        name,
        caption,
        drawing,
        ..
    } = figure;
    format!(
        "<figure class=\"chart\" id=\"plot-{name}\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">{}</div><figcaption><p>{}</p>\
         <a href=\"plots/{name}.svg\" class=\"file\">SVG</a> <a href=\"plots/{name}.png\" class=\"file\">PNG</a></figcaption></figure>\n",
        escape(&drawing.title),
        inline(drawing),
        escape(caption),
    )
}
