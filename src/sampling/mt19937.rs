//! The Mersenne twister, which PyTorch's CPU generator and Python's `random` share.

/// MT19937 (Matsumoto and Nishimura 1998, `mt19937ar.c`).
#[derive(Debug, Clone)]
pub struct Mt19937 {
    state: [u32; Self::N],
    next: usize,
}

impl Mt19937 {
    const N: usize = 624;
    const M: usize = 397;

    /// Seeded by one word (`init_genrand`), as PyTorch does it.
    pub fn new(seed: u32) -> Self {
        let mut state = [seed; Self::N];
        for i in 1..Self::N {
            state[i] = mixed(state[i - 1], 1_812_433_253).wrapping_add(i as u32);
        }
        Self {
            state,
            next: Self::N,
        }
    }

    /// Seeded by one or more words (`init_by_array`), as Python does it. No words are as one word, 0.
    pub fn from_key(key: &[u32]) -> Self {
        let key = if key.is_empty() { &[0] } else { key };
        let mut twister = Self::new(19_650_218);
        let state = &mut twister.state;
        let mut i = 1;
        for k in 0..Self::N.max(key.len()) {
            let j = k % key.len();
            state[i] = (state[i] ^ mixed(state[i - 1], 1_664_525))
                .wrapping_add(key[j])
                .wrapping_add(j as u32);
            i = Self::advance(state, i);
        }
        for _ in 1..Self::N {
            state[i] = (state[i] ^ mixed(state[i - 1], 1_566_083_941)).wrapping_sub(i as u32);
            i = Self::advance(state, i);
        }
        state[0] = 0x8000_0000;
        twister
    }

    /// The place after `i`, from the last back to 1 with its word carried to 0.
    fn advance(state: &mut [u32; Self::N], i: usize) -> usize {
        if i + 1 < Self::N {
            return i + 1;
        }
        state[0] = state[Self::N - 1];
        1
    }

    /// The next 32 random bits.
    pub fn next(&mut self) -> u32 {
        if self.next == Self::N {
            self.refill();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    fn refill(&mut self) {
        for i in 0..Self::N {
            let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % Self::N] & 0x7fff_ffff);
            let twist = if y & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[i] = self.state[(i + Self::M) % Self::N] ^ (y >> 1) ^ twist;
        }
        self.next = 0;
    }
}

fn mixed(word: u32, factor: u32) -> u32 {
    (word ^ (word >> 30)).wrapping_mul(factor)
}
