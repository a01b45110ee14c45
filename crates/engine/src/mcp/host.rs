//! The transport to a server inside the program that drives the session.

use std::convert::Infallible;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Passes a message to the server; answers and the server's own messages go to the sender.
type MessageCarrier = dyn Fn(Value, &UnboundedSender<Value>) + Send + Sync;

/// The channel to a server inside the program that drives the session.
#[derive(Clone)]
pub struct HostChannel(Arc<MessageCarrier>);

impl HostChannel {
    /// A channel with this carrier, which does not wait.
    pub fn new(carry: impl Fn(Value, &UnboundedSender<Value>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(carry))
    }

    pub(super) fn connect(&self) -> HostConnection {
        let (sender, receiver) = unbounded_channel();
        HostConnection { host: self.clone(), sender, receiver }
    }
}

impl std::fmt::Debug for HostChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Host")
    }
}

pub(super) struct HostConnection {
    host: HostChannel,
    sender: UnboundedSender<Value>,
    receiver: UnboundedReceiver<Value>,
}

impl Transport<RoleClient> for HostConnection {
    type Error = Infallible;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        // Messages always serialise.
        let message = serde_json::to_value(&message).unwrap_or_default();
        (self.host.0)(message, &self.sender);
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.receiver.recv().await?;
            if let Ok(message) = serde_json::from_value(message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        self.receiver.close();
        Ok(())
    }
}
