//! The chat as plain lines: for screen readers, simple terminals, and pipes. Output is never
//! rewritten or repeated.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;

use super::ThreadMessage;
use super::cells::Tone;
use super::composer::AttributedText;
use super::state::{Action, ChatRequest, Choice, Input, Questionnaire, Settings, State};
use super::terminal;
use super::theme::{Background, ColorDepth, Theme};
use agent_protocol::terminal_escape::escape_prose;

/// The width unless the terminal is narrower; longer prose is wrapped.
const COLUMNS: usize = 100;

/// Without a sender, no input is read.
pub(super) fn run(
    settings: Settings,
    messages: &Receiver<ThreadMessage>,
    sender: Option<Sender<ThreadMessage>>,
    ask: &UnboundedSender<ChatRequest>,
) -> io::Result<()> {
    let theme = Theme::new(ColorDepth::None, Background::Dark);
    let settings = Settings { theme, is_theme_configured: true, ..settings };
    let words = settings.first_message.clone();
    let has_columns = if io::stdout().is_terminal() { terminal::size().0 } else { COLUMNS };
    let mut state = State::new(settings, (has_columns.min(COLUMNS), 24), Instant::now());
    let has_input = sender.is_some();
    if let Some(sender) = sender {
        // The thread ends with the program: waiting for a line cannot be interrupted.
        std::thread::Builder::new().name("lines".to_owned()).spawn(move || read_lines(&sender))?;
    }
    let is_echoed = has_input && io::stdin().is_terminal();
    state.conversation.hides_user_messages = is_echoed;
    state.conversation.prints_each_call = true;
    state.has_screen = false;
    let mut is_prompted = false;
    let mut shown_subject = None;
    // A pipe delivers all lines immediately: each waits until it can be processed.
    let mut waiting = VecDeque::new();
    let mut continued = String::new();
    let mut is_closed = false;
    let mut actions = Vec::new();
    if let Some(words) = words {
        if is_echoed {
            write_stdout(&format!("\n› {}\n", escape_prose(&words)))?;
        }
        actions = state.send_message(AttributedText::from_user(&words), Instant::now());
    }
    while let Ok(message) = messages.recv() {
        match message {
            // An answer is one line.
            ThreadMessage::Line(line) if state.pending_question.is_some() => {
                waiting.push_back(line);
            }
            // `\` at the end of a line continues the message, as on the screen.
            ThreadMessage::Line(line) => match line.strip_suffix('\\') {
                Some(part) => {
                    let is_shell = continued.starts_with('!') || line.starts_with('!');
                    continued.push_str(if is_shell { &line } else { part });
                    continued.push('\n');
                }
                None => waiting.push_back(std::mem::take(&mut continued) + &line),
            },
            ThreadMessage::InputClosed => {
                let rest = std::mem::take(&mut continued).trim_end().to_owned();
                waiting.extend((!rest.is_empty()).then_some(rest));
                is_closed = true;
            }
            ThreadMessage::Update(update) => {
                actions.extend(state.update(Input::Update(update), Instant::now()));
            }
            ThreadMessage::Terminal(..)
            | ThreadMessage::Resized
            | ThreadMessage::ProgramResumed => {}
        }
        loop {
            for action in actions.drain(..) {
                match action {
                    Action::SendRequest(request) => {
                        if ask.send(request).is_err() {
                            return Ok(());
                        }
                    }
                    Action::EndChat => {
                        print_new_lines(&mut state)?;
                        // The shell's prompt starts on a new line.
                        if is_prompted {
                            write_stdout("\n")?;
                        }
                        return Ok(());
                    }
                    Action::Copy(_) | Action::Notify(_) | Action::Suspend | Action::Redraw => {}
                }
            }
            show_notices(&mut state);
            is_prompted &= !print_new_lines(&mut state)?;
            let subject = state.pending_question.as_ref().map(|question| question.subject.clone());
            if subject.is_some() && subject != shown_subject {
                write_stdout(&question_text(&state))?;
            }
            shown_subject = subject;
            let is_free = state.is_idle() && state.shells.is_empty();
            if is_free && has_input && !is_prompted {
                write_stdout("\n› ")?;
                is_prompted = true;
            }
            // An answer has to come after its question.
            let takes_line = is_free || is_echoed || shown_subject.is_some();
            match if takes_line { waiting.pop_front() } else { None } {
                Some(line) => {
                    if !is_echoed {
                        write_stdout("\n")?;
                    }
                    is_prompted = false;
                    actions = handle_line(&mut state, &line);
                }
                None if is_closed && is_free => {
                    is_closed = false;
                    actions = vec![Action::SendRequest(ChatRequest::Quit)];
                }
                // No more answers can arrive.
                None if is_closed && state.pending_question.is_some() => {
                    actions = state.interrupt();
                }
                None => break,
            }
        }
    }
    Ok(())
}

fn question_text(state: &State) -> String {
    if let Some(inquiry) = state.questionnaire() {
        return questionnaire_text(inquiry, state);
    }
    let choices = state.choices().into_iter().enumerate();
    let choices = choices.filter(|(_, choice)| choice.is_available()).map(|(n, choice)| {
        let letter = choice.letter(n).map(|letter| format!(" or {letter}")).unwrap_or_default();
        let words = match choice {
            Choice::EditPlan => "no, and say what to change in it".to_owned(),
            other => other.in_words(),
        };
        format!("  {}{letter}: {words}\n", n + 1)
    });
    let choices: String = choices.collect();
    let ask = if state.is_asking_about_plan() { "Carry out this plan?" } else { "Allow it?" };
    format!("{ask}\n{choices}› ")
}

fn questionnaire_text(inquiry: &Questionnaire, state: &State) -> String {
    let options = inquiry.current_question().map_or(0, |question| question.options.len());
    let choices = state.choices().into_iter().take(options).enumerate().map(|(n, choice)| {
        let details = choice.details();
        let details = if details.is_empty() { details } else { format!(" ({details})") };
        let label = choice.in_words();
        let label = label.strip_prefix("[ ] ").unwrap_or(&label);
        format!("  {}: {label}{details}\n", n + 1)
    });
    let choices: String = choices.collect();
    let how = match (options, inquiry.allows_several()) {
        (0, _) => "write your answer",
        (_, true) => "one or more numbers, or your answer in words",
        (_, false) => "a number, or your answer in words",
    };
    format!("{}\n{choices}{how}\n› ", escape_prose(&inquiry.in_words()))
}

/// The line contains numbers of the options, or words.
fn answer_questionnaire(state: &mut State, line: &str) -> Vec<Action> {
    let Some(inquiry) = state.questionnaire() else { return Vec::new() };
    let n_options = inquiry.current_question().map_or(0, |question| question.options.len());
    let is_between = |c: char| c == ',' || c.is_whitespace();
    let parts = line.split(is_between).filter(|part| !part.is_empty());
    let numbers: Option<Vec<usize>> = parts.map(|part| part.parse().ok()).collect();
    let several = inquiry.allows_several();
    match numbers {
        Some(numbers) if numbers.is_empty() => {
            state.conversation.insert_note(Tone::Quiet, "an answer is needed");
            Vec::new()
        }
        Some(numbers) if n_options > 0 => {
            let are_options = numbers.iter().all(|n| (1..=n_options).contains(n));
            if are_options && (several || numbers.len() == 1) {
                return state.choose_options(numbers.iter().map(|n| n - 1));
            }
            let one = if several { "" } else { "one " };
            let text = format!("choose {one}of the numbers above");
            state.conversation.insert_note(Tone::Quiet, &text);
            Vec::new()
        }
        _ => state.answer_with_text(line),
    }
}

/// At a question, a line without the meaning of a key is an instruction instead of the call.
fn handle_line(state: &mut State, line: &str) -> Vec<Action> {
    if state.questionnaire().is_some() {
        return answer_questionnaire(state, line);
    }
    let Some(question) = &state.pending_question else {
        return state.send_message(AttributedText::typed(line), Instant::now());
    };
    let call = question.call().map(str::to_owned);
    let words = line.trim().to_lowercase();
    let key = match words.as_str() {
        "yes" => Some('y'),
        "no" | "" => Some('n'),
        _ => words.chars().next().filter(|_| words.chars().count() == 1),
    };
    match (key.and_then(|key| state.choice_for(key)), call) {
        (Some(Choice::RejectWithText | Choice::EditPlan), _) => {
            let text = "write what to do instead as the next line";
            state.conversation.insert_note(Tone::Quiet, text);
            Vec::new()
        }
        (None, _) if words.parse::<usize>().is_ok() => {
            state.conversation.insert_note(Tone::Quiet, "choose one of the numbers above");
            Vec::new()
        }
        (Some(choice), _) => state.choose_answer(choice),
        (None, Some(call)) => state.reject_call(&call, line.trim().into()),
        (None, None) => state.send_message(AttributedText::typed(line), Instant::now()),
    }
}

/// Notices, and returned messages: a screen shows them below the conversation.
fn show_notices(state: &mut State) {
    if let Some((toast, _)) = state.toast.take() {
        state.conversation.insert_note(Tone::Quiet, &toast);
    }
    let returned = state.composer.take_message();
    if !returned.is_empty() {
        state.conversation.insert_note(Tone::Warn, &format!("not sent: {returned}"));
    }
}

/// False if there is no new output.
fn print_new_lines(state: &mut State) -> io::Result<bool> {
    let lines = state.take_finished();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    write_stdout(&text)?;
    Ok(!text.is_empty())
}

fn write_stdout(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    // A text that was not escaped must not act on the terminal either.
    out.write_all(escape_prose(text).as_bytes())?;
    out.flush()
}

fn read_lines(messages: &Sender<ThreadMessage>) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if messages.send(ThreadMessage::Line(line)).is_err() {
            return;
        }
    }
    _ = messages.send(ThreadMessage::InputClosed);
}
