//! Sums over all but one axis: of runs in f32, of those in f64.

/// Elements summed in f32.
const RUN: usize = 256;

/// The sums of the `width` columns of `rows` rows.
pub(crate) fn of_columns(from: &[f32], rows: usize, width: usize) -> Vec<f32> {
    let mut sums = vec![0.0f64; width];
    if rows * width == 0 {
        return vec![0.0; width];
    }
    let mut part = vec![0.0f32; width];
    for run in from.chunks(RUN * width) {
        part.fill(0.0);
        for row in run.chunks_exact(width) {
            for (sum, x) in part.iter_mut().zip(row) {
                *sum += x;
            }
        }
        for (sum, part) in sums.iter_mut().zip(&part) {
            *sum += f64::from(*part);
        }
    }
    sums.into_iter().map(|sum| sum as f32).collect()
}

/// The sums of each of `channels` planes over all samples of `[batch, channels, plane]`.
pub(crate) fn of_planes(from: &[f32], [batch, channels, plane]: [usize; 3]) -> Vec<f32> {
    let mut sums = vec![0.0f64; channels];
    if batch * channels * plane > 0 {
        for sample in from.chunks_exact(channels * plane) {
            for (sum, plane) in sums.iter_mut().zip(sample.chunks_exact(plane)) {
                *sum += plane.chunks(8 * RUN).map(of_run).sum::<f64>();
            }
        }
    }
    sums.into_iter().map(|sum| sum as f32).collect()
}

/// The sum of a run, of which eight lanes are summed each on its own.
fn of_run(run: &[f32]) -> f64 {
    let (eights, rest) = run.as_chunks::<8>();
    let mut lanes = [0.0f32; 8];
    for eight in eights {
        for (lane, x) in lanes.iter_mut().zip(eight) {
            *lane += x;
        }
    }
    let rest: f64 = rest.iter().copied().map(f64::from).sum();
    rest + lanes.into_iter().map(f64::from).sum::<f64>()
}
