//! What a session continues with when it is resumed.

use super::place;
use agent_engine::kernel::Kernel;
use agent_host::workspace::Workspace;
use agent_protocol::event::{Body, Event, Events, Place, SessionStarted};
use agent_record::SummarySink;

/// Replays a recorded session to the kernel, and adds results for calls without one.
pub(super) fn resume(
    kernel: &mut Kernel,
    events: &Events,
    summary: &SummarySink,
    loaded: &agent_record::Loaded,
    now: SessionStarted,
    changed: &dyn Fn(&[&Event]) -> Option<Body>,
) {
    for event in &loaded.events {
        summary.apply(event);
        kernel.know_calls(event);
    }
    let live = agent_record::live(&loaded.events);
    for event in &live {
        kernel.apply(event);
    }
    let place = loaded.events.last().map_or_else(Place::default, |event| event.header.place);
    events.at(place);
    let unanswered = agent_record::unanswered(live.iter().copied());
    let uncertain = unanswered
        .iter()
        .filter(|unanswered| unanswered.uncertain)
        .map(|unanswered| format!("{} ({})", unanswered.call.id, unanswered.call.name))
        .collect();
    let moved = place::changed(&live, &now.place);
    let with_agents = agent_record::live_of_all_agents(&loaded.events);
    events.emit(Body::SessionResumed {
        now,
        events: loaded.events.len() as u64,
        uncertain,
        torn: loaded.torn,
    });
    if let Some(answer) = agent_record::cut_off_answer(live.iter().copied()) {
        let event = events.emit(answer);
        summary.apply(&event);
        kernel.apply(&event);
    }
    for unanswered in &unanswered {
        kernel.apply(&events.emit(agent_record::synthetic_answer(unanswered)));
    }
    if let Some(notice) = moved {
        kernel.apply(&events.emit(notice));
    }
    if let Some(notice) = changed(&with_agents) {
        kernel.apply(&events.emit(notice));
    }
}

/// Removes temporary files that interrupted changes left, including changes that a rewind removed.
pub(super) fn sweep(workspace: &Workspace, unanswered: &[agent_record::Unanswered]) {
    for (path, input) in unanswered.iter().filter_map(|unanswered| unanswered.writes.as_ref()) {
        let number = |name: &str| input.get(name).and_then(serde_json::Value::as_i64);
        let size = number("file_size_bytes").and_then(|size| u64::try_from(size).ok());
        workspace.sweep(path, number("file_mtime_ms").zip(size));
    }
}
