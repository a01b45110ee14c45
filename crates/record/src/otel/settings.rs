//! The standard `OTEL_*` variables.

use std::path::PathBuf;
use std::time::Duration;

use super::ParentSpan;

/// The exported signals with their receivers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TelemetrySettings {
    pub traces: Option<ExportTarget>,
    pub metrics: Option<ExportTarget>,
    pub logs: Option<ExportTarget>,
    pub resource: Vec<(String, String)>,
    pub parent: Option<ParentSpan>,
    pub has_content: bool,
    /// If true, measurements count from the last export, not from the start.
    pub is_delta: bool,
    /// Maximum time that a finished span or a log record waits for others.
    pub span_delay: Duration,
    pub metric_interval: Duration,
}

/// The address of a receiver, with options of the requests.
#[derive(Clone, Default, PartialEq)]
pub struct ExportTarget {
    pub url: String,
    /// May contain keys.
    pub headers: Vec<(String, String)>,
    pub timeout: Duration,
    pub ca_file: Option<PathBuf>,
}

impl std::fmt::Debug for ExportTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").finish_non_exhaustive()
    }
}

/// Reads the variables, if there is an address; also returns a warning for each unsupported request.
pub fn read_settings(
    variable: impl Fn(&str) -> Option<String>,
) -> (Option<TelemetrySettings>, Vec<String>) {
    // An empty variable counts as unset.
    let text = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let is_on = |name: &str| text(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let address = |signal: &str| {
        let own = text(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"));
        let base = || {
            let base = text("OTEL_EXPORTER_OTLP_ENDPOINT")?;
            let path = signal.to_ascii_lowercase();
            Some(format!("{}/v1/{path}", base.trim().trim_end_matches('/')))
        };
        own.or_else(base)
    };
    let has_address = ["TRACES", "METRICS", "LOGS"].into_iter().any(|it| address(it).is_some());
    if !has_address || is_on("OTEL_SDK_DISABLED") {
        return (None, Vec::new());
    }
    let mut warnings = Vec::new();
    let mut target = |signal: &str| {
        let url = address(signal)?;
        // The variable of the signal has precedence.
        let set = |name: &str| {
            let names = [
                format!("OTEL_EXPORTER_OTLP_{signal}_{name}"),
                format!("OTEL_EXPORTER_OTLP_{name}"),
            ];
            names.into_iter().find_map(|name| Some((text(&name)?, name)))
        };
        let exporter = format!("OTEL_{signal}_EXPORTER");
        let exporter = text(&exporter).map(|value| (value, exporter));
        for (chosen, supported) in [(exporter, "otlp"), (set("PROTOCOL"), "http/json")] {
            let Some((value, name)) = chosen else { continue };
            let value = value.trim();
            if value == "none" && name.ends_with("_EXPORTER") {
                return None;
            }
            if value != supported {
                warnings.push(format!(
                    "{name}={value} is not supported, and nothing is exported with it; set {name}={supported}"
                ));
                return None;
            }
        }
        let timeout = set("TIMEOUT").and_then(|(value, _)| value.trim().parse().ok());
        Some(ExportTarget {
            url: url.trim().to_owned(),
            headers: set("HEADERS").map_or_else(Vec::new, |(value, _)| parse_pairs(&value)),
            timeout: Duration::from_millis(timeout.unwrap_or(10_000)),
            ca_file: set("CERTIFICATE").map(|(path, _)| path.into()),
        })
    };
    let (mut traces, metrics, logs) = (target("TRACES"), target("METRICS"), target("LOGS"));
    // One variable may concern all signals.
    warnings.dedup();
    let parent = text("TRACEPARENT").and_then(|value| ParentSpan::parse(&value));
    // Like the default sampler: parts of a trace that the caller does not sample are not sampled either.
    if parent.is_some_and(|parent| !parent.is_sampled) {
        traces = None;
    }
    if traces.is_none() && metrics.is_none() && logs.is_none() {
        return (None, warnings);
    }
    let milliseconds = |name: &str, default: u64| {
        let set = text(name).and_then(|value| value.trim().parse().ok());
        Duration::from_millis(set.unwrap_or(default))
    };
    let is_one_of = |name: &str, values: &[&str]| {
        let value = text(name).unwrap_or_default();
        values.iter().any(|one| value.trim().eq_ignore_ascii_case(one))
    };
    let settings = TelemetrySettings {
        traces,
        metrics,
        logs,
        resource: resource_attributes(
            text("OTEL_SERVICE_NAME"),
            &text("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default(),
        ),
        parent,
        has_content: is_one_of(
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
            &["true", "span_only", "span_and_event"],
        ),
        is_delta: is_one_of(
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
            &["delta", "lowmemory"],
        ),
        span_delay: milliseconds("OTEL_BSP_SCHEDULE_DELAY", 5000),
        metric_interval: milliseconds("OTEL_METRIC_EXPORT_INTERVAL", 60_000),
    };
    (Some(settings), warnings)
}

fn resource_attributes(service: Option<String>, attributes: &str) -> Vec<(String, String)> {
    const NAME: &str = "service.name";
    let mut all = parse_pairs(attributes);
    if let Some(service) = service {
        all.retain(|(name, _)| name != NAME);
        all.insert(0, (NAME.to_owned(), service));
    }
    if !all.iter().any(|(name, _)| name == NAME) {
        all.insert(0, (NAME.to_owned(), "agent".to_owned()));
    }
    all
}

/// Whether the variable contains headers of requests, which are secrets.
pub fn is_headers_variable(name: &str) -> bool {
    name.starts_with("OTEL_") && name.ends_with("_HEADERS")
}

/// The names and values in such a variable: each value as a whole, and without its scheme (`Bearer`).
pub fn header_values(headers: &str) -> Vec<(String, String)> {
    let mut values = Vec::new();
    for (name, value) in parse_pairs(headers) {
        let end = value.split_whitespace().next_back().unwrap_or_default().to_owned();
        values.extend([(name.clone(), end), (name, value)]);
    }
    values
}

/// Parses `name=value,name=value`, with percent-encoded values.
fn parse_pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let decode = |value| percent_encoding::percent_decode_str(value).decode_utf8_lossy();
    let pairs =
        pairs.map(|(name, value)| (name.trim().to_owned(), decode(value.trim()).into_owned()));
    pairs.filter(|(name, _)| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> (Option<TelemetrySettings>, Vec<String>) {
        read_settings(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn urls(variables: &[(&str, &str)]) -> (Option<String>, Option<String>) {
        let settings = read(variables).0.unwrap_or_default();
        (settings.traces.map(|it| it.url), settings.metrics.map(|it| it.url))
    }

    const BASE: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4318/");

    #[test]
    fn addresses_of_signals() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(urls(&[]), (None, None));
        assert_eq!(urls(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]), (None, None));
        assert_eq!(
            urls(&[BASE]),
            (some("http://h:4318/v1/traces"), some("http://h:4318/v1/metrics"))
        );
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/x");
        assert_eq!(urls(&[own]), (some("http://t/x"), None));
        assert_eq!(urls(&[own, BASE]), (some("http://t/x"), some("http://h:4318/v1/metrics")));
        assert_eq!(urls(&[BASE, ("OTEL_SDK_DISABLED", "TRUE")]), (None, None));
        let no_traces = [BASE, ("OTEL_TRACES_EXPORTER", "none")];
        assert_eq!(urls(&no_traces), (None, some("http://h:4318/v1/metrics")));
    }

    #[test]
    fn what_is_not_supported_is_said() {
        let grpc = [BASE, ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")];
        assert_eq!(urls(&grpc), (None, Some("http://h:4318/v1/metrics".to_owned())));
        let warnings = read(&grpc).1;
        assert_eq!(warnings.len(), 1);
        assert!(
            warnings[0].starts_with("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc is not supported")
        );
        assert_eq!(read(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]), (None, Vec::new()));
        let unsampled = ("TRACEPARENT", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
        assert_eq!(urls(&[BASE, unsampled]).0, None);
    }

    #[test]
    fn headers_and_attributes_are_decoded() {
        let settings = read(&[
            BASE,
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b%20c, authorization = Bearer x=y ,broken,=z"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=%C3%A4"),
            ("OTEL_SERVICE_NAME", "mine"),
        ]);
        let settings = settings.0.expect("on");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let traces = settings.traces.expect("on");
        assert_eq!(traces.headers, [pair("a", "b c"), pair("authorization", "Bearer x=y")]);
        assert_eq!(traces.timeout, Duration::from_millis(250));
        assert_eq!(settings.resource, [pair("service.name", "mine"), pair("team", "ä")]);
        assert_eq!(header_values("k=Bearer%20abc"), [pair("k", "abc"), pair("k", "Bearer abc")]);
    }
}
