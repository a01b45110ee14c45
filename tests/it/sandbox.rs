//! The sandbox of commands, attacked through the built binary: as root and as another user, with
//! namespaces and with Landlock alone. Anything this system lacks is reported as skipped.

mod closed;
mod git;
mod host_programs;
mod network;
mod owners;
mod read_only;

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::batch::Batch;
use crate::support::{Done, Test, has, is_root, running, say};

const NOBODY: u32 = 65534;

/// A project in a home directory, beside unrelated directories, with its sandbox backend.
pub(crate) struct Place {
    pub(crate) test: Test,
    pub(crate) backend: &'static str,
    pub(crate) user: Option<u32>,
    pub(crate) settings: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
}

impl Place {
    fn new(backend: &'static str, user: Option<u32>) -> Self {
        Self::new_in(Path::new(env!("CARGO_TARGET_TMPDIR")), backend, user)
    }

    fn new_in(parent: &Path, backend: &'static str, user: Option<u32>) -> Self {
        let test = Test::new_in(parent);
        let place = Self { test, backend, user, settings: Vec::new(), env: Vec::new() };
        std::fs::create_dir_all(place.outside()).unwrap();
        // Here root's git accesses directories of another user, and vice versa.
        write(&place.home().join(".gitconfig"), "[safe]\n\tdirectory = *\n");
        write(&place.outside().join("victim"), "intact\n");
        write(&place.home().join(".bashrc"), "# intact\n");
        write(&place.test.root().join("own"), "own\n");
        place
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.test.home().canonicalize().unwrap()
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.test.root().parent().unwrap().join("outside")
    }

    pub(crate) fn with(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    /// The binary as this user with this sandbox.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.test.command(args);
        command.args(["--permission-mode", "full"]);
        command.args(["--set", &format!("sandbox.backend={}", self.backend)]);
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        command.env("OUT", self.outside()).envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(user) = self.user {
            give(self.test.root().parent().unwrap(), user);
            command.uid(user).gid(user);
        }
        command
    }

    pub(crate) fn call(&self, input: &Value) -> Value {
        let input = input.to_string();
        let done = Done::new(&self.command(&["tool", "call", "Bash", &input]).output().unwrap());
        serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"))
    }

    /// Runs commands from a script file, so that the command judge does not see them.
    pub(crate) fn script(&self, script: &str) -> Value {
        write(&self.test.root().join("script.sh"), script);
        self.call(&json!({"command": "bash ./script.sh"}))
    }

    pub(crate) fn stdout(&self, script: &str) -> String {
        let envelope = self.script(script);
        envelope["data"]["stdout"].as_str().unwrap_or_else(|| panic!("{envelope}")).to_owned()
    }

    /// The line of the only entry that a private `/tmp` begins with: what the project is mounted at if it lies
    /// in a temporary directory itself.
    fn mount_point_in_private_tmp(&self) -> String {
        let root = self.test.root();
        let below =
            ["/tmp", "/var/tmp"].into_iter().find_map(|shared| root.strip_prefix(shared).ok());
        let first = below.filter(|_| self.backend == "namespaces").and_then(|it| it.iter().next());
        first.map_or_else(String::new, |name| format!("{}\n", name.display()))
    }

    /// Builds the program that makes raw system calls.
    fn with_attack(self) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/sandbox/attack.c");
        let to = self.test.root().join("attack");
        let built =
            Command::new("gcc").args(["-pthread", "-o"]).arg(to).arg(source).status().unwrap();
        assert!(built.success());
        self
    }
}

pub(crate) fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn give(path: &Path, user: u32) {
    _ = std::os::unix::fs::lchown(path, Some(user), Some(user));
    if std::fs::symlink_metadata(path).unwrap().is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), user);
        }
    }
}

/// Every sandbox that this system supports.
pub(crate) fn places() -> Vec<Place> {
    places_in(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

pub(crate) fn places_in(parent: &Path) -> Vec<Place> {
    let mut users = vec![None];
    if is_root() {
        users.push(Some(NOBODY));
    } else {
        say("SKIPPED: the sandbox as root and as another user (the tests do not run as root)");
    }
    let mut places = Vec::new();
    for user in users {
        for backend in ["namespaces", "landlock"] {
            let place = Place::new_in(parent, backend, user);
            if place.works() {
                places.push(place);
            } else {
                say(&format!("SKIPPED: the sandbox with {backend} as {user:?}: refused here"));
            }
        }
    }
    places
}

impl Place {
    fn works(&self) -> bool {
        let input = json!({"command": "true"}).to_string();
        let mut command = self.test.command(&["tool", "call", "Bash", &input]);
        command.args(["--set", &format!("sandbox.backend={}", self.backend)]);
        if let Some(user) = self.user {
            give(self.test.root().parent().unwrap(), user);
            command.uid(user).gid(user);
        }
        let done = Done::new(&command.output().unwrap());
        if done.code != Some(0) {
            say(&format!("{}{}", done.stdout, done.stderr));
        }
        done.code == Some(0)
    }
}

/// Metadata and content of everything below a directory.
pub(crate) fn look(folder: &Path) -> BTreeMap<PathBuf, (u32, u64, i64, i64, Vec<u8>)> {
    let mut seen = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let mut paths = vec![folder.clone()];
        paths.extend(std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
        for path in paths {
            let metadata = std::fs::symlink_metadata(&path).unwrap();
            let text = if metadata.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            if metadata.is_dir() && !seen.contains_key(&path) && !folders.contains(&path) {
                folders.push(path.clone());
            }
            // Link count and times of directories are not compared.
            let facts =
                (metadata.mode(), metadata.nlink(), metadata.mtime(), metadata.mtime_nsec(), text);
            if seen.insert(path.clone(), facts).is_some() {
                folders.retain(|folder| folder != &path);
            }
        }
    }
    seen
}

/// Each attempts to change something in `$OUT` or to create `$OUT/new-N`.
const WRITES: &[&str] = &[
    "echo x > $OUT/victim",
    "echo x >> $OUT/victim",
    "echo x > $OUT/new-N",
    "echo x > ../outside/new-N",
    "cd $OUT && echo x > new-N",
    "cp own $OUT/victim; cp own $OUT/new-N; install own $OUT/new-N",
    "mv own $OUT/new-N; cp -r . $OUT/new-N",
    "mv $OUT/victim stolen-N",
    "rm -f $OUT/victim; unlink $OUT/victim",
    "rm -rf $OUT",
    "mv $OUT ../new-N; mv ../outside ../new-N",
    "rmdir $OUT; mkdir $OUT/new-N",
    "ln own $OUT/new-N; ln -s own $OUT/new-N",
    "ln $OUT/victim hard-N; echo x > hard-N",
    "ln -s $OUT/victim soft-N; echo x > soft-N",
    "ln -s $OUT folder-N; echo x > folder-N/new-N",
    "ln -s ../outside up-N; cd up-N && echo x > new-N",
    "truncate -s 0 $OUT/victim",
    "dd if=own of=$OUT/victim conv=notrunc status=none",
    "sed -i s/intact/x/ $OUT/victim; tee $OUT/victim < own; tar cf - own | tar xf - -C $OUT",
    "exec 9<$OUT/victim; echo x > /dev/fd/9; echo x > /proc/self/fd/9",
    "exec 9<$OUT; echo x > /proc/self/fd/9/new-N",
    "exec 9<>$OUT/victim; echo x >&9",
    "echo x > /proc/self/root$OUT/new-N",
    "echo x > /proc/self/cwd/../outside/new-N",
    "for p in /proc/[0-9]*; do echo x > $p/root$OUT/new-N; echo x > $p/cwd/../outside/new-N; done",
    "for p in /proc/[0-9]*; do echo x > $p/cwd/escaped-N; done; for f in /proc/[0-9]*/fd/*; do [ -d $f ] && echo x > $f/../outside/new-N; done",
    "mkfifo $OUT/new-N; mknod $OUT/new-N p; mknod disk-N b 8 0",
    "mount --bind $OUT . ; echo x > victim; mount -o remount,rw /; mount -o remount,rw,bind /; umount $OUT; umount .; echo x > $OUT/new-N",
    "unshare -Urm sh -c \"mount -o remount,rw,bind / && echo x > $OUT/new-N\"",
    "unshare -rm touch $OUT/new-N; nsenter -t 1 -m touch $OUT/new-N; nsenter -t $PPID -m touch $OUT/new-N",
    "chroot / touch $OUT/new-N; chroot . /bin/touch new",
    "su -c \"touch $OUT/new-N\" </dev/null; sudo -n touch $OUT/new-N; setpriv --reuid 0 touch $OUT/new-N",
    "cp /bin/bash shell-N; chmod 6755 shell-N; ./shell-N -p -c \"touch $OUT/new-N\"",
    "(setsid sh -c \"sleep 0.1; touch $OUT/new-N\" &) ; sleep 0.2",
    "git init -q $OUT/new-N; git -c core.worktree=$OUT status",
    "echo x > ~/.bashrc; echo x >> ~/.profile; mkdir -p ~/.config/autostart; echo x > ~/.new-N",
    "./attack call 83 $OUT/new-N 0777; ./attack call 257 -100 $OUT/new-N 0101 0600",
];
/// Further attempts that Landlock alone cannot prevent.
const CHANGES: &[&str] = &[
    "chmod 777 $OUT/victim; chmod 777 $OUT",
    "touch -d 2001-01-01 $OUT/victim; touch $OUT",
    "chown 1:1 $OUT/victim; chgrp 1 $OUT/victim",
    "./attack call 90 $OUT/victim 0777; ./attack call 268 -100 $OUT/victim 0777",
    "setfattr -n user.x -v y $OUT/victim",
];

#[test]
fn nothing_outside_the_project_can_be_changed() {
    for place in places().into_iter().chain(owners::places_of_others()) {
        let place = place.with_attack();
        let mut script = String::new();
        let all = WRITES.iter().chain(if place.backend == "namespaces" { CHANGES } else { &[] });
        for (n, attack) in all.enumerate() {
            let attack = attack.replace("-N", &format!("-{n}"));
            script.push_str(&format!("( {attack} ) >/dev/null 2>&1\n"));
        }
        script.push_str("echo over\n");
        // Files created by the binary itself exist beforehand.
        place.stdout("true");
        let before = (look(&place.outside()), look(&place.home()));
        assert_eq!(place.stdout(&script), "over\n", "{} {:?}", place.backend, place.user);
        let after = (look(&place.outside()), look(&place.home()));
        assert_eq!(before.0, after.0, "{} {:?}", place.backend, place.user);
        let names = |seen: &BTreeMap<PathBuf, _>| {
            // In the home, the project's caches are expected.
            let own = |path: &&PathBuf| !path.to_string_lossy().contains("/.cache");
            seen.keys().filter(own).cloned().collect::<Vec<_>>()
        };
        assert_eq!(names(&before.1), names(&after.1), "{} {:?}", place.backend, place.user);
        let bashrc = std::fs::read_to_string(place.home().join(".bashrc")).unwrap();
        assert_eq!(bashrc, "# intact\n");
    }
}

#[test]
fn project_and_temporary_directories_are_writable() {
    for place in places() {
        let line = "echo a > a && mkdir -p d/e && mv a d/e/b && ln d/e/b c && chmod 755 c && \
                    touch -d 2001-01-01 c && rm -r d && echo x > $TMPDIR/t && cat $TMPDIR/t && \
                    f=$(mktemp) && echo y > $f && cat $f && echo z > /dev/null && \
                    mkdir -p $XDG_CACHE_HOME && echo k > $XDG_CACHE_HOME/kept && echo done";
        assert_eq!(place.stdout(line), "x\ny\ndone\n", "{} {:?}", place.backend, place.user);
        // Caches are kept for the next session; temporary files are not.
        let line = "cat $XDG_CACHE_HOME/kept; ls $TMPDIR";
        let left = format!("k\n{}", place.mount_point_in_private_tmp());
        assert_eq!(place.stdout(line), left, "{} {:?}", place.backend, place.user);
    }
}

#[test]
fn first_file_in_private_tmp_that_somebody_misses_is_reported() {
    let call = |command: &str| format!("call: Bash {}\n---\n", json!({"command": command}));
    let commands = [
        "mkdir /tmp/dir",
        "echo x > /tmp/result.txt",
        "echo y > /tmp/more.txt",
        "docker cp /tmp/a b:",
    ];
    let script = commands.map(call).concat() + "text: end";
    for (task, expected) in [
        ("write a file", [false, false, false, true]),
        ("write /tmp/result.txt", [false, true, false, false]),
    ] {
        let test = Test::new().script(&script);
        test.run(&[task, "--permission-mode", "full"]);
        let events = test.events();
        if !events[0]["sandbox"]["backend"].as_str().unwrap().starts_with("namespaces") {
            say("SKIPPED: no namespaces, so /tmp is not private");
            return;
        }
        let results = events.iter().filter(|event| event["type"] == "tool.finished");
        let notes: Vec<bool> = results
            .map(|event| event["envelope"].to_string().contains("/tmp is private to this session"))
            .collect();
        assert_eq!(notes, expected, "{task}");
        let place = events[0]["place"].as_str().unwrap();
        assert!(place.contains("localhost and /tmp are private to this session"), "{place}");
    }
}

#[test]
fn credentials_and_the_agents_environment_are_not_readable() {
    const STORES: &[&str] = &[
        ".ssh/id_ed25519",
        ".aws/credentials",
        ".gnupg/private-keys-v1.d/a.key",
        ".netrc",
        ".config/gh/hosts.yml",
        ".docker/config.json",
        ".kube/config",
        ".mozilla/firefox/a/logins.json",
        ".config/google-chrome/Default/Cookies",
        ".config/agent/notes",
        ".git-credentials",
    ];
    for mut place in places() {
        for store in STORES {
            write(&place.home().join(store), "s3cr3t-q7Zp93kd\n");
        }
        write(&place.home().join("readable"), "fine\n");
        place.env.push(("MY_API_KEY".to_owned(), "s3cr3t-q7Zp93kd".to_owned()));
        let script = "exec 2>/dev/null; cat ~/readable; ln -s ~/.ssh link; ln ~/.ssh/id_ed25519 hard; \
             cat link/id_ed25519 hard; cp -r ~/.ssh copy; cat copy/*; cat /proc/self/root$HOME/.netrc; \
             cat /proc/[0-9]*/root$HOME/.netrc; cat /proc/[0-9]*/cwd/../home/.netrc; \
             grep -r s3cr3t $HOME; find $HOME -type f -exec cat {} +; cat /proc/[0-9]*/environ; \
             cat /proc/$PPID/environ; ps axe; env; cat /etc/shadow | head -1; cat /proc/[0-9]*/mem | head -c 1; \
             mv ~/.ssh ~/.hss; cat ~/.hss/*; echo over";
        let stdout = place.stdout(script).replace('\0', "\n");
        assert!(stdout.starts_with("fine\n") && stdout.ends_with("over\n"), "{stdout}");
        assert!(!stdout.contains("s3cr3t"), "{} {:?}: {stdout}", place.backend, place.user);
        assert!(!stdout.contains("root:"), "{} {:?}: {stdout}", place.backend, place.user);
        let told = place.call(&json!({"command": "wc ~/.ssh/id_ed25519"}));
        assert!(told["text"].as_str().unwrap().contains("is hidden in the sandbox"), "{told}");
    }
}

#[test]
fn other_terminals_are_not_readable() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    for place in places() {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let terminal = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        std::os::unix::fs::chown(&terminal, place.user, None).unwrap();
        let script = format!(
            "for device in {terminal} /dev/tty0 /dev/input/*; do
                (exec 3<$device) 2>/dev/null && echo $device
            done
            exec 3</dev/null 4</dev/urandom && echo done"
        );
        assert_eq!(place.stdout(&script), "done\n", "{} {:?}", place.backend, place.user);
    }
}

#[test]
fn only_local_sockets_can_be_created() {
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    tcp.set_nonblocking(true).unwrap();
    let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    for place in places() {
        let place = place.with_attack().with("sandbox.network=off");
        let script = format!(
            "./attack tcp {tcp_port}; ./attack udp {udp_port}; ./attack pair\n\
             for family in 2 3 10 15 16 17 29 30 38 40 44; do ./attack call 41 $family 3 0; done\n\
             ./attack call 41 2 3 1; ./attack call 41 1 1 0\n\
             ./attack call 425 1 @; ./attack call 1073741865 2 1 0\n\
             exec 2>/dev/null; echo x > /dev/tcp/127.0.0.1/{tcp_port} && echo open; echo over"
        );
        let expected = format!("{}ok\nEPERM\nEPERM\nover\n", "EPERM\n".repeat(3 + 11 + 1));
        assert_eq!(place.stdout(&script), expected, "{} {:?}", place.backend, place.user);
        assert!(tcp.accept().is_err() && udp.recv(&mut [0; 8]).is_err());
        let told = place.call(&json!({"command": "./attack tcp 1; getent hosts example.com; echo 'Could not resolve host: a' >&2; exit 6"}));
        assert!(told["text"].as_str().unwrap().contains("network is off"), "{told}");
    }
}

#[test]
fn loopback_is_private_or_an_error() {
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    tcp.set_nonblocking(true).unwrap();
    let port = tcp.local_addr().unwrap().port();
    for place in places() {
        let place = place.with_attack().with("sandbox.network=loopback");
        if place.backend == "landlock" {
            let input = json!({"command": "true"}).to_string();
            let done =
                Done::new(&place.command(&["tool", "call", "Bash", &input]).output().unwrap());
            done.expect_code(2).expect_stderr("sandbox.network is \"loopback\"");
            continue;
        }
        let script = format!("./attack pair; ./attack tcp {port}; ./attack call 41 40 1 0");
        assert_eq!(place.stdout(&script), "ok\nECONNREFUSED\nEPERM\n", "{:?}", place.user);
        // A command line that names no other host stays local, whoever allows it.
        let named = format!("(: < /dev/tcp/127.0.0.1/{port}) 2>&- && echo open || echo closed");
        assert_eq!(place.stdout(&named), "closed\n", "{:?}", place.user);
        assert!(tcp.accept().is_err());
        // A server of one command is reachable by later commands of the session, and by nobody
        // else.
        let serve = "./attack serve > port & until [ -s port ]; do sleep 0.01; done";
        let lines = [serve, "./attack tcp $(cat port)"]
            .map(|line| json!({"name": "Bash", "id": 1, "input": {"command": line}}).to_string());
        let mut child = place.command(&["tool", "batch"]).stdin(Stdio::piped()).spawn().unwrap();
        let text = lines.join("\n") + "\n";
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        let done = Done::new(&child.wait_with_output().unwrap());
        let reached = &done.lines()[1]["envelope"]["data"]["stdout"];
        assert_eq!(reached, "ok\n", "{:?} {}", place.user, done.stdout);
        assert_eq!(place.stdout("./attack tcp $(cat port)"), "ECONNREFUSED\n");
        let place = Place { settings: vec!["sandbox.network=on".to_owned()], ..place };
        assert_eq!(place.stdout(&script), "ok\nok\nEPERM\n", "{:?}", place.user);
        assert!(tcp.accept().is_ok());
    }
}

#[test]
fn unix_sockets_outside_the_sandbox_are_not_reachable() {
    for place in places() {
        let place = place.with_attack();
        if place.backend == "landlock" {
            say("SKIPPED: sockets in the file system with Landlock alone: a gap that init names");
            continue;
        }
        let docker = place.home().join(".docker/run/docker.sock");
        std::fs::create_dir_all(docker.parent().unwrap()).unwrap();
        // An editor that listens in the project executes what it receives, outside the sandbox.
        let editor = place.test.root().join("sub/e.sock");
        std::fs::create_dir(editor.parent().unwrap()).unwrap();
        let listeners: Vec<UnixListener> = [docker.clone(), place.outside().join("s.sock"), editor]
            .iter()
            .map(|path| {
                let listener = UnixListener::bind(path).unwrap();
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
                listener.set_nonblocking(true).unwrap();
                listener
            })
            .collect();
        let script = format!(
            "./attack unix {}; ./attack unix $OUT/s.sock; ls /run; ./attack unix sub/e.sock; \
                     mv sub sub2; ./attack unix sub2/e.sock; ln sub/e.sock e; ./attack unix e",
            docker.display()
        );
        let stdout = place.stdout(&script);
        assert!(!stdout.contains("ok"), "{:?}: {stdout}", place.user);
        assert!(listeners.iter().all(|listener| listener.accept().is_err()));
        // Its own sockets work.
        let own = "exec 2>&1; command -v python3 >/dev/null || { echo fine; exit; }; \
                   python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind(\"own.sock\"); \
                   s.listen(); c = socket.socket(socket.AF_UNIX); c.connect(\"own.sock\"); print(\"fine\")'";
        assert_eq!(place.stdout(own), "fine\n");
    }
}

#[test]
fn other_processes_cannot_be_signalled_or_share_ipc() {
    // System calls are given by number.
    if !cfg!(target_arch = "x86_64") {
        return say(
            "SKIPPED: system calls on other processes: their numbers here are those of x86-64",
        );
    }
    for place in places() {
        let place = place.with_attack();
        // A process of the same user outside the sandbox.
        let mut sleep = Command::new("sleep");
        sleep.arg("600").stdout(Stdio::null());
        if let Some(user) = place.user {
            sleep.uid(user).gid(user);
        }
        let mut other = sleep.spawn().unwrap();
        let stdout = place.stdout(&format!("./attack call 62 {} 15", other.id()));
        assert_ne!(stdout, "ok\n", "{} {:?}", place.backend, place.user);
        assert!(other.try_wait().unwrap().is_none(), "{} {:?}", place.backend, place.user);
        other.kill().unwrap();
        other.wait().unwrap();
        // It may change its own limits and priority.
        let own = "ulimit -S -n 64 && nice -n 5 true && exec 2>&1 && echo fine";
        assert_eq!(place.stdout(own), "fine\n", "{} {:?}", place.backend, place.user);
        // Shared memory, semaphores and message queues with a numeric key: shmget, semget, msgget.
        let made = Command::new("ipcmk").args(["-M", "4096", "-p", "0666"]).output();
        let Some(id) = made.ok().and_then(|made| {
            let text = String::from_utf8(made.stdout).ok()?;
            text.rsplit(' ').next()?.trim().parse::<u32>().ok()
        }) else {
            say("SKIPPED: shared memory by number: there is no ipcmk here");
            continue;
        };
        let attached = place.stdout(&format!("./attack call 30 {id} 0 0"));
        Command::new("ipcrm").args(["-m", &id.to_string()]).status().unwrap();
        assert_ne!(attached, "ok\n", "{} {:?}", place.backend, place.user);
    }
}

#[test]
fn memory_database_is_not_readable() {
    for place in places() {
        write(&place.home().join(".local/share/agent/memory.db"), "learnt-secret\n");
        let stdout = place.stdout("grep -r secret ~/.local 2>/dev/null; echo over");
        assert_eq!(stdout, "over\n", "{} {:?}", place.backend, place.user);
    }
}

#[test]
fn escape_system_calls_are_denied() {
    for place in places() {
        let place = place.with_attack();
        // On x86-64: mount, umount2, pivot_root, chroot, unshare(user), unshare(mount), setns, bpf,
        // perf_event_open, keyctl, add_key, userfaultfd, kexec_load, init_module,
        // open_by_handle_at, fsopen, move_mount, open_tree, mount_setattr, clone(newuser), swapon,
        // reboot, iopl; ioctls: btrfs snapshot create, snapshot destroy, subvolume create, flags;
        // fscrypt add key, remove key; fs-verity; OCFS2 reflink.
        let calls = "165 @ @ @; 166 @; 155 @ @; 161 /tmp; 272 0x10000000; 272 0x20000; 308 0 0; 321 0 @ 0; \
                     298 @; 250 0; 248 @ @; 323 0; 246; 175 @; 304 0 @; 430 @; 429 0 @ 0 @; 428 0 @ 0; \
                     442 0 @; 56 0x10000000; 167 @; 169 0; 172 3; \
                     16 0 0x50009401 @; 16 0 0x5000940f @; 16 0 0x50009417 @; 16 0 0x4008941a @; 16 0 0xc0506617 @; \
                     16 0 0xc0406618 @; 16 0 0x40806685 @; 16 0 0x40186f04 @";
        let n_calls = calls.split(';').count();
        let mut script: String =
            calls.split(';').map(|call| format!("./attack call {call}\n")).collect();
        script.push_str("./attack call 435 @ 88\n./attack ptrace 1\n");
        script.push_str("grep -c 'CapEff:\t0000000000000000' /proc/self/status\n");
        // (Root gains none by executing a program.)
        script.push_str("grep -c 'CapPrm:\t0000000000000000' /proc/self/status\n");
        script.push_str("grep -c 'NoNewPrivs:\t1' /proc/self/status\n");
        // A raw disk under any name.
        script.push_str("for d in $(find /dev -type b); do head -c 1 $d | wc -c; done 2>/dev/null | grep -c 1\n");
        script.push_str("./attack int80 /tmp 2>/dev/null; echo $?\n");
        let expected = format!("{}ENOSYS\nEPERM\n1\n1\n1\n0\n159\n", "EPERM\n".repeat(n_calls));
        assert_eq!(place.stdout(&script), expected, "{} {:?}", place.backend, place.user);
    }
}

#[test]
fn devices_cannot_be_changed() {
    let look = || {
        ["/dev/full", "/dev/null"].map(|device| {
            let metadata = std::fs::metadata(device).unwrap();
            (metadata.mode(), metadata.mtime())
        })
    };
    let before = look();
    for place in places() {
        if place.backend == "landlock" && place.user.is_none() {
            // A gap named at init, and it is the machine's real device.
            continue;
        }
        // (By name, and through the standard input of a command.)
        let script = "exec 2>/dev/null; chmod 0640 /dev/full; touch -d @1 /dev/full /proc/self/fd/0; \
                      touch -d @1 - >&0; echo x > /dev/null; head -c 1 /dev/zero | wc -c; \
                      echo x > /dev/full || echo full";
        assert_eq!(place.stdout(script), "1\nfull\n", "{} {:?}", place.backend, place.user);
        assert_eq!(look(), before);
    }
}

/// A line has the same exit code, output and stages in every sandbox as in plain bash.
#[test]
fn command_results_are_equal_to_plain_bash() {
    const LINES: &[&str] = &[
        "true",
        "false",
        "exit 3",
        "exit 255",
        "kill -TERM $$",
        "bash -c 'kill -SEGV $$'",
        "kill -KILL $$",
        "false | true",
        "yes | head -1",
        "set -o pipefail; yes | head -1 | cat",
        "nosuch-program",
        "nosuch-program | cat",
        "set -e; false; echo no",
        "set -euo pipefail; false | true; echo no",
        "trap 'echo bye' EXIT; exit 4",
        "trap 'echo caught; exit 9' TERM; kill -TERM $$; sleep 5",
        "exec 3< <(echo a); cat <&3",
        "echo a > /dev/stdout; echo b > /dev/stderr",
        "cat /dev/fd/0; cat < /dev/null; read x || echo none",
        "f() { return 7; }; f",
        "(exit 5); echo $?",
        "sleep 0.05 & wait $!; echo $?",
        "wait; jobs; kill 0; sleep 5",
        "ulimit -n > /dev/null; umask; id -u",
        "[ -t 0 ] || echo no terminal; : < /dev/tty || echo none",
        "mkfifo p; (echo x > p &) ; cat p; rm p",
        "coproc cat; echo q >&\"${COPROC[1]}\"; read -u \"${COPROC[0]}\" l; echo $l",
        "exec sh -c 'exit 6'",
        "exec 200>&-; echo fine",
    ];
    let ended = |envelope: &Value| {
        let data = &envelope["data"];
        json!([data["exit_code"], data["signal"], data["stdout"], data["stages"]])
    };
    let batch = |place: &Place, settings: &[&str]| -> Vec<Value> {
        let lines: String = (0..)
            .zip(LINES)
            .map(|(id, line)| {
                format!("{}\n", json!({"id": id, "name": "Bash", "input": {"command": line}}))
            })
            .collect();
        let mut command = place.command(&["tool", "batch"]);
        command.args(settings);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), lines.as_bytes()).unwrap();
        let done = Done::new(&child.wait_with_output().unwrap());
        done.lines().iter().map(|line| ended(&line["envelope"])).collect()
    };
    for place in places() {
        let plain = batch(&place, &["--set", "sandbox.enabled=false"]);
        let boxed = batch(&place, &[]);
        assert_eq!(plain.len(), LINES.len());
        for ((line, plain), boxed) in LINES.iter().zip(&plain).zip(&boxed) {
            assert_eq!(plain, boxed, "{line} ({} {:?})", place.backend, place.user);
        }
    }
}

fn gone_within(text: &str, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    while Instant::now() < deadline {
        if running(text).is_empty() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

/// A process tree that tries to survive; `ID` is in the command line of each process.
const TREE: &str = "trap '' TERM HUP INT\n\
    sleep 1000.ID &\n\
    nohup sleep 1001.ID >/dev/null 2>&1 & disown\n\
    setsid bash -c 'trap \"\" TERM; sleep 1002.ID; :' &\n\
    (setsid -f env -i bash -c 'exec sleep 1003.ID') >/dev/null 2>&1\n\
    (env -i setsid bash -c 'setsid bash -c \"sleep 1004.ID & sleep 1005.ID; :\" & disown; exit' &) >/dev/null 2>&1\n\
    sleep 0.1; touch started; sleep 1006.ID; :\n";

fn started(place: &Place) {
    let file = place.test.root().join("started");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !file.exists() {
        assert!(Instant::now() < deadline, "it did not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn no_process_survives_a_timeout_or_the_agent() {
    for (n, place) in (0..).zip(places()) {
        let id = format!("{}{n}7301", std::process::id());
        write(&place.test.root().join("tree.sh"), &TREE.replace("ID", &id));
        let input = json!({"command": "bash ./tree.sh", "timeout_ms": 1000});
        let envelope = place.call(&input);
        assert_eq!(envelope["error"]["code"], "TIMEOUT", "{envelope}");
        // The envelope is returned after they have ended.
        assert_eq!(running(&id), [""; 0], "{} {:?}", place.backend, place.user);
        _ = std::fs::remove_file(place.test.root().join("started"));
        for signal in ["KILL", "TERM"] {
            let input = json!({"command": "bash ./tree.sh"}).to_string();
            let mut child = place.command(&["tool", "call", "Bash", &input]).spawn().unwrap();
            started(&place);
            assert!(running(&id).len() >= 6);
            let pid = child.id().to_string();
            assert!(
                Command::new("kill").args([format!("-{signal}"), pid]).status().unwrap().success()
            );
            child.wait().unwrap();
            let is_gone = gone_within(&id, Duration::from_secs(5));
            assert!(is_gone, "{signal} {} {:?}: {:?}", place.backend, place.user, running(&id));
        }
    }
}

/// Ancestors of the process with this text in its command line: parent, grandparent, and so on.
fn ancestors(text: &str) -> Vec<i32> {
    let read = |pid: i32, name: &str| std::fs::read(format!("/proc/{pid}/{name}"));
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_it = |pid: &i32| {
        read(*pid, "cmdline")
            .is_ok_and(|line| line.starts_with(format!("sleep\0{text}").as_bytes()))
    };
    let parent = |pid: &i32| {
        let stat = String::from_utf8_lossy(&read(*pid, "stat").ok()?).into_owned();
        stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok().filter(|pid| *pid > 1)
    };
    std::iter::successors(pids.find(is_it), parent).skip(1).collect()
}

#[test]
#[ignore = "slow"]
fn fork_chains_end_with_the_command() {
    for place in places() {
        let place = place.with_attack();
        place.stdout(
            "env -i ./attack chain beat > /dev/null 2>&1 & sleep 0.2; wc -c < beat > /dev/null",
        );
        let beat = || place.test.read("beat").len();
        let n = beat();
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(n > 0 && beat() == n, "{} {:?}: {n}, {}", place.backend, place.user, beat());
    }
}

#[test]
fn killing_the_supervisor_ends_its_command() {
    for (n, place) in (0..).zip(places()) {
        let id = format!("{}{n}7303", std::process::id());
        let line = format!("setsid sleep 1000.{id} & sleep 1001.{id}; :");
        let mut batch = Batch::start(&mut place.command(&["tool", "batch"]));
        let job = batch.call("Bash", &json!({"command": line, "background": true}));
        assert_eq!(job["status"], "success", "{job}");
        let deadline = Instant::now() + Duration::from_secs(20);
        while ancestors(&format!("1000.{id}")).is_empty()
            || ancestors(&format!("1001.{id}")).is_empty()
        {
            assert!(Instant::now() < deadline, "it did not start");
            std::thread::sleep(Duration::from_millis(2));
        }
        // The shell, the inner supervisor, the outer supervisor.
        let outer = Pid::from_raw(ancestors(&format!("1001.{id}"))[2]).unwrap();
        kill_process(outer, Signal::KILL).unwrap();
        let is_gone = gone_within(&id, Duration::from_secs(5));
        assert!(is_gone, "{} {:?}: {:?}", place.backend, place.user, running(&id));
        batch.end();
    }
}

/// Child processes of this single-threaded process. (Reading all of `/proc` would take longer.)
fn children(parent: Pid) -> Vec<Pid> {
    let pid = parent.as_raw_pid();
    let pids = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let pids = pids.unwrap_or_default();
    pids.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

#[test]
#[ignore = "slow"]
fn command_does_not_run_if_its_supervisor_dies_during_setup() {
    let name = "command_does_not_run_if_its_supervisor_dies_during_setup";
    if !has("strace", name) {
        return;
    }
    for (n, place) in (0..).zip(places()) {
        let id = format!("{}{n}7304", std::process::id());
        // The inner supervisor first requests to be killed together with the outer one: that call
        // is delayed here.
        let traced = place.command(&["tool", "batch"]);
        let mut command = Command::new("strace");
        command
            .args(["-f", "-qq", "-o", "/dev/null", "--trace=prctl"])
            .arg("--inject=prctl:delay_enter=500000:when=1")
            .arg(traced.get_program())
            .args(traced.get_args())
            .current_dir(traced.get_current_dir().unwrap())
            .env_clear()
            .envs(traced.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdout(Stdio::piped());
        if let Some(user) = place.user {
            command.uid(user).gid(user);
        }
        let mut batch = Batch::start(&mut command);
        // (The sandbox is probed before the first command.)
        batch.send("Bash", &json!({"command": "echo a"}));
        if batch.answer().is_none() {
            say(&format!("SKIPPED: {name}: {} {:?} can not be traced", place.backend, place.user));
            continue;
        }
        let strace = Pid::from_raw(i32::try_from(batch.id()).unwrap()).unwrap();
        let agent = children(strace)[0];
        let [standby] = standby(agent.as_raw_pid().cast_unsigned())[..] else { panic!() };
        let deadline = Instant::now() + Duration::from_secs(20);
        let until = |is_so: &dyn Fn(&[Pid]) -> bool| {
            loop {
                let supervisors: Vec<Pid> = children(standby);
                if is_so(&supervisors) {
                    return supervisors;
                }
                assert!(Instant::now() < deadline, "{supervisors:?}");
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        // The helper that creates sockets remains.
        until(&|before| before.len() <= usize::from(place.backend == "namespaces"));
        let helpers = children(standby);
        let line = format!("touch started; sleep 1000.{id}; :");
        batch.send("Bash", &json!({"command": line, "timeout_ms": 4000}));
        let is_supervisor = |pid: &&Pid| !helpers.contains(pid) && !children(**pid).is_empty();
        let now = until(&|now| now.iter().any(|pid| is_supervisor(&pid)));
        let outer = *now.iter().find(is_supervisor).unwrap();
        kill_process(outer, Signal::KILL).unwrap();
        let envelope = batch.answer().unwrap();
        let message = envelope["error"]["message"].as_str().unwrap();
        assert!(message.contains("supervisor was ended"), "{envelope}");
        assert_eq!(running(&format!("sleep 1000.{id}")), [""; 0]);
        assert!(!place.test.root().join("started").exists());
        batch.end();
    }
}

#[test]
fn parents_of_home_and_project_below_tmp_cannot_be_moved() {
    for place in places_in(Path::new("/tmp")) {
        if place.backend == "landlock" {
            continue;
        }
        write(&place.home().join(".ssh/id_rsa"), "a secret key\n");
        let mut batch = session(&place);
        let above = place.home().parent().unwrap().to_owned();
        let (above, name) = (above.display(), above.file_name().unwrap().to_str().unwrap());
        // Replacing it would bypass the mount that covers the secret.
        let attack = format!(
            "exec 2>/dev/null; cd /tmp; mv {above} /tmp/real && ln -s /tmp/real {above} && echo moved; \
             mv /var/tmp/{name} /var/tmp/real && echo moved; rmdir {above} && echo removed; \
             echo x > {above}/lost && echo written; echo over"
        );
        write(&place.test.root().join("script.sh"), &attack);
        for _ in 0..2 {
            let done = batch.call("Bash", &json!({"command": "bash ./script.sh"}));
            assert_eq!(done["data"]["stdout"], "over\n", "{:?} {done}", place.user);
        }
        // What is written beside the project would be lost.
        let done = batch.call("Bash", &json!({"command": "echo x > ../beside"}));
        assert!(done["text"].as_str().unwrap().contains("--add-dir"), "{:?} {done}", place.user);
        let done =
            batch.call("Bash", &json!({"command": "cat ~/.ssh/id_rsa; echo y > own; cat own"}));
        assert_eq!(done["data"]["stdout"], "y\n", "{:?} {done}", place.user);
        batch.end();
    }
}

#[test]
fn processes_left_running_are_reported_and_end_with_the_session() {
    for (n, place) in (0..).zip(places()) {
        let id = format!("{}{n}7302", std::process::id());
        let line = format!("setsid sleep 1000.{id} >/dev/null 2>&1 & echo a; exit 3");
        let envelope = place.call(&json!({"command": line}));
        assert_eq!(envelope["data"]["exit_code"], 3, "{envelope}");
        let left = &envelope["data"]["left_running"];
        assert_eq!(left[0]["name"], format!("sleep 1000.{id}"), "{envelope}");
        assert_eq!(running(&id), [""; 0], "{} {:?}", place.backend, place.user);
    }
}

/// The standby process from which supervisors are forked: the agent's one waiting child.
fn standby(agent: u32) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let waits = |pid: &i32| {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
        let (stat, line) = (read("stat").unwrap_or_default(), read("cmdline").unwrap_or_default());
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        parent == Some(&agent.to_string()) && line.contains("__supervise")
    };
    ids.filter(waits).filter_map(Pid::from_raw).collect()
}

#[test]
fn killed_standby_process_is_replaced_without_ending_commands() {
    for place in places() {
        let mut batch = Batch::start(&mut place.command(&["tool", "batch"]));
        let job = json!({"command": "sleep 1000", "background": true});
        let started = batch.call("Bash", &job);
        assert_eq!(started["status"], "success", "{started}");
        for signal in [Signal::KILL, Signal::TERM] {
            let [one] = standby(batch.id())[..] else { panic!("{:?}", standby(batch.id())) };
            kill_process(one, signal).unwrap();
            // (Its command line is gone before its sockets are closed.)
            wait_until("it has ended", || {
                let status = status(one);
                status.is_empty() || status.contains("State:\tZ")
            });
            let next = batch.call("Bash", &json!({"command": "echo a; exit 3"}));
            assert_eq!(
                (&next["data"]["exit_code"], &next["data"]["stdout"]),
                (&json!(3), &json!("a\n")),
                "{signal:?} {next}"
            );
        }
        let runs = batch.call("Bash", &json!({"background": started["data"]["background_id"]}));
        assert_eq!(runs["data"]["running"], true, "{runs}");
        let pid = standby(batch.id())[0];
        batch.end();
        assert!(!Path::new(&format!("/proc/{}", pid.as_raw_pid())).exists());
    }
}

/// Delays the start of each fork of this standby process; logs its calls to the file.
fn delay_forks(standby: Pid, time: Duration, log: &Path) -> Child {
    let pid = standby.as_raw_pid().to_string();
    let strace = Command::new("strace")
        .args(["-qq", "-p", &pid, "--trace=clone,fork", "-o"])
        .arg(log)
        .arg(format!("--inject=clone,fork:delay_enter={}", time.as_micros()))
        .spawn()
        .unwrap();
    wait_until("it is traced", || !status(standby).contains("TracerPid:\t0\n"));
    strace
}

fn status(pid: Pid) -> String {
    std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).unwrap_or_default()
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
#[ignore = "slow"]
fn slow_standby_process_is_awaited() {
    let name = "slow_standby_process_is_awaited";
    // (Only root can trace processes of other users.)
    if !has("strace", name) || !is_root() {
        return say(&format!("SKIPPED: {name}"));
    }
    for place in places() {
        let mut batch = Batch::start(&mut place.command(&["tool", "batch"]));
        let echo = json!({"command": "echo a"});
        assert_eq!(batch.call("Bash", &echo)["data"]["stdout"], "a\n");
        let before = standby(batch.id());
        let mut strace = delay_forks(before[0], Duration::from_millis(700), Path::new("/dev/null"));
        assert_eq!(batch.call("Bash", &echo)["data"]["stdout"], "a\n");
        assert_eq!(standby(batch.id()), before, "{} {:?}", place.backend, place.user);
        let job = batch.call("Bash", &json!({"command": "echo a", "background": true}));
        assert_eq!(job["status"], "success", "{job}");
        assert_eq!(standby(batch.id()), before, "{} {:?}", place.backend, place.user);
        strace.kill().unwrap();
        strace.wait().unwrap();
        batch.end();
    }
}

#[test]
fn standby_process_has_only_the_library_path_in_its_environment() {
    for mut place in places() {
        let one = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        // Commands could have placed files in the project or in the start directory.
        let libraries = format!("{}/lib:lib:/nowhere/lib", place.test.root().display());
        place.env = vec![one("LD_LIBRARY_PATH", &libraries), one("GREETING", "hello")];
        let mut batch = Batch::start(&mut place.command(&["tool", "batch"]));
        assert_eq!(batch.call("Bash", &json!({"command": "echo a"}))["data"]["stdout"], "a\n");
        let pid = standby(batch.id())[0].as_raw_pid();
        match std::fs::read(format!("/proc/{pid}/environ")) {
            Ok(environment) => assert_eq!(environment, b"LD_LIBRARY_PATH=/nowhere/lib\0"),
            Err(error) => say(&format!("SKIPPED: a stand-by's environment: {error}")),
        }
    }
}

#[test]
fn checks_run_in_the_sandbox() {
    for place in places() {
        write(&place.test.root().parent().unwrap().join("script"), "text: done");
        let model = ["run", "task", "--model", "script:../script", "--check"];
        let check = |line: &str| {
            let mut command = place.command(&[model.as_slice(), &[line]].concat());
            Done::new(&command.output().unwrap())
        };
        check("echo x > checked").expect_code(0);
        assert!(place.test.root().join("checked").exists());
        check("! echo x > $OUT/checked").expect_code(0);
        assert!(!place.outside().join("checked").exists());
    }
}

#[test]
fn init_and_doctor_report_sandbox_guarantees() {
    for place in places() {
        write(&place.test.root().parent().unwrap().join("script"), "text: done");
        let args = ["run", "task", "--model", "script:../script", "--output-format", "stream-json"];
        let done = Done::new(&place.command(&args).output().unwrap()).expect_code(0);
        let holds = &done.lines()[0]["sandbox"];
        let is_full = place.backend == "namespaces";
        let network = if is_full { "loopback" } else { "off" };
        assert_eq!(
            (&holds["filesystem"], &holds["network"]),
            (&json!("enforced"), &json!(network))
        );
        assert_eq!(holds["gaps"].is_null(), is_full, "{holds}");
        let backend = holds["backend"].as_str().unwrap();
        assert_eq!(backend.starts_with("namespaces+"), is_full, "{holds}");
        assert!(backend.ends_with("seccomp"), "{holds}");
        write(&place.home().join(".ssh/id"), "secret\n");
        let done = place.command(&["doctor", "--offline", "--set", "model=ollama/q"]).output();
        let done = Done::new(&done.unwrap());
        assert!(
            done.stdout.contains(&format!("✓ sandbox    {backend}, network {network}")),
            "{done:?}"
        );
        for gap in holds["gaps"].as_array().into_iter().flatten() {
            assert!(done.stdout.contains(gap.as_str().unwrap()), "{gap}: {}", done.stdout);
        }
    }
}

#[test]
fn commands_need_a_rule_without_a_sandbox() {
    let test = Test::new();
    let input = json!({"command": "mkdir -p d && echo hi"}).to_string();
    let off = ["--set", "sandbox.enabled=false"];
    let call =
        |more: &[&str]| test.agent(&[&["tool", "call", "Bash", &input], more].concat()).stdout;
    assert!(call(&off).contains("APPROVAL_REQUIRED"));
    assert!(call(&[&off[..], &["--allow", "Bash(mkdir *)"]].concat()).contains("hi\\n"));
    if places().is_empty() {
        say("SKIPPED: commands without a rule: no sandbox here");
        return;
    }
    assert!(call(&[]).contains("hi\\n"));
}

#[test]
fn sandbox_leaves_no_temporary_files() {
    for place in places() {
        let temporary = place.outside().join("temporary");
        std::fs::create_dir(&temporary).unwrap();
        let mut place = place;
        place.env.push(("TMPDIR".to_owned(), temporary.display().to_string()));
        place.stdout("mkdir -p $TMPDIR/a/b; echo x > $TMPDIR/a/b/c; chmod 0 $TMPDIR/a/b; chmod 500 $TMPDIR/a");
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "{:?}", place.user);
    }
}

#[test]
fn a_killed_agent_leaves_no_temporary_directory() {
    for mut place in places() {
        let temporary = place.outside().join("temporary");
        std::fs::create_dir(&temporary).unwrap();
        place.env.push(("TMPDIR".to_owned(), temporary.display().to_string()));
        let mut batch = session(&place);
        batch.call("Bash", &json!({"command": "echo x > $TMPDIR/x"}));
        let n_entries = || std::fs::read_dir(&temporary).unwrap().count();
        assert_eq!(n_entries(), 1, "{} {:?}", place.backend, place.user);
        kill_process(Pid::from_raw(batch.id().cast_signed()).unwrap(), Signal::KILL).unwrap();
        wait_until("it is removed", || n_entries() == 0);
        batch.end();
    }
}

#[test]
fn extra_writable_directories_are_writable() {
    for place in places() {
        let folder = place.outside();
        let told = place.script("echo x > $OUT/new; exit 1");
        let text = told["text"].as_str().unwrap();
        // In a private `/tmp` the folder does not exist, so that it is not refused.
        let is_there = place.mount_point_in_private_tmp().is_empty();
        let named = text.contains(&format!("--add-dir {}", folder.display()));
        assert!(named || !is_there, "{text}");
        assert!(!folder.join("new").exists());
        let settings = vec![format!("sandbox.extra_writable=[\"{}\"]", folder.display())];
        let place = Place { settings, ..place };
        assert_eq!(place.stdout("echo x > $OUT/new && cat $OUT/new"), "x\n");
        assert!(folder.join("new").exists());
        let place =
            Place { settings: vec!["sandbox.extra_writable=[\"nowhere\"]".into()], ..place };
        let input = json!({"command": "true"}).to_string();
        let done = Done::new(&place.command(&["tool", "call", "Bash", &input]).output().unwrap());
        done.expect_code(2).expect_one_line_of_stderr("sandbox.extra_writable: \"nowhere\"");
    }
}

#[test]
fn project_inside_a_config_directory_is_writable() {
    for place in places() {
        let folder = place.home().join(".config/nvim");
        write(&folder.join("init.lua"), "-- one\n");
        let input = json!({"command": "echo two > init.lua; cat init.lua"}).to_string();
        let mut command = place.command(&["tool", "call", "Bash", &input]);
        let done = Done::new(&command.current_dir(&folder).output().unwrap());
        assert!(done.stdout.contains("two\\n"), "{} {:?} {done:?}", place.backend, place.user);
    }
}

#[test]
fn startup_files_are_read_only_if_the_home_is_the_project() {
    for place in places() {
        if place.backend == "landlock" {
            continue;
        }
        let home = place.test.root();
        let place = Place { env: vec![("HOME".to_owned(), home.display().to_string())], ..place };
        write(&home.join(".bashrc"), "# intact\n");
        write(&home.join(".ssh/authorized_keys"), "# intact\n");
        let envelope = place.script(
            "exec 2>/dev/null; echo x > .bashrc; mv .bashrc b; rm -f .bashrc; echo x > .ssh/authorized_keys; \
             rm -rf .ssh; mv .ssh s; echo y > fine; cat fine",
        );
        assert_eq!(envelope["data"]["stdout"], "y\n", "{envelope}");
        assert_eq!(place.test.read(".bashrc"), "# intact\n");
        assert_eq!(place.test.read(".ssh/authorized_keys"), "# intact\n");
    }
}

/// The home is the project, and its credential stores are symlinks.
#[test]
fn credential_store_stays_hidden_after_its_symlink_is_removed() {
    for place in places() {
        let home = place.test.root();
        let env = vec![("HOME".to_owned(), home.display().to_string())];
        let place = Place { env, ..place };
        write(&home.join("dot/ssh/id"), "a secret\n");
        std::os::unix::fs::symlink("dot/ssh", home.join(".ssh")).unwrap();
        write(&home.join("script.sh"), "rm -f .ssh; mkdir .ssh; cat dot/ssh/id; true");
        let mut batch = session(&place);
        let run = json!({"command": "bash ./script.sh"});
        let told = batch.call("Bash", &run);
        assert_eq!(told["data"]["stdout"], "", "{told}");
        write(&home.join("script.sh"), "cat dot/ssh/id; true");
        let told = batch.call("Bash", &run);
        assert_eq!(told["data"]["stdout"], "", "{told}");
        batch.end();
    }
}

#[test]
fn credentials_in_a_writable_directory_are_not_readable() {
    for place in places().into_iter().filter(|place| place.backend == "landlock") {
        let home = place.test.root();
        let env = vec![("HOME".to_owned(), home.display().to_string())];
        let place = Place { env, ..place };
        for secret in [".ssh/id", ".config/gh/hosts.yml", ".netrc"] {
            write(&home.join(secret), "a secret\n");
        }
        write(&home.join("own"), "own\n");
        let mut batch = session(&place);
        let attack = "exec 2>/dev/null; mkdir -p sub; cat .ssh/id .netrc .config/gh/*; mv .ssh s; mv .config c; \
            mv .config/gh .config/g; mv .ssh/id sub/id; mv .ssh/id id; ln .ssh/id sub/id; cp -r .ssh c; \
            ln .netrc l; ln .netrc sub/l; cat l; mv .netrc n; mv n sub/n; cat n sub/n; true";
        write(&home.join("script.sh"), attack);
        let done = batch.call("Bash", &json!({"command": "bash ./script.sh"}));
        assert_eq!(done["data"]["stdout"], "", "{done}");
        let read = "cat s/* n l c/* id sub/* .config/g/* .ssh/id 2>/dev/null; true";
        write(&home.join("script.sh"), read);
        let done = batch.call("Bash", &json!({"command": "bash ./script.sh"}));
        assert_eq!(done["data"]["stdout"], "", "{done}");
        for secret in [".ssh/id", ".config/gh/hosts.yml"] {
            assert_eq!(place.test.read(secret), "a secret\n");
        }
        // Other files still work, including those that one command creates for the next.
        let work = "set -e; echo mine > o; mv o own; echo a > sub/a; mkdir sub/deep; mv sub/a sub/deep/; cat sub/deep/a; \
                    rm -r sub/deep; mkdir made; echo b > made/b; echo c > new; rm script.sh";
        write(&home.join("script.sh"), work);
        let done = batch.call("Bash", &json!({"command": "bash ./script.sh"}));
        assert_eq!(done["data"]["stdout"], "a\n", "{done}");
        write(&home.join("script.sh"), "cat own made/b new");
        let done = batch.call("Bash", &json!({"command": "bash ./script.sh"}));
        assert_eq!(done["data"]["stdout"], "mine\nb\nc\n", "{done}");
        batch.end();
    }
}

/// Paths in the project are inspected and bind-mounted read-only shortly afterwards.
#[test]
fn directory_swapped_for_a_symlink_during_setup_exposes_nothing() {
    for place in places().into_iter().filter(|place| place.backend == "namespaces") {
        let place = place.with_attack();
        let secrets = place.home().join(".ssh");
        write(&secrets.join("id"), "a secret\n");
        let swap = format!("mkdir -p .git; ln -s {} x; ./attack swap .git x", secrets.display());
        write(&place.test.root().join("swap.sh"), &swap);
        write(&place.test.root().join("script.sh"), "cat .git/id x/id 2>/dev/null; touch ran");
        let mut batch = session(&place);
        batch.call("Bash", &json!({"command": "bash ./swap.sh", "background": true}));
        for n in 0..60 {
            let done = batch.call("Bash", &json!({"command": format!("bash ./script.sh {n}")}));
            let stdout = done["data"]["stdout"].as_str().unwrap_or_default();
            assert_eq!(stdout, "", "{n}: {done}");
        }
        // If the sandbox cannot be set up, the command does not run.
        assert!(place.test.root().join("ran").exists());
        batch.end();
    }
}

/// With Landlock alone, the readable paths are computed once and cached while nothing changes.
#[test]
#[ignore = "slow"]
fn new_files_beside_a_secret_are_readable_and_new_secrets_are_not() {
    for place in places().into_iter().filter(|place| place.backend == "landlock") {
        let home = place.home();
        write(&home.join(".ssh/id"), "a secret\n");
        let script = place.test.root().join("script.sh");
        write(
            &script,
            "cd ../home; cat new .ssh/id .netrc .aws/credentials sub/file 2>/dev/null; true",
        );
        let run = json!({"command": "bash ./script.sh"});
        let mut batch = session(&place);
        let mut printed = || batch.call("Bash", &run)["data"]["stdout"].clone();
        assert_eq!(printed(), "");
        // Longer than the interval within which two changes of a directory can have equal
        // timestamps.
        std::thread::sleep(Duration::from_millis(3100));
        assert_eq!(printed(), "");
        let write = |name: &str, text: &str| {
            write(&home.join(name), text);
            place.user.inspect(|user| give(&home, *user));
        };
        write("new", "new\n");
        assert_eq!(printed(), "new\n");
        write("sub/file", "made\n");
        assert_eq!(printed(), "new\nmade\n");
        std::fs::rename(home.join("new"), home.join(".netrc")).unwrap();
        assert_eq!(printed(), "made\n");
        std::fs::rename(home.join("sub"), home.join(".aws")).unwrap();
        std::fs::rename(home.join(".aws/file"), home.join(".aws/credentials")).unwrap();
        assert_eq!(printed(), "");
        batch.end();
    }
}

#[test]
fn network_access_applies_only_if_every_command_of_a_line_has_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo open");
    let test = Test::new().file("connect.sh", connect);
    let call = |command: &str, options: &[&str]| {
        let input = json!({"command": command}).to_string();
        let done = test.agent(&[&["tool", "call", "Bash", &input], options].concat());
        serde_json::from_str::<Value>(&done.stdout).unwrap()["data"]["stdout"].to_string()
    };
    let fetch = ["--allow", "Bash(git fetch *)"];
    let both = call("git fetch -q nowhere; bash connect.sh", &fetch);
    assert!(!both.contains("open"), "{both}");
    let quoted = call("cat <<< /dev/tcp/; bash connect.sh", &[]);
    assert!(!quoted.contains("open"), "{quoted}");
    // All of its commands are allowed, so it has network access.
    let all = call("git fetch -q nowhere; bash connect.sh", &["--allow", "Bash"]);
    assert!(all.contains("open"), "{all}");
}

/// Type and content of everything below a directory.
fn contents(folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        let data = std::fs::symlink_metadata(&path).unwrap();
        if data.is_dir() {
            found.insert(path.clone(), "a folder".to_owned());
            contents(&path, found);
        } else {
            let text = std::fs::read(&path).unwrap_or_default();
            found
                .insert(path, format!("{:?} {}", data.file_type(), String::from_utf8_lossy(&text)));
        }
    }
}

/// Lines that the command judge cannot see through, or does not claim to: each such line of
/// `tests/shell` is run here.
#[test]
#[ignore = "slow"]
fn sandbox_contains_what_the_command_judge_cannot_see() {
    const EVIL: &str = "#!/bin/sh\ntouch \"$OUT/pwned\"; echo x > \"$HOME/pwned\"\n";
    let cases = crate::shell::judge::corpus().into_iter().filter(|case| case.verdict == "sandbox");
    let lines: Vec<String> = cases.map(|case| case.command).collect();
    assert!(lines.len() > 100, "{}", lines.len());
    for place in places() {
        let (root, home, outside) = (place.test.root(), place.home(), place.outside());
        for (path, text) in [
            ("a.txt", "rm -rf $OUT/victim\n"),
            ("notes.md", "two\n"),
            (".env", "KEY=1\n"),
            ("src/main.rs", "fn main() {}\n"),
            ("build/x", ""),
            ("Makefile", "all:\n\ttouch $(OUT)/pwned\n"),
            ("package.json", "{\"scripts\": {\"evil\": \"touch $OUT/pwned\"}}"),
            (".agent/config.toml", "# intact\n"),
            ("x", EVIL),
            ("daemon", EVIL),
            ("configure", EVIL),
            ("new.sh", EVIL),
        ] {
            write(&root.join(path), text);
        }
        for program in ["x", "daemon", "configure"] {
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(root.join(program), mode).unwrap();
        }
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("out")).unwrap();
        let git = Command::new("git").args(["init", "-q"]).current_dir(&root).status();
        let has_git = git.is_ok_and(|status| status.success());
        write(&home.join(".profile"), "# intact\n");
        // Where a protected path cannot be covered, a change is reported; that is allowed here.
        let is_covered = place.backend == "namespaces";
        let look = || {
            let mut found = BTreeMap::new();
            contents(&home, &mut found);
            contents(&outside, &mut found);
            for own in
                [".git/hooks", ".agent"].iter().filter(|own| is_covered && root.join(own).exists())
            {
                contents(&root.join(own), &mut found);
            }
            let config = root.join(".git/config");
            if is_covered && has_git {
                found.insert(config.clone(), std::fs::read_to_string(config).unwrap());
            }
            for name in root.parent().unwrap().read_dir().unwrap() {
                found.insert(name.unwrap().path(), String::new());
            }
            // The project's caches, which commands may write.
            found.retain(|path, _| !path.starts_with(home.join(".cache")));
            found
        };
        // One command first, so that files created by the agent exist.
        place.call(&json!({"command": "true"}));
        let before = look();
        let mut command = place.command(&["tool", "batch"]);
        let mut batch = Batch::start(&mut command);
        for line in &lines {
            let line = line.replace("/tmp", outside.to_str().unwrap());
            // Any result is accepted, as long as there is an answer.
            let answer = batch.call("Bash", &json!({"command": line, "timeout_ms": 4000}));
            assert!(answer["status"].is_string(), "{line}: {answer}");
        }
        batch.end();
        let after = look();
        let changed: Vec<_> =
            after.iter().filter(|(path, now)| before.get(*path) != Some(now)).collect();
        let gone: Vec<_> = before.keys().filter(|path| !after.contains_key(*path)).collect();
        assert!(
            changed.is_empty() && gone.is_empty(),
            "{} {:?}: {changed:?} {gone:?}",
            place.backend,
            place.user
        );
    }
}

#[test]
fn tmpdir_in_the_project_does_not_expose_hidden_files() {
    for place in places() {
        let root = place.test.root();
        let mut place = place;
        write(&place.home().join(".ssh/id"), "private-secret\n");
        place.env.push(("TMPDIR".to_owned(), root.display().to_string()));
        let script = "exec 2>/dev/null; cat ~/.ssh/id; for box in agent-box-*; do chmod 700 $box/nothing; \
                      rm -rf $box/nothing; ln -s ~/.ssh $box/nothing; done; echo over";
        write(&root.join("script.sh"), script);
        let mut batch = Batch::start(&mut place.command(&["tool", "batch"]));
        for _ in 0..2 {
            let done = batch.call("Bash", &json!({"command": "bash ./script.sh"}));
            assert_eq!(done["data"]["stdout"], "over\n", "{} {done}", place.backend);
        }
        batch.end();
    }
}

/// Runs a git command in the place's project, outside the sandbox.
pub(crate) fn git(place: &Place, line: &str) {
    let mut command = Command::new("bash");
    command.args(["-ec", line]).current_dir(place.test.root()).env("HOME", place.home());
    let done = command.output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

pub(crate) const REPOSITORY: &str = "git init -q; git config user.email a@b; git config user.name a; \
                          git commit -q --allow-empty -m first";

/// Passes a directory file descriptor over a socket: one process receives it, the other sends it
/// and exits.
const TAKES: &str = "import socket, os, array, time, sys
listens = socket.socket(socket.AF_UNIX); listens.bind('/tmp/handed'); listens.listen(1)
open('listens', 'w')
_, given, _, _ = listens.accept()[0].recvmsg(9, 99)
folder = array.array('i', given[0][2])[0]
time.sleep(1)
for name in sys.argv[1:]:
    try: print(name, os.read(os.open(name, os.O_RDONLY, dir_fd=folder), 99))
    except OSError: pass
    try: print(name, os.write(os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=folder), b'x'))
    except OSError: pass
print('done', flush=True)
";
const GIVES: &str = "import socket, os, array, time
while not os.path.exists('listens'): time.sleep(.01)
to = socket.socket(socket.AF_UNIX); to.connect('/tmp/handed')
folder = array.array('i', [os.open('/', os.O_RDONLY)])
to.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, folder)])
";

#[test]
fn directory_descriptor_passed_between_sandboxes_exposes_nothing() {
    if !has("python3", "directory_descriptor_passed_between_sandboxes_exposes_nothing") {
        return;
    }
    // (With Landlock alone nothing is mounted, and the sandbox belongs to the process.)
    for place in places().into_iter().filter(|place| place.backend == "namespaces") {
        git(&place, REPOSITORY);
        let root = place.test.root();
        write(&root.join("takes.py"), TAKES);
        write(&root.join("gives.py"), GIVES);
        let secret = place.home().join(".ssh/id");
        let (hook, new) = (root.join(".git/hooks/pre-commit"), place.outside().join("new"));
        let names = [&secret, &hook, &new].map(|path| path.to_str().unwrap()[1..].to_owned());
        let takes = format!("python3 takes.py {} >taken 2>&1 &", names.join(" "));
        let mut batch = Batch::start(&mut place.command(&["tool", "batch"]));
        batch.call("Bash", &json!({"command": takes}));
        batch.call("Bash", &json!({"command": "python3 gives.py"}));
        let wait = "for n in $(seq 100); do grep -q done taken && break; sleep .1; done; sed -n 1,9p taken";
        let done = batch.call("Bash", &json!({"command": wait}));
        assert_eq!(done["data"]["stdout"], "done\n", "{:?} {done}", place.user);
        assert!(!hook.exists() && !new.exists(), "{:?}", place.user);
    }
}

#[test]
fn symlinked_hooks_do_not_block_commits() {
    if !has("git", "symlinked_hooks_do_not_block_commits") {
        return;
    }
    for place in places() {
        git(&place, REPOSITORY);
        git(&place, "mkdir githooks; rm -rf .git/hooks; ln -s ../githooks .git/hooks");
        let commit = place.call(&json!({"command": "git commit -q --allow-empty -m second"}));
        assert_eq!(commit["status"], "success", "{} {commit}", place.backend);
        assert!(!commit["text"].as_str().unwrap().contains("must not change"), "{commit}");
    }
}

#[test]
fn agent_state_is_neither_readable_nor_writable() {
    for place in places() {
        write(&place.home().join(".local/state/agent/history"), "typed-secret\n");
        let stdout = place.stdout("cat ~/.local/state/agent/history 2>/dev/null; echo over");
        assert_eq!(stdout, "over\n", "{} {:?}", place.backend, place.user);
    }
    // The home is the project, before any state exists; by its name, or through a symlink.
    for (place, is_linked) in places().into_iter().flat_map(|place| {
        let other = Place::new(place.backend, place.user);
        [(place, false), (other, true)]
    }) {
        let home = place.test.root();
        let link = place.outside().join("home");
        std::os::unix::fs::symlink(&home, &link).unwrap();
        let by = if is_linked { link } else { home.clone() };
        let place = Place { env: vec![("HOME".to_owned(), by.display().to_string())], ..place };
        let envelope = place.script(
            "mkdir -p ~/.local/state/agent ~/.config/agent; echo / >> ~/.local/state/agent/trusted; \
             echo '# x' > ~/.config/agent/config.toml; true",
        );
        if place.backend == "namespaces" {
            for file in [".local/state/agent/trusted", ".config/agent/config.toml"] {
                assert!(!home.join(file).exists(), "{file} {is_linked}: {envelope}");
            }
        }
    }
}

#[test]
fn cache_directory_in_the_project_cannot_be_redirected() {
    for place in places() {
        let root = place.test.root();
        let env = vec![("XDG_CACHE_HOME".to_owned(), root.join(".cache").display().to_string())];
        let place = Place { env, ..place };
        let cached = place.stdout("mkdir -p $XDG_CACHE_HOME/x && echo kept");
        assert_eq!(cached, "kept\n", "{}", place.backend);
        place.script(
            "h=$(ls .cache/agent/projects); mv .cache .cache0; mkdir -p .cache/agent/projects; \
             ln -s $OUT .cache/agent/projects/$h; true",
        );
        let attack = "echo x > $OUT/victim; mkdir $OUT/new; true";
        let told = place.script(attack);
        assert_eq!(told["status"], "success", "{told}");
        assert_eq!(std::fs::read_to_string(place.outside().join("victim")).unwrap(), "intact\n");
        assert!(!place.outside().join("new").exists(), "{} {:?}", place.backend, place.user);
    }
}

/// If one session can write the user's caches, the next one follows no symlink there.
#[test]
fn symlink_in_place_of_a_cache_is_not_followed() {
    for place in places() {
        place.stdout("mkdir -p $XDG_CACHE_HOME/x");
        let caches = place.home().join(".cache/agent/projects");
        let own = std::fs::read_dir(&caches).unwrap().next().unwrap().unwrap().path();
        std::fs::remove_dir_all(&own).unwrap();
        std::os::unix::fs::symlink(place.outside(), &own).unwrap();
        let before = look(&place.outside());
        let stdout = place.stdout("echo x > $OUT/victim; mkdir -p $XDG_CACHE_HOME/x; echo done");
        assert_eq!(stdout, "done\n");
        assert_eq!(look(&place.outside()), before, "{} {:?}", place.backend, place.user);
    }
}

/// An added directory that contains the project.
#[test]
fn project_inside_an_added_directory_is_protected() {
    for place in places() {
        if place.backend == "landlock" {
            continue;
        }
        let place = place.with("sandbox.extra_writable=[\"..\"]");
        write(&place.test.root().join(".agent/config.toml"), "");
        let envelope = place.script("echo x > .agent/config.toml; mv ../project ../p; true");
        assert_eq!(place.test.read(".agent/config.toml"), "", "{:?}: {envelope}", place.user);
    }
}

#[test]
fn process_with_an_exited_main_thread_ends_with_the_session() {
    for place in places() {
        let place = place.with_attack();
        let beat = place.test.root().join("beat");
        let done = place.call(&json!({"command": "setsid ./attack headless beat & while [ ! -e beat ]; do sleep 0.01; done"}));
        assert_eq!(done["status"], "success", "{done}");
        std::fs::remove_file(&beat).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert!(!beat.exists(), "{} {:?}", place.backend, place.user);
    }
}

/// One session whose calls run in this place's sandbox.
pub(crate) fn session(place: &Place) -> Batch {
    Batch::start(&mut place.command(&["tool", "batch"]))
}

#[test]
fn symlinked_cache_directory_is_writable() {
    for place in places() {
        let elsewhere = place.home().join("elsewhere");
        std::fs::rename(place.home().join(".cache"), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, place.home().join(".cache")).unwrap();
        let stdout = place.stdout("mkdir -p $XDG_CACHE_HOME/x && echo kept");
        assert_eq!(stdout, "kept\n", "{} {:?}", place.backend, place.user);
    }
}
