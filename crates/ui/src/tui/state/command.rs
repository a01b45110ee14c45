//! Handles a sent text: a message to the model, a command of the chat, or a command of the user.

use super::{Action, Focus, PagePlace, Request, RunningShell, State};
use crate::tui::cells::{Cell, Detail, Page, Tone};
use crate::tui::commands::{COMMANDS, CommandAction, DEFAULT_EFFORT, Timing, built_in, no_effort};
use crate::tui::composer::Written;
use crate::tui::conversation::{Doing, Turn};
use crate::tui::keys::KeyAction;
use crate::tui::text::width;
use crate::tui::viewer::PageViewer;
use agent_protocol::control::PermissionMode;
use agent_protocol::directives::UserInput;
use agent_protocol::model::Usage;
use agent_protocol::own_command::{OF_SERVER, OwnCommand};
use agent_protocol::provider::Effort;
use agent_protocol::thousands;
use agent_protocol::visible::in_file;

/// Limit of the first column of a page.
const WIDEST_NAME: usize = 32;
/// Rows of the input field and the status line, with a blank one around a page.
const ROWS_BELOW_PAGE: usize = 5;

impl State {
    pub(super) fn dispatch(&mut self, input: UserInput) -> Vec<Action> {
        // The result is added at the end.
        self.show_end();
        let message = input.text.as_str();
        if let Some(command) = message.strip_prefix('!') {
            let command = command.trim().to_owned();
            if command.is_empty() {
                return Vec::new();
            }
            self.n_shells += 1;
            let id = self.n_shells;
            self.shells.push(RunningShell { id, command: command.clone(), tail: String::new() });
            return vec![Action::Ask(Request::Shell(id, command))];
        }
        if let Some(rest) = message.strip_prefix('/') {
            let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            // Built-in commands take precedence over files.
            if let Some(command) = built_in(name) {
                return self.command(command.action, arguments.trim());
            }
            // The session asks the server for its text.
            if name.starts_with(OF_SERVER) {
                return self.submit(input);
            }
            if let Some(own) = OwnCommand::find(&self.settings.own_commands, name) {
                let message = own.message(arguments.trim());
                return self.submit(message);
            }
            // A path is not a command.
            if !name.contains('/') {
                let own = self.settings.own_commands.iter().map(|own| own.name.as_str());
                let names = COMMANDS.iter().map(|command| command.name).chain(own);
                let hint = agent_protocol::nearest(name, names).map_or_else(
                    || "/help lists them".to_owned(),
                    |it| format!("did you mean /{it}?"),
                );
                self.conversation
                    .remark(Tone::Bad, &format!("there is no command /{name}: {hint}"));
                return Vec::new();
            }
        }
        self.submit(input)
    }

    pub(super) fn submit(&mut self, message: UserInput) -> Vec<Action> {
        // A message continues the planning.
        if self.asked.as_ref().is_some_and(|asked| asked.call().is_none()) {
            self.drop_question();
        }
        self.show_end();
        if !self.is_idle() && message.is_stop() {
            return self.interrupt();
        }
        self.is_working = true;
        self.queue.push_back(message.clone());
        vec![Action::Ask(Request::Submit(message))]
    }

    /// The full-screen conversation shows its end, and follows it.
    pub(super) fn show_end(&mut self) {
        if let Some(viewer) = self.viewer.as_mut().filter(|_| self.settings.full_screen) {
            viewer.follow_end(self.conversation.cells.len());
        }
    }

    /// Starts a longer interruptible operation that is not a turn.
    fn begins(&mut self, doing: Doing) {
        self.is_working = true;
        self.conversation.turn =
            Some(Turn { started: self.now, doing, since: self.now, last_data: None });
    }

    pub(super) fn set_mode(&mut self, mode: PermissionMode) -> Vec<Action> {
        self.conversation.mode = Some(mode);
        self.pending_mode = None;
        // Another mode ends the planning.
        if mode != PermissionMode::Plan && self.asks_about_plan() {
            self.drop_question();
        }
        vec![Action::Ask(Request::Mode(mode))]
    }

    fn mode_command(&mut self, arguments: &str) -> Vec<Action> {
        if let Some(mode) = PermissionMode::all().iter().find(|mode| mode.as_str() == arguments) {
            let refused = self.settings.refuses_full.filter(|_| *mode == PermissionMode::Full);
            let Some(why) = refused else { return self.set_mode(*mode) };
            self.conversation.remark(Tone::Bad, why);
            return Vec::new();
        }
        let names = PermissionMode::all().iter().map(|mode| mode.as_str()).collect::<Vec<_>>();
        let names = names.join(", ");
        if arguments.is_empty() {
            let mode = self.conversation.mode.map_or("not known yet", PermissionMode::as_str);
            let text = format!("the mode is {mode}; /mode MODE changes it: {names}");
            self.conversation.remark(Tone::Quiet, &text);
        } else {
            let text = format!("there is no mode {arguments:?}: {names}");
            self.conversation.remark(Tone::Bad, &text);
        }
        Vec::new()
    }

    fn effort_command(&mut self, arguments: &str) -> Vec<Action> {
        if arguments == DEFAULT_EFFORT || Effort::named(arguments).is_some() {
            return self.command(CommandAction::Model, arguments);
        }
        if !arguments.is_empty() {
            self.conversation.remark(Tone::Bad, &no_effort(arguments));
            return Vec::new();
        }
        let current = self.conversation.effort.map_or("the model's default", Effort::as_str);
        let text = format!("the effort is {current}; /effort EFFORT changes it");
        self.conversation.remark(Tone::Quiet, &text);
        if self.has_screen && self.composer.is_empty() {
            self.open_list("/effort ");
            return self.complete();
        }
        Vec::new()
    }

    /// Displays the output of a command. The viewer is not opened while a message is being written: its keys
    /// would go to the viewer.
    pub(super) fn page(&mut self, title: &str, text: String, place: PagePlace) {
        let page = Cell::Page(Box::new(Page { title: title.to_owned(), text }));
        let is_free = self.composer.is_empty() && self.focus == Focus::Composer;
        let fits = || page.lines(self.look(), Detail::Full).len() + ROWS_BELOW_PAGE <= self.size.1;
        if self.has_screen && is_free && (place != PagePlace::Conversation || !fits()) {
            self.page = Some(PageViewer::new(page, place == PagePlace::ViewerAtEnd));
        } else {
            self.conversation.aside(page);
        }
    }

    pub(super) fn command(&mut self, action: CommandAction, arguments: &str) -> Vec<Action> {
        let (name, args) = (action.command().name, action.command().args);
        if args.is_empty() && !arguments.is_empty() {
            self.edit_again(&format!("/{name} {arguments}").as_str().into(), true);
            self.say(&format!("/{name} takes no arguments: delete what follows it"));
            return Vec::new();
        }
        let timing = action.timing(arguments);
        if let Some(who) = self.hinders(timing) {
            let text = format!("/{name} {arguments}");
            // It is kept, and can be sent when nothing runs any more.
            self.edit_again(&text.trim_end().into(), true);
            let how = if self.has_screen {
                let key = |action| self.settings.keymap.key_for(action);
                let stop = key(KeyAction::Escape);
                if self.is_idle() {
                    format!("{stop} stops it, then send this")
                } else {
                    let later = key(KeyAction::Complete);
                    format!("{later} sends this after it, {stop} stops it")
                }
            } else {
                "wait until it ends, then send this".to_owned()
            };
            self.say(&format!("{who}: {how}"));
            return Vec::new();
        }
        match action {
            CommandAction::Help => {
                let text = self.help();
                self.page("Commands", text, PagePlace::Conversation);
            }
            CommandAction::Keys => {
                let rows = self.settings.keymap.rows();
                let rows =
                    rows.into_iter().map(|(keys, name, what)| (keys, format!("{what} ({name})")));
                let text = columns(&rows.collect::<Vec<_>>());
                self.page("Keys", text, PagePlace::Viewer);
            }
            CommandAction::Plan => {
                let mut actions = self.set_mode(PermissionMode::Plan);
                match arguments {
                    "" => self.conversation.remark(Tone::Quiet, "mode plan: say what to plan"),
                    task => actions.extend(self.submit(task.into())),
                }
                return actions;
            }
            CommandAction::Todos if self.conversation.plan.todos.is_empty() => {
                self.conversation.remark(Tone::Quiet, "there is no todo list");
            }
            CommandAction::Todos => {
                let plan = self.conversation.plan.clone();
                self.conversation.aside(Cell::Plan(Box::new(plan)));
            }
            CommandAction::Cost => {
                let text = self.cost_in_words();
                self.page("Since this conversation was opened", text, PagePlace::Conversation);
            }
            CommandAction::Context => {
                let text = self.conversation.context_in_words();
                self.page("Context", text, PagePlace::Conversation);
            }
            CommandAction::Copy => {
                let answer = self.conversation.cells.iter().rev().find_map(|cell| match cell {
                    Cell::Answer(text) => Some(text.clone()),
                    _ => None,
                });
                match answer {
                    Some(answer) => {
                        self.say("copied, as far as this terminal lets programs do that");
                        return vec![Action::Copy(in_file(&answer).into_owned())];
                    }
                    None => self.say("there is no answer yet"),
                }
            }
            CommandAction::Theme | CommandAction::Vim | CommandAction::StatusLine => {
                return self.appearance(action, arguments);
            }
            CommandAction::Mode => return self.mode_command(arguments),
            CommandAction::Effort => return self.effort_command(arguments),
            CommandAction::Quit => return vec![Action::Ask(Request::Quit)],
            _ => {
                if action == CommandAction::Rewind {
                    let number = arguments.split(' ').next().and_then(|turn| turn.parse().ok());
                    let mut turns = self.conversation.turns.iter();
                    let turn = turns.find(|turn| Some(turn.number) == number);
                    self.rewound = turn.map(|turn| {
                        if turn.is_command {
                            Written::message(&turn.message)
                        } else {
                            Written::earlier(&turn.message)
                        }
                    });
                }
                let others = self.settings.models.iter().any(|id| *id != self.conversation.model);
                let lists = action == CommandAction::Model && arguments.is_empty() && others;
                let mut actions = vec![Action::Ask(Request::Command(action, arguments.to_owned()))];
                if lists && self.has_screen && self.composer.is_empty() {
                    // The list of models opens.
                    self.open_list("/model ");
                    actions.extend(self.complete());
                }
                if let Timing::Works(what) = timing {
                    self.begins(Doing::Consulting(what));
                }
                return actions;
            }
        }
        Vec::new()
    }

    /// What has to end before a command can run.
    fn hinders(&self, timing: Timing) -> Option<&'static str> {
        if timing == Timing::AtOnce {
            None
        } else if !self.is_idle() {
            Some("the agent works")
        } else if timing == Timing::Opens && !self.shells.is_empty() {
            Some("your command runs")
        } else {
            None
        }
    }

    /// Tokens and cost since the conversation was opened.
    fn cost_in_words(&self) -> String {
        let spending = &self.conversation.spending;
        let Usage { input_tokens, output_tokens, cached_tokens, .. } = spending.usage;
        let about = spending.about();
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
                thousands(n)
            ),
        };
        format!(
            "input   {about}{} tokens, {} of them from the provider's cache\noutput  {about}{} tokens\n\
             money   {cost}\n{estimate}",
            thousands(input_tokens),
            thousands(cached_tokens),
            thousands(output_tokens)
        )
    }

    pub(super) fn help(&self) -> String {
        let built_in = COMMANDS.iter().map(|command| {
            (format!("/{} {}", command.name, command.args), command.what.to_owned())
        });
        let own = self.settings.own_commands.iter();
        let own = own.map(|own| {
            let from = match &own.server {
                Some(server) => format!("MCP server {server}"),
                None => "your own".to_owned(),
            };
            let name = format!("/{} {}", own.name, own.argument_hint);
            (name, format!("{} ({from})", own.description))
        });
        let mut text = columns(&built_in.chain(own).collect::<Vec<_>>());
        let key = |action| self.settings.keymap.key_for(action);
        text.push_str(&format!(
            "\n@ names a file · ! runs a command of your own · {} a new line · {} stops the agent\n\
             {} everything in full · {} the next mode · /keys all keys\n",
            key(KeyAction::NewLine),
            key(KeyAction::Escape),
            key(KeyAction::Transcript),
            key(KeyAction::NextMode),
        ));
        text
    }
}

/// Rows of two columns; a very long first cell does not widen the column.
pub(super) fn columns(rows: &[(String, String)]) -> String {
    let widths = rows.iter().map(|(name, _)| width(name.trim_end()));
    let column = widths.max().unwrap_or(0).min(WIDEST_NAME);
    let rows = rows.iter().map(|(name, what)| {
        let name = name.trim_end();
        let pad = " ".repeat(column.saturating_sub(width(name)) + 2);
        format!("{name}{pad}{what}\n")
    });
    rows.collect()
}
