#!/usr/bin/env python3
"""What rounding costs a 3 × 3 convolution with fewer multiplications, by the points at which Winograd's algorithm evaluates its
polynomials (kernels/src/cpu/winograd.rs): the error in f32 against f64, with random inputs and weights of 320 channels.

    winograd_points.py

Prints, for each set of points (infinity is one more), the tile, and the error (root mean square, as a share of the results') where sums are
begun anew after so many terms and then added up; in the last line that of the plain convolution. Needs numpy.
"""

from fractions import Fraction

import numpy as np

CHANNELS, OUTPUTS, TILES, TAPS = 320, 8, 32, 3
TERMS = [512, 64, 32]


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


def product(left, right, terms):
    """`left` times `right` in f32, one fused multiplication and addition after the other."""
    total = None
    for first in range(0, left.shape[-1], terms):
        part = np.zeros(left.shape[:-1] + right.shape[-1:], np.float32)
        for k in range(first, min(first + terms, left.shape[-1])):
            part = (part + left[..., k, None].astype(np.float64) * right[..., None, k, :]).astype(np.float32)
        total = part if total is None else total + part
    return total


def by_winograd(matrices, x, w, terms):
    """The tiles `[out, tile, y, x]` of `x` `[channel, tile, y, x]` and `w` `[out, channel, 3, 3]`."""
    of_input, of_weight, of_result = (np.array([[float(v) for v in row] for row in m], np.float32) for m in matrices)
    w = np.einsum("ij,ocjk,lk->iloc", of_weight, w, of_weight)
    x = np.einsum("ij,ctjk->ctik", of_input, x)
    x = np.einsum("ctik,lk->ilct", x, of_input)
    sums = np.einsum("ai,ilot->alot", of_result, product(w, x, terms))
    return np.einsum("alot,bl->otab", sums, of_result)


def columns(x, tile):
    """The pixels under each tap, `[channels and taps, tiles and pixels]`."""
    taps = [x[:, :, a : a + tile, b : b + tile] for a in range(TAPS) for b in range(TAPS)]
    return np.stack(taps, 1).reshape(CHANNELS * len(taps), -1)


def main():
    half, eighth = Fraction(1, 2), Fraction(1, 8)
    kinds = [(2, [0, 1, -1]), (4, [0, 1, -1, 2, -2]), (4, [0, 1, -1, half, -2]), (4, [0, 5 * eighth, -5 * eighth, 3 * half, -3 * half])]
    random = np.random.default_rng(0)
    w = (random.standard_normal((OUTPUTS, CHANNELS, TAPS, TAPS)) / np.sqrt(9 * CHANNELS)).astype(np.float32)
    x = random.standard_normal((CHANNELS, TILES, 6, 6)).astype(np.float32)

    def report(name, tile, compute):
        part = x[:, :, : tile + 2, : tile + 2]
        right = (w.reshape(OUTPUTS, -1).astype(np.float64) @ columns(part, tile)).reshape(OUTPUTS, TILES, tile, tile)
        errors = [np.sqrt(((compute(part, terms) - right) ** 2).mean() / (right**2).mean()) for terms in TERMS]
        print(f"{name:32}" + "".join(f" {error:8.1e}" for error in errors))

    print(f"{'terms of a sum':32}" + "".join(f" {terms:8}" for terms in TERMS))
    for tile, points in kinds:
        matrices = transforms([Fraction(p) for p in points], tile)
        name = f"{tile} × {tile}: " + ", ".join(str(p) for p in points)
        report(name, tile, lambda part, terms, matrices=matrices: by_winograd(matrices, part, w, terms))
    plain = w.reshape(OUTPUTS, -1)
    report("none", 4, lambda part, terms: product(plain, columns(part, 4), terms).reshape(OUTPUTS, TILES, 4, 4))


if __name__ == "__main__":
    main()
