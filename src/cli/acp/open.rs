//! Opens a session in the folder and with the MCP servers that the client names.

use std::path::{Path, PathBuf};

use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    LoadSessionResponse, McpServer as GivenServer, NewSessionResponse, ResumeSessionResponse,
    SessionConfigOption, SessionId, SessionModeState,
};
use agent_client_protocol::{Error, ErrorCode};
use serde_json::Value;

use super::AcpArgs;
use super::client::respond;
use crate::app::{OpenError, Options, SessionChoice, Storage};
use crate::cli::{options, print_notices, usage_error};
use crate::config::{McpServer, UserDirs};
use agent_protocol::control::PermissionMode;

pub(super) struct SessionParams {
    pub(super) cwd: PathBuf,
    pub(super) add_dirs: Vec<PathBuf>,
    pub(super) servers: Vec<GivenServer>,
}

pub(super) enum SessionOrigin {
    New,
    /// The client wants to see the recorded conversation.
    Load(SessionId),
    /// The client has the recorded conversation.
    Resume(SessionId),
}

impl SessionOrigin {
    pub(super) fn respond_opened(
        &self,
        responder: Responder<Value>,
        id: &SessionId,
        modes: SessionModeState,
        options: Vec<SessionConfigOption>,
    ) {
        match self {
            Self::New => {
                let response = NewSessionResponse::new(id.clone());
                respond(responder.cast(), Ok(response.modes(modes).config_options(options)));
            }
            Self::Load(_) => {
                let response = LoadSessionResponse::new();
                respond(responder.cast(), Ok(response.modes(modes).config_options(options)));
            }
            Self::Resume(_) => {
                let response = ResumeSessionResponse::new();
                respond(responder.cast(), Ok(response.modes(modes).config_options(options)));
            }
        }
    }
}

pub(super) fn session_options(
    args: &AcpArgs,
    params: SessionParams,
    origin: &SessionOrigin,
) -> Result<Options, OpenError> {
    if !params.cwd.is_absolute() {
        let cwd = params.cwd.display().to_string();
        return Err(usage_error(format!("cwd {cwd:?}: write an absolute path")));
    }
    let mut run = args.to_run_args();
    run.tools.add_dir.extend(params.add_dirs);
    run.tools.cwd = Some(params.cwd);
    let root = options::project_root(run.tools.cwd.as_deref())?;
    let (session, storage) = match origin {
        SessionOrigin::New => (SessionChoice::New, None),
        SessionOrigin::Load(id) | SessionOrigin::Resume(id) => {
            (SessionChoice::Resume(id.0.to_string()), Some(find_storage(&root, &id.0)?))
        }
    };
    let dirs = UserDirs::find();
    let mut config = options::load_config(&root, dirs.as_ref(), &run.tools, Some(&run))?;
    config.config.use_chat_defaults();
    print_notices(&config.warnings);
    for server in params.servers {
        let (name, server) = to_mcp_server(server)?;
        config.config.mcp.servers.insert(name, server);
    }
    run.to_session_options((root, storage), dirs, config, session, PermissionMode::Ask)
}

/// Clients use whole ids.
fn find_storage(root: &Path, id: &str) -> Result<Storage, OpenError> {
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
        GivenServer::Sse(given) => Err(usage_error(format!(
            "MCP server {}: the transport sse is not supported; use http or stdio",
            given.name
        ))),
        _ => Err(usage_error(
            "an MCP server has a transport that is not supported; use http or stdio",
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
