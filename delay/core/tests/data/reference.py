#!/usr/bin/env python3
"""Makes reference.json: what scipy, numpy and ruptures say to what this crate computes itself.

    python3 reference.py > reference.json      (numpy, scipy, ruptures)
"""
import json
import sys

import numpy as np
import ruptures
from scipy import fft, optimize, signal, spatial, special, stats

random = np.random.default_rng(2016)


def shares():
    for k, n in [(0, 10), (1, 10), (10, 10), (3, 1000), (500, 1000), (37, 100_000_000)]:
        for confidence in [0.9, 0.95, 0.99]:
            interval = stats.binomtest(k, n).proportion_ci(confidence, "exact")
            yield [k, n, confidence, interval.low, interval.high]


def distribution():
    values = np.sort(np.round(random.lognormal(10, 0.7, 500))).astype(int)
    quantiles = [0.01, 0.25, 0.5, 0.9, 0.99]
    return {
        "values": random.permutation(values).tolist(),
        "mean": values.mean(),
        "standard_deviation": values.std(ddof=1),
        "percentiles": [
            [q, int(np.quantile(values, q, method="inverted_cdf"))] for q in quantiles
        ],
    }


def dependent():
    """An autoregressive sequence, and the number of independent values of its mean by cosine coefficients."""
    own = np.random.default_rng(25)
    noise = own.normal(0, 1000, 250)
    values = np.round(50_000 + signal.lfilter([1], [1, -0.7], noise)).astype(int)
    coefficients = fft.dct(values - values.mean(), norm="ortho")[1:9]
    return {
        "values": values.tolist(),
        "effective": len(values) * values.var(ddof=1) / np.mean(coefficients**2),
    }


def negative_log_likelihood(shape, scale, x):
    return -stats.genpareto.logpdf(x, shape, 0, scale).sum()


def profile(x, above, survival):
    """The greatest log-likelihood where `above` is exceeded with probability `survival`."""

    def negative(shape):
        z = special.boxcox(1 / survival, shape)
        found = negative_log_likelihood(shape, above / z, x)
        return found if found < 1e12 else 1e12

    grid = np.linspace(-0.99, 1.99, 150)
    best = grid[np.argmin([negative(shape) for shape in grid])]
    found = optimize.minimize_scalar(
        negative, bounds=(best - 0.03, best + 0.03), method="bounded", options={"xatol": 1e-10}
    )
    return -found.fun


def pareto():
    for shape, scale, n in [(-0.3, 2000, 300), (0.0, 500, 200), (0.2, 1500, 400), (0.6, 10, 250)]:
        x = np.sort(stats.genpareto.rvs(shape, 0, scale, size=n, random_state=random)).round(3)
        start = stats.genpareto.fit(x, floc=0)
        found = optimize.minimize(
            lambda p: negative_log_likelihood(p[0], np.exp(p[1]), x),
            [start[0], np.log(start[2])],
            method="Nelder-Mead",
            options={"xatol": 1e-11, "fatol": 1e-11, "maxiter": 10_000},
        )
        fitted = stats.genpareto(found.x[0], 0, np.exp(found.x[1]))
        cdf = fitted.cdf(x)
        i = np.arange(1, n + 1)
        statistic = -n - np.mean((2 * i - 1) * (np.log(cdf) + np.log1p(-cdf[::-1])))
        above = float(fitted.isf(0.001))
        reach = stats.chi2.ppf(0.95, 1) / 2
        miss = lambda ln: -found.fun - profile(x, above, np.exp(ln)) - reach
        here = np.log(0.001)
        far = next((ln for ln in -np.arange(7.5, 600) if miss(ln) > 0), None)
        yield {
            "values": x.tolist(),
            "shape": found.x[0],
            "scale": float(np.exp(found.x[1])),
            "log_likelihood": -found.fun,
            "anderson_darling": statistic,
            "survival": [[q, float(fitted.sf(q))] for q in (x[n // 2], x[-1], 2 * x[-1])],
            "above": above,
            "upper": float(np.exp(optimize.brentq(miss, here, -1e-3))),
            "lower": float(np.exp(optimize.brentq(miss, far, here))) if far else 0.0,
        }


def changes():
    for levels, noise in [([(100, 10), (50, 14), (80, 11)], 1.0), ([(200, 5)], 1.0), ([(60, 0), (60, 3), (30, 0), (50, 9)], 2.0)]:
        values = np.concatenate([random.normal(level, noise, n) for n, level in levels]).round(4)
        for penalty, shortest in [(3 * noise**2 * np.log(len(values)), 2), (5.0, 5)]:
            search = ruptures.Pelt(model="l2", min_size=shortest, jump=1).fit(values)
            points = [int(end) for end in search.predict(pen=penalty)[:-1]]
            yield {"values": values.tolist(), "penalty": penalty, "shortest": shortest, "points": points}


def hulls():
    for n, skew in [(50, 5e-5), (400, -2e-5), (400, 0.0)]:
        t = np.sort(random.choice(10_000_000_000, n, replace=False))
        d = np.round(20_000 + skew * t + random.exponential(30_000, n)).astype(int)
        # Moon, Skelly, Towsley: the line below all points, nearest in the sum, as a linear program.
        scaled = t / 1e9
        program = optimize.linprog(
            [-n, -scaled.sum()], A_ub=np.stack([np.ones(n), scaled], axis=1), b_ub=d, bounds=(None, None)
        )
        corners = spatial.ConvexHull(np.stack([t, d], axis=1)).vertices
        ends = np.interp(t[corners], [t[0], t[-1]], [d[0], d[-1]])
        lower = np.sort(corners[d[corners] <= ends + 1e-6])
        yield {
            "points": [[int(a), int(b)] for a, b in zip(t, d)],
            "corners": [[int(t[i]), int(d[i])] for i in lower],
            "delay_at_0": program.x[0],
            "skew": program.x[1] / 1e9,
        }


json.dump(
    {
        "shares": list(shares()),
        "distribution": distribution(),
        "dependent": dependent(),
        "pareto": list(pareto()),
        "changes": list(changes()),
        "hulls": list(hulls()),
    },
    sys.stdout,
    separators=(",", ":"),
)
