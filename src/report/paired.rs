//! Methods against each other, picture by picture: the same prompts and the same seeds, so that what differs is the method.

use std::collections::{BTreeMap, HashMap};

use super::bootstrap::{Bootstrap, Estimate};
use super::model::{Method, Picture, Report};
use prepose_check::python_random::PythonRandom;
use prepose_check::spatialbench::Verdict;
use prepose_draw::table::{Cell, Table};

/// With more methods than this, each is compared with the first alone.
const ALL_PAIRS: usize = 8;

/// What of a picture is compared, in 0..=1; none if nobody looked.
struct Measure {
    name: &'static str,
    of: fn(&Report, &Method, &Picture) -> Option<f64>,
}

const MEASURES: [Measure; 3] = [
    Measure {
        name: "pass_rate",
        of: |_, method, picture| {
            let (verdict, _) = method.verdict(picture)?;
            Some(f64::from(u8::from(verdict == Verdict::Pass)))
        },
    },
    Measure {
        name: "VISOR_uncond",
        of: |report, _, picture| {
            let prompt = &report.prompts.list()[picture.prompt];
            let found = picture.scores.as_ref()?.visor(prompt)?;
            Some(f64::from(u8::from(found.right)))
        },
    },
    Measure {
        name: "PSE",
        of: |_, _, picture| picture.scores.as_ref()?.pse,
    },
];

/// Two methods, compared on the pictures that both made.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The method whose gain it is.
    pub method: String,
    /// The method that it is compared with.
    pub against: String,
    /// What is compared.
    pub measure: &'static str,
    /// Pictures with the same prompt and seed.
    pub pictures: usize,
    /// Prompts of these pictures.
    pub prompts: usize,
    /// The means of both, the method's first.
    pub means: (f64, f64),
    /// The first minus the second, with its bootstrap interval.
    pub difference: Estimate,
    /// How often chance alone would give so large a difference: random signs of the prompts' differences (a permutation
    /// test), by Holm's method for all pairs of the measure.
    pub p: f64,
}

impl Pair {
    /// At the level of 5 %.
    pub fn is_significant(&self) -> bool {
        self.p < 0.05
    }
}

/// All pairs of methods that have pictures of the same prompts and seeds; with many methods, each against the first.
pub fn pairs(report: &Report, bootstrap: &Bootstrap) -> Vec<Pair> {
    let count = report.methods.len();
    let mut all = Vec::new();
    for measure in &MEASURES {
        let values: Vec<Values> = (report.methods.iter())
            .map(|method| values(report, method, measure))
            .collect();
        let mut of_measure = Vec::new();
        for against in 0..count {
            for method in against + 1..count {
                if count > ALL_PAIRS && against > 0 {
                    continue;
                }
                let names = [method, against].map(|place| &report.methods[place].name);
                let compared = compare(&values[method], &values[against], bootstrap);
                of_measure.extend(compared.map(|compared| Pair {
                    method: names[0].clone(),
                    against: names[1].clone(),
                    measure: measure.name,
                    ..compared
                }));
            }
        }
        holm(&mut of_measure);
        all.extend(of_measure);
    }
    all
}

/// By prompt and seed.
type Values = HashMap<(usize, u64), f64>;

fn values(report: &Report, method: &Method, measure: &Measure) -> Values {
    let pictures = method.pictures.iter();
    let value = |picture: &Picture| {
        let value = (measure.of)(report, method, picture)?;
        Some(((picture.prompt, picture.seed), value))
    };
    pictures.filter_map(value).collect()
}

/// None if they have nothing in common.
fn compare(method: &Values, against: &Values, bootstrap: &Bootstrap) -> Option<Pair> {
    let mut by_prompt: BTreeMap<usize, Vec<(u64, f64)>> = BTreeMap::new();
    let (mut pictures, mut means) = (0usize, (0.0, 0.0));
    let mut common: Vec<_> = (method.iter())
        .filter_map(|(key, mine)| Some((*key, *mine, *against.get(key)?)))
        .collect();
    // Sums do not depend on a map's order.
    common.sort_by_key(|(key, ..)| *key);
    for ((prompt, seed), mine, theirs) in common {
        by_prompt
            .entry(prompt)
            .or_default()
            .push((seed, mine - theirs));
        pictures += 1;
        means = (means.0 + mine, means.1 + theirs);
    }
    if pictures == 0 {
        return None;
    }
    let groups: Vec<Vec<f64>> = (by_prompt.into_values())
        .map(|group| {
            group
                .into_iter()
                .map(|(_, difference)| difference)
                .collect()
        })
        .collect();
    let count = pictures as f64;
    Some(Pair {
        method: String::new(),
        against: String::new(),
        measure: "",
        pictures,
        prompts: groups.len(),
        means: (means.0 / count, means.1 / count),
        difference: bootstrap.mean(&groups),
        p: by_chance(&groups, bootstrap),
    })
}

/// How often the sum of the prompts' differences is at least as large with random signs.
fn by_chance(groups: &[Vec<f64>], bootstrap: &Bootstrap) -> f64 {
    let sums: Vec<f64> = (groups.iter())
        .map(|group| group.iter().sum())
        .filter(|sum: &f64| *sum != 0.0)
        .collect();
    let observed = sums.iter().sum::<f64>().abs() - 1e-9;
    let mut random = PythonRandom::new(bootstrap.seed);
    let as_large = (0..bootstrap.draws.max(1)).filter(|_| {
        let signed = sums.iter().map(|sum| match random.below(2) {
            0 => *sum,
            _ => -sum,
        });
        signed.sum::<f64>().abs() >= observed
    });
    (1 + as_large.count()) as f64 / (1 + bootstrap.draws.max(1)) as f64
}

/// Holm 1979: of k pairs the smallest p counts k times, the next k − 1 times, and none less than the one before.
fn holm(pairs: &mut [Pair]) {
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by(|a, b| pairs[*a].p.total_cmp(&pairs[*b].p));
    let mut least = 0.0f64;
    for (place, index) in order.iter().enumerate() {
        let times = (pairs.len() - place) as f64;
        least = least.max((pairs[*index].p * times).min(1.0));
        pairs[*index].p = least;
    }
}

/// The pairs as a table.
pub fn table(pairs: &[Pair]) -> Table {
    let columns = [
        "run",
        "against",
        "of",
        "pictures",
        "prompts",
        "run_mean",
        "against_mean",
        "difference",
        "low",
        "high",
        "p",
        "significant",
    ];
    let rows = pairs.iter().map(|pair| {
        let Estimate { value, low, high } = pair.difference;
        let mut row = vec![
            Cell::Name(pair.method.clone()),
            Cell::Name(pair.against.clone()),
            Cell::Name(pair.measure.to_owned()),
            Cell::Count(pair.pictures),
            Cell::Count(pair.prompts),
            Cell::Rate(pair.means.0),
            Cell::Rate(pair.means.1),
        ];
        row.extend([value, low, high].map(Cell::Change));
        row.push(Cell::Mean(pair.p));
        let significant = if pair.is_significant() { "yes" } else { "no" };
        row.push(Cell::Name(significant.to_owned()));
        row
    });
    Table::new("paired", &columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values_of(of: impl Fn(usize, u64) -> f64) -> Values {
        let keys = (0..40).flat_map(|prompt| (0..4).map(move |seed| (prompt, seed)));
        keys.map(|(prompt, seed)| ((prompt, seed), of(prompt, seed)))
            .collect()
    }

    #[test]
    fn only_common_pictures_are_compared() {
        let better = values_of(|prompt, _| f64::from(u8::from(prompt % 4 != 0)));
        let worse = values_of(|prompt, _| f64::from(u8::from(prompt % 2 == 0)));
        let all = compare(&better, &worse, &Bootstrap::default()).unwrap();
        assert_eq!(
            (all.pictures, all.prompts, all.means),
            (160, 40, (0.75, 0.5))
        );
        assert_eq!(all.difference.value, 0.25);
        assert!(all.difference.low < 0.25 && 0.25 < all.difference.high);
        let few = better
            .iter()
            .filter(|((prompt, seed), _)| *prompt < 3 && *seed > 1);
        let few: Values = few.map(|(key, value)| (*key, *value)).collect();
        let some = compare(&few, &worse, &Bootstrap::default()).unwrap();
        assert_eq!((some.pictures, some.prompts), (6, 3));
        assert_eq!(compare(&Values::new(), &worse, &Bootstrap::default()), None);
    }

    #[test]
    fn chance_is_told_from_a_gain() {
        let groups =
            |of: fn(usize) -> f64| -> Vec<Vec<f64>> { (0..40).map(|i| vec![of(i); 2]).collect() };
        let bootstrap = Bootstrap::default();
        // 30 of 40 prompts gain: two-sided sign test, p = 0.002.
        let gain = by_chance(&groups(|i| if i % 4 == 0 { -1.0 } else { 1.0 }), &bootstrap);
        assert!(gain < 0.01, "{gain}");
        // 22 of 40: p = 0.64.
        let chance = by_chance(&groups(|i| if i < 18 { -1.0 } else { 1.0 }), &bootstrap);
        assert!((0.5..0.75).contains(&chance), "{chance}");
        assert_eq!(by_chance(&groups(|_| 0.0), &bootstrap), 1.0);
    }

    #[test]
    fn many_pairs_make_chance_likelier() {
        let pair = |p: f64| Pair {
            method: String::new(),
            against: String::new(),
            measure: "",
            pictures: 1,
            prompts: 1,
            means: (0.0, 0.0),
            difference: Estimate::default(),
            p,
        };
        let mut pairs = [0.04, 0.01, 0.03].map(pair);
        holm(&mut pairs);
        assert_eq!(pairs.each_ref().map(|pair| pair.p), [0.06, 0.03, 0.06]);
        assert_eq!(
            pairs.map(|pair| pair.is_significant()),
            [false, true, false]
        );
    }
}
