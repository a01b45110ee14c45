//! Jobs in the background of the chat: commands of the user, reading files and records, the editor.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio_util::sync::CancellationToken;

use super::places::Places;
use crate::app::{self, HostPrograms, Options, Session, Writable};
use crate::cli::editor::{Folder, edited};
use crate::cli::{config, doctor, memory};
use agent_engine::mcp::{self, Servers};
use agent_host::exec::{Command, Exec, Watcher};
use agent_host::workspace::{Kind, Rules, Walk, Workspace};
use agent_protocol::control::{Control, Interrupt};
use agent_protocol::disk::{self, ResolvedPath, canonical_prefix};
use agent_protocol::mask::Masker;
use agent_protocol::visible::in_file;
use agent_ui::tui::{CommandAction, Handle, News, PagePlace, Request};

/// Time limit of a user's command.
const PATIENCE: Duration = Duration::from_hours(1);
/// The answer to `/diff` where nothing is recorded.
const NO_CHANGE: &str = "there is no change (what commands change in build output and large ignored directories is not recorded)";
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
    pub(super) running: FuturesUnordered<LocalBoxFuture<'a, Option<Ran>>>,
    pub(super) options: &'a Options,
    places: &'a Places,
    pub(super) handle: Handle,
    workspace: Arc<Workspace>,
    writable: Writable,
    masker: Arc<Masker>,
    pub(super) outside: HostPrograms,
    /// Runs programs as the user, outside the sandbox; commands of the user get the whole environment.
    exec: Arc<Exec>,
    /// Runs the commands of the model.
    pub(super) commands: Arc<Exec>,
    /// The pasted images, and their number.
    pub(super) pasted: Option<(Rc<Folder>, u32)>,
    /// Cancels the user's commands.
    stop: CancellationToken,
    servers: Option<Servers>,
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
            commands: session.exec().clone(),
            pasted: None,
            stop: CancellationToken::new(),
            servers: session.servers().cloned(),
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

    /// Opens the connection to the model's server.
    pub(super) fn connect(&mut self, opening: impl Future<Output = ()> + 'a) {
        self.running.push(opening.map(|()| None).boxed_local());
    }

    /// Starts a job for a request that does not need the session.
    pub(super) fn begin(&mut self, request: Request) {
        match request {
            Request::Remember(message) => self.places.remember(&self.masker.mask(&message)),
            Request::Files => self.find_files(),
            Request::Models => self.find_models(),
            Request::OwnCommands => {
                let (mut commands, _) = self.places.commands(&self.options.config.prompts);
                commands.extend(self.servers.iter().flat_map(Servers::commands));
                self.handle.tell(News::OwnCommands(commands));
            }
            Request::Shell(id, command) => self.shell(id, command),
            Request::Edit(text) => self.edit(text),
            Request::PasteImage => self.paste_image(),
            Request::Command(action, arguments) => self.command(action, &arguments),
            // Handled where the session is.
            Request::Submit(_)
            | Request::TakeBack
            | Request::Connect
            | Request::Interrupt
            | Request::Answer(..)
            | Request::Tell(..)
            | Request::Mode(_)
            | Request::Quit => {}
        }
    }

    /// Runs a command that does not need the session.
    pub(super) fn command(&mut self, action: CommandAction, arguments: &str) {
        match action {
            CommandAction::Sessions if arguments == "list" => {
                let mut sessions = super::sessions(self.options);
                // The current session is not offered.
                let own = self.short_id();
                sessions.retain(|(id, _)| *id != own);
                self.handle.tell(News::Sessions(sessions));
            }
            CommandAction::Sessions => {
                let sessions = super::sessions(self.options);
                let own = self.short_id();
                let text = sessions.iter().map(|(id, what)| {
                    let this = if *id == own { "  ← this one" } else { "" };
                    format!("{id}  {what}{this}\n")
                });
                let title = "Sessions of this project";
                self.page(title, Ok(text.collect()), PagePlace::Conversation);
            }
            CommandAction::Trace => {
                let trace = super::trace(self.log.as_ref());
                self.page("What happened", trace, PagePlace::ViewerAtEnd);
            }
            CommandAction::Export => {
                let exported = self.export(arguments);
                self.handle.tell(match exported {
                    Ok(path) => News::Note(true, format!("written to {}", path.display())),
                    Err(reason) => News::Note(false, reason),
                });
            }
            CommandAction::Memory if arguments.split_whitespace().next() == Some("add") => {
                let text = arguments.trim_start().strip_prefix("add").unwrap_or_default();
                self.learn(text.trim().to_owned());
            }
            CommandAction::Memory => match of_memory(arguments) {
                Ok(arguments) => self.own("Memory", &arguments),
                Err(reason) => self.handle.tell(News::Note(false, reason)),
            },
            CommandAction::Config => {
                let text = config::in_force(&self.options.config);
                let text = text.map_err(|error| error.to_string());
                self.page("Configuration", text, PagePlace::Viewer);
            }
            CommandAction::Doctor => self.examine(),
            CommandAction::Tasks => self.tasks(arguments),
            CommandAction::Mcp => {
                let text = self.servers.as_ref().map(Servers::in_words);
                let text = text.ok_or_else(|| mcp::NO_SERVERS.to_owned());
                self.page("MCP servers", text, PagePlace::Conversation);
            }
            CommandAction::Hooks => {
                let text = crate::config::hooks_in_words(&self.options.config.hooks);
                self.page("Hooks", text, PagePlace::Conversation);
            }
            CommandAction::Diff => {
                let diff = self.workspace.session_diff();
                match diff.as_deref() {
                    None => self
                        .handle
                        .tell(News::Note(false, "nothing of this session is recorded".to_owned())),
                    Some("") => self.handle.tell(News::Note(true, NO_CHANGE.to_owned())),
                    Some(diff) => {
                        let (title, text) = ("Changes of this session", diff.to_owned());
                        self.page(title, Ok(text), PagePlace::Conversation);
                    }
                }
            }
            // The chat's screen runs the others, and requests none while the agent works.
            _ => {
                let text = "the agent works: send this command again when it is idle";
                self.handle.tell(News::Note(false, text.to_owned()));
            }
        }
    }

    fn short_id(&self) -> String {
        self.options.recorded().short(&self.session)
    }

    /// Adds a lesson of the user.
    fn learn(&mut self, text: String) {
        let (handle, root) = (self.handle.clone(), self.options.root.clone());
        let loaded = self.options.config.clone();
        let notices = handle.clone();
        let tell = move |line| notices.tell(News::Note(false, line));
        let adding =
            tokio::task::spawn_blocking(move || memory::add_rule(root, loaded, &text, tell));
        self.running.push(
            async move {
                handle.tell(match adding.await {
                    Ok(Ok(text)) => News::Note(true, format!("lesson {}", text.trim_end())),
                    Ok(Err(error)) => News::Note(false, error.to_string()),
                    Err(error) => News::Note(false, error.to_string()),
                });
                None
            }
            .boxed_local(),
        );
    }

    pub(super) fn page(&self, title: &str, text: Result<String, String>, place: PagePlace) {
        self.handle.tell(match text {
            Ok(text) => {
                let (title, text) = (title.to_owned(), self.masker.mask(&text).into_owned());
                News::Page { title, text, place }
            }
            Err(reason) => News::Note(false, reason),
        });
    }

    fn export(&self, file: &str) -> Result<PathBuf, String> {
        let log = self.log.as_ref().ok_or("this session is not recorded")?;
        let loaded = agent_record::load(log).map_err(|error| error.to_string())?;
        let (path, made) = if file.is_empty() {
            self.new_export()?
        } else {
            let of_home = file.strip_prefix("~/").zip(std::env::home_dir());
            let named = of_home.map_or_else(|| file.into(), |(below, home)| home.join(below));
            let path = self.options.root.join(named);
            let made = ResolvedPath::of(&path, self.writable.places()).create();
            (path, made)
        };
        let text = agent_record::markdown(&loaded.events);
        let written = made.and_then(|mut file| file.write_all(in_file(&text).as_bytes()));
        written.map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::NotFound => "its directory does not exist".to_owned(),
                _ => disk::in_words(&error),
            };
            format!("{}: {why}; name another file: /export FILE", path.display())
        })?;
        Ok(path)
    }

    /// A new file in the user's data directory.
    fn new_export(&self) -> Result<(PathBuf, io::Result<File>), String> {
        let dirs = self.options.dirs.as_ref();
        let dirs = dirs.ok_or("there is no home directory: name a file, /export FILE")?;
        let folder = canonical_prefix(&dirs.data).join("exports");
        let made = disk::make_folder(&folder, 0o700);
        made.map_err(|error| {
            let why = disk::in_words(&error);
            format!("{}: {why}; name a file: /export FILE", folder.display())
        })?;
        let name = format!("session-{}", self.short_id());
        // An earlier export is kept.
        let mut n = 1;
        loop {
            let number = if n > 1 { format!("-{n}") } else { String::new() };
            let path = folder.join(format!("{name}{number}.md"));
            match disk::create(&path, 0o600) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => n += 1,
                made => return Ok((path, made)),
            }
        }
    }

    /// Shows the output of another command of this program.
    fn own(&mut self, title: &'static str, arguments: &str) {
        // This executable, even if its path has changed.
        let program = format!("/proc/{}/exe", std::process::id());
        // (Not a command of the user: it gets no folders in the project.)
        let line = format!("{program} {arguments}");
        let command = Command::new(line, self.options.root.clone(), PATIENCE);
        let run = self.run_outside(command);
        self.tell_output(title, run, "no output");
    }

    /// Runs a program that is not a command of the user.
    pub(super) fn run_outside(
        &self,
        command: Command<'static>,
    ) -> impl Future<Output = Shown> + use<> {
        run(&self.exec, command, &self.stop)
    }

    fn tell_output(
        &mut self,
        title: &'static str,
        run: impl Future<Output = Shown> + 'static,
        nothing: &'static str,
    ) {
        let (handle, masker) = (self.handle.clone(), self.masker.clone());
        self.running.push(
            async move {
                let Shown { output, exit_code, .. } = run.await;
                let output = output.trim_end();
                // The program's name at the beginning is not needed in the chat.
                let output = masker.mask(output.strip_prefix("agent: ").unwrap_or(output));
                let output = output.into_owned();
                handle.tell(match (output.is_empty(), exit_code) {
                    (true, Some(0)) => News::Note(true, nothing.to_owned()),
                    (false, _) => {
                        let title = title.to_owned();
                        News::Page { title, text: output, place: PagePlace::Conversation }
                    }
                    (true, _) => News::Note(false, "it failed without output".to_owned()),
                });
                None
            }
            .boxed_local(),
        );
    }

    fn shell(&mut self, id: u32, command: String) {
        let (handle, masker) = (self.handle.clone(), self.masker.clone());
        let (watcher, masks) = (handle.clone(), masker.clone());
        let watcher = move |tail: &str| {
            watcher.tell(News::ShellOutput { id, tail: masks.mask(tail).into_owned() });
        };
        let run = self.run(command.clone(), Some(Box::new(watcher)));
        let places = self.places;
        self.running.push(
            async move {
                let Shown { output, left_out, exit_code } = run.await;
                let output = masker.mask(&output).into_owned();
                let (shown, wrote) = (command.clone(), output.clone());
                handle.tell(News::Shell { id, command: shown, output: wrote, left_out, exit_code });
                // (It may be a command of git.)
                handle.tell(News::Branch(places.branch()));
                Some(Ran { command, output, exit_code })
            }
            .boxed_local(),
        );
    }

    fn examine(&mut self) {
        let (handle, masker, stop) = (self.handle.clone(), self.masker.clone(), self.stop.clone());
        let (setup, control) = (
            doctor::Setup::of_chat(self.options, self.workspace.extra(), &self.model),
            Control::default(),
        );
        let examined = control.clone();
        let examining = tokio::task::spawn_blocking(move || setup.report(&examined));
        self.running.push(
            async move {
                let title = "What works here".to_owned();
                match stop.run_until_cancelled(examining).await {
                    None => control.interrupt(Interrupt::User),
                    Some(Ok(Ok(text))) => {
                        let text = masker.mask(&text).into_owned();
                        let place = PagePlace::Conversation;
                        handle.tell(News::Page { title, text, place });
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
    ) -> impl Future<Output = Shown> + 'static {
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

    fn find_models(&mut self) {
        let (config, handle) = (&self.options.config.config, self.handle.clone());
        self.running.push(
            async move {
                if let Ok((models, _)) = app::usable_models(config).await {
                    let ids = models.into_iter().map(|model| model.id).collect();
                    handle.tell(News::Models(ids));
                }
                None
            }
            .boxed_local(),
        );
    }

    fn find_files(&mut self) {
        let (workspace, handle) = (self.workspace.clone(), self.handle.clone());
        let resources = self.servers.as_ref().map(Servers::resources).unwrap_or_default();
        let found = tokio::task::spawn_blocking(move || files(&workspace, resources));
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

/// A command's output, the number of lines that it lacks because it is long, and the status.
pub(super) struct Shown {
    output: String,
    left_out: usize,
    pub(super) exit_code: Option<i32>,
}

/// Runs a command.
fn run(
    exec: &Arc<Exec>,
    command: Command<'static>,
    cancel: &CancellationToken,
) -> impl Future<Output = Shown> + use<> {
    let (exec, cancel) = (exec.clone(), cancel.clone());
    async move {
        match exec.run(command, &cancel).await {
            Ok(outcome) => {
                let streams = [&outcome.stdout, &outcome.stderr];
                let left_out = streams.iter().filter(|stream| stream.truncated).map(|stream| {
                    let total = usize::try_from(stream.total_lines).unwrap_or(usize::MAX);
                    total.saturating_sub(stream.text.lines().count())
                });
                let left_out = left_out.sum();
                let output = streams.map(|stream| stream.text.as_str()).concat();
                Shown { output, left_out, exit_code: outcome.exit_code }
            }
            Err(error) => Shown { output: error.to_string(), left_out: 0, exit_code: None },
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
        _ => {
            let usage =
                "/memory lists lessons; /memory add TEXT, /memory show ID, /memory forget ID";
            Err(usage.to_owned())
        }
    }
}

/// The files of the project, sorted, without ignored ones; then these resources of MCP servers.
fn files(workspace: &Workspace, resources: Vec<String>) -> Arc<[String]> {
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
    found.extend(resources);
    found.into()
}
