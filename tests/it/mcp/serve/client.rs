//! With the client that rmcp has.

use std::process::Stdio;

use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, CallToolResult, ClientRequest, Request};
use rmcp::service::{PeerRequestOptions, RunningService, serve_client};
use serde_json::{Value, json};

use crate::support::Test;

type Client = RunningService<RoleClient, ()>;

async fn connect(test: &Test) -> (Client, tokio::process::Child) {
    let mut command = tokio::process::Command::from(test.command(&["mcp", "serve"]));
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let transport = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    (serve_client((), transport).await.unwrap(), child)
}

fn params(tool: &'static str, input: &Value) -> CallToolRequestParams {
    CallToolRequestParams::new(tool).with_arguments(input.as_object().unwrap().clone())
}

async fn call(client: &Client, tool: &'static str, input: Value) -> CallToolResult {
    client.peer().call_tool(params(tool, &input)).await.unwrap()
}

#[tokio::test]
async fn rmcp_client_reads_edits_and_cancels() {
    let test = Test::new().file("a.rs", "one\n");
    let (client, mut server) = connect(&test).await;
    let tools = client.peer().list_all_tools().await.unwrap();
    assert_eq!(tools.len(), 8);
    let read = call(&client, "Read", json!({"path": "a.rs"})).await;
    assert_eq!(read.content[0].as_text().unwrap().text, "Read all of a.rs (1 line).\n1 | one");
    let edit = json!({"path": "a.rs", "old_string": "one", "new_string": "two"});
    let edited = call(&client, "Edit", edit.clone()).await;
    assert_eq!((edited.is_error, test.read("a.rs").as_str()), (Some(false), "two\n"));
    let again = call(&client, "Edit", edit).await;
    assert_eq!(again.is_error, Some(true));

    let sleeping = params("Bash", &json!({"command": "touch begun; sleep 600; touch done"}));
    let request = ClientRequest::CallToolRequest(Request::new(sleeping));
    let options = PeerRequestOptions::no_options();
    let running = client.peer().send_cancellable_request(request, options).await.unwrap();
    while !test.root().join("begun").exists() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    running.cancel(Some("enough".to_owned())).await.unwrap();
    assert_eq!(call(&client, "LS", json!({})).await.is_error, Some(false));
    client.cancel().await.unwrap();
    assert_eq!(server.wait().await.unwrap().code(), Some(0));
    assert!(!test.root().join("done").exists());
}
