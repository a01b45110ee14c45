//! Intervals for success rates and for the difference of two variants.

use serde::{Deserialize, Serialize};

/// Quantile of the normal distribution for an interval of 95 %.
const Z: f64 = 1.959_963_984_540_054;
/// With fewer differing pairs the exact sign test cannot reach 5 %: 2 × 0.5⁵ = 6.25 %.
pub const MIN_DIFFERING_PAIRS: u32 = 6;

/// An interval of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// The design effect of values in clusters: how many times as large the variance of their mean is as that of
/// independent values. Repetitions of a task resemble each other: it lies between 1, where each repetition counts, and
/// the number of repetitions, where each task counts once. Results of a single task are about that task, so each counts.
///
/// L. Kish: Survey Sampling (1965), chapter 5. For evaluations of models: E. Miller: Adding Error Bars to Evals (2024),
/// arXiv 2411.00640, section 2.2.
pub fn design_effect(clusters: &[Vec<f64>]) -> f64 {
    let values = || clusters.iter().flatten().copied();
    let (n_values, n_clusters) = (count_as_f64(values().count()), count_as_f64(clusters.len()));
    if n_clusters <= 1.0 || n_values <= n_clusters {
        return 1.0;
    }
    let mean = values().sum::<f64>() / n_values;
    let square = |value: f64| value * value;
    let independent =
        values().map(|value| square(value - mean)).sum::<f64>() / (n_values * (n_values - 1.0));
    let deviation = |cluster: &Vec<f64>| cluster.iter().map(|value| value - mean).sum::<f64>();
    let squares = clusters.iter().map(deviation).map(square).sum::<f64>();
    let clustered = n_clusters / (n_clusters - 1.0) * squares / square(n_values);
    let most = n_values / n_clusters;
    // Equal values contain no information about repetitions: the result is the cautious one.
    if independent > 0.0 { (clustered / independent).clamp(1.0, most) } else { most }
}

fn count_as_f64(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

/// The Wilson score interval of a success rate with this design effect; `None` without runs.
///
/// E. B. Wilson: Probable inference, the law of succession, and statistical inference. Journal of the American
/// Statistical Association 22 (1927), 209–212. With the effective number of runs: C. Franco, R. J. A. Little, T. A.
/// Louis, E. V. Slud: Comparative study of confidence intervals for proportions in complex sample surveys. Journal of
/// Survey Statistics and Methodology 7 (2019), 334–364.
pub fn wilson_interval(successes: u32, n: u32, design_effect: f64) -> Option<Interval> {
    if n == 0 {
        return None;
    }
    let (rate, n) = (f64::from(successes) / f64::from(n), f64::from(n) / design_effect);
    let z2 = Z * Z;
    let centre = (rate + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z / (1.0 + z2 / n) * (rate * (1.0 - rate) / n + z2 / (4.0 * n * n)).sqrt();
    Some(Interval { low: (centre - half).max(0.0), high: (centre + half).min(1.0) })
}

/// Pairs of runs of two variants on the same task and repetition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PairCounts {
    pub both: u32,
    pub only_variant: u32,
    pub only_baseline: u32,
    pub neither: u32,
}

/// The result of comparing a variant with the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonVerdict {
    Better,
    Worse,
    /// The interval contains 0, or too few pairs differ.
    Undecided,
}

impl PairCounts {
    /// Adds a pair.
    pub fn add(&mut self, variant: bool, baseline: bool) {
        match (variant, baseline) {
            (true, true) => self.both += 1,
            (true, false) => self.only_variant += 1,
            (false, true) => self.only_baseline += 1,
            (false, false) => self.neither += 1,
        }
    }

    /// The number of pairs.
    pub fn total(&self) -> u32 {
        self.both + self.only_variant + self.only_baseline + self.neither
    }

    /// The number of pairs whose runs ended differently.
    pub fn differing(&self) -> u32 {
        self.only_variant + self.only_baseline
    }

    /// The success rate of the variant minus that of the baseline, with its interval; `None` without pairs. The design
    /// effect is that of the differences.
    ///
    /// Method 10 of R. G. Newcombe: Improved confidence intervals for the difference between binomial proportions
    /// based on paired data. Statistics in Medicine 17 (1998), 2635–2650. It combines the Wilson intervals of both
    /// rates with the correlation of the pairs, and is usable with few pairs and with rates of 0 and 1.
    pub fn difference(&self, design_effect: f64) -> Option<(f64, Interval)> {
        let n = self.total();
        let one = wilson_interval(self.both + self.only_variant, n, design_effect)?;
        let other = wilson_interval(self.both + self.only_baseline, n, design_effect)?;
        let [both, only_one, only_other, neither, n] =
            [self.both, self.only_variant, self.only_baseline, self.neither, n]
                .map(|count| f64::from(count) / design_effect);
        let (rate_one, rate_other) = ((both + only_one) / n, (both + only_other) / n);
        let margins =
            (both + only_one) * (only_other + neither) * (both + only_other) * (only_one + neither);
        let product = both * neither - only_one * only_other;
        // Only a positive correlation gets a continuity correction.
        let corrected = if product > 0.0 { (product - n / 2.0).max(0.0) } else { product };
        let phi = if margins > 0.0 { corrected / margins.sqrt() } else { 0.0 };
        let half = |one: f64, other: f64| {
            (one * one - 2.0 * phi * one * other + other * other).max(0.0).sqrt()
        };
        let difference = rate_one - rate_other;
        let below = half(rate_one - one.low, other.high - rate_other);
        let above = half(one.high - rate_one, rate_other - other.low);
        let (low, high) = ((difference - below).max(-1.0), (difference + above).min(1.0));
        Some((difference, Interval { low, high }))
    }

    /// Whether enough pairs differ: [`MIN_DIFFERING_PAIRS`], as independent pairs.
    pub fn can_decide(&self, design_effect: f64) -> bool {
        f64::from(self.differing()) / design_effect >= f64::from(MIN_DIFFERING_PAIRS)
    }

    /// The result of the comparison.
    pub fn verdict(&self, design_effect: f64) -> ComparisonVerdict {
        match self.difference(design_effect) {
            Some(_) if !self.can_decide(design_effect) => ComparisonVerdict::Undecided,
            Some((_, interval)) if interval.low > 0.0 => ComparisonVerdict::Better,
            Some((_, interval)) if interval.high < 0.0 => ComparisonVerdict::Worse,
            Some(_) | None => ComparisonVerdict::Undecided,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(interval: Interval) -> String {
        format!("{:.4} {:.4}", interval.low, interval.high)
    }

    fn check_wilson(successes: u32, n: u32, expected: &str) {
        assert_eq!(
            shown(wilson_interval(successes, n, 1.0).expect("runs")),
            expected,
            "{successes} of {n}"
        );
    }

    fn pairs([both, only_variant, only_baseline, neither]: [u32; 4]) -> PairCounts {
        PairCounts { both, only_variant, only_baseline, neither }
    }

    #[test]
    fn wilson_intervals_are_those_of_the_literature() {
        // Newcombe 1998 (Statistics in Medicine 17, 857–872), table I, method 3.
        check_wilson(81, 263, "0.2553 0.3662");
        check_wilson(15, 148, "0.0624 0.1605");
        check_wilson(0, 20, "0.0000 0.1611");
        check_wilson(1, 29, "0.0061 0.1718");
        check_wilson(10, 10, "0.7225 1.0000");
        assert_eq!(wilson_interval(0, 0, 1.0), None);
    }

    #[test]
    fn paired_differences_are_those_of_the_literature() {
        // Fagerland, Lydersen and Laake: Statistical Analysis of Contingency Tables (2017), chapter 8: airway
        // hyper-responsiveness (Bentur 2009), and complete response (Cavo 2012).
        for (counts, expected) in [
            ([1, 1, 7, 12], "-0.2857: -0.5069 -0.0256"),
            ([59, 6, 16, 80], "-0.0621: -0.1186 -0.0046"),
        ] {
            let (difference, interval) = pairs(counts).difference(1.0).expect("pairs");
            assert_eq!(format!("{difference:.4}: {}", shown(interval)), expected);
        }
        assert_eq!(PairCounts::default().difference(1.0), None);
    }

    #[test]
    fn difference_changes_its_sign_with_the_roles() {
        for counts in [[3, 5, 1, 2], [0, 0, 9, 0], [7, 0, 0, 0], [0, 4, 4, 0], [2, 1, 0, 8]] {
            let [both, one, other, neither] = counts;
            let (difference, interval) = pairs(counts).difference(1.0).expect("pairs");
            let (swapped, other_interval) =
                pairs([both, other, one, neither]).difference(1.0).expect("pairs");
            assert!((difference + swapped).abs() < 1e-12, "{counts:?}");
            assert!((interval.low + other_interval.high).abs() < 1e-12, "{counts:?}");
            assert!((interval.high + other_interval.low).abs() < 1e-12, "{counts:?}");
            assert!(interval.low <= difference && difference <= interval.high, "{counts:?}");
        }
    }

    #[test]
    fn few_differing_pairs_decide_nothing() {
        assert_eq!(pairs([0, 0, 5, 0]).verdict(1.0), ComparisonVerdict::Undecided);
        assert_eq!(pairs([0, 0, 6, 0]).verdict(1.0), ComparisonVerdict::Worse);
        assert_eq!(pairs([4, 8, 0, 0]).verdict(1.0), ComparisonVerdict::Better);
        assert_eq!(pairs([5, 5, 4, 5]).verdict(1.0), ComparisonVerdict::Undecided);
        assert_eq!(PairCounts::default().verdict(1.0), ComparisonVerdict::Undecided);
    }

    #[test]
    fn repetitions_count_as_far_as_they_differ() {
        // One run of each task: nothing to correct.
        assert!((design_effect(&[vec![1.0], vec![0.0], vec![1.0]]) - 1.0).abs() < 1e-12);
        // Repetitions that never differ count once, for any tasks.
        let equal = |values: [f64; 3]| values.map(|value| vec![value; 10]);
        assert!((design_effect(&equal([1.0, 0.0, 1.0])) - 10.0).abs() < 1e-12);
        assert!((design_effect(&equal([1.0, 1.0, 1.0])) - 10.0).abs() < 1e-12);
        // Tasks that do not differ have independent repetitions.
        let alike = vec![vec![1.0, 0.0], vec![1.0, 0.0], vec![0.0, 1.0]];
        assert!((design_effect(&alike) - 1.0).abs() < 1e-12);
        assert!((design_effect(&[vec![1.0, 1.0, 0.0]]) - 1.0).abs() < 1e-12);
        // Between: means 1, 0.5 and 0; 3/2 × (1 + 0 + 1) ÷ 36 against 1.5 ÷ 30.
        let mixed = vec![vec![1.0, 1.0], vec![1.0, 0.0], vec![0.0, 0.0]];
        assert!((design_effect(&mixed) - 5.0 / 3.0).abs() < 1e-12);
        assert_eq!(wilson_interval(20, 20, 2.0), wilson_interval(10, 10, 1.0));
        assert_eq!(pairs([0, 0, 12, 0]).verdict(4.0), ComparisonVerdict::Undecided);
        assert_eq!(pairs([0, 0, 12, 0]).verdict(2.0), ComparisonVerdict::Worse);
    }
}
