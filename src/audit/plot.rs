//! Risk–coverage curves as a picture: SVG that follows the reader's light or dark theme.

use std::fmt::Write as _;

use super::curve::Point;

/// One curve.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// What it is of.
    pub name: &'a str,
    /// Its points, in any order.
    pub points: &'a [Point],
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 52.0;

/// Draws the curves as steps: between two thresholds nothing changes. Points without coverage are left out, as they have
/// no risk. At a few points of the first curve stands their threshold τ.
pub fn risk_coverage(series: &[Series]) -> String {
    let shown: Vec<(&str, Vec<Point>)> = series
        .iter()
        .map(|series| (series.name, by_coverage(series.points)))
        .collect();
    let highest = shown
        .iter()
        .flat_map(|(_, points)| points)
        .fold(0.0f64, |highest, point| highest.max(point.risk));
    let top = [0.05, 0.1, 0.2, 0.5]
        .into_iter()
        .find(|&top| highest <= top)
        .unwrap_or(1.0);
    let x = |coverage: f64| LEFT + coverage * (WIDTH - LEFT - RIGHT);
    let y = |risk: f64| HEIGHT - BOTTOM - risk / top * (HEIGHT - TOP - BOTTOM);

    let mut svg = String::from(HEAD);
    axes(&mut svg, top, x, y);
    for (i, (name, points)) in shown.iter().enumerate() {
        curve(&mut svg, i, points, x, y);
        let at = LEFT + 150.0 * i as f64;
        put(
            &mut svg,
            format_args!("<path class=\"c{i}\" d=\"M{at} 24h20\"/>"),
        );
        let text = escape(name);
        put(
            &mut svg,
            format_args!("<text x=\"{}\" y=\"28\">{text}</text>", at + 28.0),
        );
    }
    if let Some((_, points)) = shown.first() {
        thresholds(&mut svg, points, x, y);
    }
    svg.push_str("</svg>\n");
    svg
}

const HEAD: &str = r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 400" width="640" height="400" role="img" aria-label="Risk against coverage">
<style>
svg { background: #fff; color: #222; font: 13px system-ui, sans-serif; }
text { fill: currentColor; } .soft { fill: #666; }
path { fill: none; stroke-width: 2; stroke-linejoin: round; } .grid, .axis { stroke-width: 1; } .grid { stroke: #ddd; } .axis { stroke: #666; }
.c0 { stroke: #1f5fbf; } .c1 { stroke: #b8590b; } .c2 { stroke: #17693c; } .c3 { stroke: #7a3fa0; }
circle { fill: #1f5fbf; }
@media (prefers-color-scheme: dark) {
  svg { background: #161718; color: #eee; } .soft { fill: #aaa; } .grid { stroke: #333; } .axis { stroke: #888; }
  .c0 { stroke: #8ab8ff; } .c1 { stroke: #ffb066; } .c2 { stroke: #6fd39a; } .c3 { stroke: #cfa3ef; } circle { fill: #8ab8ff; }
}
</style>
"#;

fn axes(svg: &mut String, top: f64, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) {
    let (left, right) = (x(0.0), x(1.0));
    for i in 0..=5u8 {
        let share = f64::from(i) / 5.0;
        let (tick_x, tick_y) = (x(share), y(share * top));
        let risk = (share * top * 1000.0).round() / 1000.0;
        put(
            svg,
            format_args!(
                "<path class=\"{}\" d=\"M{left} {tick_y:.1}H{right}\"/>\
                 <text class=\"soft\" text-anchor=\"end\" x=\"{}\" y=\"{:.1}\">{risk}</text>\
                 <text class=\"soft\" text-anchor=\"middle\" x=\"{tick_x:.1}\" y=\"{}\">{share}</text>",
                if i == 0 { "axis" } else { "grid" },
                left - 8.0,
                tick_y + 4.0,
                HEIGHT - BOTTOM + 20.0,
            ),
        );
    }
    let middle = (left + right) / 2.0;
    put(
        svg,
        format_args!(
            "<text text-anchor=\"middle\" x=\"{middle}\" y=\"{}\">coverage</text>\
             <text text-anchor=\"middle\" transform=\"translate(16 {}) rotate(-90)\">risk (1 − accuracy)</text>",
            HEIGHT - 10.0,
            (TOP + HEIGHT - BOTTOM) / 2.0,
        ),
    );
}

fn curve(
    svg: &mut String,
    i: usize,
    points: &[Point],
    x: impl Fn(f64) -> f64,
    y: impl Fn(f64) -> f64,
) {
    let Some(first) = points.first() else {
        return;
    };
    let mut path = format!("M{:.1} {:.1}", x(first.coverage), y(first.risk));
    for point in points {
        // Writing into a string cannot fail.
        let _ = write!(path, "H{:.1}V{:.1}", x(point.coverage), y(point.risk));
    }
    put(svg, format_args!("<path class=\"c{i}\" d=\"{path}\"/>"));
}

/// τ at five points, from the least to the greatest coverage.
fn thresholds(svg: &mut String, points: &[Point], x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) {
    let Some(last) = points.len().checked_sub(1) else {
        return;
    };
    let mut places: Vec<usize> = (0..=4).map(|quarter| last * quarter / 4).collect();
    places.dedup();
    for point in places.into_iter().map(|i| &points[i]) {
        let (px, py) = (x(point.coverage), y(point.risk));
        put(
            svg,
            format_args!(
                "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3.5\"/>\
                 <text class=\"soft\" text-anchor=\"middle\" x=\"{px:.1}\" y=\"{:.1}\">τ {:.2}</text>",
                py - 9.0,
                point.tau,
            ),
        );
    }
}

/// The points that cover something, by rising coverage, one for each.
fn by_coverage(points: &[Point]) -> Vec<Point> {
    let mut points: Vec<Point> = points
        .iter()
        .filter(|point| point.n_covered > 0)
        .copied()
        .collect();
    points.sort_by(|a, b| {
        a.coverage
            .total_cmp(&b.coverage)
            .then(b.tau.total_cmp(&a.tau))
    });
    points.dedup_by_key(|point| point.n_covered);
    points
}

fn put(svg: &mut String, element: std::fmt::Arguments) {
    // Writing into a string cannot fail.
    let _ = writeln!(svg, "{element}");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tau: f64, covered: usize, risk: f64) -> Point {
        Point {
            tau,
            coverage: covered as f64 / 10.0,
            risk,
            accuracy: 1.0 - risk,
            n_covered: covered,
            n_evaluated: covered,
        }
    }

    #[test]
    fn a_curve_is_drawn_from_little_to_much_coverage() {
        let points = [at(0.0, 10, 0.2), at(0.5, 5, 0.1), at(1.0, 0, 1.0)];
        let svg = risk_coverage(&[Series {
            name: "a < b",
            points: &points,
        }]);
        // The point without coverage does not stretch the axis to 1.
        assert!(svg.contains(">0.2<") && svg.contains("a &lt; b"), "{svg}");
        let plot = HEIGHT - TOP - BOTTOM;
        let middle = HEIGHT - BOTTOM - plot / 2.0;
        assert!(
            svg.contains(&format!(
                "d=\"M340.0 {middle:.1}H340.0V{middle:.1}H616.0V{TOP:.1}\""
            )),
            "{svg}"
        );
        assert!(svg.contains("τ 0.50") && svg.contains("τ 0.00") && !svg.contains("τ 1.00"));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert!(risk_coverage(&[]).ends_with("</svg>\n"));
        assert!(
            risk_coverage(&[Series {
                name: "x",
                points: &[]
            }])
            .contains(">x<")
        );
    }
}
