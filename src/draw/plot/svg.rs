//! A plot as SVG.

use std::fmt::Write as _;

use super::drawing::{Anchor, Drawing, Ink, Item, Shape, What};

/// A file of its own, which follows the reader's light or dark theme.
pub fn file(drawing: &Drawing) -> String {
    let style = format!(
        "{}{}@media (prefers-color-scheme: dark) {{\n{}}}\n",
        shapes("svg"),
        colours("", Ink::light),
        colours("", Ink::dark)
    );
    write(drawing, &format!("<style>\n{style}</style>\n"))
}

/// A file on a light ground, without media queries, for a renderer that has no reader.
pub(super) fn light(drawing: &Drawing) -> String {
    let style = format!("{}{}", shapes("svg"), colours("", Ink::light));
    write(drawing, &format!("<style>\n{style}</style>\n"))
}

/// A part of a page that has [`style`] among its styles.
pub fn inline(drawing: &Drawing) -> String {
    write(drawing, "")
}

/// The styles of all plots of a page whose root element may have the attribute `data-theme` with `light` or `dark`; without
/// it the plots follow the reader's theme.
pub fn style() -> String {
    format!(
        "{}{}@media (prefers-color-scheme: dark) {{\n{}}}\n{}",
        shapes("svg.plot"),
        colours("svg.plot ", Ink::light),
        colours(":root:not([data-theme=light]) svg.plot ", Ink::dark),
        colours(":root[data-theme=dark] svg.plot ", Ink::dark)
    )
}

fn shapes(svg: &str) -> String {
    format!(
        "{svg} {{ font-family: system-ui, \"DejaVu Sans\", sans-serif; }}\n\
         {svg} path {{ stroke-linejoin: round; }}\n"
    )
}

fn colours(scope: &str, of: fn(Ink) -> [u8; 3]) -> String {
    let mut style = String::new();
    for ink in Ink::all() {
        let (class, [red, green, blue]) = (ink.class(), of(ink));
        let colour = format!("#{red:02x}{green:02x}{blue:02x}");
        // Writing into a string cannot fail.
        let _ = writeln!(
            style,
            "{scope}.f-{class} {{ fill: {colour}; }} {scope}.s-{class} {{ stroke: {colour}; fill: none; }}"
        );
    }
    style
}

fn write(drawing: &Drawing, style: &str) -> String {
    let (width, height) = (drawing.width, drawing.height);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{}\">\n{style}<rect class=\"f-ground\" width=\"{width}\" height=\"{height}\"/>\n",
        escape(&drawing.title)
    );
    for item in &drawing.items {
        element(&mut svg, item);
    }
    svg.push_str("</svg>\n");
    svg
}

fn element(svg: &mut String, item: &Item) {
    let class = item.ink.class();
    let (name, attributes, content) = match &item.what {
        What::Line {
            points,
            width,
            dashes,
        } => {
            let mut attributes = format!(
                "class=\"s-{class}\" stroke-width=\"{width}\" d=\"{}\"",
                path(points, false)
            );
            if !dashes.is_empty() {
                let lengths: Vec<String> = dashes.iter().map(f32::to_string).collect();
                attributes += &format!(" stroke-dasharray=\"{}\"", lengths.join(" "));
            }
            ("path", attributes, String::new())
        }
        What::Area { points, opacity } => {
            let mut attributes = format!("class=\"f-{class}\" d=\"{}\"", path(points, true));
            if *opacity < 1.0 {
                attributes += &format!(" fill-opacity=\"{opacity}\"");
            }
            ("path", attributes, String::new())
        }
        What::Mark {
            at: (x, y),
            shape: Shape::Circle,
            radius,
        } => {
            let attributes =
                format!("class=\"f-{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"");
            ("circle", attributes, String::new())
        }
        What::Mark { at, shape, radius } => {
            let corners = path(&shape.corners(*at, *radius), true);
            (
                "path",
                format!("class=\"f-{class}\" d=\"{corners}\""),
                String::new(),
            )
        }
        What::Text {
            at: (x, y),
            text,
            size,
            anchor,
            turned,
        } => {
            let mut attributes = format!("class=\"f-{class}\" font-size=\"{size}\"");
            match anchor {
                Anchor::Start => {}
                Anchor::Middle => attributes += " text-anchor=\"middle\"",
                Anchor::End => attributes += " text-anchor=\"end\"",
            }
            attributes += &match turned {
                false => format!(" x=\"{x:.1}\" y=\"{y:.1}\""),
                true => format!(" transform=\"translate({x:.1} {y:.1}) rotate(-90)\""),
            };
            ("text", attributes, escape(text))
        }
    };
    let tip = match &item.tip {
        Some(tip) => format!("<title>{}</title>", escape(tip)),
        None => String::new(),
    };
    // Writing into a string cannot fail.
    let _ = match (content.is_empty(), tip.is_empty()) {
        (true, true) => writeln!(svg, "<{name} {attributes}/>"),
        _ => writeln!(svg, "<{name} {attributes}>{tip}{content}</{name}>"),
    };
}

fn path(points: &[(f64, f64)], closed: bool) -> String {
    let mut path = String::new();
    let mut last = None;
    for (x, y) in points {
        let to = (format!("{x:.1}"), format!("{y:.1}"));
        // Writing into a string cannot fail.
        let _ = match &last {
            None => write!(path, "M{} {}", to.0, to.1),
            Some(last) if *last == to => Ok(()),
            Some((x, _)) if *x == to.0 => write!(path, "V{}", to.1),
            Some((_, y)) if *y == to.1 => write!(path, "H{}", to.0),
            Some(_) => write!(path, "L{} {}", to.0, to.1),
        };
        last = Some(to);
    }
    if closed {
        path.push('Z');
    }
    path
}

/// Text that cannot be taken for markup.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // XML has no other control characters, and not these two.
            '\t' | '\n' => safe.push(letter),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            _ if letter.is_control() => safe.push('\u{fffd}'),
            _ => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_stays_text() {
        let mut drawing = Drawing::new(10.0, 10.0, "a \"b\" & <c>");
        drawing.text(
            (1.0, 2.0),
            "</svg><script>\u{1}",
            12.0,
            Anchor::End,
            Ink::Text,
        );
        drawing.tip("<b>");
        let svg = file(&drawing);
        assert!(!svg.contains("<script>") && !svg.contains("<b>") && !svg.contains('\u{1}'));
        assert!(svg.contains("aria-label=\"a &quot;b&quot; &amp; &lt;c&gt;\""));
        assert!(svg.contains("<title>&lt;b&gt;</title>&lt;/svg&gt;"));
        assert!(!inline(&drawing).contains("<style>"));
    }

    #[test]
    fn paths_are_short() {
        let points = [(0.0, 0.0), (4.0, 0.0), (4.0, 0.01), (4.0, 2.5), (5.0, 3.0)];
        assert_eq!(path(&points, false), "M0.0 0.0H4.0V2.5L5.0 3.0");
        assert_eq!(path(&points[..2], true), "M0.0 0.0H4.0Z");
    }

    #[test]
    fn every_ink_has_both_colours() {
        let style = style();
        for ink in Ink::all() {
            assert_eq!(style.matches(&format!(".f-{} ", ink.class())).count(), 3);
        }
    }
}
