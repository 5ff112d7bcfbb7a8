//! What searching longer brings: methods that try several noises, by how many.

use super::model::{Method, Report};
use super::stats::mean;
use prepose_check::spatialbench::Counts;
use prepose_draw::table::{Cell, Table};

/// One method of a family that differs only in the number of noises.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The method.
    pub method: String,
    /// Its name with N for the number: `best-of-N`.
    pub family: String,
    /// Noises tried.
    pub candidates: usize,
    /// Rows through the whole UNet for a picture.
    pub unet_calls: f64,
    /// Mean probability of superiority.
    pub pse: Option<f64>,
    /// Pictures in which all relations hold by the centres, of those that VISOR scores.
    pub centre: Option<f64>,
    /// Pictures that pass.
    pub pass_rate: Option<f64>,
}

/// The searches of a report by family and number of noises, each family with the method without a search at its beginning if
/// there is one. Empty if there are no searches.
pub fn points(report: &Report) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut families: Vec<(String, String)> = Vec::new();
    for method in &report.methods {
        let Some((family, without)) = family(&method.name) else {
            continue;
        };
        if !families.iter().any(|(known, _)| *known == family) {
            families.push((family, without));
        }
    }
    for (name, without) in families {
        let of_it = report.methods.iter().filter(|method| {
            method.name == without || family(&method.name).is_some_and(|(family, _)| family == name)
        });
        let mut members: Vec<Point> = of_it
            .filter_map(|method| point(report, method, &name))
            .collect();
        members.sort_by_key(|point| point.candidates);
        points.extend(members);
    }
    points
}

/// The other methods, each on its own; their family is their name.
pub fn others(report: &Report, points: &[Point]) -> Vec<Point> {
    let methods = report.methods.iter();
    methods
        .filter(|method| !points.iter().any(|point| point.method == method.name))
        .filter_map(|method| point(report, method, &method.name))
        .collect()
}

/// A method's name with N for the number of noises, and the name of the method that does not search.
fn family(name: &str) -> Option<(String, String)> {
    let (run, method) = match name.rsplit_once('/') {
        Some((run, method)) => (format!("{run}/"), method),
        None => (String::new(), name),
    };
    let mut parts: Vec<&str> = method.split('+').collect();
    let place = parts.iter().position(|part| numbered(part).is_some())?;
    let general = numbered(parts[place])?;
    let mut named: Vec<&str> = parts.clone();
    named[place] = &general;
    let family = named.join("+");
    parts.remove(place);
    let without = match parts.is_empty() {
        true => "prompt-only".to_owned(),
        false => parts.join("+"),
    };
    Some((format!("{run}{family}"), format!("{run}{without}")))
}

/// `best-of-8-pruned` → `best-of-N-pruned`.
fn numbered(part: &str) -> Option<String> {
    let rest = part.strip_prefix("best-of-")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| format!("best-of-N{}", &rest[digits..]))
}

fn point(report: &Report, method: &Method, family: &str) -> Option<Point> {
    let scored = || method.pictures.iter().filter_map(|p| p.scores.as_ref());
    let seen = || scored().filter(|scored| scored.found.is_some());
    let right = method.pictures.iter().filter_map(|picture| {
        let prompt = &report.prompts.list()[picture.prompt];
        let found = picture.scores.as_ref()?.visor(prompt)?;
        Some(f64::from(u8::from(found.right)))
    });
    let verdicts = method.pictures.iter().filter_map(|p| method.verdict(p));
    let pass_rate = Counts::of(verdicts.map(|(verdict, _)| verdict)).pass_rate();
    Some(Point {
        method: method.name.clone(),
        family: family.into(),
        candidates: scored().map(|scored| scored.candidates).max()?.max(1),
        unet_calls: mean(scored().map(|scored| scored.unet_calls as f64))?,
        pse: mean(seen().filter_map(|scored| scored.pse)),
        centre: mean(right),
        pass_rate: (!method.records.is_empty()).then_some(pass_rate),
    })
}

/// The points as a table.
pub fn table(points: &[Point]) -> Table {
    let columns = [
        "run",
        "family",
        "candidates",
        "unet_calls",
        "PSE",
        "centre_accuracy",
        "pass_rate",
    ];
    let rows = points.iter().map(|point| {
        let rate = |value: Option<f64>| value.map_or(Cell::Empty, Cell::Rate);
        vec![
            Cell::Name(point.method.clone()),
            Cell::Name(point.family.clone()),
            Cell::Count(point.candidates),
            Cell::Mean(point.unet_calls),
            rate(point.pse),
            rate(point.centre),
            rate(point.pass_rate),
        ]
    });
    Table::new("scaling", &columns, rows)
}

#[cfg(test)]
mod tests {
    use super::super::model::{Picture, Prompts};
    use super::*;
    use crate::testing::{method, picture, record, report};
    use prepose_check::prompt::SuitePrompt;
    use prepose_check::sample::Scores;

    #[test]
    fn a_picture_passes_if_all_its_relations_hold() {
        let picture = |seed: u64, records: [usize; 2]| Picture {
            records: records.into(),
            scores: Some(Scores::default()),
            ..picture("m", 0, seed)
        };
        let verdicts = ["PASS", "PASS", "PASS", "FAIL"];
        let method = Method {
            records: verdicts.map(|verdict| record(0, 0, verdict)).into(),
            ..method("m", vec![picture(0, [0, 1]), picture(1, [2, 3])])
        };
        let mut prompts = Prompts::default();
        prompts.find(0, "p0", SuitePrompt::default);
        let report = report(vec![method], prompts);
        // Three relations of four hold, and all of one picture of two.
        assert_eq!(others(&report, &[])[0].pass_rate, Some(0.5));
    }

    #[test]
    fn searches_of_a_kind_are_a_family() {
        let known = |name| family(name).map(|(a, b)| format!("{a} {b}"));
        assert_eq!(known("best-of-8").as_deref(), Some("best-of-N prompt-only"));
        assert_eq!(
            known("psg+best-of-16-pruned").as_deref(),
            Some("psg+best-of-N-pruned psg")
        );
        assert_eq!(
            known("run/best-of-2+psg").as_deref(),
            Some("run/best-of-N+psg run/psg")
        );
        assert_eq!(known("psg"), None);
        assert_eq!(known("best-of-all"), None);
    }
}
