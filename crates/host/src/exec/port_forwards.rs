//! Connections between the loopback interface of the session's sandbox and that of the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::Exec;
use super::sandbox::{Network, Sandbox, SocketRequest};

const INTERVAL: Duration = Duration::from_millis(500);

type AddressObserver = Arc<dyn Fn(String) + Send + Sync>;

#[derive(Default)]
pub(super) struct PortForwards(Mutex<ForwardState>);

#[derive(Default)]
struct ForwardState {
    tasks: JoinSet<()>,
    has_host_ports: bool,
    notify: Option<AddressObserver>,
    is_watching: bool,
}

impl std::fmt::Debug for PortForwards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forwards").finish_non_exhaustive()
    }
}

impl Exec {
    /// Makes servers of background commands reachable on 127.0.0.1; `notify` receives each address.
    pub fn forward_listeners(&self, notify: impl Fn(String) + Send + Sync + 'static) {
        self.forwards.0.lock().notify = Some(Arc::new(notify));
    }
}

impl PortForwards {
    /// Makes the configured ports reachable in the sandbox. Must be called in a runtime, once the sandbox is prepared.
    pub(super) fn open_host_ports(&self, sandbox: &Sandbox) -> io::Result<()> {
        let profile = sandbox.profile();
        let ports = profile.host_ports.iter().filter(|_| profile.network == Network::Loopback);
        let mut state = self.0.lock();
        if state.has_host_ports {
            return Ok(());
        }
        for port in ports.copied() {
            let named = |error: io::Error| {
                io::Error::new(error.kind(), format!("sandbox.host_ports, {port}: {error}"))
            };
            let socket = sandbox.create_socket(SocketRequest::Listening, port).map_err(named)?;
            let listener = std::net::TcpListener::from(socket);
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            state
                .tasks
                .spawn(forward(listener, move || TcpStream::connect((Ipv4Addr::LOCALHOST, port))));
        }
        state.has_host_ports = true;
        Ok(())
    }

    pub(super) fn watch_listeners(&self, sandbox: &Arc<Sandbox>) {
        let mut state = self.0.lock();
        let Some(notify) = state.notify.clone().filter(|_| !state.is_watching) else { return };
        state.is_watching = true;
        state.tasks.spawn(watch_listeners(Arc::clone(sandbox), notify));
    }

    pub(super) fn shutdown(&self) {
        let mut state = self.0.lock();
        state.tasks.abort_all();
        (state.has_host_ports, state.is_watching) = (false, false);
    }
}

async fn watch_listeners(sandbox: Arc<Sandbox>, notify: AddressObserver) {
    let mut tasks = JoinSet::new();
    let mut forwarded: BTreeMap<u16, Option<AbortHandle>> = BTreeMap::new();
    let mut before = BTreeSet::new();
    loop {
        let ports: BTreeSet<u16> = sandbox.listening_ports().into_iter().collect();
        forwarded.retain(|port, task| {
            let is_open = ports.contains(port);
            if let Some(task) = task.as_ref().filter(|_| !is_open) {
                task.abort();
            }
            is_open
        });
        // A listener must exist for one interval to count as a server.
        for port in ports.intersection(&before).copied() {
            if forwarded.contains_key(&port) || sandbox.profile().host_ports.contains(&port) {
                continue;
            }
            let task = listen(port).await.ok().map(|(listener, own)| {
                notify(format!(
                    "port {port} of a background command is reachable at http://127.0.0.1:{own}"
                ));
                let sandbox = Arc::clone(&sandbox);
                let connect = move || std::future::ready(connect(&sandbox, port));
                tasks.spawn(forward(listener, connect))
            });
            forwarded.insert(port, task);
        }
        before = ports;
        tokio::time::sleep(INTERVAL).await;
        while tasks.try_join_next().is_some() {}
    }
}

async fn listen(port: u16) -> io::Result<(TcpListener, u16)> {
    // Any port if the same one is not free.
    let addresses = [port, 0].map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let listener = TcpListener::bind(&addresses[..]).await?;
    let own = listener.local_addr()?.port();
    Ok((listener, own))
}

fn connect(sandbox: &Sandbox, port: u16) -> io::Result<TcpStream> {
    let stream = std::net::TcpStream::from(sandbox.create_socket(SocketRequest::Connected, port)?);
    stream.set_nonblocking(true)?;
    TcpStream::from_std(stream)
}

async fn forward<F>(listener: TcpListener, connect: impl Fn() -> F)
where
    F: Future<Output = io::Result<TcpStream>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    while let Ok((mut accepted, _)) = listener.accept().await {
        let connecting = connect();
        connections.spawn(async move {
            if let Ok(mut connected) = connecting.await {
                // One end closed, or was reset.
                _ = tokio::io::copy_bidirectional(&mut accepted, &mut connected).await;
            }
        });
        while connections.try_join_next().is_some() {}
    }
}
