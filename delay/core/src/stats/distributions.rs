//! Distribution functions of the normal, beta and Student's distribution.

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

/// The quantile function of the beta distribution, `0 < p < 1`.
pub(crate) fn beta_quantile(p: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if incomplete_beta(a, b, middle) < p {
            low = middle;
        } else {
            high = middle;
        }
        if high - low <= 1e-12 * low {
            break;
        }
    }
    0.5 * (low + high)
}

/// The quantile function of Student's distribution above its median, `0.5 < p < 1`.
pub(crate) fn student_quantile(p: f64, freedom: usize) -> f64 {
    let freedom = freedom as f64;
    let x = beta_quantile(2.0 * (1.0 - p), 0.5 * freedom, 0.5);
    (freedom * (1.0 - x) / x).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_student() {
        // Tables of the t distribution.
        for (p, freedom, t) in [(0.975, 1, 12.7062), (0.975, 8, 2.306004), (0.995, 2, 9.924843)] {
            let found = student_quantile(p, freedom);
            assert!((found - t).abs() < 1e-4, "{found} {t}");
        }
    }
}
