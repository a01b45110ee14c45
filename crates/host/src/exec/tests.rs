//! Behaviour of real commands in a real bash.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;

fn command(line: &str, directory: &Path) -> Command<'static> {
    Command::new(line.to_owned(), directory.to_owned(), Duration::from_mins(1))
}

async fn run(line: &str) -> CommandOutcome {
    let dir = TempDir::new().unwrap();
    Exec::new(&[]).run(command(line, dir.path()), &CancellationToken::new()).await.unwrap()
}

/// Exit codes of the last pipeline's stages; empty for a single stage.
fn stages(outcome: &CommandOutcome) -> &[i32] {
    outcome.statuses.last().filter(|codes| codes.len() > 1).map_or(&[], Vec::as_slice)
}

/// The outcome must equal that of plain bash.
async fn check(line: &str, exit_code: i32, stdout: &str, expected: &[i32]) {
    let outcome = run(line).await;
    assert_eq!(outcome.end_reason, EndReason::Exited, "{line}");
    assert_eq!(outcome.exit_code, Some(exit_code), "{line}: {}", outcome.stderr.text);
    assert_eq!(outcome.stdout.text, stdout, "{line}");
    assert_eq!(stages(&outcome), expected, "{line}");
    #[expect(clippy::disallowed_methods, reason = "the yardstick")]
    let plain = std::process::Command::new("bash")
        .args(["--noprofile", "--norc", "-c", "--", line])
        .env_remove("BASH_ENV")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(plain.status.code(), Some(exit_code), "{line} in plain bash");
    assert_eq!(String::from_utf8_lossy(&plain.stdout), stdout, "{line} in plain bash");
    // Except the shell's name, which is its path here.
    let complaints = outcome.stderr.text.lines().map(|line| line.rsplit("bash:").next());
    let plain = String::from_utf8_lossy(&plain.stderr).into_owned();
    assert!(
        complaints.eq(plain.lines().map(|line| line.rsplit("bash:").next())),
        "{line}: {plain}"
    );
}

fn lives(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
}

async fn comes(is_so: impl Fn() -> bool) -> bool {
    for _ in 0..30_000 {
        if is_so() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    false
}

async fn gone(pids: &[i32]) -> bool {
    comes(|| !pids.iter().any(|pid| lives(*pid))).await
}

fn pids(file: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[tokio::test]
async fn exit_codes_of_the_last_pipeline_are_reported() {
    check("false | true", 0, "", &[1, 0]).await;
    check("true | false", 1, "", &[0, 1]).await;
    check("cd / && (exit 3) | cat", 0, "", &[3, 0]).await;
    check("cd / && false | cat # so", 0, "", &[1, 0]).await;
    check("! false | true", 1, "", &[1, 0]).await;
    check("nosuch-program | cat", 0, "", &[127, 0]).await;
    check("cat <<X | tr a b | cat\na\nX", 0, "b\n", &[0, 0, 0]).await;
    check("set -euo pipefail; false | true; echo no", 1, "", &[1, 0]).await;
}

#[tokio::test]
async fn sigpipe_in_a_stage_has_status_141() {
    let outcome = run("yes | head -1").await;
    assert_eq!(stages(&outcome), [141, 0]);
}

#[tokio::test]
async fn bash_semantics_are_unchanged() {
    check("exit 3", 3, "", &[]).await;
    check("-x 2>/dev/null", 127, "", &[]).await;
    check("set -e; false; echo no", 1, "", &[]).await;
    check("set -e; false | true; echo yes", 0, "yes\n", &[]).await;
    check("trap 'echo bye' EXIT; false | true", 0, "bye\n", &[]).await;
    check("f() { false | true; }; f; echo $?", 0, "0\n", &[]).await;
    check("echo a # b", 0, "a\n", &[]).await;
    check("cat <<X\n$((1+1))\nX", 0, "2\n", &[]).await;
    check("true\necho (", 2, "", &[]).await;
    check("exec echo a", 0, "a\n", &[]).await;
    check("set -x; true", 0, "", &[]).await;
    check("echo ${x?none} | cat; echo $((1/0)) | cat", 0, "", &[1, 0]).await;
    check("IFS=x; printf() { echo no; }; false | true", 0, "", &[1, 0]).await;
    check("exec 200>&- 201>&-; set -u; true", 0, "", &[]).await;
    check("[[ a = a ]] && a=(1 2) && echo ${#a[@]} <(true) | cut -c1", 0, "2\n", &[0; 2]).await;
}

#[tokio::test]
async fn missing_program_exits_with_127() {
    let outcome = run("nosuch-program").await;
    assert_eq!(outcome.exit_code, Some(127));
    assert!(outcome.stderr.text.ends_with("nosuch-program: command not found\n"));
}

#[tokio::test]
async fn signals_are_reported_by_name() {
    assert_eq!(run("bash -c 'kill -SEGV $$'").await.signal.as_deref(), Some("SIGSEGV"));
    let shell = run("kill -KILL $$").await;
    assert_eq!((shell.exit_code, shell.signal.as_deref()), (None, Some("SIGKILL")));
    assert_eq!(shell.describe_end(), "was ended by SIGKILL");
    let plain = run("exit 1").await;
    assert_eq!((plain.describe_end().as_str(), plain.signal), ("exited 1", None));
}

#[tokio::test]
async fn command_runs_in_its_directory_without_stdin_tty_or_pager() {
    let dir = TempDir::new().unwrap();
    let line = "pwd -P; cat; read x || echo none; [ -t 0 ] || echo no; : </dev/tty || echo tty; \
                echo $TERM $NO_COLOR $GIT_TERMINAL_PROMPT $PAGER $AGENT $CI $GREETING ${BASH_ENV-unset}";
    let mut command = command(line, dir.path());
    command.environment.push(("GREETING".into(), "hello".into()));
    let outcome = Exec::new(&[]).run(command, &CancellationToken::new()).await.unwrap();
    let path = dir.path().canonicalize().unwrap();
    let expected = format!("{}\nnone\nno\ntty\ndumb 1 0 cat 1 true hello unset\n", path.display());
    assert_eq!(outcome.stdout.text, expected);
}

#[tokio::test]
async fn secrets_are_not_in_the_environment() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().to_str().unwrap();
    let variables = [
        ("PATH", std::env::var("PATH").unwrap().as_str()),
        ("MY_API_KEY", "q7Zp-93kd"),
        ("OWN", "also-secret"),
        ("GOOGLE_APPLICATION_CREDENTIALS", path),
        ("GIT_AUTHOR_NAME", "me"),
        ("BASH_ENV", "/nowhere"),
        ("PAGER", "less"),
    ]
    .map(|(name, value)| (name.into(), value.into()));
    let exec = Exec::with_environment(variables, &["OWN".into()]);
    let line = "echo ${MY_API_KEY-none} ${OWN-none} $GOOGLE_APPLICATION_CREDENTIALS $GIT_AUTHOR_NAME $PAGER";
    let outcome = exec.run(command(line, dir.path()), &CancellationToken::new()).await.unwrap();
    assert_eq!(outcome.stdout.text, format!("none none {path} me cat\n"));
    assert_eq!(outcome.stderr.text, "");
}

#[tokio::test]
async fn timeout_kills_the_whole_process_tree() {
    let dir = TempDir::new().unwrap();
    let line = "
        trap '' TERM HUP INT
        sleep 1000 & echo $! >> pids
        setsid bash -c 'trap \"\" TERM; echo $$ >> pids; sleep 1001; :' &
        (setsid -f bash -c 'echo $$ >> pids; exec sleep 1002')
        until [ $(wc -l < pids) = 3 ]; do sleep 0.01; done
        echo before
        sleep 1003";
    let mut command = command(line, dir.path());
    command.timeout = Duration::from_millis(1500);
    let outcome = Exec::new(&[]).run(command, &CancellationToken::new()).await.unwrap();
    assert_eq!(outcome.end_reason, EndReason::TimedOut);
    assert!(
        outcome.describe_end().starts_with("did not end within "),
        "{}",
        outcome.describe_end()
    );
    assert_eq!((outcome.exit_code, outcome.stdout.text.as_str()), (None, "before\n"));
    let pids = pids(&dir.path().join("pids"));
    assert_eq!(pids.len(), 3);
    assert!(gone(&pids).await);
}

/// 200 processes: of each four, one ignores signals, one has left the session, and one has lost its
/// parent.
#[tokio::test]
#[ignore = "slow"]
async fn tree_of_200_processes_is_killed_in_every_ending() {
    let line = "ulimit -u 4000 2>/dev/null; for n in $(seq 50); do
        setsid bash -c 'trap \"\" TERM HUP; echo $$ >> pids
            nohup sleep 1000 >/dev/null 2>&1 & echo $! >> pids
            (setsid sleep 1000 & echo $! >> pids)
            (setsid -f bash -c \"echo \\$\\$ >> pids; exec sleep 1000\"); wait; sleep 1000; :' &
        done; [ -e leave ] || wait";
    for how in ["cancel", "drop", "timeout", "shutdown"] {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("pids");
        let (exec, cancel) = (Exec::new(&[]), CancellationToken::new());
        let all = async {
            while pids(&file).len() < 200 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let mut command = command(line, dir.path());
        match how {
            "timeout" => {
                command.timeout = Duration::from_secs(5);
                let (outcome, ()) = tokio::join!(exec.run(command, &cancel), all);
                assert_eq!(outcome.unwrap().end_reason, EndReason::TimedOut);
            }
            "cancel" => {
                let cancelled = async {
                    all.await;
                    cancel.cancel();
                };
                let (outcome, ()) = tokio::join!(exec.run(command, &cancel), cancelled);
                assert_eq!(outcome.unwrap().end_reason, EndReason::Cancelled);
            }
            "drop" => tokio::select! {
                _ = exec.run(command, &cancel) => panic!("it ended"),
                () = all => {}
            },
            _ => {
                std::fs::write(dir.path().join("leave"), "").unwrap();
                let outcome = exec.run(command, &cancel).await.unwrap();
                assert!(!outcome.left_running.is_empty());
                all.await;
                exec.shutdown();
            }
        }
        let pids = pids(&file);
        assert_eq!(pids.len(), 200, "{how}");
        assert!(gone(&pids).await, "{how}");
    }
}

#[tokio::test]
async fn cancellation_kills_the_process_tree() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("pids");
    let cancel = CancellationToken::new();
    let exec = Exec::new(&[]);
    let line = "setsid sleep 1000 & echo $$ $! >> pids; wait";
    let started = async {
        while pids(&file).len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(exec.run(command(line, dir.path()), &cancel), started);
    assert_eq!(outcome.unwrap().end_reason, EndReason::Cancelled);
    assert!(gone(&pids(&file)).await);

    let never = exec.run(command("touch never", dir.path()), &cancel).await.unwrap();
    assert_eq!(never.end_reason, EndReason::Cancelled);
    assert!(!dir.path().join("never").exists());
}

#[tokio::test]
async fn dropping_the_future_kills_the_process_tree() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("pids");
    let (exec, cancel) = (Exec::new(&[]), CancellationToken::new());
    let started = async {
        while pids(&file).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = exec.run(command("sleep 1000 & echo $! >> pids; wait", dir.path()), &cancel) => {}
        () = started => {}
    }
    assert!(gone(&pids(&file)).await);
}

#[tokio::test]
async fn child_holding_the_pipe_does_not_delay_the_result() {
    let dir = TempDir::new().unwrap();
    let exec = Exec::new(&[]);
    // The second command writes more than a pipe holds although nothing reads any more; it must neither
    // block nor die.
    let line = "sleep 1000 & name=/proc/$!/comm; until [ \"$(< $name)\" = sleep ]; do :; done
        (until [ -e answered ]; do sleep 0.01; done; yes | head -c 1000000; echo done > written) &
        echo a";
    let outcome = exec.run(command(line, dir.path()), &CancellationToken::new()).await.unwrap();
    assert_eq!((outcome.end_reason, outcome.stdout.text.as_str()), (EndReason::Exited, "a\n"));
    let left = &outcome.left_running;
    assert!(left.iter().any(|left| left.name == "sleep 1000") && left.len() >= 2, "{left:?}");
    std::fs::write(dir.path().join("answered"), "").unwrap();
    assert!(comes(|| dir.path().join("written").exists()).await);
    let slept = left.iter().filter(|left| left.name == "sleep 1000");
    let pids: Vec<i32> = slept.map(|left| left.pid).collect();
    assert!(pids.iter().all(|pid| lives(*pid)));
    exec.shutdown();
    assert!(gone(&pids).await);
}

#[tokio::test]
async fn daemonised_process_is_reported_and_killed_with_exec() {
    let dir = TempDir::new().unwrap();
    let exec = Exec::new(&[]);
    let line = "setsid -f sleep 1000 >/dev/null 2>&1 </dev/null";
    let outcome = exec.run(command(line, dir.path()), &CancellationToken::new()).await.unwrap();
    let [left] = outcome.left_running.as_slice() else { panic!("{:?}", outcome.left_running) };
    assert!(lives(left.pid));
    drop(exec);
    assert!(gone(&[left.pid]).await);
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn long_output_is_truncated_in_memory_and_complete_in_its_file() {
    let dir = TempDir::new().unwrap();
    let memory = Memory::default();
    let file = memory.clone();
    let mut command = command("echo oops >&2; sleep 0.02; seq 2500000", dir.path());
    command.whole_output = Some(Box::new(move || Ok((Box::new(file), "whole.txt".into()))));
    let outcome = Exec::new(&[]).run(command, &CancellationToken::new()).await.unwrap();
    let whole = memory.0.lock();
    assert_eq!(outcome.stdout.total_bytes, whole.len() as u64 - 5);
    assert!(whole.len() > 18_000_000 && whole.starts_with(b"oops\n1\n2\n"));
    assert!(whole.ends_with(b"\n2499999\n2500000\n"));
    assert!(outcome.stdout.truncated && outcome.stdout.text.len() <= 2 * capture::KEPT_BYTES + 100);
    assert!(outcome.stdout.text.starts_with("1\n2\n"));
    assert!(outcome.stdout.text.ends_with("\n2500000\n"));
    assert_eq!(outcome.stderr.text, "oops\n");
    assert_eq!(outcome.full_output.as_deref(), Some("whole.txt"));
}

#[tokio::test]
async fn short_output_has_no_file_and_file_errors_are_reported() {
    let dir = TempDir::new().unwrap();
    let full = || -> Option<OutputFileOpener<'static>> {
        Some(Box::new(|| Err(io::Error::other("no space left"))))
    };
    let (exec, cancel) = (Exec::new(&[]), CancellationToken::new());
    let mut short = command("printf 'a\\xffb'", dir.path());
    short.whole_output = full();
    let short = exec.run(short, &cancel).await.unwrap();
    assert_eq!((short.stdout.text.as_str(), short.full_output_error), ("a\u{fffd}b", None));
    let mut long = command("seq 100000", dir.path());
    long.whole_output = full();
    let long = exec.run(long, &cancel).await.unwrap();
    assert_eq!((long.exit_code, long.full_output), (Some(0), None));
    assert_eq!(long.full_output_error.as_deref(), Some("no space left"));
}

#[tokio::test]
async fn spawn_errors_are_explained() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let cancel = CancellationToken::new();
    let exec = Exec::new(&[]);
    let missing = exec.run(command("true", &dir.path().join("x")), &cancel).await.unwrap_err();
    assert!(matches!(missing, Error::NoDirectory(_)));
    let no_folder = exec.run(command("true", &file), &cancel).await.unwrap_err();
    assert!(matches!(no_folder, Error::NotADirectory(_)));
    let nul = exec.run(command("echo \0", dir.path()), &cancel).await.unwrap_err();
    assert!(matches!(nul, Error::NulByte));
    let long = exec.run(command(&"x".repeat(200_000), dir.path()), &cancel).await.unwrap_err();
    assert!(matches!(long, Error::TooLong(200_000)), "{long}");
    let no_bash = Exec::with_environment([("PATH".into(), "/nowhere".into())], &[]);
    let no_bash = no_bash.run(command("true", dir.path()), &cancel).await.unwrap_err();
    assert!(matches!(no_bash, Error::NoBash));
}

#[tokio::test]
async fn command_cannot_grow_the_status_report() {
    let line = "for fd in /dev/fd/2??; do
        [[ $(readlink $fd) == */memfd:report* ]] || continue
        head -c 1000000 /dev/zero >&${fd##*/}
        truncate -s 1M $fd
        stat -Lc %s $fd
    done 2>/dev/null";
    assert_eq!(run(line).await.stdout.text, "8192\n");
}

#[tokio::test]
async fn status_reports_do_not_change_behaviour() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("a"), "1\n2\n").unwrap();
    for (line, expected) in [
        ("false | true; true", &[&[0] as &[i32], &[0], &[1, 0], &[0]] as &[&[i32]]),
        ("false | true; exit 3", &[&[0], &[0], &[1, 0], &[1, 0]]),
        ("set -e; true | false; true", &[&[0], &[0], &[0], &[0, 1]]),
        ("echo a b c; echo \"$_\"; true x/y | true; echo \"$_ $?\"", &[]),
        ("x=1; nope; echo $? $LINENO\nnope2; echo ${PIPESTATUS[@]} $x; echo \"$_\"", &[]),
        ("IFS=0; false | true; echo \"$_\"; cat <<< x | wc -c; echo", &[]),
        ("set -u; false | true; echo $x; echo b", &[]),
        ("exec 2>&1; false | true; nope; echo a; set -f; echo *", &[]),
        (
            "false | true; cat nofile; [ -f x ] && echo a; test -d . && echo b; read x; echo \"$?$x\"",
            &[],
        ),
        ("set -o posix; false | true; caller; echo $BASH_COMMAND $FUNCNAME; echo $-", &[]),
        ("false | true; kill -TERM $$; echo a", &[]),
        ("head -1 a | cat; echo \"$BASH_ENV\"; echo $SHLVL; times | wc -l; hash", &[]),
    ] {
        let tell = Command { reports_each_status: true, ..command(line, dir.path()) };
        let exec = Exec::new(&[]);
        let told = exec.run(tell, &CancellationToken::new()).await.unwrap();
        let plain = exec.run(command(line, dir.path()), &CancellationToken::new()).await.unwrap();
        let seen = |outcome: &CommandOutcome| {
            let (stdout, stderr) = (outcome.stdout.text.clone(), outcome.stderr.text.clone());
            (stdout, stderr, outcome.exit_code, outcome.signal.clone())
        };
        assert_eq!(seen(&told), seen(&plain), "{line}");
        assert_eq!(told.statuses.last(), plain.statuses.last(), "{line}");
        if !expected.is_empty() {
            assert_eq!(told.statuses, expected, "{line}");
        }
    }
}

#[tokio::test]
async fn watcher_receives_live_output() {
    let dir = TempDir::new().unwrap();
    let told = Arc::new(Mutex::new(Vec::<String>::new()));
    let seen = Arc::clone(&told);
    let line = "for n in 1 2 3; do echo line $n; sleep 0.3; done; echo last";
    let watched = Command {
        watcher: Some(Box::new(move |text| seen.lock().push(text.to_owned()))),
        ..command(line, dir.path())
    };
    Exec::new(&[]).run(watched, &CancellationToken::new()).await.unwrap();
    let told = told.lock();
    assert!(told.contains(&"line 1\nline 2".to_owned()), "{told:?}");
    assert!(told.len() <= 12, "{told:?}");
}
