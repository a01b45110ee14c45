#!/usr/bin/env python3
"""Records how a task is solved: a person or a program answers in the model's place.

start   lays out a task, starts an endpoint on loopback and the agent against it
show    prints what is new in the request that waits for an answer
answer  answers it, waits for the next one, and shows that
wait    waits for the next request without answering

See README.md in this folder. Needs nothing but Python 3.8 or later, git and bash.
"""

import argparse
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMMIT = {
    "GIT_AUTHOR_NAME": "bench",
    "GIT_AUTHOR_EMAIL": "bench@localhost",
    "GIT_COMMITTER_NAME": "bench",
    "GIT_COMMITTER_EMAIL": "bench@localhost",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
# An answer that takes long is announced by comments, which count as life for every time limit.
KEEP_ALIVE_SECONDS = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", help="start a recording, and show the first request")
    start.add_argument("--agent", required=True, choices=["ours", "pi"])
    start.add_argument("--task", required=True, help="the name of a task, or a folder that holds one")
    start.add_argument("--binary", required=True, help="the program of the agent")
    commands.add_parser("show", help="show what is new in the request that waits").add_argument(
        "--all", action="store_true", help="the whole request"
    )
    commands.add_parser("answer", help="answer the request that waits").add_argument("file", help="- is stdin")
    commands.add_parser("wait", help="wait for the next request")
    commands.add_parser("stop", help="end a recording before its time")
    commands.add_parser("serve")
    for command in commands.choices.values():
        command.add_argument("--state", default="recording", help="folder of this recording")
    options = parser.parse_args()
    recording = Recording(Path(options.state).resolve())
    if options.command == "start":
        recording.start(options)
    elif options.command == "serve":
        recording.serve()
    elif options.command == "show":
        print(recording.shown(options.all))
    elif options.command == "answer":
        recording.answer(sys.stdin.read() if options.file == "-" else Path(options.file).read_text("utf-8"))
    elif options.command == "wait":
        recording.wait(recording.n_answers())
    elif options.command == "stop":
        os.kill(recording.run()["pid"], signal.SIGTERM)
        recording.wait(sys.maxsize)  # the folder may be removed only when nothing writes to it any more


def fail(text):
    sys.exit(f"record.py: {text}")


class Recording:
    """The state folder: run.json, requests/NNN.json, answers/NNN.json, and, at the end, transcript.json."""

    def __init__(self, state):
        self.state = state
        self.requests = state / "requests"
        self.answers = state / "answers"

    def run(self):
        try:
            return json.loads((self.state / "run.json").read_text("utf-8"))
        except FileNotFoundError:
            fail(f"{self.state} holds no recording; begin one with start")

    def n_requests(self):
        return len(list(self.requests.glob("*.json")))

    def n_answers(self):
        return len(list(self.answers.glob("*.json")))

    # What a player calls.

    def start(self, options):
        if self.state.exists():
            fail(f"{self.state} exists; remove it or give another --state")
        task = Path(options.task) if "/" in options.task else HERE / "tasks" / options.task
        if not (task / "task.txt").is_file():
            fail(f"{task} holds no task.txt")
        binary = shutil.which(options.binary)
        if not binary:
            fail(f"{options.binary} is no program")
        for folder in (self.requests, self.answers):
            folder.mkdir(parents=True)
        run = {"agent": options.agent, "task": str(task.resolve()), "binary": os.path.abspath(binary)}
        write_json(self.state / "run.json", run)
        with open(self.state / "server.log", "w", encoding="utf-8") as log:
            arguments = [sys.executable, os.path.abspath(__file__), "serve", "--state", str(self.state)]
            subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.wait(0)

    def answer(self, text):
        n_requests, n_answers = self.n_requests(), self.n_answers()
        if n_requests == n_answers:
            fail("no request waits for an answer; see wait")
        answer = checked(text)
        # The endpoint takes the file as soon as it has its name.
        write_json(self.answers / f"{n_answers + 1:03}.json", answer)
        self.wait(n_answers + 1)

    def wait(self, n_seen):
        """Waits for a request beyond `n_seen`, or the end, and prints it."""
        while True:
            result = self.state / "result.txt"
            if result.exists():
                print(result.read_text("utf-8"))
                return
            if self.n_requests() > n_seen:
                print(self.shown())
                return
            pid = self.run().get("pid")
            if pid and not alive(pid) and not result.exists():
                fail(f"the endpoint is gone; see {self.state}/server.log")
            time.sleep(0.1)

    def shown(self, whole=False):
        result = self.state / "result.txt"
        if result.exists():
            return result.read_text("utf-8")
        number = self.n_requests()
        if number == self.n_answers():
            return "No request waits: the agent is at work. Use wait."
        body = self.request(number)
        before = self.request(number - 1) if number > 1 and not whole else None
        return f"=== Request {number} ===\n\n" + render(body, before)

    def request(self, number):
        return json.loads((self.requests / f"{number:03}.json").read_text("utf-8"))

    # What runs in the background.

    def serve(self):
        run = self.run()
        task = Path(run["task"])
        base = Path(tempfile.mkdtemp(prefix="tokens-")).resolve()
        places = lay_out(base, task)
        if run["agent"] == "pi":
            # A program in node_modules/.bin is a link into its package; pi names the package in its prompt.
            folders = Path(run["binary"]).resolve().parents
            places["PACKAGE"] = str(next(folder for folder in folders if (folder / "package.json").is_file()))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.recording, server.lock = self, threading.Lock()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        agent = json.loads((HERE / "agents" / f"{run['agent']}.json").read_text("utf-8"))
        environment = prepare(agent, places, f"http://127.0.0.1:{server.server_address[1]}/v1")
        check_version(agent, run["binary"], environment)
        run.update(places=places, pid=os.getpid())
        write_json(self.state / "run.json", run)
        words = {"{{BINARY}}": run["binary"], "{{TASK}}": (task / "task.txt").read_text("utf-8").strip()}
        command = [words.get(word, word) for word in agent["command"]]
        with open(self.state / "stdout.txt", "wb") as out, open(self.state / "stderr.txt", "wb") as errors:
            child = subprocess.Popen(
                command,
                cwd=places["ROOT"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                start_new_session=True,
            )
            signal.signal(signal.SIGTERM, lambda *_: child.terminate())
            exit_code = child.wait()
        try:
            os.killpg(child.pid, signal.SIGKILL)  # what it left running
        except ProcessLookupError:
            pass
        check = subprocess.run(
            ["bash", str(task / "check.sh")],
            cwd=places["ROOT"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.finish(run, agent, exit_code, check)
        shutil.rmtree(base, ignore_errors=True)

    def finish(self, run, agent, exit_code, check):
        requests = [self.request(number) for number in range(1, self.n_requests() + 1)]
        answers = [json.loads(path.read_text("utf-8")) for path in sorted(self.answers.glob("*.json"))]
        if run["agent"] == "pi":
            failed, of_commands = failures_of_pi((self.state / "stdout.txt").read_text("utf-8"))
        else:
            failed, of_commands = failures_of_ours(requests)
        transcript = {
            "agent": run["agent"],
            "version": agent["version"],
            "task": Path(run["task"]).name,
            "solved": check.returncode == 0,
            "exit_code": exit_code,
            "requests": len(requests),
            "calls": sum(len(answer["calls"]) for answer in answers),
            "failed_calls": failed,
            "failed_commands": of_commands,
            "answers": [portable(answer, run["places"]) for answer in answers],
        }
        write_json(self.state / "transcript.json", transcript)
        output = check.stdout.decode("utf-8", "replace").strip()
        verdict = "solved" if check.returncode == 0 else "NOT solved"
        is_whole = len(requests) == len(answers) and not (self.state / "hung-up").exists()
        note = "" if is_whole else "\nA request was sent again: the recording is NOT usable."
        (self.state / "result.part").write_text(
            f"=== The run is over ===\n\nThe agent exited with {exit_code}. The task is {verdict}.\n"
            f"{len(requests)} requests, {transcript['calls']} calls, {failed} of them failed "
            f"({of_commands} commands that did not exit with 0).{note}\n\nOutput of the check:\n{output}\n",
            encoding="utf-8",
        )
        os.replace(self.state / "result.part", self.state / "result.txt")


class Handler(http.server.BaseHTTPRequestHandler):
    """Chat Completions: stores a request and streams the answer to it, whenever that comes."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format, *arguments):
        sys.stderr.write(f"{format % arguments}\n")
        sys.stderr.flush()

    def do_GET(self):
        self.whole(404, {"error": {"message": "only chat/completions is there"}})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not self.path.endswith("/chat/completions"):
            return self.do_GET()
        recording = self.server.recording
        with self.server.lock:
            number = recording.n_requests() + 1
            write_json(recording.requests / f"{number:03}.json", json.loads(body))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        path = recording.answers / f"{number:03}.json"
        said = time.monotonic()
        while not path.exists():
            time.sleep(0.05)
            if time.monotonic() - said > KEEP_ALIVE_SECONDS:
                said = time.monotonic()
                self.chunk(": the answer is being thought about\n\n")
        answer = json.loads(path.read_text("utf-8"))
        for event in events(answer, number, len(body)):
            self.chunk(f"data: {event}\n\n")
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def chunk(self, text):
        data = text.encode("utf-8")
        try:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.flush()
        except ConnectionError:
            # The agent did not wait for the answer, and may ask the same again.
            (self.server.recording.state / "hung-up").touch()
            raise

    def whole(self, status, value):
        data = json.dumps(value).encode("utf-8")
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def events(answer, number, n_bytes):
    """The answer as the events of a stream; `benches/tokens.rs` sends the same."""
    delta = {"role": "assistant", "content": answer["text"] or None}
    if answer["calls"]:
        delta["tool_calls"] = [
            {
                "index": index,
                "id": f"call_{number}_{index}",
                "type": "function",
                "function": {
                    "name": call["name"],
                    "arguments": json.dumps(call["arguments"], ensure_ascii=False, separators=(",", ":")),
                },
            }
            for index, call in enumerate(answer["calls"])
        ]
    reason = "tool_calls" if answer["calls"] else "stop"
    usage = {"prompt_tokens": n_bytes // 4, "completion_tokens": 100, "total_tokens": n_bytes // 4 + 100}
    head = {"id": f"answer_{number}", "object": "chat.completion.chunk", "created": 0, "model": "model"}
    yield json.dumps({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield json.dumps({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    yield json.dumps({**head, "choices": [], "usage": usage})
    yield "[DONE]"


def lay_out(base, task):
    """A fresh copy of the task, as a git repository in a home of its own."""
    places = {"ROOT": str(base / "home" / "project"), "HOME": str(base / "home"), "TMP": str(base / "tmp")}
    (base / "tmp").mkdir()
    shutil.copytree(task / "project", places["ROOT"], ignore=shutil.ignore_patterns("__pycache__"))
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *arguments], cwd=places["ROOT"], env={**os.environ, **COMMIT}, check=True)
    return places


def prepare(agent, places, url):
    """Writes the agent's configuration, and gives its environment."""
    for name, content in agent["files"].items():
        path = Path(places["HOME"]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content, indent=2)
        path.write_text(text.replace("{{URL}}", url), "utf-8")
    kept = {name: os.environ[name] for name in ("PATH", "USER", "SHELL") if name in os.environ}
    return {**kept, "LANG": "C.UTF-8", "HOME": places["HOME"], "TMPDIR": places["TMP"], **agent["env"]}


def check_version(agent, binary, environment):
    if agent["version"]:
        done = subprocess.run([binary, "--version"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.stdout.decode().strip() != agent["version"]:
            sys.exit(f"{binary} is version {done.stdout.decode().strip()}, not {agent['version']}")


def checked(text):
    """The answer as it is kept, or the end with what is wrong with it."""
    try:
        answer = json.loads(text)
    except ValueError as error:
        fail(f"the answer is no JSON: {error}")
    if not isinstance(answer, dict) or not set(answer) <= {"text", "calls"}:
        fail('an answer is {"text": "…", "calls": [{"name": "…", "arguments": {…}}]}')
    answer = {"text": answer.get("text") or "", "calls": answer.get("calls") or []}
    if not isinstance(answer["text"], str) or not isinstance(answer["calls"], list):
        fail("text is a string and calls is a list")
    for call in answer["calls"]:
        good = isinstance(call, dict) and set(call) == {"name", "arguments"}
        if not good or not isinstance(call["name"], str) or not isinstance(call["arguments"], dict):
            fail(f'a call is {{"name": "…", "arguments": {{…}}}}, and this is none: {json.dumps(call)[:200]}')
    if not answer["text"] and not answer["calls"]:
        fail("an answer needs a text or a call")
    return answer


def render(body, before):
    """What a request says; with the request before it, only what is new."""
    parts = []
    tools = body.get("tools") or []
    if before is None:
        for tool in tools:
            function = tool.get("function", tool)
            schema = json.dumps(function.get("parameters"), ensure_ascii=False, indent=2)
            parts.append(f"--- tool {function.get('name')} ---\n{function.get('description', '')}\n{schema}")
        more = {key: value for key, value in body.items() if key not in ("messages", "tools")}
        parts.append(f"--- other fields ---\n{json.dumps(more, ensure_ascii=False)}")
    elif tools != (before.get("tools") or []):
        parts.append("(The tools differ from those of the request before: see show --all.)")
    messages, old = body["messages"], before["messages"] if before else []
    n_same = 0
    while n_same < min(len(messages), len(old)) and messages[n_same] == old[n_same]:
        n_same += 1
    if n_same < len(old):
        parts.append(f"({len(old) - n_same} messages at the end of the request before are no longer there.)")
    for message in messages[n_same:]:
        parts.append(render_message(message, is_own=before is not None))
    return "\n\n".join(parts) + "\n"


def render_message(message, is_own):
    role, content = message["role"], message.get("content")
    if isinstance(content, list):
        content = "\n".join(part.get("text", f"({part.get('type')})") for part in content)
    calls = [
        f"call {call['id']}: {call['function']['name']} {call['function']['arguments']}"
        for call in message.get("tool_calls") or []
    ]
    if role == "assistant" and is_own and len(calls) + len(content or "") > 0:
        return "--- assistant: your answer ---\n" + "\n".join(shorten(line) for line in [content or "", *calls] if line)
    head = f"--- {role} {message['tool_call_id']} ---" if "tool_call_id" in message else f"--- {role} ---"
    return "\n".join([head, *([content] if content else []), *calls])


def shorten(line):
    return line if len(line) <= 160 else line[:160] + " …"


def failures_of_ours(requests):
    """Results with status error; and how many of them are commands that did not exit with 0."""
    seen, failed, of_commands = set(), 0, 0
    for message in (message for body in requests for message in body["messages"]):
        if message["role"] != "tool" or message["tool_call_id"] in seen:
            continue
        seen.add(message["tool_call_id"])
        try:
            head = json.loads(message["content"].split("\n", 1)[0])
        except ValueError:
            continue
        if isinstance(head, dict) and head.get("status") == "error":
            failed += 1
            of_commands += head.get("code") == "COMMAND_FAILED"
    return failed, of_commands


def failures_of_pi(output):
    """The same from pi's own events; a request does not say which of its results are errors."""
    failed, of_commands = 0, 0
    for line in output.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("type") == "tool_execution_end" and event.get("isError"):
            failed += 1
            text = "".join(part.get("text", "") for part in event["result"]["content"])
            of_commands += re.search(r"Command exited with code \d+$", text.rstrip()) is not None
    return failed, of_commands


def portable(value, places):
    """The same answer without what is this run's own: folders, the session, names of files with the output of a command."""
    if isinstance(value, dict):
        return {key: portable(each, places) for key, each in value.items()}
    if isinstance(value, list):
        return [portable(each, places) for each in value]
    if not isinstance(value, str):
        return value
    value = value.replace(places["ROOT"], "{{ROOT}}")
    session = re.escape(places["HOME"]) + r"/\.local/state/agent/projects/[^/\s]+/sessions/[^/\s]+"
    value = re.sub(session, "{{STATE}}", value)
    value = value.replace(places["HOME"], "{{HOME}}").replace(places["TMP"], "{{TMP}}")
    value = re.sub(r"\btool_\d+T\d+_(\d+_\w+\.txt)", r"tool_*_\1", value)
    return re.sub(r"\bpi-bash-[0-9a-f]+\.log", "pi-bash-*.log", value)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def write_json(path, value):
    """Written under another name first: who sees the file sees all of it."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    os.replace(part, path)


if __name__ == "__main__":
    main()
