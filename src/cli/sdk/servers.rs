//! MCP servers that run in the program: requests to the program carry their messages.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::program::Program;
use agent_engine::mcp;

const INTERNAL_ERROR: i32 = -32603;
/// Added to the time limit of a call, so that the call's own limit expires first.
const GRACE_PERIOD: Duration = Duration::from_secs(5);
/// A shorter time limit counts as a mistake.
const MIN_TIMEOUT: Duration = Duration::from_secs(1);

/// By server: the receiver of messages that the server sends by itself.
#[derive(Clone, Default)]
pub(super) struct ServerSenders(Arc<Mutex<HashMap<String, UnboundedSender<Value>>>>);

impl ServerSenders {
    /// `false` if the server is not connected.
    pub(super) fn forward(&self, server: &str, message: Value) -> bool {
        let senders = self.0.lock();
        senders.get(server).is_some_and(|sender| sender.send(message).is_ok())
    }
}

/// The servers in `initialize` and the options. `timeout`: the limit of a call.
pub(super) fn server_settings(
    introduction: Option<&Value>,
    named: &[String],
    timeout: Duration,
    program: &Program,
    senders: &ServerSenders,
) -> Vec<mcp::ServerSettings> {
    let of_introduction = introduction.and_then(|it| it["sdkMcpServers"].as_array());
    let of_introduction = of_introduction.into_iter().flatten().filter_map(Value::as_str);
    let mut all: Vec<&str> = of_introduction.chain(named.iter().map(String::as_str)).collect();
    all.sort_unstable();
    all.dedup();
    let server = |name: &str| {
        let own = introduction.map(|it| &it["sdkMcpServerConfigs"][name]["timeout"]);
        let own = own.and_then(Value::as_u64).map(Duration::from_millis);
        let timeout = own.filter(|it| *it >= MIN_TIMEOUT).unwrap_or(timeout);
        mcp::ServerSettings {
            name: name.to_owned(),
            endpoint: mcp::ServerEndpoint::Host(program_host(
                name,
                timeout + GRACE_PERIOD,
                program,
                senders,
            )),
            timeout,
            enabled_tools: Vec::new(),
            disabled_tools: Vec::new(),
            root: None,
        }
    };
    all.into_iter().map(server).collect()
}

fn program_host(
    server: &str,
    limit: Duration,
    program: &Program,
    senders: &ServerSenders,
) -> mcp::HostChannel {
    let (server, program, senders) = (server.to_owned(), program.clone(), senders.clone());
    mcp::HostChannel::new(move |message, sender| {
        senders.0.lock().insert(server.clone(), sender.clone());
        let id = message.get("id").cloned();
        // The session no longer waits.
        if message["method"] == "notifications/cancelled" {
            program.withdraw_forwarded(&(server.clone(), message["params"]["requestId"].clone()));
        }
        let about = id.clone().map(|id| (server.clone(), id));
        let request = json!({"subtype": "mcp_message", "server_name": server, "message": message});
        let sender = sender.clone();
        program.forward(&request, limit, about, move |answer| {
            // A notification has no answer; programs acknowledge it.
            let Some(id) = id else { return };
            let message = match answer {
                Ok(answer) => answer["mcp_response"].clone(),
                Err(why) => {
                    let error = json!({"code": INTERNAL_ERROR, "message": why});
                    json!({"jsonrpc": "2.0", "id": id, "error": error})
                }
            };
            // The session may have ended.
            _ = sender.send(message);
        });
    })
}
