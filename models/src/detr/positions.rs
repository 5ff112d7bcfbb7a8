//! Places as sines and cosines (Vaswani et al. 2017).

use core::f32::consts::TAU;

use burn::prelude::*;

/// How the numbers of one coordinate stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// sin, cos, sin, cos, …, each pair of a frequency.
    Interleaved,
    /// All sines, then all cosines.
    Halves,
}

/// The frequencies of `width` numbers of one coordinate.
fn frequencies(width: usize, temperature: f32) -> Vec<f32> {
    let half = width / 2;
    let frequency = |i| temperature.powf(-(i as f32) / half as f32);
    (0..half).map(frequency).collect()
}

fn encode(at: f32, frequencies: &[f32], order: Order, to: &mut Vec<f32>) {
    let angles = frequencies.iter().map(|frequency| at * frequency);
    match order {
        Order::Interleaved => to.extend(angles.flat_map(|angle| [angle.sin(), angle.cos()])),
        Order::Halves => {
            to.extend(angles.clone().map(f32::sin));
            to.extend(angles.map(f32::cos));
        }
    }
}

/// Each of `places` as `width` numbers, `[1, places, width]`.
pub(crate) fn sine_table(
    places: &[f32],
    width: usize,
    temperature: f32,
    device: &Device,
) -> Tensor<3> {
    let frequencies = frequencies(width, temperature);
    let mut table = Vec::with_capacity(places.len() * width);
    for at in places {
        encode(*at, &frequencies, Order::Interleaved, &mut table);
    }
    Tensor::<1>::from_data(table.as_slice(), device).reshape([1, places.len(), width])
}

/// The pixels of a map, row by row, as `width` numbers, half of them for y and then half for x: `[1, H · W, width]`. `place`
/// gives the coordinate of pixel `i` of a side of a length.
pub(crate) fn sine_of_places(
    [height, across]: [usize; 2],
    width: usize,
    temperature: f32,
    order: Order,
    place: impl Fn(usize, usize) -> f32,
    device: &Device,
) -> Tensor<3> {
    let frequencies = frequencies(width / 2, temperature);
    let axis = |length: usize| {
        let mut rows = Vec::with_capacity(length);
        for i in 0..length {
            let mut row = Vec::with_capacity(width / 2);
            encode(place(i, length), &frequencies, order, &mut row);
            rows.push(row);
        }
        rows
    };
    let (rows, columns) = (axis(height), axis(across));
    let mut table = Vec::with_capacity(height * across * width);
    for row in &rows {
        for column in &columns {
            table.extend_from_slice(row);
            table.extend_from_slice(column);
        }
    }
    Tensor::<1>::from_data(table.as_slice(), device).reshape([1, height * across, width])
}

/// Boxes `[B, Q, 4]` as `[B, Q, 4 · width]`: `width` numbers each for y, x, width and height, interleaved, on a full circle.
pub(crate) fn sine_of_boxes(boxes: Tensor<3>, width: usize, temperature: f32) -> Tensor<3> {
    let [batch, count, _] = boxes.dims();
    let frequencies = frequencies(width, temperature);
    let half = frequencies.len();
    let angles: Vec<f32> = frequencies
        .iter()
        .map(|frequency| TAU * frequency)
        .collect();
    let angles = Tensor::<1>::from_data(angles.as_slice(), &boxes.device());
    let angles = angles.reshape([1, 1, 1, half]);
    let coordinate = |i| boxes.clone().narrow(2, i, 1);
    let ordered = Tensor::cat([1, 0, 2, 3].map(coordinate).to_vec(), 2);
    let at = ordered.reshape([batch, count, 4, 1]) * angles;
    let both: Tensor<5> = Tensor::stack(vec![at.clone().sin(), at.cos()], 4);
    both.reshape([batch, count, 4 * width])
}
