//! Distribution functions of the normal and the binomial distribution.

/// The quantile function of the standard normal distribution, `0 < p < 1`.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    // Newton's method from a start that is accurate in the tail and close in the middle; with the logarithm of the
    // distribution function it always converges.
    let mut x = -(-2.0 * p.ln()).sqrt();
    for _ in 0..64 {
        let below = 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
        let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let step = (below.ln() - p.ln()) * below / density;
        x -= step;
        if step.abs() < 1e-14 * (1.0 + x.abs()) {
            break;
        }
    }
    x
}

/// The probability of `k` successes or fewer in `n` trials with probability `p`, `0 < p < 1`.
pub(crate) fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    incomplete_beta((n - k) as f64, (k + 1) as f64, 1.0 - p)
}

/// The smallest number of successes `k` for which the probability of `k` or fewer is at least `level`.
pub(crate) fn binomial_quantile(level: f64, n: u64, p: f64) -> u64 {
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = low + (high - low) / 2;
        if binomial_cdf(middle, n, p) >= level {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// The regularized incomplete beta function I_x(a, b).
pub(crate) fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The continued fraction converges fast on one side of the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let ln_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let factor = (a * x.ln() + b * (-x).ln_1p() - ln_beta).exp() / a;
    factor * beta_fraction(a, b, x)
}

/// The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    // The number of terms grows with the square root of the larger parameter.
    for m in 1..200_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

/// The probability `p` at which `k` successes or fewer in `n` trials have probability `level`: a limit of Clopper
/// and Pearson's interval. `k < n`.
pub(crate) fn binomial_probability(k: u64, n: u64, level: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if binomial_cdf(k, n, middle) > level {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}
