//! Sockets inside the session's network namespace, created by a helper process and passed to the agent.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::channel::Supervisor;
use super::sys;

/// How long the helper may take for one socket.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// How long a connection on the loopback interface may take.
const CONNECT_TIME: Duration = Duration::from_secs(1);
/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// A socket on the session's own loopback interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Socket {
    /// Connected to this port.
    Connected(u16),
    /// Listening on this port.
    Listening(u16),
}

/// The agent's end of the helper. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct SocketHelper(Supervisor);

impl SocketHelper {
    pub(super) fn new(mut supervisor: Supervisor) -> io::Result<Self> {
        supervisor.leave();
        supervisor.channel.set_nonblocking(false)?;
        supervisor.channel.set_read_timeout(Some(ANSWER_TIME))?;
        Ok(Self(supervisor))
    }

    /// Asks for a socket.
    pub(super) fn socket(&mut self, socket: Socket) -> io::Result<OwnedFd> {
        let (kind, port) = match socket {
            Socket::Connected(port) => (b'c', port),
            Socket::Listening(port) => (b'l', port),
        };
        let [low, high] = port.to_le_bytes();
        self.0.channel.write_all(&[kind, low, high])?;
        let mut errno = [0; 4];
        let (_, mut descriptors) = sys::receive(&self.0.channel, &mut errno)?;
        descriptors.pop().ok_or_else(|| io::Error::from_raw_os_error(i32::from_le_bytes(errno)))
    }

    /// The TCP ports on which processes in the namespace listen.
    pub(super) fn listening_ports(&self) -> Vec<u16> {
        let tables = ["tcp", "tcp6"].map(|table| {
            fs::read_to_string(format!("/proc/{}/net/{table}", self.0.process.pid()))
                .unwrap_or_default()
        });
        let mut ports: Vec<u16> =
            tables.iter().flat_map(|table| table.lines().filter_map(listening_port)).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }
}

/// `  0: 0100007F:1F90 00000000:0000 0A …`
fn listening_port(line: &str) -> Option<u16> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, state) = (fields.next()?, fields.nth(1)?);
    let port = u16::from_str_radix(local.rsplit(':').next()?, 16).ok()?;
    (state == LISTENING).then_some(port)
}

/// Runs in the helper: answers requests until the agent has gone.
pub(super) fn serve(channel: &mut UnixStream) {
    let mut request = [0; 3];
    while channel.read_exact(&mut request).is_ok() {
        let [kind, low, high] = request;
        let made = make(kind, u16::from_le_bytes([low, high]));
        let errno = made.as_ref().err().and_then(|error| error.raw_os_error());
        let answer = errno.unwrap_or(libc::ECONNREFUSED).to_le_bytes();
        let descriptors: Vec<_> = made.iter().map(|socket| socket.as_fd()).collect();
        if sys::send(channel, &answer, &descriptors).is_err() {
            return;
        }
    }
}

fn make(kind: u8, port: u16) -> io::Result<OwnedFd> {
    let addresses: [SocketAddr; 2] =
        [(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()];
    if kind == b'l' {
        return TcpListener::bind(addresses[0]).map(OwnedFd::from);
    }
    let connect = |address| TcpStream::connect_timeout(address, CONNECT_TIME);
    connect(&addresses[0]).or_else(|_| connect(&addresses[1])).map(OwnedFd::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_are_listened_on_are_read_from_the_table() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000";
        assert_eq!(listening_port(line), Some(8080));
        assert_eq!(listening_port(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(listening_port("  sl  local_address rem_address   st tx_queue"), None);
    }
}
