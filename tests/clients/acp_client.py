"""Drives `agent acp` with the protocol's SDK for Python: acp_client.py AGENT SCRATCH"""

import asyncio
import os
import pathlib
import sys

from acp import (
    PROTOCOL_VERSION,
    Client,
    RequestError,
    embedded_text_resource,
    image_block,
    resource_block,
    resource_link_block,
    spawn_agent_process,
    text_block,
)
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    EnvVariable,
    McpServerStdio,
    RequestPermissionResponse,
)

AGENT, SCRATCH = sys.argv[1], pathlib.Path(sys.argv[2])
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAEElEQVR4nGP4z8AAQQxwFgBB0gX7h/C5SAAAAABJRU5ErkJggg=="
)
failed = 0


def check(what, is_so, shown=""):
    global failed
    failed += not is_so
    print(f"{'ok     ' if is_so else 'FAILED '} {what}{'' if is_so else f': {shown}'}", flush=True)


class Editor(Client):
    """Records what it is sent; answers permission requests with an option of this kind, or never."""

    def __init__(self, kind="allow_once"):
        self.kind, self.updates, self.asked = kind, [], []

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.asked.append((tool_call, options))
        if self.kind is None:
            await asyncio.Event().wait()
        for option in options:
            if option.kind == self.kind:
                outcome = AllowedOutcome(outcome="selected", option_id=option.option_id)
                return RequestPermissionResponse(outcome=outcome)
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append((session_id, update))

    def of(self, kind):
        return [update for _, update in self.updates if update.session_update == kind]

    def text(self):
        return "".join(chunk.content.text for chunk in self.of("agent_message_chunk"))


def project(name, script):
    folder = SCRATCH / name / "project"
    folder.mkdir(parents=True)
    (folder.parent / "script").write_text(script)
    (folder.parent / "home").mkdir()
    return folder


def connected(editor, folder, *options):
    env = {"PATH": os.environ["PATH"], "HOME": str(folder.parent / "home")}
    model = f"script:{folder.parent / 'script'}"
    return spawn_agent_process(editor, AGENT, "acp", "--model", model, *options, env=env, cwd=folder)


async def initialized(connection):
    return await connection.initialize(PROTOCOL_VERSION, client_capabilities=ClientCapabilities())


async def until(condition):
    while not condition():
        await asyncio.sleep(0.02)


async def turn():
    folder = project(
        "turn",
        "text: I look.\ncall: TodoWrite {\"summary\":\"s\",\"todos\":[{\"content\":\"fix\",\"status\":\"in_progress\"}]}\n"
        "call: Read {\"path\":\"a.txt\"}\n---\n"
        "call: Edit {\"path\":\"a.txt\",\"old_string\":\"one\",\"new_string\":\"1\"}\n---\ntext: done",
    )
    (folder / "a.txt").write_text("one\n")
    editor = Editor()
    async with connected(editor, folder) as (connection, process):
        answer = await initialized(connection)
        check("initialize: version 1, load, images, embedded contents",
              answer.protocol_version == 1 and answer.agent_capabilities.load_session
              and answer.agent_capabilities.prompt_capabilities.image
              and answer.agent_capabilities.prompt_capabilities.embedded_context, answer)
        session = await connection.new_session(cwd=str(folder), mcp_servers=[])
        check("session/new: modes and options",
              session.modes.current_mode_id == "ask" and {it.id for it in session.config_options} == {"mode", "model"},
              session)
        ended = await connection.prompt(session_id=session.session_id, prompt=[text_block("fix it")])
        check("session/prompt ends with end_turn", ended.stop_reason == "end_turn", ended)
        check("the answer streams", editor.text() == "I look.done", editor.text())
        check("the plan", editor.of("plan")[0].entries[0].content == "fix")
        check("calls with kinds and places",
              [(it.kind, it.locations[0].path) for it in editor.of("tool_call")]
              == [("read", f"{folder}/a.txt"), ("edit", f"{folder}/a.txt")], editor.of("tool_call"))
        diff = editor.asked[0][0].content[0]
        check("a permission request with the diff",
              (diff.type, diff.old_text, diff.new_text) == ("diff", "one\n", "1\n"), diff)
        check("the change is made", (folder / "a.txt").read_text() == "1\n")
        check("commands, usage", bool(editor.of("available_commands_update") and editor.of("usage_update")))
        listed = await connection.list_sessions(cwd=str(folder))
        check("session/list", [it.title for it in listed.sessions] == ["fix it"], listed)
        kept = session.session_id
    again = Editor()
    (folder.parent / "script").write_text("when: fix it\ntext: I remember")
    async with connected(again, folder) as (connection, process):
        await initialized(connection)
        await connection.load_session(cwd=str(folder), session_id=kept, mcp_servers=[])
        await until(lambda: again.text() == "I look.done")
        check("session/load shows the conversation",
              again.of("user_message_chunk")[0].content.text == "fix it" and len(again.of("tool_call")) == 2)
        await connection.prompt(session_id=kept, prompt=[text_block("and now?")])
        check("and goes on", again.text().endswith("I remember"), again.text())
        await connection.close_session(session_id=kept)
        await connection.resume_session(cwd=str(folder), session_id=kept, mcp_servers=[])
        check("session/close, session/resume", True)


async def rejection_and_modes():
    write = 'call: Write {"path":"a","content":"x"}\n---\n'
    folder = project("modes", f"{write}expect: said no\ntext: no\n---\n{write}text: yes")
    editor = Editor("reject_once")
    async with connected(editor, folder) as (connection, process):
        await initialized(connection)
        session = (await connection.new_session(cwd=str(folder), mcp_servers=[])).session_id
        await connection.prompt(session_id=session, prompt=[text_block("write")])
        check("a rejected call is not made", not (folder / "a").exists() and editor.text() == "no", editor.text())
        await connection.set_session_mode(session_id=session, mode_id="auto-edit")
        await connection.prompt(session_id=session, prompt=[text_block("write")])
        check("session/set_mode auto-edit: no request", (folder / "a").exists() and len(editor.asked) == 1)
        check("current_mode_update", editor.of("current_mode_update")[0].current_mode_id == "auto-edit")
        set_to = await connection.set_config_option(session_id=session, config_id="mode", value="plan")
        check("session/set_config_option", set_to.config_options[0].current_value == "plan", set_to)


async def cancellation():
    folder = project("cancel", 'call: Write {"path":"a","content":"x"}\n---\ntext: later')
    editor = Editor(None)
    async with connected(editor, folder) as (connection, process):
        await initialized(connection)
        session = (await connection.new_session(cwd=str(folder), mcp_servers=[])).session_id
        prompt = asyncio.create_task(connection.prompt(session_id=session, prompt=[text_block("write")]))
        await until(lambda: editor.asked)
        try:
            await connection.prompt(session_id=session, prompt=[text_block("and")])
            check("a second prompt is refused", False)
        except RequestError as error:
            check("a second prompt is refused", "a prompt is running" in str(error), error)
        await connection.cancel(session_id=session)
        ended = await prompt
        check("session/cancel while permission is asked", ended.stop_reason == "cancelled", ended)
        ended = await connection.prompt(session_id=session, prompt=[text_block("go on")])
        check("the session goes on", ended.stop_reason == "end_turn" and editor.text() == "later", editor.text())


async def contents():
    folder = project("contents", "when: @\"a b.txt\" and.*from the editor\ntext: seen")
    (folder / "a b.txt").write_text("one\n")
    editor = Editor()
    async with connected(editor, folder) as (connection, process):
        await initialized(connection)
        session = (await connection.new_session(cwd=str(folder), mcp_servers=[])).session_id
        uri = f"file://{folder}/a%20b.txt"
        embedded = resource_block(embedded_text_resource(f"file://{folder}/buffer", "unsaved"))
        parts = [text_block("Look at"), resource_link_block("a b.txt", uri), text_block("and what is"), embedded,
                 text_block("from the editor"), image_block(PNG, "image/png")]
        ended = await connection.prompt(session_id=session, prompt=parts)
        check("links, embedded texts and images", ended.stop_reason == "end_turn" and editor.text() == "seen", editor.text())


async def errors():
    folder = project("errors", "text: hi")
    async with connected(Editor(), folder) as (connection, process):
        for what, call in [
            ("session/new before initialize", lambda: connection.new_session(cwd=str(folder), mcp_servers=[])),
            ("initialize", lambda: initialized(connection)),
            ("a folder that does not exist", lambda: connection.new_session(cwd="/no/such", mcp_servers=[])),
            ("an unknown session", lambda: connection.prompt(session_id="x", prompt=[text_block("hi")])),
            ("an unknown method", lambda: connection.ext_method("nonsense", {})),
            ("authenticate", lambda: connection.authenticate(method_id="x")),
        ]:
            try:
                await call()
                check(f"{what}: no error", what == "initialize")
            except RequestError as error:
                check(f"{what}: error {error.code}", what != "initialize", error)
        process.stdin.close()
        check("closed input: exit 0", await asyncio.wait_for(process.wait(), 10) == 0, process.returncode)


async def servers():
    """An MCP server of the editor."""
    server = pathlib.Path(__file__).parent.parent / "it" / "mcp" / "server.sh"
    folder = project("servers", 'when: ^one$\ntext: one\n---\nwhen: ^two$\ncall: mcp__own__env {}\n---\n'
                                'when: ^two$\nexpect: from the editor\ntext: two')
    own = McpServerStdio(name="own", command="/bin/bash", args=[str(server)],
                         env=[EnvVariable(name="EXTRA", value="from the editor")])
    editor = Editor()
    async with connected(editor, folder, "--allow", "mcp") as (connection, process):
        await initialized(connection)
        log = folder.parent / "home/.local/state/agent"
        await connection.new_session(cwd=str(folder), mcp_servers=[own])
        await until(lambda: any('"mcp.server"' in it.read_text() for it in log.rglob("events.jsonl")))
        session = (await connection.new_session(cwd=str(folder), mcp_servers=[own])).session_id
        await connection.prompt(session_id=session, prompt=[text_block("two")])
        check("a tool of an MCP server of the client", editor.text() == "two", editor.text())


async def main():
    for case in [turn, rejection_and_modes, cancellation, contents, errors, servers]:
        try:
            await asyncio.wait_for(case(), 60)
        except Exception as error:  # noqa: BLE001
            check(case.__name__, False, repr(error))
    sys.exit(failed > 0)


asyncio.run(main())
