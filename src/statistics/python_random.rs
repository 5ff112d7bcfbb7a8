//! Python's `random.Random`, so that what was drawn with it can be drawn again.

use std::collections::HashSet;

use rand_mt::Mt;

/// CPython's generator (`Lib/random.py`, `Modules/_randommodule.c`; the same since Python 3.2).
#[derive(Debug, Clone)]
pub struct PythonRandom(Mt);

impl PythonRandom {
    /// `random.Random(seed)` of an integer.
    pub fn new(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        Self(match high {
            0 => Mt::new_with_key([low]),
            _ => Mt::new_with_key([low, high]),
        })
    }

    /// A whole number in `0..n`, as `randrange(n)`; 0 if `n` is 0.
    pub fn below(&mut self, n: u32) -> u32 {
        let bits = u32::BITS - n.leading_zeros();
        if bits == 0 {
            return 0;
        }
        loop {
            let number = self.0.next_u32() >> (u32::BITS - bits);
            if number < n {
                return number;
            }
        }
    }

    /// Puts `items` into a random order, as `shuffle` does.
    ///
    /// # Panics
    /// If there are 2³² items or more.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let places = u32::try_from(i + 1).expect("fewer than 2^32 items");
            items.swap(i, self.below(places) as usize);
        }
    }

    /// `k` different numbers in `0..n` in the order of the draw, as `sample(range(n), k)`; all of them if `k` is more.
    pub fn sample(&mut self, n: u32, k: u32) -> Vec<u32> {
        let k = k.min(n);
        // What Python takes the memory of a set of k for; a list of n is cheaper below it.
        let mut set_size = 21;
        if k > 5 {
            set_size += std::iter::successors(Some(1u64), |power| Some(power * 4))
                .find(|power| *power >= 3 * u64::from(k))
                .unwrap_or_default();
        }
        if u64::from(n) <= set_size {
            let mut pool: Vec<u32> = (0..n).collect();
            return (0..k)
                .map(|_| {
                    let drawn = self.below(pool.len() as u32) as usize;
                    pool.swap_remove(drawn)
                })
                .collect();
        }
        let mut seen = HashSet::new();
        let mut fresh = || loop {
            let drawn = self.below(n);
            if seen.insert(drawn) {
                return drawn;
            }
        };
        (0..k).map(|_| fresh()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python 3.11: `r = random.Random(seed); [r.getrandbits(32) for _ in range(4)]`.
    #[test]
    fn seeds_are_pythons() {
        let words: [(u64, [u32; 4]); 3] = [
            (0, [3626764237, 1654615998, 3255389356, 3823568514]),
            (42, [2746317213, 478163327, 107420369, 3184935163]),
            (
                (1 << 40) + 5,
                [2166296868, 2220160828, 1153647273, 2850991874],
            ),
        ];
        for (seed, expected) in words {
            let mut random = PythonRandom::new(seed);
            assert_eq!(
                [(); 4].map(|()| random.0.next_u32()),
                expected,
                "seed {seed}"
            );
        }
    }

    /// Python 3.11: `items = list(range(12)); random.Random(seed).shuffle(items)`.
    #[test]
    fn shuffles_are_pythons() {
        let orders: [(u64, [u32; 12]); 3] = [
            (0, [1, 9, 8, 5, 10, 2, 3, 7, 4, 0, 11, 6]),
            (42, [7, 5, 2, 8, 9, 6, 11, 3, 4, 0, 1, 10]),
            ((1 << 40) + 5, [3, 5, 2, 9, 6, 7, 1, 10, 0, 4, 11, 8]),
        ];
        for (seed, expected) in orders {
            let mut items = std::array::from_fn(|i| i as u32);
            PythonRandom::new(seed).shuffle(&mut items);
            assert_eq!(items, expected, "seed {seed}");
        }
    }

    /// Python 3.11: `random.Random(seed).sample(range(n), k)`, from a list and from a set.
    #[test]
    fn samples_are_pythons() {
        let samples: [(u64, u32, u32, Vec<u32>); 5] = [
            (1234, 12, 5, vec![7, 1, 0, 10, 9]),
            (1234, 1190, 6, vec![902, 239, 15, 185, 71, 171]),
            (
                0,
                30,
                20,
                vec![
                    27, 12, 24, 13, 1, 8, 16, 15, 28, 9, 22, 11, 6, 23, 4, 19, 2, 21, 25, 20,
                ],
            ),
            (7, 25280, 4, vec![10611, 4943, 12937, 21329]),
            (3, 4, 9, vec![1, 2, 0, 3]),
        ];
        for (seed, n, k, expected) in samples {
            assert_eq!(PythonRandom::new(seed).sample(n, k), expected, "{k} of {n}");
        }
    }
}
