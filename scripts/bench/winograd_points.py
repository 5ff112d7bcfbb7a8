#!/usr/bin/env python3
"""What rounding costs a 3 × 3 convolution with fewer multiplications, by the points at which Winograd's algorithm evaluates its
polynomials (kernels/src/cpu/winograd.rs): the error in f32 against f64, with random inputs and weights of 320 channels.

    winograd_points.py

Prints, for each set of points (infinity is one more), the tile, and the largest and the mean square error as shares of the largest and of
the mean square result; in the last line those of the plain convolution. Needs numpy.
"""

from fractions import Fraction

import numpy as np

CHANNELS, OUTPUTS, TILES, TAPS = 320, 16, 64, 3


def times(a, b):
    """The product of polynomials by their coefficients."""
    product = [Fraction(0)] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] += x * y
    return product


def transforms(points, tile):
    """The matrices for inputs, weights and results (Toom and Cook's, transposed), exactly."""
    seen = tile + TAPS - 1
    inputs, weights = [], []
    for i, point in enumerate(points):
        polynomial, scale = [Fraction(1)], Fraction(1)
        for j, other in enumerate(points):
            if j != i:
                polynomial, scale = times(polynomial, [-other, Fraction(1)]), scale * (point - other)
        inputs.append(polynomial + [Fraction(0)] * (seen - len(polynomial)))
        weights.append([point**k / scale for k in range(TAPS)])
    polynomial = [Fraction(1)]
    for point in points:
        polynomial = times(polynomial, [-point, Fraction(1)])
    inputs.append(polynomial)
    weights.append([Fraction(0)] * (TAPS - 1) + [Fraction(1)])
    results = [[point**k for point in points] + [Fraction(k == tile - 1)] for k in range(tile)]
    return inputs, weights, results


def by_winograd(matrices, x, w, dtype):
    """The tiles `[out, tile, y, x]` of `x` `[channel, tile, y, x]` and `w` `[out, channel, 3, 3]`, computed in `dtype`."""
    of_input, of_weight, of_result = (np.array([[float(v) for v in row] for row in m], dtype) for m in matrices)
    w = np.einsum("ij,ocjk,lk->iloc", of_weight, w.astype(dtype), of_weight)
    x = np.einsum("ij,ctjk->ctik", of_input, x.astype(dtype))
    x = np.einsum("ctik,lk->ilct", x, of_input)
    sums = np.einsum("ai,ilot->alot", of_result, np.matmul(w, x))
    return np.einsum("alot,bl->otab", sums, of_result)


def plainly(x, w, tile, dtype):
    taps = [(a, b) for a in range(TAPS) for b in range(TAPS)]
    columns = np.stack([x[:, :, a : a + tile, b : b + tile] for a, b in taps], 1).reshape(CHANNELS * len(taps), -1)
    return (w.reshape(OUTPUTS, -1).astype(dtype) @ columns.astype(dtype)).reshape(OUTPUTS, TILES, tile, tile)


def main():
    half, quarters = Fraction(1, 2), Fraction(3, 4)
    kinds = [(2, [0, 1, -1]), (4, [0, 1, -1, 2, -2]), (4, [0, 1, -1, half, -2]), (4, [0, quarters, -quarters, 2 * quarters, -2 * quarters])]
    random = np.random.default_rng(0)
    w = (random.standard_normal((OUTPUTS, CHANNELS, TAPS, TAPS)) / np.sqrt(9 * CHANNELS)).astype(np.float32)
    x = random.standard_normal((CHANNELS, TILES, 6, 6)).astype(np.float32)

    def report(name, got, right):
        off = np.abs(got - right)
        largest, square = off.max() / np.abs(right).max(), np.sqrt((off**2).mean() / (right**2).mean())
        print(f"{name:28} {largest:8.1e} {square:8.1e}")

    print(f"{'points':28} {'largest':>8} {'square':>8}")
    for tile, points in kinds:
        part = x[:, :, : tile + 2, : tile + 2]
        right = plainly(part, w, tile, np.float64)
        got = by_winograd(transforms([Fraction(p) for p in points], tile), part, w, np.float32)
        report(f"{tile} × {tile}: " + ", ".join(str(p) for p in points), got, right)
    report("none", plainly(x, w, 4, np.float32), plainly(x, w, 4, np.float64))


if __name__ == "__main__":
    main()
