//! Risk–coverage curves as a plot.

use super::curve::Point;
use prepose_draw::plot::{Axis, Chart, Note, Style};

/// One curve.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// What it is of.
    pub name: &'a str,
    /// Its points, in any order.
    pub points: &'a [Point],
}

/// The curves as steps: between two thresholds nothing changes. Points without coverage are left out, as they have no risk.
/// At a few points of the first curve stands their threshold τ.
pub fn risk_coverage(series: &[Series]) -> Chart {
    let shown: Vec<(&str, Vec<Point>)> = series
        .iter()
        .map(|series| (series.name, by_coverage(series.points)))
        .collect();
    let risks = shown
        .iter()
        .flat_map(|(_, points)| points)
        .map(|point| 100.0 * point.risk);
    let notes = shown.first().map(|(_, points)| thresholds(points));
    Chart {
        title: "Risk against coverage".into(),
        x: Axis::linear("coverage (%)", 0.0, 100.0),
        y: Axis::from_zero("risk, 1 − accuracy (%)", risks, 5.0),
        series: shown
            .iter()
            .enumerate()
            .map(|(i, (name, points))| {
                let points = points
                    .iter()
                    .map(|point| (100.0 * point.coverage, 100.0 * point.risk));
                prepose_draw::plot::Series::new(name, points.collect(), Style::Steps, i)
            })
            .collect(),
        notes: notes.unwrap_or_default(),
    }
}

/// τ at five points, from the least to the greatest coverage.
fn thresholds(points: &[Point]) -> Vec<Note> {
    let Some(last) = points.len().checked_sub(1) else {
        return Vec::new();
    };
    let mut places: Vec<usize> = (0..=4).map(|quarter| last * quarter / 4).collect();
    places.dedup();
    let note = |i: usize| Note {
        at: (100.0 * points[i].coverage, 100.0 * points[i].risk),
        text: format!("τ {:.2}", points[i].tau),
        dot: true,
    };
    places.into_iter().map(note).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use prepose_draw::plot::svg;

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
        let chart = risk_coverage(&[Series {
            name: "a < b",
            points: &points,
        }]);
        // The point without coverage does not stretch the axis to 100.
        assert_eq!(chart.y.range, (0.0, 20.0));
        assert_eq!(chart.series[0].points, [(50.0, 10.0), (100.0, 20.0)]);
        let svg = svg::file(&chart.draw());
        assert!(svg.contains("a &lt; b"), "{svg}");
        assert!(svg.contains("τ 0.50") && svg.contains("τ 0.00") && !svg.contains("τ 1.00"));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert!(svg::file(&risk_coverage(&[]).draw()).ends_with("</svg>\n"));
        let one = Series {
            name: "x",
            points: &[],
        };
        assert!(svg::file(&risk_coverage(&[one]).draw()).contains(">x<"));
    }
}
