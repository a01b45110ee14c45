//! The MCP servers of a session, from the configuration.

use std::path::{Path, PathBuf};

use super::{HostPrograms, OpenError, Options, WritableDirs, parse_duration, variable};
use crate::config::{Config, LoadedConfig, McpServer, UserDirs};
use agent_engine::mcp::{self, Servers, ToolScope};
use agent_engine::registry::Registry;
use agent_engine::tools::Tool;
use agent_host::exec::{Exec, ServiceCommand};
use agent_protocol::disk;
use agent_protocol::event::{EventStream, McpServerStatus};

#[derive(Default)]
pub struct McpServers {
    /// `None` if none is configured.
    pub servers: Option<Servers>,
    /// What is not used, and why.
    pub notices: Vec<String>,
    scope: ToolScope,
}

impl McpServers {
    /// The configured servers and further ones. None is started.
    pub fn from_config(
        loaded: &LoadedConfig,
        writable: &WritableDirs,
        dirs: Option<&UserDirs>,
        further: &[mcp::ServerSettings],
    ) -> Result<Self, OpenError> {
        let config = &loaded.config;
        let (mut settings, mut notices) = (Vec::new(), Vec::new());
        for (name, server) in config.mcp.servers.iter().filter(|(_, server)| server.enabled) {
            match server.expand_variables(&variable) {
                Ok(server) => {
                    let address = server.url.as_deref();
                    if let Some(Err(why)) = address.map(|it| config.restrictions.check_url(it)) {
                        notices.push(format!("MCP server {name} is not used: {why}"));
                        continue;
                    }
                    let starts_there = loaded.is_trusted || server.cwd.is_some();
                    let directory = match dirs {
                        _ if starts_there => writable.root().to_owned(),
                        Some(dirs) => empty_directory(dirs, name)?,
                        None => PathBuf::from("/"),
                    };
                    settings.push(server_settings(name, server, writable.root(), directory)?);
                }
                Err(variable) => notices.push(format!(
                    "MCP server {name} is not used: the environment variable {variable} is not set (`${{{variable}:-}}` \
                     makes it optional)"
                )),
            }
        }
        // A name stands for one server.
        settings.retain(|server| further.iter().all(|other| other.name != server.name));
        settings.extend_from_slice(further);
        let servers = (!settings.is_empty()).then(|| {
            let cache = dirs.map(|dirs| dirs.cache.join("mcp"));
            let exec = host_exec(config, writable);
            Servers::new(settings, exec, cache, config.mcp.max_tool_tokens, &loaded.prompts)
        });
        Ok(Self { servers, notices, scope: ToolScope::default() })
    }

    pub(super) fn start_configured(
        options: &Options,
        writable: &WritableDirs,
    ) -> Result<Self, OpenError> {
        let (dirs, further) = (options.dirs.as_ref(), &options.host_servers);
        let mut mcp = Self::from_config(&options.config, writable, dirs, further)?;
        mcp.scope = options.tools.restrict_scope(ToolScope::default());
        if let Some(servers) = &mcp.servers {
            servers.start();
        }
        Ok(mcp)
    }

    /// Reports changes of the servers' states as events of this session.
    pub fn announce(&self, events: &EventStream) {
        if let Some(servers) = &self.servers {
            servers.attach_events(events);
        }
    }

    pub fn initial_states(&self) -> Vec<McpServerStatus> {
        let states = self.servers.iter().flat_map(Servers::states).map(|server| {
            let status = server.state.status().to_owned();
            McpServerStatus { name: server.name, status }
        });
        states.collect()
    }

    /// The current tools of the servers, in a fixed order.
    pub fn tools(&self) -> Vec<Box<dyn Tool>> {
        self.servers.iter().flat_map(|servers| servers.tools(self.scope.clone())).collect()
    }

    /// Called at the first request: the registry gets the current tools of the servers.
    pub(super) fn update_registry(&self, registry: &mut Registry) {
        let Some(servers) = self.servers.clone() else { return };
        let mut specs = registry.specs().iter();
        let first = specs.position(|spec| spec.is_foreign || spec.name == mcp::MCP_TOOL_NAME);
        if let Some(n_kept) = first {
            let scope = self.scope.clone();
            registry.defer_tools(n_kept, Box::new(move || servers.tools(scope.clone())));
        }
    }

    pub async fn close(&self) {
        if let Some(servers) = &self.servers {
            servers.close().await;
        }
    }
}

/// Runs programs as the user, without the sandbox and without keys.
pub(super) fn host_exec(config: &Config, writable: &WritableDirs) -> Exec {
    let environment = HostPrograms::from_writable(writable).environment();
    Exec::with_environment(environment, &super::toolbox::secret_variables(config))
}

/// Many programs load what is in their working directory (`npx`, `python -m`), and the project is not trusted.
fn empty_directory(dirs: &UserDirs, server: &str) -> Result<PathBuf, OpenError> {
    let path = disk::canonical_prefix(&dirs.state).join("mcp").join(server);
    disk::create_folder_all(&path, 0o700).map_err(|error| {
        OpenError::Usage(format!("{}: {}", path.display(), disk::in_words(&error)))
    })?;
    Ok(path)
}

fn server_settings(
    name: &str,
    server: McpServer,
    root: &Path,
    directory: PathBuf,
) -> Result<mcp::ServerSettings, OpenError> {
    let timeout = parse_duration(&server.timeout)?;
    let passed = server.pass_keys.iter().map(|name| Some((name.clone(), variable(name)?)));
    let endpoint = match (server.url, server.command) {
        (Some(url), _) => mcp::ServerEndpoint::Address {
            url,
            headers: server.headers.into_iter().collect(),
            client: agent_model::http_client,
        },
        (None, program) => mcp::ServerEndpoint::Program(ServiceCommand {
            program: program.unwrap_or_default(),
            arguments: server.args,
            environment: passed.flatten().chain(server.env).collect(),
            directory,
        }),
    };
    Ok(mcp::ServerSettings {
        name: name.to_owned(),
        endpoint,
        timeout,
        enabled_tools: server.enabled_tools,
        disabled_tools: server.disabled_tools,
        root: Some(root.to_owned()),
    })
}
