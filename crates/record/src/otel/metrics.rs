//! Histograms of the measurements.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::Resource;
use super::encode::encode_attributes;

/// The metrics of requests, turns and tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    Tokens,
    Chat,
    Turn,
    Tool,
}

impl Metric {
    /// Name, description and unit.
    fn definition(self) -> [&'static str; 3] {
        match self {
            Self::Tokens => {
                ["gen_ai.client.token.usage", "Number of input and output tokens used.", "{token}"]
            }
            Self::Chat => ["gen_ai.client.operation.duration", "GenAI operation duration.", "s"],
            Self::Turn => ["gen_ai.invoke_agent.duration", "Duration of a turn of the agent.", "s"],
            Self::Tool => ["gen_ai.execute_tool.duration", "Duration of a tool call.", "s"],
        }
    }

    /// Upper limits of the buckets in seconds or tokens; the conventions recommend them.
    fn bounds(self) -> Vec<f64> {
        let (first, factor) = if self == Self::Tokens { (1.0, 4.0) } else { (0.01, 2.0) };
        std::iter::successors(Some(first), |bound| Some(bound * factor)).take(14).collect()
    }
}

pub(super) type Labels = Vec<(&'static str, String)>;

/// One measured value.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    pub metric: Metric,
    pub value: f64,
    /// Attributes with few different values.
    pub attributes: Labels,
}

#[derive(Debug)]
struct Histogram {
    buckets: Vec<u64>,
    sum: f64,
    min: f64,
    max: f64,
}

/// The histograms so far.
#[derive(Debug)]
pub struct Metrics {
    since: u64,
    is_delta: bool,
    has_new_values: bool,
    series: BTreeMap<(Metric, Labels), Histogram>,
}

impl Metrics {
    /// Starts without values. `is_delta`: each export contains the values since the last one.
    pub fn new(now: u64, is_delta: bool) -> Self {
        Self { since: now, is_delta, has_new_values: false, series: BTreeMap::new() }
    }

    /// Adds a value.
    pub fn record(&mut self, measured: Measurement) {
        let Measurement { metric, value, attributes } = measured;
        let bounds = metric.bounds();
        let empty = || Histogram {
            buckets: vec![0; bounds.len() + 1],
            sum: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        };
        let histogram = self.series.entry((metric, attributes)).or_insert_with(empty);
        // A limit belongs to the bucket below it.
        histogram.buckets[bounds.partition_point(|bound| *bound < value)] += 1;
        histogram.sum += value;
        histogram.min = histogram.min.min(value);
        histogram.max = histogram.max.max(value);
        self.has_new_values = true;
    }

    /// The export request; `None` without a new value.
    pub fn export(&mut self, now: u64, resource: &Resource) -> Option<Json> {
        if !std::mem::take(&mut self.has_new_values) {
            return None;
        }
        let mut metrics: Vec<Json> = Vec::new();
        for (series, histogram) in &self.series {
            let point = self.data_point(series, histogram, now);
            let [name, description, unit] = series.0.definition();
            match metrics.last_mut().filter(|last| last["name"] == name) {
                Some(last) => {
                    if let Some(points) = last["histogram"]["dataPoints"].as_array_mut() {
                        points.push(point);
                    }
                }
                None => metrics.push(json!({
                    "name": name,
                    "description": description,
                    "unit": unit,
                    "histogram": {
                        "dataPoints": [point],
                        "aggregationTemporality": if self.is_delta { 1 } else { 2 },
                    },
                })),
            }
        }
        if self.is_delta {
            self.series.clear();
            self.since = now;
        }
        Some(json!({"resourceMetrics": [{
            "resource": resource.to_json(),
            "scopeMetrics": [{
                "scope": Resource::scope_json(), "metrics": metrics, "schemaUrl": Resource::SCHEMA,
            }],
        }]}))
    }

    fn data_point(&self, series: &(Metric, Labels), histogram: &Histogram, now: u64) -> Json {
        let (metric, labels) = series;
        let labels = labels.iter().map(|(name, value)| (*name, value.as_str().into()));
        json!({
            "attributes": encode_attributes(&labels.collect()),
            "startTimeUnixNano": self.since.to_string(),
            "timeUnixNano": now.to_string(),
            // As numbers: the mapping allows texts and numbers here, and some receivers lose the texts.
            "count": histogram.buckets.iter().sum::<u64>(),
            "sum": histogram.sum,
            "min": histogram.min,
            "max": histogram.max,
            "bucketCounts": histogram.buckets,
            "explicitBounds": metric.bounds(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(value: f64) -> Measurement {
        let attributes = vec![("gen_ai.token.type", "input".to_owned())];
        Measurement { metric: Metric::Tokens, value, attributes }
    }

    fn counts(metrics: &mut Metrics, now: u64) -> Option<String> {
        let export = metrics.export(now, &Resource::default())?;
        let points = "/resourceMetrics/0/scopeMetrics/0/metrics/0/histogram/dataPoints/0";
        let point = export.pointer(points).expect("a point");
        let counts = point["bucketCounts"].as_array().expect("counts");
        let counts: Vec<String> = counts.iter().map(Json::to_string).collect();
        Some(format!("{} {} {}", point["startTimeUnixNano"], point["sum"], counts.join("")))
    }

    #[test]
    fn values_at_a_limit_are_in_the_bucket_below_it() {
        let mut metrics = Metrics::new(1, false);
        for value in [0.0, 1.0, 2.0, 4.0, 1e9] {
            metrics.record(measured(value));
        }
        assert_eq!(counts(&mut metrics, 2), Some("\"1\" 1000000007.0 220000000000001".to_owned()));
        assert_eq!(counts(&mut metrics, 3), None);
        metrics.record(measured(3.0));
        assert_eq!(counts(&mut metrics, 4), Some("\"1\" 1000000010.0 230000000000001".to_owned()));
    }

    #[test]
    fn delta_counts_from_the_last_export() {
        let mut metrics = Metrics::new(1, true);
        metrics.record(measured(2.0));
        assert_eq!(counts(&mut metrics, 2), Some("\"1\" 2.0 010000000000000".to_owned()));
        metrics.record(measured(2.0));
        assert_eq!(counts(&mut metrics, 5), Some("\"2\" 2.0 010000000000000".to_owned()));
    }
}
