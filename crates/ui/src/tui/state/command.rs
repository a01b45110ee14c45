//! Handles a sent text: a message to the model, a command of the chat, or a command of the user.

use super::{Action, ChatRequest, Focus, PagePlace, RunningShell, State};
use crate::tui::cells::{Cell, CommandPage, Detail, Tone};
use crate::tui::commands::{
    COMMAND_GROUPS, COMMANDS, CommandAction, CommandTiming, DEFAULT_EFFORT, find_built_in,
    unknown_effort_message,
};
use crate::tui::composer::AttributedText;
use crate::tui::conversation::{RunningTurn, TurnActivity};
use crate::tui::keys::KeyAction;
use crate::tui::text::width;
use crate::tui::viewer::PageViewer;
use agent_protocol::control::PermissionMode;
use agent_protocol::custom_command::{CustomCommand, MCP_PROMPT_PREFIX};
use agent_protocol::directives::UserInput;
use agent_protocol::format_thousands;
use agent_protocol::model::Usage;
use agent_protocol::provider::Effort;
use agent_protocol::terminal_escape::escape_for_file;

/// The width from which keys are listed in two columns.
const KEY_COLUMNS: usize = 78;
/// Limit on the first column of a page.
const WIDEST_NAME: usize = 32;
/// The input field, the status line, and a blank row around a page.
const ROWS_BELOW_PAGE: usize = 5;

impl State {
    pub(super) fn dispatch(&mut self, input: UserInput) -> Vec<Action> {
        let message = input.text.as_str();
        if let Some(command) = message.strip_prefix('!') {
            let command = command.trim().to_owned();
            if command.is_empty() {
                return Vec::new();
            }
            self.n_shells += 1;
            let id = self.n_shells;
            self.shells.push(RunningShell { id, command: command.clone(), tail: String::new() });
            return vec![Action::SendRequest(ChatRequest::RunShell(id, command))];
        }
        if let Some(rest) = message.strip_prefix('/') {
            let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            // Built-in commands take precedence over files.
            if let Some(command) = find_built_in(name) {
                return self.run_command(command.action, arguments.trim());
            }
            // The session asks the server for its text.
            if name.starts_with(MCP_PROMPT_PREFIX) {
                return self.submit(input);
            }
            if let Some(own) = CustomCommand::find(&self.settings.own_commands, name) {
                return self.submit(own.expand_to_message(arguments.trim()));
            }
            // A path is not a command.
            if !name.contains('/') {
                let own = self.settings.own_commands.iter().map(|own| own.name.as_str());
                let names = COMMANDS.iter().map(|command| command.name).chain(own);
                let hint = match agent_protocol::most_similar(name, names) {
                    Some(near) => format!("did you mean /{near}?"),
                    None => "/help lists them".to_owned(),
                };
                let text = format!("there is no command /{name}: {hint}");
                self.conversation.insert_note(Tone::Bad, &text);
                return Vec::new();
            }
        }
        self.submit(input)
    }

    pub(super) fn submit(&mut self, message: UserInput) -> Vec<Action> {
        // A message continues the planning.
        if self.is_asking_about_plan() {
            self.close_question();
        }
        if !self.is_idle() && message.is_stop_request() {
            return self.interrupt();
        }
        self.is_working = true;
        self.queue.push_back(message.clone());
        vec![Action::SendRequest(ChatRequest::Submit(message))]
    }

    pub(super) fn set_mode(&mut self, mode: PermissionMode) -> Vec<Action> {
        if let Some(why) = self.settings.mode_limits.iter().find_map(|it| it.refusal(mode)) {
            self.conversation.insert_note(Tone::Bad, why);
            return Vec::new();
        }
        self.conversation.mode = Some(mode);
        self.pending_mode = None;
        // Another mode ends the planning.
        if mode != PermissionMode::Plan && self.is_asking_about_plan() {
            self.close_question();
        }
        vec![Action::SendRequest(ChatRequest::SetMode(mode))]
    }

    fn mode_command(&mut self, arguments: &str) -> Vec<Action> {
        if let Some(mode) = PermissionMode::all().iter().find(|mode| mode.as_str() == arguments) {
            return self.set_mode(*mode);
        }
        let names = PermissionMode::all().iter().map(|mode| mode.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        if arguments.is_empty() {
            if let Some(actions) = self.offer_list("/mode ") {
                return actions;
            }
            let mode = self.conversation.mode.map_or("not known yet", PermissionMode::as_str);
            let text = format!("the mode is {mode}; /mode MODE changes it: {names}");
            self.conversation.insert_note(Tone::Quiet, &text);
        } else {
            let text = format!("there is no mode {arguments:?}: {names}");
            self.conversation.insert_note(Tone::Bad, &text);
        }
        Vec::new()
    }

    fn effort_command(&mut self, arguments: &str) -> Vec<Action> {
        if arguments == DEFAULT_EFFORT || Effort::from_name(arguments).is_some() {
            return self.run_command(CommandAction::Model, arguments);
        }
        if !arguments.is_empty() {
            self.conversation.insert_note(Tone::Bad, &unknown_effort_message(arguments));
            return Vec::new();
        }
        self.offer_list("/effort ").unwrap_or_else(|| {
            let current = self.conversation.effort.map_or("the model's default", Effort::as_str);
            let text = format!("the effort is {current}; /effort EFFORT changes it");
            self.conversation.insert_note(Tone::Quiet, &text);
            Vec::new()
        })
    }

    /// The viewer is not opened while the user writes a message: the keys would go to the viewer.
    pub(super) fn show_page(&mut self, title: &str, text: String, place: PagePlace) {
        let page = Cell::Page(Box::new(CommandPage { title: title.to_owned(), text }));
        let is_free = self.composer.is_empty() && self.focus == Focus::Composer;
        let fits = || {
            page.lines(self.render_options(), Detail::Full).len() + ROWS_BELOW_PAGE <= self.size.1
        };
        if self.has_screen && is_free && (place != PagePlace::Conversation || !fits()) {
            self.page = Some(PageViewer::new(page, place == PagePlace::ViewerAtEnd));
        } else {
            self.conversation.insert_output(page);
        }
    }

    pub(super) fn run_command(&mut self, action: CommandAction, arguments: &str) -> Vec<Action> {
        let (name, args) = (action.command().name, action.command().args);
        if args.is_empty() && !arguments.is_empty() {
            self.return_to_composer(&format!("/{name} {arguments}").as_str().into(), true);
            self.show_toast(&format!("/{name} takes no arguments: delete what follows it"));
            return Vec::new();
        }
        let timing = action.timing(arguments);
        if let Some(who) = self.blocking_activity(timing) {
            let text = format!("/{name} {arguments}");
            // The command stays in the input field, and can be sent when nothing runs any more.
            self.return_to_composer(&text.trim_end().into(), true);
            let key = |action| self.settings.keymap.key_for(action);
            let (stop, later) = (key(KeyAction::Escape), key(KeyAction::Complete));
            let how = match (self.has_screen, self.is_idle()) {
                (true, true) => format!("{stop} stops it, then send this"),
                (true, false) => format!("{later} sends this after it, {stop} stops it"),
                (false, _) => "wait until it ends, then send this".to_owned(),
            };
            self.show_toast(&format!("{who}: {how}"));
            return Vec::new();
        }
        match action {
            CommandAction::Help => {
                self.show_page("Keys and commands", self.help_text(), PagePlace::Conversation);
            }
            CommandAction::Keys => {
                let rows = self.settings.keymap.rows().into_iter();
                let rows = rows.map(|(keys, name, does)| (keys, format!("{does} ({name})")));
                let text = format_columns(&rows.collect::<Vec<_>>());
                self.show_page("Keys", text, PagePlace::Viewer);
            }
            CommandAction::Plan => {
                let mut actions = self.set_mode(PermissionMode::Plan);
                match arguments {
                    "" => self.conversation.insert_note(Tone::Quiet, "mode plan: say what to plan"),
                    task => actions.extend(self.submit(task.into())),
                }
                return actions;
            }
            CommandAction::Todos if self.conversation.plan.todos.is_empty() => {
                self.conversation.insert_note(Tone::Quiet, "there is no todo list");
            }
            CommandAction::Todos => {
                let plan = self.conversation.plan.clone();
                self.conversation.insert_output(Cell::Plan(Box::new(plan)));
            }
            CommandAction::Cost => {
                let text = self.cost_in_words();
                self.show_page("This session", text, PagePlace::Conversation);
            }
            CommandAction::Context => {
                let text = self.conversation.context_in_words();
                self.show_page("Context", text, PagePlace::Conversation);
            }
            CommandAction::Copy => {
                let answer = self.conversation.cells.iter().rev().find_map(|cell| match cell {
                    Cell::Answer(text) => Some(escape_for_file(text).into_owned()),
                    _ => None,
                });
                if let Some(answer) = answer {
                    self.show_toast("copied, as far as this terminal lets programs do that");
                    return vec![Action::Copy(answer)];
                }
                self.show_toast("there is no answer yet");
            }
            CommandAction::Theme => return self.change_theme(arguments),
            CommandAction::Mode => return self.mode_command(arguments),
            CommandAction::Effort => return self.effort_command(arguments),
            CommandAction::Quit => return vec![Action::SendRequest(ChatRequest::Quit)],
            _ => {
                if action == CommandAction::Rewind {
                    let number = arguments.split(' ').next().and_then(|turn| turn.parse().ok());
                    let mut turns = self.conversation.turns.iter();
                    let turn = turns.find(|turn| Some(turn.number) == number);
                    self.rewound_message = turn.map(|turn| {
                        if turn.is_command {
                            AttributedText::from_message(&turn.message)
                        } else {
                            AttributedText::from_history(&turn.message)
                        }
                    });
                }
                let mut models = self.settings.models.iter();
                let is_listed = action == CommandAction::Model && arguments.is_empty();
                if is_listed
                    && models.any(|(id, _)| *id != self.conversation.model)
                    && let Some(actions) = self.offer_list("/model ")
                {
                    return actions;
                }
                if let CommandTiming::StartsWork(activity) = timing {
                    self.is_working = true;
                    let activity = TurnActivity::Consulting(activity);
                    self.conversation.turn = Some(RunningTurn::new(activity, self.now));
                }
                let request = ChatRequest::RunCommand(action, arguments.to_owned());
                return vec![Action::SendRequest(request)];
            }
        }
        Vec::new()
    }

    fn blocking_activity(&self, timing: CommandTiming) -> Option<&'static str> {
        match timing {
            CommandTiming::Immediate => None,
            _ if !self.is_idle() => Some("the agent works"),
            CommandTiming::OpensSession if !self.shells.is_empty() => Some("your command runs"),
            _ => None,
        }
    }

    fn cost_in_words(&self) -> String {
        let spending = &self.conversation.spending;
        let Usage { input_tokens, output_tokens, cached_tokens, .. } = spending.usage;
        let tilde = spending.estimate_mark();
        let cost = match spending.cost_in_words() {
            Some(cost) => cost,
            None if spending.usage.total() == 0 => "nothing yet: no model has answered".to_owned(),
            None => "not known: no model that answered has a price; price_in and price_out in \
                     [models.\"provider/model\"] set it"
                .to_owned(),
        };
        let estimate = match spending.estimated_tokens {
            0 => String::new(),
            n => format!(
                "~       {} tokens are an estimate: no provider counted them\n",
                format_thousands(n)
            ),
        };
        format!(
            "input   {tilde}{} tokens, {} of them from the provider's cache\noutput  {tilde}{} tokens\n\
             money   {cost}\n{estimate}",
            format_thousands(input_tokens),
            format_thousands(cached_tokens),
            format_thousands(output_tokens)
        )
    }

    fn help_text(&self) -> String {
        let mut rows = Vec::new();
        for command in COMMANDS {
            let group = COMMAND_GROUPS.iter().find(|(_, first)| *first == command.action);
            rows.extend(group.map(|(name, _)| ((*name).to_owned(), String::new())));
            rows.push((format!("  /{}", command.name), command.description.to_owned()));
        }
        let own = self.settings.own_commands.iter().map(|own| {
            let from = match &own.server {
                Some(server) => format!("MCP server {server}"),
                None => "your own".to_owned(),
            };
            (format!("  /{}", own.name), format!("{} ({from})", own.description))
        });
        let others = self.settings.own_commands.first();
        rows.extend(others.map(|_| ("others".to_owned(), String::new())));
        rows.extend(own);
        format!("{}\n{}", self.key_lines().join("\n"), format_columns(&rows))
    }

    /// The most useful keys, in two columns if the screen is wide enough.
    pub(in crate::tui) fn key_lines(&self) -> Vec<String> {
        let key = |action| self.settings.keymap.key_for(action);
        let keys = [
            ("/".to_owned(), "commands"),
            ("@".to_owned(), "a file of the project"),
            ("!".to_owned(), "run your own command"),
            (key(KeyAction::Send), "send, also while it works"),
            (key(KeyAction::NewLine), "a new line"),
            (key(KeyAction::Complete), "send after this turn"),
            (key(KeyAction::Escape), "stop; twice: back a turn"),
            (key(KeyAction::Cancel), "clear; stop; twice: quit"),
            (key(KeyAction::NextMode), "the next mode"),
            (key(KeyAction::Transcript), "everything in full"),
            (key(KeyAction::Editor), "write in an editor"),
            (key(KeyAction::SearchHistory), "search earlier messages"),
        ];
        let cells = keys.map(|(key, does)| format!("  {key:<10} {does}"));
        if self.size.0 < KEY_COLUMNS {
            return cells.to_vec();
        }
        let (left, right) = cells.split_at(cells.len() / 2);
        let rows = left.iter().zip(right);
        rows.map(|(left, right)| format!("{left:<40}{right}").trim_end().to_owned()).collect()
    }
}

/// A very long first cell does not widen the column.
fn format_columns(rows: &[(String, String)]) -> String {
    let widths = rows.iter().map(|(name, _)| width(name.trim_end()));
    let column = widths.max().unwrap_or(0).min(WIDEST_NAME);
    let rows = rows.iter().map(|(name, what)| {
        let name = name.trim_end();
        let pad = " ".repeat(column.saturating_sub(width(name)) + 2);
        format!("{name}{pad}{what}").trim_end().to_owned() + "\n"
    });
    rows.collect()
}
