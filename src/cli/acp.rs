//! `agent acp`: the Agent Client Protocol over standard input and output, for editors.
//!
//! It is a front end like the chat: each session of the client is a [`Session`](crate::app::Session) whose events
//! become updates (`updates.rs`), and the client's requests reach it through its [`SessionControl`].

mod client;
mod client_requests;
mod commands;
mod open;
mod prompt;
mod session;
mod session_list;
mod settings;
mod tool_calls;
mod updates;
mod wire;

use agent_client_protocol::v1::schema::{
    AgentCapabilities, CancelNotification, ClientRequest, Implementation, InitializeResponse,
    McpCapabilities, PromptCapabilities, SessionAdditionalDirectoriesCapabilities,
    SessionCapabilities, SessionCloseCapabilities, SessionListCapabilities,
    SessionResumeCapabilities,
};
use agent_client_protocol::{Agent, on_receive_notification, on_receive_request};
use clap::Args;
use tokio::sync::mpsc::unbounded_channel;
use tokio_util::sync::CancellationToken;

use super::options::{LimitOptions, ModelOptions, RunArgs, ToolOptions};
use super::stdout::{self, Output};
use agent_protocol::control::SessionControl;
use client::{ClientConnection, ClientMessage};

/// The options of `agent acp`: those of every session that the client opens.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct AcpArgs {
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    limits: LimitOptions,
    /// Do not record the sessions
    #[arg(long)]
    ephemeral: bool,
    /// Neither learn lessons nor use them (also: `AGENT_NO_MEMORY=1`)
    #[arg(long)]
    no_memory: bool,
    /// Add this to the model's instructions
    #[arg(long, value_name = "TEXT")]
    append_system_prompt: Option<String>,
    #[command(flatten)]
    tools: ToolOptions,
}

impl AcpArgs {
    fn to_run_args(&self) -> RunArgs {
        let args = self.clone();
        RunArgs {
            model: args.model,
            limits: args.limits,
            ephemeral: args.ephemeral,
            no_memory: args.no_memory,
            append_system_prompt: args.append_system_prompt,
            tools: args.tools,
            ..RunArgs::default()
        }
    }
}

pub(super) fn run(args: &AcpArgs) -> u8 {
    if args.tools.cwd.is_some() {
        return super::report_error(
            "-C has no meaning here: the editor names the folder of each session",
        );
    }
    let Some(output) = stdout::report_thread_error(Output::open()) else { return 2 };
    let control = SessionControl::default();
    super::block_on(Box::pin(serve(args, &control, output)), &control)
}

/// Ends when the client closes its end, or the program is ended.
async fn serve(args: &AcpArgs, control: &SessionControl, output: Output) -> u8 {
    let (demands, received) = unbounded_channel();
    let transport = wire::transport(output.clone());
    let served = CancellationToken::new();
    // Handlers only pass messages on, because the connection waits for each of them. Sending fails
    // only if the program is ending.
    let cancels = demands.clone();
    let connection = Agent
        .v1()
        .name("agent")
        // One handler for all requests: each handler of its own type makes the executable 10 KB larger.
        .on_receive_request(
            async move |request: ClientRequest, responder, _| {
                _ = demands.send(ClientMessage::Request(Box::new((request, responder))));
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |cancel: CancelNotification, _| {
                _ = cancels.send(ClientMessage::Cancel(cancel.session_id));
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_with(transport, async |connection| {
            ClientConnection::new(args, connection, output.clone()).serve(received, control).await;
            served.cancel();
            Ok(())
        });
    let ended = tokio::select! {
        ended = connection => ended,
        // The connection does not end before its messages are read.
        () = async { served.cancelled().await; output.wait_until_stalled().await } => Ok(()),
    };
    if let Err(error) = ended {
        agent_ui::print_notice(&format!("the connection to the editor failed: {error}"));
        return 1;
    }
    output.finish().await;
    control.interrupt_cause().map_or(0, |by| by.ending().exit_code())
}

fn initialize_response(
    version: agent_client_protocol::schema::ProtocolVersion,
) -> InitializeResponse {
    let prompts = PromptCapabilities::new().image(true).embedded_context(true);
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new())
        .additional_directories(SessionAdditionalDirectoriesCapabilities::new());
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(prompts)
        .mcp_capabilities(McpCapabilities::new().http(true))
        .session_capabilities(sessions);
    InitializeResponse::new(version)
        .agent_capabilities(capabilities)
        .agent_info(Implementation::new("agent", env!("CARGO_PKG_VERSION")))
}
