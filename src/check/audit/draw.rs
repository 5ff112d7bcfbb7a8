//! Which pictures people are asked to judge: SpatialBench-UC's stratified draw.

use std::collections::BTreeMap;

use crate::python_random::PythonRandom;
use crate::spatialbench::Verdict;

/// What the draw looks at of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// How the picture was made, such as `promptonly`.
    pub method: String,
    /// What its prompt asks for, such as `left_of`.
    pub relation: String,
    /// What the checker says.
    pub verdict: Verdict,
    /// How sure the checker is, in 0..=1.
    pub conf: f64,
}

/// Draws `n` of the candidates, or all if there are fewer, and returns their places.
///
/// Methods get equal shares, and within a method so do the strata of relation and verdict; within a stratum the bins of
/// confidence take turns. What a small one cannot fill goes to the others. The draw is the released one to the last
/// picture, in its order: it depends on `seed` (the released one's is 42), on the candidates' order, and on nothing else.
pub fn draw(candidates: &[Candidate], n: usize, seed: u64) -> Vec<usize> {
    let mut random = PythonRandom::new(seed);
    let strata = strata(candidates);
    let mut by_method: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, (method, _)) in strata.iter().enumerate() {
        by_method.entry(method).or_default().push(i);
    }

    let size = |stratum: usize| strata[stratum].1.len();
    let sizes: Vec<usize> = by_method
        .values()
        .map(|places| places.iter().map(|&i| size(i)).sum())
        .collect();
    let budgets = counts(&turns(n, &sizes), sizes.len());

    let mut shares = vec![0; strata.len()];
    for (places, budget) in by_method.values_mut().zip(budgets) {
        if budget == 0 {
            continue;
        }
        // Where there are more strata than turns, chance decides which of them get one.
        random.shuffle(places);
        let sizes: Vec<usize> = places.iter().map(|&i| size(i)).collect();
        for turn in turns(budget, &sizes) {
            shares[places[turn]] += 1;
        }
    }

    let mut drawn = Vec::with_capacity(n.min(candidates.len()));
    for ((_, members), share) in strata.iter().zip(shares) {
        if share > 0 {
            drawn.extend(within(candidates, members, share, &mut random));
        }
    }
    drawn
}

/// The strata in the order in which they first occur: method, and the places of the members.
fn strata(candidates: &[Candidate]) -> Vec<(&str, Vec<usize>)> {
    let mut places = BTreeMap::new();
    let mut strata: Vec<(&str, Vec<usize>)> = Vec::new();
    for (i, candidate) in candidates.iter().enumerate() {
        let Candidate {
            method, relation, ..
        } = candidate;
        let place = *places
            .entry((method, relation, candidate.verdict.as_str()))
            .or_insert(strata.len());
        if place == strata.len() {
            strata.push((method, Vec::new()));
        }
        strata[place].1.push(i);
    }
    strata
}

/// Draws `n` of a stratum's members; the bins of confidence take turns, the lowest first.
fn within(
    candidates: &[Candidate],
    members: &[usize],
    n: usize,
    random: &mut PythonRandom,
) -> Vec<usize> {
    let mut bins: Vec<(usize, Vec<usize>)> = Vec::new();
    for &i in members {
        let bin = confidence_bin(candidates[i].conf);
        match bins.iter_mut().find(|(other, _)| *other == bin) {
            Some((_, members)) => members.push(i),
            None => bins.push((bin, vec![i])),
        }
    }
    // Shuffled in the order in which they first occur, as the original's are.
    for (_, members) in &mut bins {
        random.shuffle(members);
    }
    bins.sort_by_key(|(bin, _)| *bin);
    let sizes: Vec<usize> = bins.iter().map(|(_, members)| members.len()).collect();
    turns(n, &sizes)
        .into_iter()
        .filter_map(|bin| bins[bin].1.pop())
        .collect()
}

/// The fifth of [0, 1] that a confidence is in, 0 to 4; a bin holds its lower edge.
pub fn confidence_bin(conf: f64) -> usize {
    [0.2, 0.4, 0.6, 0.8]
        .iter()
        .filter(|&&edge| conf >= edge)
        .count()
}

/// Whose turn it is, `n` times: one after the other, leaving out who has had as many turns as `most` allows.
fn turns(n: usize, most: &[usize]) -> Vec<usize> {
    let rounds = most.iter().copied().max().unwrap_or(0);
    (0..rounds)
        .flat_map(|round| (0..most.len()).filter(move |&i| most[i] > round))
        .take(n)
        .collect()
}

fn counts(turns: &[usize], players: usize) -> Vec<usize> {
    let mut counts = vec![0; players];
    for &turn in turns {
        counts[turn] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(methods: &[(&str, usize)]) -> Vec<Candidate> {
        let mut all = Vec::new();
        for &(method, count) in methods {
            for i in 0..count {
                all.push(Candidate {
                    method: method.into(),
                    relation: ["left_of", "above"][i % 2].into(),
                    verdict: [Verdict::Pass, Verdict::Fail, Verdict::Undecidable][i % 3],
                    conf: (i % 10) as f64 / 10.0,
                });
            }
        }
        all
    }

    #[test]
    fn turns_pass_over_who_has_enough() {
        assert_eq!(turns(7, &[1, 3, 2]), [0, 1, 2, 1, 2, 1]);
        assert_eq!(turns(2, &[5, 5, 5]), [0, 1]);
        assert!(turns(3, &[0, 0]).is_empty() && turns(3, &[]).is_empty());
    }

    #[test]
    fn shares_are_equal_as_far_as_there_are_pictures() {
        let all = candidates(&[("a", 100), ("b", 5), ("c", 100)]);
        let drawn = draw(&all, 65, 1);
        let of = |method: &str| drawn.iter().filter(|&&i| all[i].method == method).count();
        assert_eq!((of("a"), of("b"), of("c")), (30, 5, 30));
        for verdict in [Verdict::Pass, Verdict::Fail, Verdict::Undecidable] {
            let passes = |&&i: &&usize| all[i].method == "a" && all[i].verdict == verdict;
            assert_eq!(drawn.iter().filter(passes).count(), 10);
        }
        let mut unique = drawn.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), drawn.len());
        assert_eq!(drawn, draw(&all, 65, 1));
        assert_ne!(drawn, draw(&all, 65, 2));
    }

    #[test]
    fn too_few_pictures_are_all_drawn() {
        let all = candidates(&[("a", 7)]);
        let mut drawn = draw(&all, 200, 42);
        drawn.sort_unstable();
        assert_eq!(drawn, [0, 1, 2, 3, 4, 5, 6]);
        assert!(draw(&all, 0, 42).is_empty() && draw(&[], 5, 42).is_empty());
    }

    #[test]
    fn a_bin_holds_its_lower_edge() {
        let bins = [0.0, 0.19, 0.2, 0.4, 0.6, 0.79, 0.8, 1.0].map(confidence_bin);
        assert_eq!(bins, [0, 0, 1, 2, 3, 3, 4, 4]);
    }
}
