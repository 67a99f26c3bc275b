#!/usr/bin/env python3
"""Makes src/tail/table.rs: upper quantiles of Anderson and Darling's statistic for samples of a
generalized Pareto distribution whose shape and scale are fitted by maximum likelihood.

    python3 goodness_table.py > ../../src/tail/table.rs      (numpy; some minutes)
"""
import numpy as np

SHAPES = [-0.5, -0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.5, 0.7]
LEVELS = [0.9, 0.75, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.025, 0.01, 0.005, 0.001]
VALUES, SAMPLES, BATCH = 400, 20_000, 2_000


def profile(x, theta):
    shape = np.mean(np.log1p(theta[:, None] * x), axis=1)
    small = np.abs(theta) < 1e-12
    scale = np.where(small, x.mean(axis=1), shape / np.where(small, 1, theta))
    quality = np.where(shape <= -1, -np.inf, -np.log(scale) - shape)
    return quality, shape, scale


def fit(x):
    """The profile likelihood's maximum along theta = shape / scale, of each row."""
    x = x / x.mean(axis=1, keepdims=True)
    end = -1 / x.max(axis=1)
    # Coarse, then golden section around the best.
    grid = [end * (1 - 0.6**i) for i in range(1, 18)][::-1] + [np.zeros(len(x))]
    grid += [np.full(len(x), 1e-3 * 1.6**i) for i in range(24)]
    grid = np.array(grid)
    quality = np.array([profile(x, g)[0] for g in grid])
    best = np.clip(quality.argmax(axis=0), 1, len(grid) - 2)
    rows = np.arange(len(x))
    low, high = grid[best - 1, rows], grid[best + 1, rows]
    ratio = (5**0.5 - 1) / 2
    for _ in range(40):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        less = profile(x, a)[0] < profile(x, b)[0]
        low, high = np.where(less, a, low), np.where(less, high, b)
    _, shape, scale = profile(x, (low + high) / 2)
    return x, shape, scale


def statistic(x, shape, scale):
    z = np.sort(x, axis=1) / scale[:, None]
    shape = shape[:, None]
    small = np.abs(shape) < 1e-9
    survival = np.where(
        small,
        np.exp(-z),
        np.maximum(1 + shape * z, 1e-300) ** (-1 / np.where(small, 1, shape)),
    )
    survival = np.clip(survival, 1e-300, 1 - 1e-16)
    n = x.shape[1]
    weight = 2 * np.arange(n) + 1
    return -n - ((np.log1p(-survival) + np.log(survival[:, ::-1])) * weight).sum(axis=1) / n


def main():
    random = np.random.default_rng(8762)
    print("//! Upper quantiles of Anderson and Darling's statistic for generalized Pareto")
    print("//! distributions with both parameters fitted, by fitted shape. Simulated:")
    print("//! tests/data/goodness_table.py.")
    print()
    print("/// Shapes of the rows.")
    print(f"pub(super) const SHAPES: [f64; {len(SHAPES)}] = {SHAPES};")
    print("/// How probable a larger statistic is, by column.")
    print(f"pub(super) const LEVELS: [f64; {len(LEVELS)}] =")
    print(f"    {LEVELS};")
    print("/// The statistics.")
    print("#[rustfmt::skip]")
    print(f"pub(super) const QUANTILES: [[f64; {len(LEVELS)}]; {len(SHAPES)}] = [")
    for shape in SHAPES:
        found = []
        for _ in range(SAMPLES // BATCH):
            u = random.random((BATCH, VALUES))
            x = -np.log(u) if shape == 0 else (u**-shape - 1) / shape
            found.append(statistic(*fit(x)))
        found = np.concatenate(found)
        row = ", ".join(f"{np.quantile(found, 1 - level):.4f}" for level in LEVELS)
        print(f"    [{row}],", flush=True)
    print("];")


main()
