//! The interval of a success rate, and the test of the difference of two variants.

use serde::{Deserialize, Serialize};

/// Quantile of the normal distribution for 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// An interval of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// The Wilson score interval of a success rate of this number of independent runs.
///
/// E. B. Wilson: Probable inference, the law of succession, and statistical inference. Journal of the American
/// Statistical Association 22 (1927), 209–212.
pub fn wilson_interval(rate: f64, n: u32) -> Interval {
    let (n, z2) = (f64::from(n), Z * Z);
    let centre = (rate + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z / (1.0 + z2 / n) * (rate * (1.0 - rate) / n + z2 / (4.0 * n * n)).sqrt();
    Interval { low: (centre - half).max(0.0), high: (centre + half).min(1.0) }
}

/// The result of comparing a variant with the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonVerdict {
    Better,
    Worse,
    Undecided,
}

/// The test of `McNemar` with continuity correction, at 5 %: of the tasks that differ, so many are better and worse with the
/// variant. It decides from six differing tasks on.
///
/// A. L. Edwards: Note on the "correction for continuity" in testing the significance of the difference between
/// correlated proportions. Psychometrika 13 (1948), 185–187.
pub fn compare_units(better: u32, worse: u32) -> ComparisonVerdict {
    let z = (f64::from(better.abs_diff(worse)) - 1.0) / f64::from(better + worse).sqrt();
    match z > Z {
        false => ComparisonVerdict::Undecided,
        true if better > worse => ComparisonVerdict::Better,
        true => ComparisonVerdict::Worse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_intervals_are_those_of_the_literature() {
        // Newcombe 1998 (Statistics in Medicine 17, 857–872), table I, method 3.
        for (successes, n, expected) in [
            (81, 263, "0.2553 0.3662"),
            (15, 148, "0.0624 0.1605"),
            (0, 20, "0.0000 0.1611"),
            (1, 29, "0.0061 0.1718"),
            (10, 10, "0.7225 1.0000"),
        ] {
            let Interval { low, high } = wilson_interval(f64::from(successes) / f64::from(n), n);
            assert_eq!(format!("{low:.4} {high:.4}"), expected, "{successes} of {n}");
        }
    }

    #[test]
    fn few_differing_tasks_decide_nothing() {
        for (better, worse, expected) in [
            (0, 0, ComparisonVerdict::Undecided),
            (0, 5, ComparisonVerdict::Undecided),
            (0, 6, ComparisonVerdict::Worse),
            (8, 1, ComparisonVerdict::Better),
            (7, 1, ComparisonVerdict::Undecided),
            (5, 4, ComparisonVerdict::Undecided),
        ] {
            assert_eq!(compare_units(better, worse), expected, "{better} {worse}");
        }
    }
}
