//! Opens a session in the folder and with the MCP servers that the client names.

use std::path::PathBuf;

use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    LoadSessionResponse, McpServer as GivenServer, NewSessionResponse, ResumeSessionResponse,
    SessionConfigOption, SessionId, SessionModeState,
};
use agent_client_protocol::{Error, ErrorCode};

use super::AcpArgs;
use super::client::respond;
use crate::app::{OpenError, Options, SessionChoice, Storage};
use crate::cli::options;
use crate::compat::CompatibleOptions;
use crate::config::{McpServer, UserDirs};
use agent_protocol::control::PermissionMode;

pub(super) struct SessionParams {
    pub(super) cwd: PathBuf,
    pub(super) add_dirs: Vec<PathBuf>,
    pub(super) servers: Vec<GivenServer>,
}

pub(super) enum SessionOpening {
    New(Responder<NewSessionResponse>),
    /// The client wants to see the recorded conversation.
    Load(SessionId, Responder<LoadSessionResponse>),
    /// The client has the recorded conversation.
    Resume(SessionId, Responder<ResumeSessionResponse>),
}

impl SessionOpening {
    fn recorded_id(&self) -> Option<&str> {
        match self {
            Self::New(_) => None,
            Self::Load(id, _) | Self::Resume(id, _) => Some(&id.0),
        }
    }

    pub(super) fn fail(self, error: Error) {
        match self {
            Self::New(responder) => respond(responder, Err(error)),
            Self::Load(_, responder) => respond(responder, Err(error)),
            Self::Resume(_, responder) => respond(responder, Err(error)),
        }
    }

    pub(super) fn succeed(
        self,
        id: &SessionId,
        modes: SessionModeState,
        options: Vec<SessionConfigOption>,
    ) {
        match self {
            Self::New(responder) => {
                let response = NewSessionResponse::new(id.clone());
                respond(responder, Ok(response.modes(modes).config_options(options)));
            }
            Self::Load(_, responder) => {
                let response = LoadSessionResponse::new();
                respond(responder, Ok(response.modes(modes).config_options(options)));
            }
            Self::Resume(_, responder) => {
                let response = ResumeSessionResponse::new();
                respond(responder, Ok(response.modes(modes).config_options(options)));
            }
        }
    }
}

pub(super) fn session_options(
    args: &AcpArgs,
    params: SessionParams,
    opening: &SessionOpening,
) -> Result<Options, OpenError> {
    if !params.cwd.is_absolute() {
        return Err(OpenError::Usage(format!(
            "cwd {:?}: write an absolute path",
            params.cwd.display().to_string()
        )));
    }
    let mut tools = args.tools.clone();
    tools.add_dir.extend(params.add_dirs);
    tools.cwd = Some(params.cwd);
    let root = options::project_root(tools.cwd.as_deref())?;
    let (session, storage) = match opening.recorded_id() {
        None => (SessionChoice::New, None),
        Some(id) => (SessionChoice::Resume(id.to_owned()), Some(find_storage(&root, id)?)),
    };
    let dirs = UserDirs::find();
    let run = args.to_run_args(tools.clone());
    let mut config = options::load_config(&root, dirs.as_ref(), &tools, Some(&run))?;
    config.config.use_chat_defaults();
    for warning in &config.warnings {
        agent_ui::print_notice(warning);
    }
    for server in params.servers {
        let (name, server) = to_mcp_server(server)?;
        config.config.mcp.servers.insert(name, server);
    }
    let options = Options::new(root, config, session, dirs);
    Ok(Options {
        storage,
        ephemeral: args.ephemeral,
        append_system_prompt: args.append_system_prompt.clone(),
        default_mode: PermissionMode::Ask,
        ..tools.apply_to(options, &CompatibleOptions::default())?
    })
}

/// Clients use whole ids.
fn find_storage(root: &std::path::Path, id: &str) -> Result<Storage, OpenError> {
    let none = || OpenError::Usage(format!("no session {id} is recorded"));
    if !agent_record::is_id(id) {
        return Err(none());
    }
    let (storage, _) = options::find_session_storage(root, id)?;
    if storage.find_ids(id).iter().any(|found| found == id) { Ok(storage) } else { Err(none()) }
}

fn to_mcp_server(server: GivenServer) -> Result<(String, McpServer), OpenError> {
    match server {
        GivenServer::Stdio(given) => {
            let command = given.command.into_os_string().into_string().ok();
            let env = given.env.into_iter().map(|variable| (variable.name, variable.value));
            let server =
                McpServer { command, args: given.args, env: env.collect(), ..McpServer::default() };
            Ok((given.name, server))
        }
        GivenServer::Http(given) => {
            let headers = given.headers.into_iter().map(|header| (header.name, header.value));
            let server = McpServer {
                url: Some(given.url),
                headers: headers.collect(),
                ..McpServer::default()
            };
            Ok((given.name, server))
        }
        GivenServer::Sse(given) => Err(OpenError::Usage(format!(
            "MCP server {}: the transport sse is not supported; use http or stdio",
            given.name
        ))),
        _ => Err(OpenError::Usage(
            "an MCP server has a transport that is not supported; use http or stdio".to_owned(),
        )),
    }
}

pub(super) fn wire_error(error: &OpenError) -> Error {
    let code = match error {
        OpenError::Usage(_) => ErrorCode::INVALID_PARAMS,
        _ => ErrorCode::INTERNAL_ERROR,
    };
    Error::new(code, error.to_string())
}
