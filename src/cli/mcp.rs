//! `agent mcp`: lists, adds, removes and tries MCP servers, and is one.

mod serve;
mod stdio;

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Subcommand};

use super::options::{self, ToolOptions};
use super::{print_answer, print_notices, usage_error};
use crate::app::{self, McpServers, OpenError, StateDirs, WritableDirs};
use crate::config::{self, McpServer, UserDirs};
use agent_engine::mcp::{NO_SERVERS, ServerState};
use agent_protocol::control::SessionControl;
use agent_protocol::terminal_escape::escape_literal_line;

#[derive(Debug, Subcommand)]
pub(super) enum McpCommand {
    /// List the configured servers; none is started
    List(ToolOptions),
    /// Add a server: `agent mcp add git uvx mcp-server-git`
    Add(McpAddArgs),
    /// Remove a server
    Remove {
        /// Its name
        name: String,
        /// From the project's configuration, not from yours
        #[arg(long)]
        project: bool,
    },
    /// Start servers, and list their tools
    Test {
        /// The server; where none is given, all
        name: Option<String>,
        #[command(flatten)]
        options: ToolOptions,
    },
    /// Offer the tools to another agent: it starts this, and speaks MCP over standard input and output
    Serve(serve::ServeArgs),
}

#[derive(Debug, Args)]
pub(super) struct McpAddArgs {
    /// Its name
    name: String,
    /// To the project's configuration, not to yours
    #[arg(long)]
    project: bool,
    /// The address of a server that speaks streamable HTTP
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// A header of each request to it
    #[arg(long, value_name = "NAME: VALUE", requires = "url")]
    header: Vec<String>,
    /// A variable of its environment
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "url")]
    env: Vec<String>,
    /// A variable with a key that it receives from your environment
    #[arg(long, value_name = "NAME", conflicts_with = "url")]
    pass_key: Vec<String>,
    /// Start it in the project, not in an empty directory
    #[arg(long, value_name = "project", value_parser = ["project"], conflicts_with = "url")]
    cwd: Option<String>,
    /// The program, and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required_unless_present = "url")]
    command: Vec<String>,
}

pub(super) fn run(command: McpCommand) -> u8 {
    let done = match command {
        McpCommand::List(options) => list(&options),
        McpCommand::Add(args) => add(args),
        McpCommand::Remove { name, project } => config_file(project).and_then(|file| {
            config::change_file(&file, |text| config::without_server(&text, &name))
                .map_err(OpenError::Usage)?;
            Ok(format!("{name} is no longer in {}\n", file.display()))
        }),
        McpCommand::Test { name, options } => return test_servers(name.as_deref(), &options),
        McpCommand::Serve(args) => return serve::serve(&args),
    };
    print_answer(done.map(Into::into))
}

fn list(options: &ToolOptions) -> Result<String, OpenError> {
    let (.., loaded) = options::load_project_config(options)?;
    let masker = app::build_masker(&loaded.config, &[])?;
    let mut out = String::new();
    for (name, server) in &loaded.config.mcp.servers {
        let how = server.url.clone().unwrap_or_else(|| {
            let program = server.command.iter().chain(&server.args);
            program.cloned().collect::<Vec<_>>().join(" ")
        });
        let table = format!("mcp.servers.{name}.");
        let origin = loaded.origins.iter().find(|(key, _)| key.starts_with(&table));
        let origin = origin.map_or_else(String::new, |(_, origin)| format!("  # {origin}"));
        let off = if server.enabled { "" } else { " (not enabled)" };
        let line = format!("{name}: {how}{off}{origin}");
        out.push_str(&format!("{}\n", escape_literal_line(&masker.mask(&line))));
    }
    Ok(if out.is_empty() { format!("{NO_SERVERS}\n") } else { out })
}

fn config_file(project: bool) -> Result<PathBuf, OpenError> {
    if project {
        let root = options::project_root(None)?;
        return config::changeable_project_file(&root).map_err(OpenError::Usage);
    }
    let no_home = || usage_error("there is no home folder: set HOME");
    Ok(UserDirs::find().ok_or_else(no_home)?.config.join(config::FILE_NAME))
}

fn add(args: McpAddArgs) -> Result<String, OpenError> {
    let McpAddArgs { name, project, url, header, env, pass_key, cwd, command } = args;
    if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c)) {
        let message = format!("{name:?}: a name has letters, digits, `-`, `_` and `.` only");
        return Err(usage_error(message));
    }
    let pairs = |items: &[String], separator: char, option: &str| {
        let pair = |item: &String| {
            let (name, value) = item.split_once(separator).ok_or_else(|| {
                OpenError::Usage(format!("--{option} {item:?}: write NAME{separator}VALUE"))
            })?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        };
        items.iter().map(pair).collect::<Result<_, OpenError>>()
    };
    let mut words = command.into_iter();
    let server = McpServer {
        command: words.next(),
        args: words.collect(),
        env: pairs(&env, '=', "env")?,
        pass_keys: pass_key,
        cwd: cwd.map(|_| config::ServerDirectory::Project),
        url,
        headers: pairs(&header, ':', "header")?,
        ..McpServer::default()
    };
    let file = config_file(project)?;
    config::change_file(&file, |text| config::with_server(&text, &name, &server))
        .map_err(OpenError::Usage)?;
    let then = if project { "run `agent trust` in this folder, then " } else { "" };
    Ok(format!("{name} is in {}\n{then}try it: agent mcp test {name}\n", file.display()))
}

fn test_servers(name: Option<&str>, options: &ToolOptions) -> u8 {
    let control = SessionControl::default();
    let work = async {
        let cancel = control.cancellation_token();
        let Some(done) = cancel.run_until_cancelled(try_servers(name, options)).await else {
            return Ok(130);
        };
        let (text, is_good) = done?;
        agent_ui::print_text(&text);
        Ok(u8::from(!is_good))
    };
    super::block_on_result(work, &control)
}

async fn try_servers(
    name: Option<&str>,
    options: &ToolOptions,
) -> Result<(String, bool), OpenError> {
    let (root, dirs, loaded) = options::load_project_config(options)?;
    let own = StateDirs::new(dirs.as_ref());
    let workspace = app::open_workspace(&root, &options.add_dir, &own)?;
    let writable = WritableDirs::from_workspace(&loaded.config, &workspace)?;
    let mcp = McpServers::from_config(&loaded, &writable, dirs.as_ref(), &[])?;
    print_notices(&mcp.notices);
    let Some(servers) = &mcp.servers else {
        return Ok((format!("{NO_SERVERS}\n"), name.is_none()));
    };
    let is_selected = |server: &str| name.is_none_or(|name| name == server);
    if !servers.states().iter().any(|server| is_selected(&server.name)) {
        let name = name.unwrap_or_default();
        return Err(OpenError::Usage(format!(
            "there is no MCP server {name} that can be used; `agent mcp list` shows them"
        )));
    }
    let start = Instant::now();
    servers.start();
    servers.wait_until_ready(name).await;
    let time = start.elapsed().as_millis();
    let (mut text, mut is_good) = (String::new(), true);
    for server in servers.states().iter().filter(|server| is_selected(&server.name)) {
        let is_connected = matches!(server.state, ServerState::Connected(_));
        is_good &= is_connected;
        let mark = if is_connected { '✓' } else { '✗' };
        text.push_str(&format!("{mark} {server}\n"));
    }
    text.push_str(&format!("ready after {time} ms\n"));
    mcp.close().await;
    Ok((text, is_good))
}
