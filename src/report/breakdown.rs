//! Which objects, pairs of objects and prompts fail: the checker's verdicts by what is asked for.

use std::collections::BTreeMap;

use super::model::{Method, Report};
use prepose_check::spatialbench::{Counts, Record, Verdict};
use prepose_draw::table::{Cell, Table};

/// With more methods than this they get no columns of their own.
const MOST_METHODS: usize = 12;

/// What is counted of an object, a pair or a prompt.
#[derive(Default)]
struct Group {
    all: Counts,
    /// Relations that are undecided because the object was not found, or not once.
    missing: usize,
    ambiguous: usize,
    /// By method.
    each: BTreeMap<usize, Counts>,
}

impl Group {
    fn add(&mut self, method: usize, record: &Record) {
        for counts in [&mut self.all, self.each.entry(method).or_default()] {
            match record.verdict_raw {
                Verdict::Pass => counts.pass += 1,
                Verdict::Fail => counts.fail += 1,
                Verdict::Undecidable => counts.undecidable += 1,
            }
        }
    }
}

/// Whether a record is undecided for want of an object, and whether for too many of it.
fn lacks(record: &Record, object: &str) -> (bool, bool) {
    let reason = record.verdict_reason.as_deref().unwrap_or_default();
    let missing = reason.strip_prefix("missing: ");
    let missing = missing.is_some_and(|names| names.split(", ").any(|name| name == object));
    let ambiguous = reason.strip_prefix("ambiguous: ").and_then(|why| {
        let several = why.strip_prefix("multiple ");
        several.or_else(|| {
            why.strip_prefix("both are ")?
                .strip_suffix(" to the detector")
        })
    });
    (missing, ambiguous == Some(object))
}

/// Everything that a relation's verdict counts for.
struct Asked<'a> {
    method: usize,
    prompt: usize,
    record: &'a Record,
}

fn asked<'a>(methods: &'a [&'a Method]) -> impl Iterator<Item = Asked<'a>> {
    methods.iter().enumerate().flat_map(|(method, of)| {
        of.pictures.iter().flat_map(move |picture| {
            let prompt = picture.prompt;
            picture.records.iter().map(move |&index| Asked {
                method,
                prompt,
                record: &of.records[index],
            })
        })
    })
}

/// A row for each object: how often it was not found, and how often its relations hold.
pub fn objects(report: &Report) -> Table {
    let methods = report.checked();
    let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
    for one in asked(&methods) {
        let record = one.record;
        let mut names = vec![record.object_a.as_str(), record.object_b.as_str()];
        names.dedup();
        for name in names {
            let group = groups.entry(name).or_default();
            group.add(one.method, record);
            let (missing, ambiguous) = lacks(record, name);
            group.missing += usize::from(missing);
            group.ambiguous += usize::from(ambiguous);
        }
    }
    let lacking = |group: &Group| {
        let share = |part: usize| Cell::Rate(part as f64 / group.all.total().max(1) as f64);
        vec![share(group.missing), share(group.ambiguous)]
    };
    let groups = groups
        .into_iter()
        .map(|(name, group)| (name.to_owned(), group));
    table(
        "objects",
        &["object", "relations", "missing", "ambiguous"],
        groups.collect(),
        &methods,
        lacking,
    )
}

/// A row for each two objects, whichever is named first.
pub fn object_pairs(report: &Report) -> Table {
    let methods = report.checked();
    let mut groups: BTreeMap<[&str; 2], Group> = BTreeMap::new();
    for one in asked(&methods) {
        let mut names = [one.record.object_a.as_str(), one.record.object_b.as_str()];
        names.sort_unstable();
        groups.entry(names).or_default().add(one.method, one.record);
    }
    let groups = groups
        .into_iter()
        .map(|(names, group)| (names.join(" + "), group));
    table(
        "object_pairs",
        &["objects", "relations"],
        groups.collect(),
        &methods,
        |_| Vec::new(),
    )
}

/// A row for each prompt.
pub fn prompts(report: &Report) -> Table {
    let methods = report.checked();
    let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
    for one in asked(&methods) {
        groups
            .entry(one.prompt)
            .or_default()
            .add(one.method, one.record);
    }
    let name = |prompt: usize| report.prompts.list()[prompt].prompt.clone();
    let groups = groups
        .into_iter()
        .map(|(prompt, group)| (name(prompt), group));
    table(
        "prompts",
        &["prompt", "relations"],
        groups.collect(),
        &methods,
        |_| Vec::new(),
    )
}

/// The pictures that sources refused to make: for each method a row for all prompts together, and one for each prompt with
/// such pictures, those with most of them first.
pub fn refusals(report: &Report) -> Table {
    let mut rows = Vec::new();
    for method in report.methods.iter().filter(|m| !m.refused.is_empty()) {
        let mut of_prompt: BTreeMap<usize, (usize, BTreeMap<&str, usize>)> = BTreeMap::new();
        let mut codes: BTreeMap<&str, usize> = BTreeMap::new();
        for refused in &method.refused {
            let (count, own) = of_prompt.entry(refused.prompt).or_default();
            *count += 1;
            *own.entry(&refused.code).or_default() += 1;
            *codes.entry(&refused.code).or_default() += 1;
        }
        let row = |prompt: &str, refused: usize, made: usize, codes: &BTreeMap<&str, usize>| {
            let codes = codes.iter().map(|(code, count)| format!("{code} {count}"));
            vec![
                Cell::Name(method.name.clone()),
                Cell::Name(prompt.to_owned()),
                Cell::Count(refused),
                Cell::Count(made),
                Cell::Rate(refused as f64 / (refused + made) as f64),
                Cell::Name(codes.collect::<Vec<_>>().join(", ")),
            ]
        };
        let all = method.refused.len();
        rows.push(row("all prompts", all, method.pictures.len(), &codes));
        let mut each: Vec<_> = of_prompt.into_iter().collect();
        each.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        for (prompt, (count, codes)) in each {
            let made = method.pictures.iter().filter(|one| one.prompt == prompt);
            let text = &report.prompts.list()[prompt].prompt;
            rows.push(row(text, count, made.count(), &codes));
        }
    }
    let columns = ["run", "prompt", "refused", "made", "refused_share", "codes"];
    Table::new("refusals", &columns, rows.into_iter())
}

/// The worst first. `more` gives the cells between the number of relations and the rates.
fn table(
    name: &'static str,
    first: &[&str],
    mut groups: Vec<(String, Group)>,
    methods: &[&Method],
    more: impl Fn(&Group) -> Vec<Cell>,
) -> Table {
    let rate = |group: &Group| group.all.pass_rate();
    groups.sort_by(|(_, a), (_, b)| rate(a).total_cmp(&rate(b)));
    let each = match methods.len() {
        2..=MOST_METHODS => methods,
        _ => &[],
    };
    let rows = groups.into_iter().map(|(name, group)| {
        let mut row = vec![Cell::Name(name), Cell::Count(group.all.total())];
        row.extend(more(&group));
        row.push(Cell::Rate(group.all.coverage()));
        row.push(Cell::Rate(rate(&group)));
        row.extend((0..each.len()).map(|method| {
            let counts = group.each.get(&method);
            counts.map_or(Cell::Empty, |counts| Cell::Rate(counts.pass_rate()))
        }));
        row
    });
    let columns = [first, &["decided", "pass_rate"]].concat();
    let mut table = Table::new(name, &columns, rows);
    table
        .columns
        .extend(each.iter().map(|method| method.name.clone()));
    table
}
