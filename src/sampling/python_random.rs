//! Python's `random.Random`, so that what was drawn with it can be drawn again.

use super::mt19937::Mt19937;

/// CPython's generator (`Lib/random.py`, `Modules/_randommodule.c`; the same since Python 3.2).
#[derive(Debug, Clone)]
pub struct PythonRandom(Mt19937);

impl PythonRandom {
    /// `random.Random(seed)` of an integer.
    pub fn new(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        Self(match high {
            0 => Mt19937::from_key(&[low]),
            _ => Mt19937::from_key(&[low, high]),
        })
    }

    /// A whole number in `0..n`, as `randrange(n)`; 0 if `n` is 0.
    pub fn below(&mut self, n: u32) -> u32 {
        let bits = u32::BITS - n.leading_zeros();
        if bits == 0 {
            return 0;
        }
        loop {
            let number = self.0.next() >> (u32::BITS - bits);
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
            assert_eq!([(); 4].map(|()| random.0.next()), expected, "seed {seed}");
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
}
