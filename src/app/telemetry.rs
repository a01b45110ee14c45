//! Exports the session's telemetry (`docs/TELEMETRY.md`), if the `OTEL_*` variables name a receiver.
//!
//! The loop only folds events; a thread collects, sends and retries. What the thread cannot send is lost, and
//! reported once.

use std::sync::mpsc::{Receiver as Done, Sender as IsDone, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver as Queue, Sender, channel as queue};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use agent_model::{DocumentSender, SendError};
use agent_protocol::event::{Event, EventBody, EventStream, Sink, StampedEvent};
use agent_record::otel::{
    self, ExportTarget, LogRecord, Metrics, Resource, Span, TelemetryFold, TelemetryRecord,
    TelemetrySettings,
};

/// Limits of what waits for the thread, and of the spans of one request, as in OpenTelemetry's SDKs.
const QUEUE_CAPACITY: usize = 2048;
const BATCH_SIZE: usize = 512;
/// How often a request is tried, and how long the next attempt is waited for at most.
const MAX_TRIES: u32 = 5;
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// Doubles with each attempt.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
/// How long the end of a session waits until everything is sent, and if the user does not want to wait.
const FINISH_TIMEOUT: Duration = Duration::from_millis(500);
const DROP_TIMEOUT: Duration = Duration::from_millis(500);

pub(super) struct Telemetry {
    shared: Arc<TelemetryState>,
    /// Closed when the thread ends.
    done: Mutex<Done<()>>,
}

struct TelemetryState {
    fold: Mutex<TelemetryFold>,
    queue: Sender<TelemetryRecord>,
    /// Receives notices, until the session ends: the stream holds the session's lock.
    events: Mutex<Option<EventStream>>,
    closing: CancellationToken,
    /// The thread may try to send the rest until then.
    deadline: OnceLock<Instant>,
    is_done: CancellationToken,
}

impl Telemetry {
    /// `earlier`: the events of a resumed session.
    pub(super) fn start(
        events: &EventStream,
        settings: TelemetrySettings,
        earlier: &[Event],
    ) -> Option<Self> {
        let mut fold =
            TelemetryFold::new(events.session_id(), settings.parent, settings.has_content);
        fold.resume(&agent_record::live_events(earlier));
        let (sender, receiver) = queue(QUEUE_CAPACITY);
        let shared = Arc::new(TelemetryState {
            fold: Mutex::new(fold),
            queue: sender,
            events: Mutex::new(Some(events.clone())),
            closing: CancellationToken::new(),
            deadline: OnceLock::new(),
            is_done: CancellationToken::new(),
        });
        shared.update_fold(|_| {});
        let (is_done, done) = channel();
        let its = shared.clone();
        let thread = std::thread::Builder::new().name("telemetry".to_owned());
        let thread = thread.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(Exporter::new(settings, its.clone()).run(receiver));
            }
            its.is_done.cancel();
            drop::<IsDone<()>>(is_done);
        });
        thread.ok()?;
        events.add_sink(Box::new(TelemetrySink(shared.clone())));
        Some(Self { shared, done: Mutex::new(done) })
    }

    /// Ends what is open, and waits a moment until everything is sent.
    pub(super) async fn finish(&self) {
        self.shared.close(FINISH_TIMEOUT);
        _ = tokio::time::timeout(FINISH_TIMEOUT, self.shared.is_done.cancelled()).await;
        self.shared.forget_events();
    }
}

impl Drop for Telemetry {
    /// If the session was not closed, the user does not want to wait.
    fn drop(&mut self) {
        let is_closed = self.shared.events.lock().is_none();
        if !is_closed {
            self.shared.close(DROP_TIMEOUT);
            _ = self.done.lock().recv_timeout(DROP_TIMEOUT);
            self.shared.forget_events();
        }
    }
}

impl TelemetryState {
    fn update_fold(&self, change: impl FnOnce(&mut TelemetryFold)) {
        let mut fold = self.fold.lock();
        change(&mut fold);
        for record in fold.take_records() {
            // The loop does not wait for a receiver that is too slow.
            _ = self.queue.try_send(record);
        }
    }

    fn close(&self, patience: Duration) {
        self.update_fold(|fold| fold.end_all(now_ns(), "interrupted"));
        _ = self.deadline.set(Instant::now() + patience);
        self.closing.cancel();
    }

    fn forget_events(&self) {
        *self.events.lock() = None;
    }

    /// False if the session ends before.
    async fn wait_until(&self, then: Instant) -> bool {
        if self.closing.run_until_cancelled(sleep_until(then)).await.is_some() {
            return true;
        }
        let is_in_time = self.deadline.get().is_some_and(|deadline| then < *deadline);
        if is_in_time {
            sleep_until(then).await;
        }
        is_in_time
    }
}

struct TelemetrySink(Arc<TelemetryState>);

impl Sink for TelemetrySink {
    fn receive(&mut self, stamped: &StampedEvent) {
        if stamped.event.body.is_stored() {
            self.0.update_fold(|fold| fold.apply(&stamped.event));
        }
    }
}

struct Exporter {
    shared: Arc<TelemetryState>,
    settings: TelemetrySettings,
    resource: Resource,
    spans: Vec<Span>,
    logs: Vec<LogRecord>,
    metrics: Metrics,
    receivers: [Option<DocumentSender>; 3],
    has_reported: bool,
}

#[derive(Clone, Copy)]
enum Signal {
    Traces,
    Metrics,
    Logs,
}

impl Exporter {
    fn new(settings: TelemetrySettings, shared: Arc<TelemetryState>) -> Self {
        let instance = uuid::Uuid::now_v7().to_string();
        Self {
            shared,
            resource: Resource::new(settings.resource.clone(), &instance),
            spans: Vec::new(),
            logs: Vec::new(),
            metrics: Metrics::new(now_ns(), settings.is_delta),
            settings,
            receivers: [None, None, None],
            has_reported: false,
        }
    }

    async fn run(mut self, mut queue: Queue<TelemetryRecord>) {
        let far = Duration::from_hours(24);
        let mut records_are_due = Instant::now() + far;
        let mut metrics_are_due = Instant::now() + self.settings.metric_interval;
        let closing = self.shared.closing.clone();
        loop {
            tokio::select! {
                biased;
                record = queue.recv() => match record {
                    Some(record) => {
                        let had_none = self.n_records() == 0;
                        self.add_record(record);
                        if had_none && self.n_records() > 0 {
                            records_are_due = Instant::now() + self.settings.span_delay;
                        }
                        if self.n_records() >= BATCH_SIZE {
                            self.send_records().await;
                        }
                    }
                    None => break,
                },
                () = closing.cancelled() => break,
                () = sleep_until(records_are_due) => {
                    records_are_due = Instant::now() + far;
                    self.send_records().await;
                }
                () = sleep_until(metrics_are_due) => {
                    metrics_are_due = Instant::now() + self.settings.metric_interval;
                    self.send_metrics().await;
                }
            }
        }
        self.send_records().await;
        self.send_metrics().await;
    }

    /// Of the signal that has more.
    fn n_records(&self) -> usize {
        self.spans.len().max(self.logs.len())
    }

    fn add_record(&mut self, record: TelemetryRecord) {
        match record {
            TelemetryRecord::Span(span) if self.settings.traces.is_some() => self.spans.push(*span),
            TelemetryRecord::Log(record) if self.settings.logs.is_some() => self.logs.push(record),
            TelemetryRecord::Measurement(measured) if self.settings.metrics.is_some() => {
                self.metrics.record(measured);
            }
            _ => {}
        }
    }

    async fn send_records(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        for batch in spans.chunks(BATCH_SIZE) {
            self.send(Signal::Traces, &otel::encode_spans(batch, &self.resource)).await;
        }
        let logs = std::mem::take(&mut self.logs);
        for batch in logs.chunks(BATCH_SIZE) {
            self.send(Signal::Logs, &otel::encode_logs(batch, &self.resource)).await;
        }
    }

    async fn send_metrics(&mut self) {
        if let Some(metrics) = self.metrics.export(now_ns(), &self.resource) {
            self.send(Signal::Metrics, &metrics).await;
        }
    }

    async fn send(&mut self, signal: Signal, document: &Value) {
        if let Err(reason) = self.try_send(signal, document.to_string().into_bytes()).await
            && !std::mem::replace(&mut self.has_reported, true)
        {
            let message = format!("telemetry: {reason}; what was not sent is lost");
            if let Some(events) = &*self.shared.events.lock() {
                events.emit(EventBody::error("telemetry", message));
            }
        }
    }

    async fn try_send(&mut self, signal: Signal, document: Vec<u8>) -> Result<(), String> {
        let target = match signal {
            Signal::Traces => self.settings.traces.as_ref(),
            Signal::Metrics => self.settings.metrics.as_ref(),
            Signal::Logs => self.settings.logs.as_ref(),
        };
        let Some(target) = target else { return Ok(()) };
        let receiver = match &mut self.receivers[signal as usize] {
            Some(receiver) => receiver,
            none => {
                let ExportTarget { url, headers, timeout, ca_file } = target;
                none.insert(DocumentSender::new(url, headers, ca_file.as_deref(), *timeout)?)
            }
        };
        let mut delay = FIRST_RETRY_DELAY;
        for n in 1.. {
            let failure = match receiver.post(document.clone()).await {
                Ok(answer) => return check_accepted(&answer),
                Err(failure) => failure,
            };
            let SendError { message, is_temporary, retry_after } = failure;
            let wait = retry_after.unwrap_or(delay);
            let is_final = !is_temporary || n == MAX_TRIES || wait > MAX_RETRY_DELAY;
            if is_final || !self.shared.wait_until(Instant::now() + wait).await {
                return Err(message);
            }
            delay *= 2;
        }
        Ok(())
    }
}

/// A receiver may have rejected a part of a document.
fn check_accepted(answer: &str) -> Result<(), String> {
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let partial = &answer["partialSuccess"];
    let is_zero = |n: &Value| n.is_null() || n == 0 || n == "0" || n == "";
    let rejected =
        ["rejectedSpans", "rejectedDataPoints", "rejectedLogRecords"].map(|name| &partial[name]);
    if rejected.into_iter().all(is_zero) {
        return Ok(());
    }
    let why = partial["errorMessage"].as_str().unwrap_or("no reason given");
    Err(format!("the receiver rejected a part: {why}"))
}

fn now_ns() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or_default()
}
