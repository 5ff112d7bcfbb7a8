//! The best of many.

use crate::profile::{self, Family};
use burn::tensor::{DType, Int, Tensor, TensorData};
use rayon::prelude::*;

use crate::flex::Operand;

/// The `k` largest elements of each row of `x` `[B, N]`, the largest first and of equals the one that
/// stands first, and their places in the row: `[B, K]` each. `K` is `k` or `N` if that is less;
/// columns in which no row has an element above `floor` may be left out, except the first.
///
/// Every backend selects on the host: Burn's own sorting does so too, and sorts all of the row.
///
/// # Panics
/// If `k` or `N` is zero.
pub fn top_k(x: Tensor<2>, k: usize, floor: f32) -> (Tensor<2>, Tensor<2, Int>) {
    let _span = profile::span(Family::Other, &x, || 0);
    let [rows, columns] = x.dims();
    assert!(k > 0 && columns > 0, "top_k: {k} of {columns} columns");
    let (device, dtype) = (x.device(), x.dtype());
    let best = match Operand::<f32>::new(&x) {
        Some(operand) => select(operand.contiguous().as_slice(), columns, k, floor),
        None => {
            let data = x.cast(DType::F32).into_data();
            let values: Vec<f32> = data.iter().collect();
            select(&values, columns, k, floor)
        }
    };
    let shape = [rows, best.len() / rows.max(1)];
    let values = best.iter().map(|(value, _)| *value).collect();
    let places = best.iter().map(|(_, place)| *place).collect();
    (
        Tensor::from_data(TensorData::new::<f32, _>(values, shape), (&device, dtype)),
        Tensor::from_data(TensorData::new::<i32, _>(places, shape), &device),
    )
}

/// Values and places, row by row.
fn select(x: &[f32], columns: usize, k: usize, floor: f32) -> Vec<(f32, i32)> {
    let wanted = |row: &[f32]| row.iter().filter(|x| **x > floor).count();
    let most = x.par_chunks(columns).map(wanted).max().unwrap_or(0);
    let k = k.min(columns).min(most.max(1));
    let rows = x.par_chunks(columns).map(|row| {
        let mut keys: Vec<u64> = row.iter().zip(0..).map(|(x, i)| key(*x, i)).collect();
        if k < keys.len() {
            keys.select_nth_unstable(k - 1);
            keys.truncate(k);
        }
        keys.sort_unstable();
        let best = keys.into_iter().map(|key| key as u32 as usize);
        best.map(|i| (row[i], i as i32)).collect::<Vec<_>>()
    });
    rows.flatten_iter().collect()
}

/// An integer that is less the larger `x` is, and of equals the less `place` is.
fn key(x: f32, place: u32) -> u64 {
    // Zeros of both signs are equal.
    let bits = (x + 0.0).to_bits();
    let rising = if bits >> 31 == 1 {
        !bits
    } else {
        bits | 1 << 31
    };
    u64::from(!rising) << 32 | u64::from(place)
}
