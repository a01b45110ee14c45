//! Network access of commands: localhost is private to the session, and nothing beyond it is
//! reachable.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::json;

use crate::sandbox::{Place, places, session, write};
use crate::support::{Done, Pty, has, say};

/// A client written in plain bash.
const FETCH: &str = "exec 3<>/dev/tcp/127.0.0.1/$(cat port); echo hello >&3; cat <&3";

#[test]
fn test_suite_using_sockets_passes() {
    if !has("python3", "test_suite_using_sockets_passes") {
        return;
    }
    for place in places().into_iter().filter(|place| place.backend == "namespaces") {
        let test = "import socket, threading, unittest\n\
            class Test(unittest.TestCase):\n\
            \x20   def test_server(self):\n\
            \x20       server = socket.create_server(('127.0.0.1', 0))\n\
            \x20       client = socket.create_connection(server.getsockname())\n\
            \x20       server.accept()[0].sendall(b'x')\n\
            \x20       self.assertEqual(client.recv(1), b'x')\n";
        write(&place.test.root().join("test_server.py"), test);
        let done = place.call(&json!({"command": "python3 -m unittest -q test_server"}));
        assert_eq!(done["status"], "success", "{done}");
    }
}

#[test]
fn background_server_is_reachable_by_later_commands() {
    let name = "background_server_is_reachable_by_later_commands";
    if !has("python3", name) {
        return;
    }
    for place in places().into_iter().filter(|place| place.backend == "namespaces") {
        let server = "import socket\n\
            server = socket.create_server(('127.0.0.1', 0))\n\
            open('port', 'w').write(str(server.getsockname()[1]))\n\
            while True:\n\
            \x20   connection, _ = server.accept()\n\
            \x20   connection.sendall(b'served ' + connection.recv(100))\n\
            \x20   connection.close()\n";
        write(&place.test.root().join("server.py"), server);
        write(&place.test.root().join("fetch.sh"), FETCH);
        let mut batch = session(&place);
        batch.call("Bash", &json!({"command": "python3 server.py", "background": true}));
        let fetch = "until [ -s port ]; do sleep 0.05; done; bash fetch.sh";
        let done = batch.call("Bash", &json!({"command": fetch}));
        assert_eq!(done["data"]["stdout"], "served hello\n", "{done}");
        batch.end();
    }
}

#[test]
fn remote_hosts_and_host_services_are_not_reachable() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    for place in places() {
        let script = format!(
            "exec 2>/dev/null
             (exec 3<>/dev/tcp/127.0.0.1/{port}) && echo open
             (exec 3<>/dev/tcp/192.0.2.1/80) && echo open
             (exec 3<>/dev/udp/192.0.2.1/53) && echo open
             tail -n +3 /proc/net/dev | grep -v ' lo:' | head -1
             echo over"
        );
        let stdout = place.stdout(&script);
        let stdout = if place.backend == "landlock" {
            // The interfaces are visible, but no socket can be created.
            stdout
                .lines()
                .filter(|line| !line.contains(':'))
                .map(|it| it.to_owned() + "\n")
                .collect()
        } else {
            stdout
        };
        assert_eq!(stdout, "over\n", "{} {:?}", place.backend, place.user);
        assert!(listener.accept().is_err());
    }
}

#[test]
fn failed_command_is_told_that_localhost_is_private() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for place in places().into_iter().filter(|place| place.backend == "namespaces") {
        let text =
            |line: &str| place.call(&json!({"command": line}))["text"].as_str().unwrap().to_owned();
        let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
        let failed = text(&connect);
        assert!(failed.contains("sandbox.host_ports"), "{failed}");
        // A command that succeeds, and one that did not connect, get no note.
        assert!(!text(&format!("({connect}) 2>/dev/null; true")).contains("host_ports"));
        assert!(!text("false").contains("host_ports"));
    }
}

#[test]
fn configured_host_ports_are_reachable() {
    for place in places() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let place = place.with(&format!("sandbox.host_ports=[{port}]"));
        write(&place.test.root().join("port"), &port.to_string());
        write(&place.test.root().join("fetch.sh"), FETCH);
        let input = json!({"command": "bash fetch.sh"}).to_string();
        if place.backend == "landlock" {
            let done = place.command(&["tool", "call", "Bash", &input]).output().unwrap();
            Done::new(&done).expect_code(2).expect_stderr("sandbox.host_ports needs");
            continue;
        }
        let service = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut line = [0; 6];
            connection.read_exact(&mut line).unwrap();
            connection.write_all(b"from outside ").unwrap();
            connection.write_all(&line).unwrap();
        });
        let stdout = place.call(&json!({"command": "bash fetch.sh"}));
        assert_eq!(stdout["data"]["stdout"], "from outside hello\n", "{stdout}");
        service.join().unwrap();
    }
}

#[test]
fn landlock_alone_has_no_network_and_reports_gaps_once() {
    for place in places() {
        if place.backend == "namespaces" {
            continue;
        }
        let script = place.test.root().parent().unwrap().join("script");
        write(
            &script,
            "call: Bash {\"command\":\"echo a\"}\n---\ncall: Bash {\"command\":\"echo b\"}\n---\ntext: done",
        );
        let args = ["run", "task", "--model", "script:../script", "--output-format", "stream-json"];
        let done = Done::new(&place.command(&args).output().unwrap()).expect_code(0);
        let lines = done.lines();
        let sandbox = &lines[0]["sandbox"];
        assert_eq!(sandbox["network"], "off", "{sandbox}");
        let gaps = sandbox["gaps"].as_array().unwrap();
        assert!(gaps.iter().any(|gap| gap.as_str().unwrap().contains(".git")), "{sandbox}");
        assert_eq!(done.stdout.matches("names in directories of secrets").count(), 1, "{done:?}");
        return;
    }
    say("SKIPPED: a session with Landlock alone: this system has no Landlock");
}

#[test]
fn background_server_in_chat_is_reachable_from_the_host() {
    if !has("python3", "background_server_in_chat_is_reachable_from_the_host") {
        return;
    }
    for place in places().into_iter().filter(|place| place.backend == "namespaces") {
        // The port is in use on the host, so the displayed address has another one.
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let server = format!(
            "import socket\n\
             server = socket.create_server(('127.0.0.1', {port}))\n\
             while True:\n\
             \x20   connection, _ = server.accept()\n\
             \x20   connection.sendall(b'served ' + connection.recv(100))\n\
             \x20   connection.close()\n"
        );
        write(&place.test.root().join("server.py"), &server);
        let call = json!({"command": "python3 server.py", "background": true});
        let script = format!("call: Bash {call}\n---\ntext: It runs.");
        let place = Place { test: place.test.script(&script), ..place };
        let command = place.command(&["--model", "script:../script"]);
        let mut pty = Pty::spawn(&command, 40, 120, "xterm-256color");
        pty.wait_for("/help");
        pty.say("start it");
        pty.wait_for("It runs.");
        let address = format!("port {port} of a background command is reachable at http://");
        pty.wait_for(&address);
        let screen = pty.screen();
        let shown = screen.split(&address).nth(1).unwrap();
        let shown = shown.split_whitespace().next().unwrap();
        assert_ne!(shown, format!("127.0.0.1:{port}"));
        let mut connection = TcpStream::connect(shown).unwrap();
        connection.write_all(b"hello\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "served hello\n", "{:?}", place.user);
        pty.say("/quit");
        assert_eq!(pty.end(), 0);
        assert!(TcpStream::connect(shown).is_err(), "it is closed with the session");
    }
}
