//! Draws the state on the screen.

mod footer;

use std::path::Path;
use std::time::Duration;

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use self::footer::Footer;
use super::cells::{
    Call, CallState, CellGroup, Detail, RenderOptions, format_seconds, plan_lines,
    running_shell_lines,
};
use super::conversation::{Conversation, TurnActivity};
use super::keys::KeyAction;
use super::screen::LiveArea;
use super::state::{Focus, State};
use super::text::{truncate, width};
use super::theme::StyleRole;
use agent_protocol::pluralize;
use agent_protocol::terminal_escape::{escape_literal_line, escape_prose};

/// The message looks like a command but is none.
const NOT_A_COMMAND: &str = "text, not a command: for a command type the first character yourself";
/// The display shows after this time that no data arrives from the model.
const NO_DATA_AFTER: Duration = Duration::from_secs(10);
const TITLE_COLUMNS: usize = 80;
const PLAN_ROWS: usize = 6;
/// A call and its output.
const CALL_ROWS: usize = 4;

impl State {
    pub(super) fn render_options(&self) -> RenderOptions {
        RenderOptions { width: self.size.0.max(1), theme: self.settings.theme }
    }

    /// The area takes at most half of the screen, except for the input field.
    pub(super) fn live_area(&self) -> LiveArea {
        let options = self.render_options();
        let most = (self.size.1 / 2).max(4);
        let mut footer = Footer::new(self, options, most);
        let n_footer_lines = footer.lines.len().min(self.size.1);
        footer.keep_last(self.size.1);
        let room = most.saturating_sub(footer.lines.len());
        let mut lines = self.activity_lines(options, room);
        lines.append(&mut footer.lines);
        // Never more than the screen has: the upper rows could not be rewritten.
        let n_over = lines.len().saturating_sub(self.size.1);
        lines.drain(..n_over);
        let above = lines.len() - n_footer_lines;
        // The cursor rests at the beginning then (see `screen`).
        let is_quiet = self.is_working && self.composer.is_empty() && self.focus == Focus::Composer;
        let mut cursor = footer.cursor.map(|(row, column)| (above + row, column));
        if let Some((row, column)) = cursor.take_if(|_| is_quiet) {
            mark_cursor(&mut lines[row], column);
        }
        LiveArea { lines, cursor }
    }

    pub(super) fn full_screen_area(&mut self) -> LiveArea {
        let options = self.render_options();
        let is_asked = self.pending_question.is_some();
        let (viewer, cells, streamed_text) = match (&mut self.page, &mut self.viewer) {
            (Some(page), _) => (&mut page.viewer, &page.cells, ""),
            (None, Some(viewer)) => {
                (viewer, &self.conversation.cells, self.conversation.streamed_answer.as_str())
            }
            (None, None) => return LiveArea::default(),
        };
        let height = self.size.1.saturating_sub(1).max(1);
        let mut lines = viewer.draw(cells, streamed_text, options, height);
        lines.resize(height, Line::default());
        lines.push(viewer.status_line(cells.len(), is_asked, options));
        LiveArea { lines, cursor: None }
    }

    /// The end of the answer, running calls, the plan, queued messages.
    fn activity_lines(&self, options: RenderOptions, room: usize) -> Vec<Line<'static>> {
        let quiet = options.style(StyleRole::Quiet);
        let waiting = self.queue_lines(options, room.saturating_sub(CALL_ROWS).max(1));
        let mut end = Vec::new();
        // Two rows of the plan are enough, and two are blank.
        let room_above = room.saturating_sub(waiting.len() + 4);
        let agents = self.conversation.agent_lines(options, room_above, self.now);
        // The end of a turn prints the plan. Running calls matter more than the plan.
        if self.conversation.turn.is_some() && self.pending_question.is_none() {
            let taken = waiting.len() + 2 + CALL_ROWS.max(agents.len());
            end.extend(self.todo_lines(options, room.saturating_sub(taken).min(PLAN_ROWS)));
        }
        end.extend(waiting);
        let mut lines = Vec::new();
        let tail = self.conversation.stream.tail(options);
        let kind = if tail.is_empty() { CellGroup::Activity } else { CellGroup::Text };
        if tail.is_empty() {
            let thought = self.conversation.reasoning.trim_end();
            if let Some(last) = thought.lines().next_back() {
                let text = format!("∴ {}", escape_prose(last.trim()));
                lines.push(options.cut_line(&text, StyleRole::Quiet));
            }
            lines.extend(self.conversation.held_lines(options));
            // A question hides its own call, and those that wait.
            let questioned = self.questioned_call();
            let is_running = |call: &&Call| !matches!(call.state, CallState::Waiting);
            let calls = self.conversation.open_calls();
            let calls = calls.filter(|call| Some(&*call.id) != questioned && call.tool != "Task");
            let calls = calls.filter(|call| questioned.is_none() || is_running(call));
            let calls: Vec<&Call> = calls.collect();
            let n_running = calls.iter().filter(|call| is_running(call)).count();
            let room = room.saturating_sub(end.len() + 2);
            lines.extend(agents);
            for (n, call) in calls.iter().enumerate() {
                let mut call_lines = call.outcome_lines(options, Detail::Brief);
                // The beginning of its output is left out, not its title.
                if n == 0 && call_lines.len() > room.max(1) {
                    call_lines.drain(1..=call_lines.len() - room.max(1));
                }
                if lines.len() + call_lines.len() > room && n >= n_running.min(1) {
                    let more = pluralize((calls.len() - n) as u64, "more call");
                    lines.push(Line::styled(format!("  … {more}"), quiet));
                    break;
                }
                lines.extend(call_lines);
            }
        } else {
            lines = tail;
        }
        let drafts = self.conversation.draft_lines(options);
        if kind == CellGroup::Text && !drafts.is_empty() {
            lines.push(Line::default());
        }
        lines.extend(drafts);
        if !lines.is_empty() && self.conversation.needs_blank_line(kind) {
            lines.insert(0, Line::default());
        }
        if !end.is_empty() && (!lines.is_empty() || self.conversation.last_group.is_some()) {
            lines.push(Line::default());
        }
        let room = room.saturating_sub(end.len());
        // Of a long text the end is shown: the beginning is printed when its block is complete.
        lines.drain(..lines.len().saturating_sub(room));
        lines.extend(end);
        lines
    }

    /// Queued messages, and running commands of the user, in at most `room` lines.
    fn queue_lines(&self, options: RenderOptions, room: usize) -> Vec<Line<'static>> {
        let next = match self.conversation.turn.as_ref().map(|turn| &turn.activity) {
            Some(TurnActivity::Calling(_) | TurnActivity::Asking) => "after this call",
            Some(TurnActivity::Consulting(_)) | None => "queued",
            Some(_) => "after this answer",
        };
        let queued = self.visible_queue().map(|message| (next, message));
        let after = if self.is_idle() { "after your command" } else { "after this turn" };
        let follow_ups = self.follow_ups.iter().map(|message| (after, message));
        let messages: Vec<_> = queued.chain(follow_ups).collect();
        // Each command has its line.
        let room_of_messages = room.saturating_sub(self.shells.len());
        let is_more = messages.len() > room_of_messages;
        let n_shown = if is_more { room_of_messages.saturating_sub(1) } else { messages.len() };
        let lines = messages.iter().take(n_shown).map(|(when, message)| {
            // Only the part of a message that can be displayed is processed.
            let end = message.text.floor_char_boundary(options.width * 4);
            let text = escape_prose(&message.text[..end]).replace('\n', " ");
            options.cut_line(&format!("▸ {when}: {text}"), StyleRole::Quiet)
        });
        let mut lines: Vec<_> = lines.collect();
        if is_more {
            let more = if n_shown == 0 { "" } else { " more" };
            let more = format!("… {}{more} queued", messages.len() - n_shown);
            lines.push(options.cut_line(&more, StyleRole::Quiet));
        }
        let room_of_each = room.saturating_sub(lines.len()) / self.shells.len().max(1);
        for shell in &self.shells {
            let shown = running_shell_lines(&shell.command, &shell.tail, options);
            lines.extend(shown.into_iter().take(room_of_each.max(1)));
        }
        lines.truncate(room);
        lines
    }

    fn todo_lines(&self, options: RenderOptions, room: usize) -> Vec<Line<'static>> {
        let Conversation { plan, has_plan_change, .. } = &self.conversation;
        let is_shown = *has_plan_change && self.is_plan_visible && room >= 2;
        if !is_shown || plan.open_todos().next().is_none() {
            return Vec::new();
        }
        plan_lines(plan, options, room)
    }

    fn is_new(&self) -> bool {
        !self.is_working
            && self.conversation.turns.is_empty()
            && self.composer.is_empty()
            && self.focus == Focus::Composer
    }

    pub(super) fn window_title(&self) -> String {
        let path = Path::new(&self.conversation.cwd);
        let project = path.file_name().map_or("agent".into(), |name| name.to_string_lossy());
        let activity = match self.pending_question {
            Some(_) => "waiting for you",
            None => self.activity().unwrap_or("ready"),
        };
        let title = format!("{project} · {activity}");
        truncate(&escape_literal_line(&title), TITLE_COLUMNS)
    }

    /// The selected choice may be followed by its number.
    pub(super) fn choice_lines(
        &self,
        options: RenderOptions,
        is_counted: bool,
    ) -> Vec<Vec<Line<'static>>> {
        let selected = self.selected_choice();
        let choices = self.choices();
        let n_choices = choices.len();
        let lines = choices.iter().enumerate().map(|(n, choice)| {
            let mark = if n == selected { '▸' } else { ' ' };
            let letter = choice.letter(n).unwrap_or(' ');
            let keys = format!("  {mark} {} {letter}  ", n + 1);
            let rest = Span::raw(" ".repeat(width(&keys)));
            let is_available = choice.is_available();
            let role = |role| if is_available { role } else { StyleRole::Quiet };
            let keys = options.span(keys, role(StyleRole::User));
            let mut words = vec![options.span(choice.in_words(), role(StyleRole::Text))];
            let details = choice.details();
            if !details.is_empty() {
                words.push(options.span(format!("  {details}"), StyleRole::Quiet));
            }
            if is_counted && n == selected {
                words.push(options.span(format!(" ({}/{n_choices})", n + 1), StyleRole::Quiet));
            }
            let mut lines = options.wrap(&keys, &rest, &words);
            if n == selected {
                for span in lines.iter_mut().flat_map(|line| &mut line.spans) {
                    span.style = span.style.add_modifier(Modifier::REVERSED);
                }
            }
            lines
        });
        lines.collect()
    }

    /// The choices would hide the call.
    fn is_too_low_for_choices(&self, options: RenderOptions) -> bool {
        if self.question_block(options).is_some() {
            return false;
        }
        let n_lines: usize = self.choice_lines(options, false).iter().map(Vec::len).sum();
        n_lines + min_call_rows(self.size.1) + 1 > self.size.1
    }

    fn activity(&self) -> Option<&str> {
        if self.is_stopping {
            return Some("stopping");
        }
        let Some(turn) = &self.conversation.turn else {
            return self.is_working.then_some("starting");
        };
        // (Several sub-agents may ask.)
        if self.pending_question.is_some() {
            return Some("waiting for you");
        }
        Some(match &turn.activity {
            TurnActivity::Waiting => "waiting for the model",
            TurnActivity::Thinking => "thinking",
            TurnActivity::Answering => "answering",
            TurnActivity::Calling(tool) => tool,
            TurnActivity::Asking => "waiting for you",
            TurnActivity::Retrying { .. } => "trying again",
            TurnActivity::Consulting(activity) => activity,
        })
    }

    fn activity_text(&self) -> Option<String> {
        let activity = escape_literal_line(self.activity()?);
        let Some(turn) = self.conversation.turn.as_ref().filter(|_| !self.is_stopping) else {
            return Some(activity.into_owned());
        };
        let activity = match &turn.activity {
            TurnActivity::Retrying { n, at, reason } => {
                let left = at.saturating_duration_since(self.now);
                if !left.is_zero() {
                    let left = left.as_millis().div_ceil(1000);
                    let why = reason.as_ref().map(|why| format!(" · {}", escape_prose(why)));
                    return Some(format!("retry {n} in {left} s{}", why.unwrap_or_default()));
                }
                format!("retry {n}, waiting for the model")
            }
            _ => activity.into_owned(),
        };
        // While a question waits, its time is shown instead of the turn's.
        let is_asking = turn.activity == TurnActivity::Asking;
        let since = if is_asking { turn.activity_since } else { turn.started };
        let passed = self.now.saturating_duration_since(since).as_secs();
        let silent = turn.last_data.map(|at| self.now.saturating_duration_since(at));
        let silent = silent.filter(|silent| *silent >= NO_DATA_AFTER);
        let time = silent.map(|it| format!(" · no data for {}", format_seconds(it.as_secs())));
        let time = time.unwrap_or_default();
        Some(format!("{activity}{time} · {}", format_seconds(passed)))
    }

    fn status_line(&self, options: RenderOptions) -> Line<'static> {
        let quiet = options.style(StyleRole::Quiet);
        if let Some((toast, _)) = &self.toast {
            return options.cut_line(&format!("  {}", escape_prose(toast)), StyleRole::Warn);
        }
        let key = |action| self.settings.keymap.key_for(action);
        let (escape, send) = (key(KeyAction::Escape), key(KeyAction::Send));
        // The least important part, which is left out first, comes last.
        let mut parts: Vec<(String, StyleRole)> = Vec::new();
        let runs = !self.shells.is_empty();
        let activity =
            self.activity_text().or_else(|| runs.then(|| "your command runs".to_owned()));
        let is_busy = activity.is_some();
        // A long reason of a retry leaves room for the key that stops it.
        let room = options.width.saturating_sub(width(&format!("   · {escape} stops")));
        parts.extend(activity.map(|activity| (truncate(&activity, room), StyleRole::User)));
        if self.composer.looks_like_command() && self.focus == Focus::Composer {
            parts.push((NOT_A_COMMAND.to_owned(), StyleRole::Warn));
        }
        // The keys of the current state.
        let keys = match &self.focus {
            Focus::RejectionReason => {
                Some(format!("{send} rejects with this text · {escape} goes back"))
            }
            Focus::PlanText => {
                Some(format!("{send} carries out this plan in mode auto-edit · {escape} goes back"))
            }
            Focus::AnswerText => Some(format!("{send} sends this answer · {escape} goes back")),
            Focus::Search(..) => {
                let earlier = key(KeyAction::SearchHistory);
                Some(format!("{send} takes it · {earlier} an earlier one · {escape} leaves"))
            }
            Focus::Composer if self.popup.is_some() => Some(format!("{escape} closes the list")),
            Focus::Question if self.is_asking_about_plan() => None,
            Focus::Question if self.questionnaire().is_some() => {
                self.questionnaire().map(|inquiry| {
                    let marks = if inquiry.allows_several() { "Space marks · " } else { "" };
                    let back = format!(" · {} back", key(KeyAction::Left));
                    let back = if inquiry.has_previous_question() { &*back } else { "" };
                    format!("{marks}{send} answers · {escape} stops{back}")
                })
            }
            Focus::Composer if is_busy && self.has_queued_message() => {
                let edit = key(KeyAction::Up);
                Some(format!("{escape} stops · {edit} edits · {escape} {send} sends"))
            }
            Focus::Composer | Focus::Question => is_busy.then(|| format!("{escape} stops")),
        };
        let keys = keys.iter().flat_map(|keys| keys.split(" · "));
        parts.extend(keys.map(|keys| (keys.to_owned(), StyleRole::Quiet)));
        if self.focus == Focus::Question && self.is_too_low_for_choices(options) {
            parts.push((format!("{} shows all", key(KeyAction::Transcript)), StyleRole::Quiet));
        }
        let items = self.settings.status_line.iter();
        parts.extend(items.filter_map(|item| self.status_item(*item)));
        if !is_busy && self.composer.is_empty() && self.focus == Focus::Composer {
            parts.push(("/help".to_owned(), StyleRole::Quiet));
        }
        let mut spans = vec![Span::raw("  ")];
        let mut used = 2;
        for (n, (text, role)) in parts.into_iter().enumerate() {
            let between = if n == 0 { "" } else { " · " };
            let room = options.width.saturating_sub(used + width(between));
            if width(&text) > room {
                if n == 0 {
                    spans.push(options.span(truncate(&text, room), role));
                }
                break;
            }
            used += width(between) + width(&text);
            spans.push(Span::styled(between, quiet));
            spans.push(options.span(text, role));
        }
        Line::from(spans)
    }
}

fn mark_cursor(line: &mut Line<'static>, column: usize) {
    let used: usize = line.spans.iter().map(|span| width(&span.content)).sum();
    // Only displayed if nothing is typed: after the end.
    line.spans.push(Span::raw(" ".repeat(column.saturating_sub(used))));
    let style = Style::new().add_modifier(Modifier::REVERSED);
    line.spans.push(Span::styled(" ", style));
}

fn min_call_rows(rows: usize) -> usize {
    rows.div_ceil(2)
}
