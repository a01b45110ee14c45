//! Jobs in the background of the chat: commands of the user, reading files and records, the editor.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio_util::sync::CancellationToken;

use super::places::Places;
use crate::app::{HostPrograms, Options, Session, Writable};
use crate::cli::editor::edited;
use crate::cli::{config, doctor};
use crate::disk::ResolvedPath;
use crate::exec::{Command, Exec, Watcher};
use crate::protocol::control::{Control, Interrupt};
use crate::protocol::mask::Masker;
use crate::protocol::sanitize::without_controls;
use crate::record;
use crate::ui::tui::{CommandAction, Handle, News, Request};
use crate::workspace::{Kind, Rules, Walk, Workspace};

/// Time limit of a user's command.
const PATIENCE: Duration = Duration::from_hours(1);
/// Limit: files that are offered.
const MAX_FILES: usize = 200_000;

/// A user's command that has ended, to be shared with the model.
pub(super) struct Ran {
    pub(super) command: String,
    pub(super) output: String,
    pub(super) exit_code: Option<i32>,
}

/// The running jobs.
pub(super) struct Jobs<'a> {
    running: FuturesUnordered<LocalBoxFuture<'a, Option<Ran>>>,
    options: &'a Options,
    places: &'a Places,
    handle: Handle,
    workspace: Arc<Workspace>,
    writable: Writable,
    masker: Arc<Masker>,
    outside: HostPrograms,
    /// Runs programs as the user, outside the sandbox; commands of the user get the whole environment.
    exec: Arc<Exec>,
    /// Cancels the user's commands.
    stop: CancellationToken,
    log: Option<PathBuf>,
    session: String,
    /// The current model.
    pub(super) model: String,
}

impl<'a> Jobs<'a> {
    pub(super) fn new(
        session: &Session,
        options: &'a Options,
        places: &'a Places,
        handle: Handle,
    ) -> Self {
        let outside = HostPrograms::of(session.writable());
        Self {
            running: FuturesUnordered::new(),
            outside: outside.clone(),
            options,
            places,
            handle,
            workspace: session.workspace().clone(),
            writable: session.writable().clone(),
            masker: session.masker(),
            exec: Arc::new(outside.exec()),
            stop: CancellationToken::new(),
            log: session.log_path.clone(),
            session: session.id().to_owned(),
            model: session.model().to_owned(),
        }
    }

    /// The next command that ends; pending forever if none is running.
    pub(super) async fn next(&mut self) -> Option<Ran> {
        match self.running.next().await {
            Some(done) => done,
            None => std::future::pending().await,
        }
    }

    /// Ends the user's commands.
    pub(super) fn stop(&mut self) {
        std::mem::take(&mut self.stop).cancel();
    }

    /// Starts a job for a request that does not need the session.
    pub(super) fn begin(&mut self, request: Request) {
        match request {
            Request::Remember(message) => self.places.remember(&self.masker.mask(&message)),
            Request::Files => self.find_files(),
            Request::OwnCommands => {
                self.handle.tell(News::OwnCommands(self.places.commands()));
            }
            Request::Shell(command) => self.shell(command),
            Request::Edit(text) => self.edit(text),
            Request::Command(action, arguments) => self.command(action, &arguments),
            // Handled where the session is.
            Request::Submit(_)
            | Request::Steer(_)
            | Request::Interrupt
            | Request::Answer(..)
            | Request::Mode(_)
            | Request::Quit => {}
        }
    }

    fn command(&mut self, action: CommandAction, arguments: &str) {
        match action {
            CommandAction::Sessions if arguments == "list" => {
                let mut sessions = super::sessions(self.options);
                // The current session is not offered.
                sessions.retain(|(id, _)| !self.session.starts_with(id));
                self.handle.tell(News::Sessions(sessions));
            }
            CommandAction::Sessions => {
                let sessions = super::sessions(self.options);
                let text = sessions.iter().map(|(id, what)| {
                    let this = if self.session.starts_with(id) { "  ← this one" } else { "" };
                    format!("{id}  {what}{this}\n")
                });
                self.page("Sessions of this project", Ok(text.collect()));
            }
            CommandAction::Trace => {
                let trace = super::trace(self.log.as_ref());
                self.page("What happened", trace);
            }
            CommandAction::Export => {
                let exported = self.export(arguments);
                self.handle.tell(match exported {
                    Ok(path) => News::Note(true, format!("written to {}", path.display())),
                    Err(reason) => News::Note(false, reason),
                });
            }
            CommandAction::Memory => match of_memory(arguments) {
                Ok(arguments) => self.own("Memory", &arguments),
                Err(reason) => self.handle.tell(News::Note(false, reason)),
            },
            CommandAction::Config => {
                let text = config::in_force(&self.options.config);
                self.page("Configuration", text.map_err(|error| error.to_string()));
            }
            CommandAction::Doctor => self.examine(),
            CommandAction::Diff => {
                let diff = self.workspace.session_diff();
                match diff.as_deref() {
                    None => self
                        .handle
                        .tell(News::Note(false, "nothing of this session is recorded".to_owned())),
                    Some("") => self
                        .handle
                        .tell(News::Note(true, "this session has changed nothing".to_owned())),
                    Some(diff) => self.page("Changes of this session", Ok(diff.to_owned())),
                }
            }
            CommandAction::Help
            | CommandAction::Model
            | CommandAction::Mode
            | CommandAction::Plan
            | CommandAction::Todos
            | CommandAction::Undo
            | CommandAction::Redo
            | CommandAction::Rewind
            | CommandAction::Compact
            | CommandAction::Context
            | CommandAction::Pin
            | CommandAction::Pins
            | CommandAction::Permissions
            | CommandAction::Unpin
            | CommandAction::Resume
            | CommandAction::Clear
            | CommandAction::Cost
            | CommandAction::Copy
            | CommandAction::Theme
            | CommandAction::Keys
            | CommandAction::Quit => {
                let text = "the agent is working: wait, or stop it with Esc, and try again";
                self.handle.tell(News::Note(false, text.to_owned()));
            }
        }
    }

    fn page(&self, title: &str, text: Result<String, String>) {
        self.handle.tell(match text {
            Ok(text) => {
                News::Page { title: title.to_owned(), text: self.masker.mask(&text).into_owned() }
            }
            Err(reason) => News::Note(false, reason),
        });
    }

    fn export(&self, file: &str) -> Result<PathBuf, String> {
        let log = self.log.as_ref().ok_or("this session is not recorded")?;
        let loaded = record::load(log).map_err(|error| error.to_string())?;
        let name = if file.is_empty() {
            format!("session-{}.md", super::short(&self.session))
        } else {
            file.to_owned()
        };
        let path = self.options.root.join(name);
        let made = ResolvedPath::of(&path, self.writable.places()).create();
        let text = record::markdown(&loaded.events);
        let written = made.and_then(|mut file| file.write_all(without_controls(&text).as_bytes()));
        written.map_err(|error| format!("{}: {error}; name another file", path.display()))?;
        Ok(path)
    }

    /// Shows the output of another command of this program.
    fn own(&mut self, title: &'static str, arguments: &str) {
        // This executable, even if its path has changed.
        let program = format!("/proc/{}/exe", std::process::id());
        // (Not a command of the user: it gets no folders in the project.)
        let line = format!("{program} {arguments}");
        let command = Command::new(line, self.options.root.clone(), PATIENCE);
        let run = run(&self.exec, command, &self.stop);
        self.tell_output(title, run, "no output");
    }

    fn tell_output(
        &mut self,
        title: &'static str,
        run: impl Future<Output = (String, Option<i32>)> + 'static,
        nothing: &'static str,
    ) {
        let (handle, masker) = (self.handle.clone(), self.masker.clone());
        self.running.push(
            async move {
                let (output, exit_code) = run.await;
                let output = output.trim_end();
                // The program's name at the beginning is not needed in the chat.
                let output = masker.mask(output.strip_prefix("agent: ").unwrap_or(output));
                let output = output.into_owned();
                handle.tell(match (output.is_empty(), exit_code) {
                    (true, Some(0)) => News::Note(true, nothing.to_owned()),
                    (false, _) => News::Page { title: title.to_owned(), text: output },
                    (true, _) => News::Note(false, "it failed without output".to_owned()),
                });
                None
            }
            .boxed_local(),
        );
    }

    fn shell(&mut self, command: String) {
        let (handle, masker) = (self.handle.clone(), self.masker.clone());
        let (watcher, masks, command_of) = (handle.clone(), masker.clone(), command.clone());
        let watcher = move |tail: &str| {
            let (command, tail) = (command_of.clone(), masks.mask(tail).into_owned());
            watcher.tell(News::ShellOutput { command, tail });
        };
        let run = self.run(command.clone(), Some(Box::new(watcher)));
        self.running.push(
            async move {
                let (output, exit_code) = run.await;
                let output = masker.mask(&output).into_owned();
                let (shown, wrote) = (command.clone(), output.clone());
                handle.tell(News::Shell { command: shown, output: wrote, exit_code });
                Some(Ran { command, output, exit_code })
            }
            .boxed_local(),
        );
    }

    fn examine(&mut self) {
        let (handle, masker, stop) = (self.handle.clone(), self.masker.clone(), self.stop.clone());
        let (setup, control) =
            (doctor::Setup::of_chat(self.options, &self.model), Control::default());
        let examined = control.clone();
        let examining = tokio::task::spawn_blocking(move || setup.report(&examined));
        self.running.push(
            async move {
                let title = "What works here".to_owned();
                match stop.run_until_cancelled(examining).await {
                    None => control.interrupt(Interrupt::User),
                    Some(Ok(Ok(text))) => {
                        let text = masker.mask(&text).into_owned();
                        handle.tell(News::Page { title, text });
                    }
                    Some(Ok(Err(error))) => handle.tell(News::Note(false, error.to_string())),
                    Some(Err(error)) => handle.tell(News::Note(false, error.to_string())),
                }
                None
            }
            .boxed_local(),
        );
    }

    /// Runs a line with the user's environment.
    fn run(
        &self,
        line: String,
        watcher: Option<Watcher<'static>>,
    ) -> impl Future<Output = (String, Option<i32>)> + 'static {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let command = Command::new(line, self.options.root.clone(), PATIENCE);
        run(&self.exec, Command { environment, watcher, ..command }, &self.stop)
    }

    fn edit(&mut self, text: String) {
        let (handle, outside) = (self.handle.clone(), self.outside.clone());
        let dirs = self.options.dirs.clone();
        self.running.push(
            async move {
                handle.tell(News::Edited(edited(&text, &outside, dirs.as_ref()).await));
                None
            }
            .boxed_local(),
        );
    }

    fn find_files(&mut self) {
        let (workspace, handle) = (self.workspace.clone(), self.handle.clone());
        let found = tokio::task::spawn_blocking(move || files(&workspace));
        self.running.push(
            async move {
                if let Ok(files) = found.await {
                    handle.tell(News::Files(files));
                }
                None
            }
            .boxed_local(),
        );
    }
}

/// Returns a command's output and status.
fn run(
    exec: &Arc<Exec>,
    command: Command<'static>,
    cancel: &CancellationToken,
) -> impl Future<Output = (String, Option<i32>)> + 'static {
    let (exec, cancel) = (exec.clone(), cancel.clone());
    async move {
        match exec.run(command, &cancel).await {
            Ok(outcome) => {
                let output = format!("{}{}", outcome.stdout.text, outcome.stderr.text);
                (output, outcome.exit_code)
            }
            Err(error) => (error.to_string(), None),
        }
    }
}

/// The arguments of `agent memory` for `/memory`.
fn of_memory(arguments: &str) -> Result<String, String> {
    let is_id = |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    match arguments.split_whitespace().collect::<Vec<_>>().as_slice() {
        [] | ["list"] => Ok("memory list".to_owned()),
        ["show", id] | [id] if is_id(id) => Ok(format!("memory show {id}")),
        ["forget", id] if is_id(id) => Ok(format!("memory forget --yes {id}")),
        _ => Err("/memory lists lessons; /memory show ID, /memory forget ID".to_owned()),
    }
}

/// The files of the project, sorted, without ignored ones.
fn files(workspace: &Workspace) -> Arc<[String]> {
    let Ok(base) = workspace.resolve(".") else { return Arc::new([]) };
    let found = std::sync::Mutex::new(Vec::new());
    let walk = Walk { base, rules: Rules::default(), depth: None };
    workspace.walk(&walk, || {
        Box::new(|met| {
            let mut found = found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if met.kind() == Kind::File {
                found.push(met.path().relative().to_owned());
            }
            found.len() < MAX_FILES
        })
    });
    let mut found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.sort_unstable();
    found.into()
}
