//! Which tile a product is made of, and in how many parts its depth: computed from the sizes.

use super::kernel::Tile;
use super::*;
use cubecl::features::Tma;

/// What a row covers of a picture.
pub(super) struct Window {
    pub size: [usize; 2],
    pub out: [usize; 2],
    /// Down and across.
    pub pixels: [usize; 2],
    pub stride: usize,
    /// Above and before.
    pub padding: [usize; 2],
}

/// Sizes and distances; the depth and distances in the operands in pieces of 16 bytes.
pub(super) struct Problem {
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    pub pitch: usize,
    pub weight_row: usize,
    pub weight_pitch: usize,
    /// In elements.
    pub onto_pitch: usize,
    pub window: Option<Window>,
}

impl Problem {
    pub fn steps(&self, tile: &Tile) -> usize {
        let taps = self
            .window
            .as_ref()
            .map_or(1, |window| window.pixels.iter().product());
        taps * self.depth.div_ceil(tile.pieces)
    }
}

/// Tiles, and how much of the matrix units' time a full multiprocessor uses with them, relative to each other: for rows, and for
/// windows, where a row costs more to find. Measured by `benches/products.rs`; larger ones were no better.
const TILES: [(Tile, [f64; 2]); 4] = [
    (tile([128, 64], 8, 3), [1.1, 0.94]),
    (tile([64, 128], 8, 3), [0.9, 1.0]),
    (tile([64, 64], 8, 3), [0.7, 0.66]),
    (LEAST_DEEP, [0.6, 0.58]),
];
/// Those of four planes together, the same. Channels of Stable Diffusion are multiples of 160, those of its autoencoder of 128.
const GROUPS: [(Tile, [f64; 2]); 2] = [
    (group([128, 160]), [2.56, 2.5]),
    (group([128, 128]), [2.35, 2.2]),
];
/// For windows of fewer channels.
pub(super) const LEAST_DEEP: Tile = tile([64, 64], 4, 4);

const fn tile([rows, columns]: [usize; 2], pieces: usize, stages: usize) -> Tile {
    Tile {
        rows,
        columns,
        pieces,
        stages,
        planes: [2, 2],
        groups: false,
    }
}

const fn group([rows, columns]: [usize; 2]) -> Tile {
    Tile {
        rows,
        columns,
        pieces: 8,
        stages: 3,
        planes: [rows / 16, 1],
        groups: true,
    }
}

/// Numbers of parts that the depth is divided into.
const PARTS: [usize; 5] = [1, 2, 4, 8, 16];
/// What a cube does before and after its steps, in steps: in planes, and in groups, whose steps are shorter.
const AROUND: [usize; 2] = [1, 2];
/// How busy the matrix units are with one, two, three or more cubes on a multiprocessor.
const BUSY: [f64; 4] = [0.55, 0.85, 0.92, 1.0];
/// Products that a full multiprocessor does in a second, and seconds for the launch that sums parts and for each element of one. Measured on an
/// H100; elsewhere only what they are to one another counts.
const RATE: f64 = 1.5e12;
const SUMMING: f64 = 2e-6;
const SUMMED: f64 = 4e-12;

/// What the choice depends on.
pub(super) struct Device {
    processors: usize,
    /// Bytes of shared memory.
    shared: usize,
    /// Whether four planes can multiply together.
    groups: bool,
}

impl Device {
    /// The device, for numbers of a kind.
    pub fn of(client: &Client, numbers: Numbers) -> Self {
        let properties = client.properties();
        let hardware = &properties.hardware;
        let bulk = &properties.features.tma;
        Self {
            processors: hardware.num_streaming_multiprocessors.unwrap_or(64) as usize,
            shared: hardware.max_shared_memory_size,
            // Hopper's alone: what came after it has other instructions, and more ways to copy. Of f32 these units drop the digits
            // that the others are given rounded.
            groups: numbers != Numbers::Tf32
                && bulk.contains(Tma::Base)
                && !bulk.contains(Tma::Im2colWide),
        }
    }
}

/// The tile and the number of parts of the depth that should take the least time.
pub(super) fn choose(problem: &Problem, device: &Device) -> (Tile, usize) {
    let mut best = (f64::MAX, LEAST_DEEP, 1);
    let groups = GROUPS.into_iter().filter(|_| device.groups);
    for (tile, shares) in TILES.into_iter().chain(groups) {
        let whole = problem.window.is_none() || problem.depth.is_multiple_of(tile.pieces);
        if tile.shared() > device.shared || !whole {
            continue;
        }
        let share = shares[usize::from(problem.window.is_some())];
        let around = AROUND[usize::from(tile.groups)];
        let tiles = problem.rows.div_ceil(tile.rows) * problem.columns.div_ceil(tile.columns);
        let steps = problem.steps(&tile);
        for parts in PARTS.into_iter().filter(|parts| *parts <= steps) {
            let each = steps.div_ceil(parts);
            let cubes = (tiles * steps.div_ceil(each)).div_ceil(device.processors);
            let together = cubes.min(device.shared / tile.shared());
            let work = (tile.rows * tile.columns * tile.pieces * 8 * (each + around)) as f64;
            let busy = share * BUSY[together.min(BUSY.len()) - 1];
            let again = match parts {
                1 => 0.0,
                _ => SUMMING + (problem.rows * problem.columns * parts) as f64 * SUMMED,
            };
            let time = cubes as f64 * work / (busy * RATE) + again;
            if time < best.0 {
                best = (time, tile, parts);
            }
        }
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(rows: usize, columns: usize, depth: usize, kernel: Option<usize>) -> Problem {
        Problem {
            rows,
            columns,
            depth,
            pitch: depth,
            weight_row: depth,
            weight_pitch: depth,
            onto_pitch: columns,
            window: kernel.map(|kernel| Window {
                size: [1, rows],
                out: [1, rows],
                pixels: [kernel; 2],
                stride: 1,
                padding: [kernel / 2; 2],
            }),
        }
    }

    #[test]
    fn what_is_chosen_fits_the_device_and_the_depth() {
        for (processors, shared) in [(132, 232_448), (128, 101_376), (40, 49_152), (1, 0)] {
            let device = Device {
                processors,
                shared,
                groups: processors == 132,
            };
            for (rows, columns, depth) in
                [(8192, 320, 320), (2, 4, 8), (128, 1280, 1280), (9, 64, 96)]
            {
                for kernel in [None, Some(3)] {
                    let problem = problem(rows, columns, depth.max(32) / 8, kernel);
                    let (tile, parts) = choose(&problem, &device);
                    assert!(tile.shared() <= shared.max(LEAST_DEEP.shared()), "{tile:?}");
                    assert!((1..=problem.steps(&tile)).contains(&parts), "{parts}");
                    let whole = problem.depth.is_multiple_of(tile.pieces);
                    assert!(kernel.is_none() || whole, "{tile:?} of {depth}");
                }
            }
        }
    }

    #[test]
    fn tiles_are_copied_and_multiplied_whole() {
        for (tile, _) in TILES.into_iter().chain(GROUPS) {
            let threads = tile.threads();
            for rows in [tile.rows, tile.columns] {
                assert!((rows * tile.pieces).is_multiple_of(threads), "{tile:?}");
            }
            let [below, beside] = tile.units();
            assert_eq!(below * tile.planes[0] * 16, tile.rows, "{tile:?}");
            assert_eq!(beside * tile.planes[1] * 8, tile.columns, "{tile:?}");
            // As many as exchange their columns before they are written.
            assert!(beside.is_multiple_of(4), "{tile:?}");
            assert!(!tile.groups || below == 1, "{tile:?}");
        }
    }

    #[test]
    fn few_results_of_a_great_depth_are_shared() {
        let device = Device {
            processors: 132,
            shared: 232_448,
            groups: true,
        };
        let (_, parts) = choose(&problem(128, 1280, 160, Some(3)), &device);
        assert!(parts > 1);
        let (_, parts) = choose(&problem(8192, 2560, 40, None), &device);
        assert_eq!(parts, 1);
    }
}
