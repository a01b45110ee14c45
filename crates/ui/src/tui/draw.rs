//! Draws the state on the screen.

mod foot;

use std::path::Path;
use std::time::Duration;

use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use self::foot::Foot;
use super::cells::{CallState, Detail, Kind, Look, plan_lines, running_shell, seconds};
use super::conversation::Doing;
use super::keys::KeyAction;
use super::screen::Live;
use super::state::{Asked, Focus, State};
use super::text::{cut, hang, width};
use super::theme::Part;
use agent_protocol::plan::TodoStatus;
use agent_protocol::visible::{literal_line, prose};

/// The note for a message that looks like a command but is not one.
const WORDS: &str = "text, not a command: for a command type the first character yourself";
/// After this time without data from the model it is shown.
const NO_DATA: Duration = Duration::from_secs(10);
/// Limit: columns of the window's title.
const TITLE_COLUMNS: usize = 80;
/// Limit: rows of the plan.
const PLAN_ROWS: usize = 6;
/// Rows of a running call, with blank ones around it.
const CALL_ROWS: usize = 4;

impl State {
    pub(super) fn look(&self) -> Look {
        Look { width: self.size.0.max(1), theme: self.settings.theme }
    }

    /// The live area: at most half of the screen, except for the input field.
    pub(super) fn live(&self) -> Live {
        let look = self.look();
        let most = (self.size.1 / 2).max(4);
        let mut foot = Foot::new(self, look, most);
        let n_foot = foot.lines.len().min(self.size.1);
        foot.keep_last(self.size.1);
        let room = most.saturating_sub(foot.lines.len());
        let mut lines = self.above(look, room);
        lines.append(&mut foot.lines);
        // Never more than the screen has: the upper rows could not be rewritten.
        let n_over = lines.len().saturating_sub(self.size.1);
        lines.drain(..n_over);
        let above = lines.len() - n_foot;
        // While the session works and nothing is typed, the cursor rests at the beginning (see `screen`).
        let is_quiet = self.is_working && self.composer.is_empty() && self.focus == Focus::Composer;
        let cursor = foot.cursor.map(|(row, column)| (above + row, column));
        if let Some((row, column)) = cursor.filter(|_| is_quiet) {
            mark_cursor(&mut lines[row], column);
            return Live { lines, cursor: None };
        }
        Live { lines, cursor }
    }

    /// The full-screen layout: the conversation, and the input field below it.
    pub(super) fn full(&mut self) -> Live {
        let look = self.look();
        let (_, rows) = self.size;
        let mut foot = if self.is_browsing() {
            Foot { lines: Vec::new(), cursor: None }
        } else {
            Foot::new(self, look, (rows / 2).max(4))
        };
        // The call of a question is shown next to the question.
        let mut above = if self.is_browsing() || self.asked.is_some() {
            Vec::new()
        } else {
            let room = (rows / 2).max(4).saturating_sub(foot.lines.len());
            let mut above = self.plan(look, room);
            above.extend(self.waiting(look, room.saturating_sub(above.len())));
            above
        };
        foot.keep_last(rows.saturating_sub(1));
        let is_browsing = self.is_browsing();
        let is_asked = self.asked.is_some();
        let (viewer, cells, saying) = match (&mut self.page, &mut self.viewer) {
            (Some(page), _) => (&mut page.viewer, &page.cells, ""),
            (None, Some(viewer)) => (viewer, &self.conversation.cells, self.conversation.saying()),
            (None, None) => return Live::default(),
        };
        if is_browsing {
            foot.lines.push(viewer.status(cells.len(), is_asked, look));
        }
        let height = rows.saturating_sub(foot.lines.len() + above.len()).max(1);
        // The call of a question is the last that is shown: others may wait behind it.
        let asked = self.asked.as_ref().and_then(Asked::call).filter(|_| !is_browsing);
        let last = asked.and_then(|call| self.conversation.position(call));
        let mut lines = viewer.draw(cells, saying, last, is_browsing, look, height);
        lines.resize(height, Line::default());
        lines.append(&mut above);
        // On a very low screen the input field and the status are kept.
        let n_over = (lines.len() + foot.lines.len()).saturating_sub(rows).min(lines.len());
        lines.drain(..n_over);
        let offset = lines.len();
        lines.append(&mut foot.lines);
        Live { lines, cursor: foot.cursor.map(|(row, column)| (offset + row, column)) }
    }

    /// The current activity: the end of the answer, running calls, the plan, queued messages.
    fn above(&self, look: Look, room: usize) -> Vec<Line<'static>> {
        let quiet = look.theme.style(Part::Quiet);
        let waiting = self.waiting(look, room.saturating_sub(CALL_ROWS).max(1));
        let mut end = Vec::new();
        // The call of a question is shown next to the question, and a plan that was printed last is still
        // visible. The running calls are more important than the plan.
        if self.is_working && self.asked.is_none() && !self.conversation.ends_in_plan() {
            let taken = if waiting.is_empty() { 2 } else { waiting.len() + CALL_ROWS };
            end.extend(self.plan(look, room.saturating_sub(taken).min(PLAN_ROWS)));
        }
        end.extend(waiting);
        let mut lines = Vec::new();
        let tail = self.conversation.tail(look);
        let kind = if tail.is_empty() { Kind::Activity } else { Kind::Text };
        if tail.is_empty() {
            let thought = self.conversation.thought.trim_end();
            if let Some(last) = thought.lines().next_back() {
                let text = format!("∴ {}", prose(last.trim()));
                lines.push(Line::styled(cut(&text, look.width).into_owned(), quiet));
            }
            // The call of a question is shown with the question.
            let asked = self.asked.as_ref().and_then(Asked::call);
            let calls =
                self.conversation.open_calls().filter(|call| Some(call.id.as_str()) != asked);
            let calls: Vec<_> = calls.collect();
            let n_running =
                calls.iter().filter(|call| !matches!(call.state, CallState::Waiting)).count();
            let room = room.saturating_sub(end.len() + 2);
            for (n, call) in calls.iter().enumerate() {
                let mut of_call = call.outcome_lines(look, Detail::Brief);
                // The beginning of its output is left out, not its title.
                if n == 0 && of_call.len() > room.max(1) {
                    of_call.drain(1..=of_call.len() - room.max(1));
                }
                if lines.len() + of_call.len() > room && n >= n_running.min(1) {
                    let more = calls.len() - n;
                    let more = format!("  … {more} more call{}", if more == 1 { "" } else { "s" });
                    lines.push(Line::styled(more, quiet));
                    break;
                }
                lines.extend(of_call);
            }
        } else {
            lines = tail;
        }
        if !lines.is_empty() && self.conversation.is_apart(kind) {
            lines.insert(0, Line::default());
        }
        if !end.is_empty() && (!lines.is_empty() || self.conversation.has_history()) {
            lines.push(Line::default());
        }
        let room = room.saturating_sub(end.len());
        // Of a long text the end is shown: the beginning is printed when its block is complete.
        lines.drain(..lines.len().saturating_sub(room));
        lines.extend(end);
        lines
    }

    /// Queued messages, and running commands of the user, in at most `room` lines.
    fn waiting(&self, look: Look, room: usize) -> Vec<Line<'static>> {
        let quiet = look.theme.style(Part::Quiet);
        let queued = self.shown_queue().map(|message| ("queued", message));
        let after = if self.is_idle() { "after your command" } else { "after this turn" };
        let follow_ups = self.follow_ups.iter().map(|message| (after, message));
        let messages: Vec<_> = queued.chain(follow_ups).collect();
        // Each command has its line.
        let room_of_messages = room.saturating_sub(self.shells.len());
        let is_more = messages.len() > room_of_messages;
        let n_shown = if is_more { room_of_messages.saturating_sub(1) } else { messages.len() };
        let lines = messages.iter().take(n_shown).map(|(when, message)| {
            // Only the part of a message that can be displayed is processed.
            let end = message.text.floor_char_boundary(look.width * 4);
            let text = prose(&message.text[..end]).replace('\n', " ");
            Line::styled(cut(&format!("▸ {when}: {text}"), look.width).into_owned(), quiet)
        });
        let mut lines: Vec<_> = lines.collect();
        if is_more {
            let more = if n_shown == 0 { "" } else { " more" };
            let more = format!("… {}{more} queued", messages.len() - n_shown);
            lines.push(Line::styled(cut(&more, look.width).into_owned(), quiet));
        }
        let room_of_each = room.saturating_sub(lines.len()) / self.shells.len().max(1);
        for shell in &self.shells {
            let shown = running_shell(&shell.command, &shell.tail, look);
            lines.extend(shown.into_iter().take(room_of_each.max(1)));
        }
        lines.truncate(room);
        lines
    }

    fn plan(&self, look: Look, room: usize) -> Vec<Line<'static>> {
        let plan = &self.conversation.plan;
        if room < 2 || plan.open().next().is_none() || !self.shows_plan {
            return Vec::new();
        }
        plan_lines(plan, look, room)
    }

    /// The conversation is empty, and nothing is typed.
    fn is_new(&self) -> bool {
        !self.is_working
            && self.conversation.turns.is_empty()
            && self.composer.is_empty()
            && self.focus == Focus::Composer
    }

    /// The window's title: the project and the current activity.
    pub(super) fn title(&self) -> String {
        let path = Path::new(&self.conversation.cwd);
        let project = path.file_name().map_or("agent".into(), |name| name.to_string_lossy());
        let activity = match self.asked {
            Some(_) => "waiting for you",
            None => self.activity().unwrap_or("ready"),
        };
        let title = format!("{project} · {activity}");
        cut(&literal_line(&title), TITLE_COLUMNS).into_owned()
    }

    /// The lines of each choice at the question; the selected one may be followed by its number of how many.
    fn choice_lines(&self, look: Look, is_counted: bool) -> Vec<Vec<Line<'static>>> {
        let selected = self.asked.as_ref().map_or(0, |asked| asked.selected);
        let choices = self.choices();
        let n_choices = choices.len();
        let lines = choices.iter().enumerate().map(|(n, choice)| {
            let mark = if n == selected { '▸' } else { ' ' };
            let letter = choice.letter(n).unwrap_or(' ');
            let keys = format!("  {mark} {} {letter}  ", n + 1);
            let rest = Span::raw(" ".repeat(width(&keys)));
            let keys = Span::styled(keys, look.theme.style(Part::User));
            let mut words = vec![Span::raw(choice.in_words())];
            let details = choice.details();
            if !details.is_empty() {
                let details = format!("  {details}");
                words.push(Span::styled(details, look.theme.style(Part::Quiet)));
            }
            if is_counted && n == selected {
                let count = format!(" ({}/{n_choices})", n + 1);
                words.push(Span::styled(count, look.theme.style(Part::Quiet)));
            }
            hang(&keys, &rest, &words, look.width)
        });
        lines.collect()
    }

    /// Not all choices can be shown without hiding the call.
    fn is_low_for_question(&self, look: Look) -> bool {
        let n_lines: usize = self.choice_lines(look, false).iter().map(Vec::len).sum();
        n_lines + rows_of_call(self.size.1) + 1 > self.size.1
    }

    /// The current activity.
    fn activity(&self) -> Option<&str> {
        if self.is_stopping {
            return Some("stopping");
        }
        let Some(turn) = &self.conversation.turn else {
            return self.is_working.then_some("starting");
        };
        // (Several sub-agents may ask.)
        if self.asked.is_some() {
            return Some("waiting for you");
        }
        Some(match &turn.doing {
            Doing::Waiting => "waiting for the model",
            Doing::Thinking => "thinking",
            Doing::Answering => "answering",
            Doing::Calling(tool) => tool,
            Doing::Asking => "waiting for you",
            Doing::Retrying { .. } => "trying again",
            Doing::Consulting(what) => what,
        })
    }

    /// The current activity with its duration.
    fn doing(&self) -> Option<String> {
        let activity = self.activity()?;
        let activity = literal_line(activity);
        let Some(turn) = self.conversation.turn.as_ref().filter(|_| !self.is_stopping) else {
            return Some(activity.into_owned());
        };
        let what = match &turn.doing {
            Doing::Retrying { n, at, reason } => {
                let left = at.saturating_duration_since(self.now);
                if !left.is_zero() {
                    let left = left.as_millis().div_ceil(1000);
                    let why = reason.as_ref().map(|why| format!(" · {}", prose(why)));
                    return Some(format!("retry {n} in {left} s{}", why.unwrap_or_default()));
                }
                format!("retry {n}, waiting for the model")
            }
            _ => activity.into_owned(),
        };
        let passed = self.now.saturating_duration_since(turn.started).as_secs();
        let of_this = self.now.saturating_duration_since(turn.since).as_secs();
        let silent = turn.last_data.map(|at| self.now.saturating_duration_since(at));
        let of_this = if let Some(silent) = silent.filter(|silent| *silent >= NO_DATA) {
            format!(" · no data for {}", whole_seconds(silent.as_secs()))
        } else if of_this >= 5 && of_this + 2 < passed {
            format!(" {of_this} s")
        } else {
            String::new()
        };
        Some(format!("{what}{of_this} · {}", whole_seconds(passed)))
    }

    /// The status line: activity, keys, mode, tokens, cost, model, and branch.
    fn status(&self, look: Look) -> Line<'static> {
        let theme = look.theme;
        let quiet = theme.style(Part::Quiet);
        if let Some((toast, _)) = &self.toast {
            let text = cut(&format!("  {}", prose(toast)), look.width).into_owned();
            return Line::styled(text, theme.style(Part::Warn));
        }
        let conversation = &self.conversation;
        let key = |action| self.settings.keymap.key_for(action);
        let (escape, send) = (key(KeyAction::Escape), key(KeyAction::Send));
        // The least important part, which is left out first, comes last.
        let mut parts: Vec<(String, Part)> = Vec::new();
        let runs = !self.shells.is_empty();
        let doing = self.doing().or_else(|| runs.then(|| "your command runs".to_owned()));
        let is_busy = doing.is_some();
        // A long reason of a retry leaves room for the key that stops it.
        let room = look.width.saturating_sub(width(&format!("   · {escape} stops")));
        parts.extend(doing.map(|doing| (cut(&doing, room).into_owned(), Part::User)));
        if self.composer.is_no_command() && self.focus == Focus::Composer {
            parts.push((WORDS.to_owned(), Part::Warn));
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
            Focus::Question if self.asks_about_plan() => None,
            Focus::Question if self.inquiry().is_some() => self.inquiry().map(|inquiry| {
                let marks = if inquiry.takes_several() { "Space marks · " } else { "" };
                let left = key(KeyAction::Left);
                let back =
                    if inquiry.has_earlier() { format!(" · {left} back") } else { String::new() };
                format!("{marks}{send} answers · {escape} stops{back}")
            }),
            Focus::Composer | Focus::Question => is_busy.then(|| {
                let up = key(KeyAction::Up);
                let edits = if self.has_queued() && self.focus == Focus::Composer {
                    format!(" · {up} edits the queued message")
                } else {
                    String::new()
                };
                format!("{escape} stops{edits}")
            }),
        };
        let keys = keys.iter().flat_map(|keys| keys.split(" · "));
        parts.extend(keys.map(|keys| (keys.to_owned(), Part::Quiet)));
        if self.focus == Focus::Question && self.is_low_for_question(look) {
            parts.push((format!("{} shows all", key(KeyAction::Transcript)), Part::Quiet));
        }
        if self.vi.as_ref().is_some_and(super::vi::Vi::is_normal) {
            parts.push(("NORMAL".to_owned(), Part::Strong));
        }
        let items = self.settings.status_line.iter();
        parts.extend(items.filter_map(|item| self.status_item(*item)));
        let todos = &conversation.plan.todos;
        if self.is_working && !self.shows_plan && !todos.is_empty() {
            let done = todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
            parts.push((format!("todos {done}/{}", todos.len()), Part::Quiet));
        }
        if !is_busy && self.composer.is_empty() && self.focus == Focus::Composer {
            parts.push(("/help".to_owned(), Part::Quiet));
        }
        let mut spans = vec![Span::raw("  ")];
        let mut used = 2;
        for (n, (text, part)) in parts.into_iter().enumerate() {
            let between = if n == 0 { "" } else { " · " };
            let room = look.width.saturating_sub(used + width(between));
            if width(&text) > room {
                if n == 0 {
                    spans.push(Span::styled(cut(&text, room).into_owned(), theme.style(part)));
                }
                break;
            }
            used += width(between) + width(&text);
            spans.push(Span::styled(between, quiet));
            spans.push(Span::styled(text, theme.style(part)));
        }
        Line::from(spans)
    }
}

/// Marks the position of the cursor.
fn mark_cursor(line: &mut Line<'static>, column: usize) {
    let used: usize = line.spans.iter().map(|span| width(&span.content)).sum();
    // Only displayed if nothing is typed: after the end.
    line.spans.push(Span::raw(" ".repeat(column.saturating_sub(used))));
    line.spans
        .push(Span::styled(" ", ratatui::style::Style::new().add_modifier(Modifier::REVERSED)));
}

/// Rows that the call of a question has at least, of a screen with this number.
fn rows_of_call(rows: usize) -> usize {
    rows.div_ceil(2)
}

fn whole_seconds(seconds_passed: u64) -> String {
    if seconds_passed < 60 { format!("{seconds_passed} s") } else { seconds(seconds_passed * 1000) }
}
