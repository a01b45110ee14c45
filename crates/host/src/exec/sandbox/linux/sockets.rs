//! Sockets inside the session's network namespace, created by the stand-by and passed to the agent.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

const CONNECT_TIME: Duration = Duration::from_secs(1);
/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// A socket on the session's own loopback interface. Its number is the request to the stand-by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum SocketRequest {
    Connected = 1,
    Listening = 2,
}

pub(in crate::exec) fn listening_ports(pid: u32) -> Vec<u16> {
    let tables = ["tcp", "tcp6"]
        .map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default());
    let ports = tables.iter().flat_map(|table| table.lines().filter_map(listening_port));
    ports.collect()
}

/// TCP connections that were refused so far: `AttemptFails` (RFC 4022) counts the attempts that ended in a reset.
pub(in crate::exec) fn refused_connections(pid: u32) -> u64 {
    let table = fs::read_to_string(format!("/proc/{pid}/net/snmp")).unwrap_or_default();
    parse_attempt_fails(&table).unwrap_or_default()
}

fn parse_attempt_fails(table: &str) -> Option<u64> {
    let mut lines = table.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut both = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
    both.find(|(name, _)| *name == "AttemptFails")?.1.parse().ok()
}

/// `  0: 0100007F:1F90 00000000:0000 0A …`
fn listening_port(line: &str) -> Option<u16> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, state) = (fields.next()?, fields.nth(1)?);
    let port = u16::from_str_radix(local.rsplit(':').next()?, 16).ok()?;
    (state == LISTENING).then_some(port)
}

/// Runs in the stand-by.
pub(in crate::exec) fn create_socket(request: u8, port: u16) -> io::Result<OwnedFd> {
    let addresses: [SocketAddr; 2] =
        [(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()];
    if request == SocketRequest::Listening as u8 {
        return TcpListener::bind(addresses[0]).map(OwnedFd::from);
    }
    let connect = |address| TcpStream::connect_timeout(address, CONNECT_TIME);
    connect(&addresses[0]).or_else(|_| connect(&addresses[1])).map(OwnedFd::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_connections_are_parsed_from_proc_net_snmp() {
        let table = "Ip: Forwarding\nIp: 1\nTcp: RtoMin MaxConn AttemptFails\nTcp: 200 -1 7\n";
        assert_eq!(parse_attempt_fails(table), Some(7));
        assert_eq!(parse_attempt_fails("Tcp: RtoMin\nTcp: 200\n"), None);
    }

    #[test]
    fn listening_ports_are_parsed_from_proc_net_tcp() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000";
        assert_eq!(listening_port(line), Some(8080));
        assert_eq!(listening_port(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(listening_port("  sl  local_address rem_address   st tx_queue"), None);
    }
}
