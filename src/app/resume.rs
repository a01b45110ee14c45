//! Restores the state of a session that is resumed.

use super::place;
use agent_engine::kernel::Kernel;
use agent_host::workspace::Workspace;
use agent_protocol::event::{Event, EventBody, EventStream, SessionStarted};
use agent_record::{LoadedSession, SummarySink};

/// Adds results for calls without one.
pub(super) fn resume_session(
    kernel: &mut Kernel,
    events: &EventStream,
    summary: &SummarySink,
    loaded: &LoadedSession,
    now: SessionStarted,
    changed: &dyn Fn(&[&Event]) -> Option<EventBody>,
) {
    for event in &loaded.events {
        summary.apply(event);
        kernel.register_calls(event);
    }
    let live = agent_record::live_events(&loaded.events);
    for event in &live {
        kernel.apply(event);
    }
    events.set_position(loaded.events.last().map(|it| it.header.place).unwrap_or_default());
    let unanswered = agent_record::unanswered_calls(live.iter().copied());
    let uncertain = unanswered.iter().filter(|unanswered| unanswered.uncertain);
    let uncertain = uncertain.map(|it| format!("{} ({})", it.call.id, it.call.name)).collect();
    let moved = place::change_notice(&live, &now.place);
    let with_agents = agent_record::live_events_of_all_agents(&loaded.events);
    events.emit(EventBody::SessionResumed {
        now,
        events: loaded.events.len() as u64,
        uncertain,
        torn: loaded.is_torn,
    });
    if let Some(answer) = agent_record::interrupted_answer(live.iter().copied()) {
        let event = events.emit(answer);
        summary.apply(&event);
        kernel.apply(&event);
    }
    for unanswered in &unanswered {
        kernel.apply(&events.emit(agent_record::synthetic_result(unanswered)));
    }
    for notice in moved.into_iter().chain(changed(&with_agents)) {
        kernel.apply(&events.emit(notice));
    }
}

/// Removes what interrupted changes left, including changes that a rewind removed.
pub(super) fn remove_leftovers(workspace: &Workspace, unanswered: &[agent_record::UnansweredCall]) {
    for (path, input) in unanswered.iter().filter_map(|unanswered| unanswered.writes.as_ref()) {
        let number = |name: &str| input.get(name).and_then(serde_json::Value::as_i64);
        let size = number("file_size_bytes").and_then(|size| u64::try_from(size).ok());
        workspace.remove_leftovers(path, number("file_mtime_ms").zip(size));
    }
}
