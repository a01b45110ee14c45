"""Cases of tests/clients/sdk with the Python SDK: sdk_cases.py AGENT DIR EXAMPLE [CASE]...

EXAMPLE is the program of docs/INTEGRATION.md. Prints one line per case.
"""

import asyncio
import json
import os
import pathlib
import shutil
import subprocess
import sys
import traceback

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool,
)

agent, scratch, example, *only = sys.argv[1:]
scratch = pathlib.Path(scratch)
demo = pathlib.Path(__file__).parents[2] / "demo"
WRITE = 'call: Write {"path": "a.txt", "content": "one\\n"}\n---\n'
cases = []


def case(function):
    cases.append(function)
    return function


class Project:
    """A project with a script for the model."""

    def __init__(self, name, script):
        self.root = scratch / "python" / name
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        self.script = self.root.parent / f"{name}.script"
        self.say(script)

    def say(self, script):
        self.script.write_text(script)

    def options(self, **more):
        stderr = []
        self.stderr = stderr
        return ClaudeAgentOptions(
            cli_path=agent, cwd=self.root, model=f"script:{self.script}", stderr=stderr.append, **more
        )

    def read(self, name):
        path = self.root / name
        return path.read_text() if path.exists() else None


async def one_shot(project, prompt="go", **more):
    """The messages of a query; an error result raises at the end."""
    messages = []
    try:
        async for message in query(prompt=prompt, options=project.options(**more)):
            messages.append(message)
    except Exception:
        if not messages or not isinstance(messages[-1], ResultMessage) or not messages[-1].is_error:
            raise
    return messages


async def turn(client, prompt):
    await client.query(prompt)
    return [message async for message in client.receive_response()]


def texts(messages):
    blocks = [b for m in messages if isinstance(m, AssistantMessage) for b in m.content]
    return [block.text for block in blocks if isinstance(block, TextBlock)]


def results(messages):
    blocks = [b for m in messages if isinstance(m, UserMessage) for b in m.content]
    return [str(block.content) for block in blocks if isinstance(block, ToolResultBlock)]


@case
async def one_shot_query():
    project = Project("query", "text: hello")
    messages = await one_shot(project)
    assert isinstance(messages[0], SystemMessage) and messages[0].subtype == "init", messages
    assert texts(messages) == ["hello"], messages
    assert messages[-1].result == "hello" and messages[-1].subtype == "success", messages
    assert messages[-1].model_usage, messages


@case
async def client_with_five_turns():
    project = Project("turns", "\n---\n".join(f"text: answer {n}" for n in range(5)))
    async with ClaudeSDKClient(project.options()) as client:
        info = await client.get_server_info()
        assert info["models"] and "commands" in info, info
        sessions = set()
        for n in range(5):
            messages = await turn(client, f"message {n}")
            assert messages[-1].result == f"answer {n}", messages
            sessions.add(messages[-1].session_id)
        assert len(sessions) == 1, sessions


@case
async def streaming_deltas():
    project = Project("deltas", "text: hello out there")
    messages = await one_shot(project, include_partial_messages=True)
    events = [m.event for m in messages if isinstance(m, StreamEvent)]
    deltas = [e["delta"]["text"] for e in events if e["type"] == "content_block_delta"]
    assert "".join(deltas) == "hello out there", messages


@case
async def interrupt():
    project = Project("interrupt", 'call: Bash {"command": "sleep 60"}\n---\ntimes: any\ntext: back')
    async with ClaudeSDKClient(project.options(permission_mode="bypassPermissions")) as client:
        await client.query("hang")
        async for message in client.receive_response():
            if isinstance(message, AssistantMessage):
                await client.interrupt()
        assert message.is_error and message.subtype == "error_during_execution", message
        assert (await turn(client, "again"))[-1].result == "back"


async def decided(name, expected, answer):
    """A call of Write that a callback decides about; the result, and the callback's arguments."""
    project = Project(name, f"{WRITE}expect: {expected}\ntext: done")
    asked = []

    async def can_use_tool(tool_name, tool_input, context):
        asked.append((tool_name, tool_input, context))
        return answer(tool_input)

    async with ClaudeSDKClient(project.options(can_use_tool=can_use_tool)) as client:
        messages = await turn(client, "write")
    assert len(asked) == 1 and asked[0][0] == "Write", asked
    assert asked[0][1]["file_path"].endswith("/a.txt") and asked[0][2].suggestions, asked
    return project, messages


@case
async def permission_allow():
    project, messages = await decided("allow", "a.txt", lambda _: PermissionResultAllow())
    assert messages[-1].subtype == "success" and project.read("a.txt") == "one\n", messages


@case
async def permission_allow_with_changed_input():
    changed = lambda given: PermissionResultAllow(updated_input={**given, "content": "two\n"})
    project, messages = await decided("changed", "changed the arguments", changed)
    assert messages[-1].result == "done" and project.read("a.txt") == "two\n", messages


@case
async def permission_deny():
    deny = lambda _: PermissionResultDeny(message="not today")
    project, messages = await decided("deny", "not today", deny)
    result = messages[-1]
    assert result.subtype == "success" and not result.is_error, result
    assert result.permission_denials[0]["tool_name"] == "Write", result
    assert project.read("a.txt") is None


@case
async def permission_deny_and_interrupt():
    deny = lambda _: PermissionResultDeny(message="stop", interrupt=True)
    project, messages = await decided("stop", "ended the turn", deny)
    assert messages[-1].is_error and project.read("a.txt") is None, messages


@case
async def hooks_before_and_after_a_tool():
    project = Project(
        "hooks",
        'call: Bash {"command": "echo first"}\n---\n'
        'expect: no echo here\ncall: Write {"path": "a.txt", "content": "one\\n"}\n---\n'
        "expect: check the file\ntext: done",
    )
    seen = []

    async def before(hook_input, tool_use_id, context):
        seen.append((hook_input["hook_event_name"], hook_input["tool_name"], tool_use_id))
        decision = "deny" if hook_input["tool_name"] == "Bash" else "allow"
        output = {"hookEventName": "PreToolUse", "permissionDecision": decision}
        return {"hookSpecificOutput": {**output, "permissionDecisionReason": "no echo here"}}

    async def after(hook_input, tool_use_id, context):
        seen.append((hook_input["hook_event_name"], hook_input["tool_name"], tool_use_id))
        output = {"hookEventName": "PostToolUse", "additionalContext": "check the file"}
        return {"hookSpecificOutput": output}

    hooks = {
        "PreToolUse": [HookMatcher(matcher="Bash|Write", hooks=[before])],
        "PostToolUse": [HookMatcher(matcher="Write", hooks=[after])],
    }
    messages = await one_shot(project, hooks=hooks)
    names = [(event, name) for event, name, _ in seen]
    expected = [("PreToolUse", "Bash"), ("PreToolUse", "Write"), ("PostToolUse", "Write")]
    assert names == expected and all(id for _, _, id in seen), seen
    assert messages[-1].result == "done" and project.read("a.txt") == "one\n", messages


@case
async def tool_in_the_program():
    project = Project(
        "mcp", 'call: mcp__calc__add {"a": 2, "b": 3}\n---\nexpect: the sum is 5\ntext: five'
    )

    @tool("add", "Adds two numbers", {"a": int, "b": int})
    async def add(args):
        return {"content": [{"type": "text", "text": f"the sum is {args['a'] + args['b']}"}]}

    server = create_sdk_mcp_server("calc", tools=[add])
    options = project.options(mcp_servers={"calc": server}, allowed_tools=["mcp__calc__add"])
    async with ClaudeSDKClient(options) as client:
        status = await client.get_mcp_status()
        assert status["mcpServers"][0]["status"] == "connected", status
        assert (await turn(client, "add"))[-1].result == "five"


@case
async def resume_and_fork():
    project = Project("resume", "text: one")
    first = (await one_shot(project, "the first message"))[-1].session_id
    project.say("when: the first message\ntext: two")
    resumed = (await one_shot(project, "second", resume=first))[-1]
    assert (resumed.result, resumed.session_id) == ("two", first), resumed
    forked = (await one_shot(project, "third", resume=first, fork_session=True))[-1]
    assert forked.result == "two" and forked.session_id != first, forked
    project.say("when: second\ntext: three")
    continued = (await one_shot(project, "fourth", continue_conversation=True))[-1]
    assert continued.result == "three", continued


@case
async def structured_output():
    project = Project("schema", 'text: {"n": 3}')
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    output_format = {"type": "json_schema", "schema": schema}
    messages = await one_shot(project, output_format=output_format)
    assert messages[-1].structured_output == {"n": 3}, messages


@case
async def limit_of_turns():
    project = Project("max_turns", "times: any\ncall: LS {}")
    messages = await one_shot(project, max_turns=2)
    result = messages[-1]
    assert result.subtype == "error_max_turns" and result.num_turns == 2, result


@case
async def limit_of_cost():
    project = Project("budget", "times: any\nusage: 1000000 1000\ncall: LS {}")
    messages = await one_shot(project, max_budget_usd=0.01, extra_args={"set": price(project)})
    assert messages[-1].subtype == "error_max_budget_usd", messages


def price(project):
    return f'models."script:{project.script}"={{price_in=5.0, price_out=5.0}}'


@case
async def mode_and_model_are_changed():
    project = Project("modes", f"{WRITE}text: first\n---\n{WRITE}text: second")
    other = project.root.parent / "other.script"
    other.write_text("text: other")
    async with ClaudeSDKClient(project.options()) as client:
        assert (await turn(client, "write"))[-1].permission_denials
        await client.set_permission_mode("acceptEdits")
        assert (await turn(client, "write"))[-1].permission_denials == []
        await client.set_model(f"script:{other}")
        assert (await turn(client, "who"))[-1].result == "other"
        usage = await client.get_context_usage()
        assert usage["totalTokens"] > 0, usage
    assert project.read("a.txt") == "one\n"


@case
async def files_are_rewound():
    project = Project("rewind", f"{WRITE}text: done")
    options = project.options(
        permission_mode="acceptEdits",
        enable_file_checkpointing=True,
        extra_args={"replay-user-messages": None},
    )
    async with ClaudeSDKClient(options) as client:
        messages = await turn(client, "write")
        users = [m for m in messages if isinstance(m, UserMessage) and isinstance(m.content, str)]
        assert project.read("a.txt") == "one\n"
        await client.rewind_files(users[0].uuid)
        assert project.read("a.txt") is None


def run_example(model, env):
    """The program of docs/INTEGRATION.md solves the demo task."""
    root = scratch / "python" / "demo"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(demo, root)
    bin_dir = scratch / "bin"
    bin_dir.mkdir(exist_ok=True)
    link = bin_dir / "agent"
    link.unlink(missing_ok=True)
    link.symlink_to(agent)
    env = {**os.environ, **env, "PATH": f"{bin_dir}:{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, example, model], cwd=root, env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and "success" in done.stdout, done
    tests = subprocess.run(["bash", "test.sh"], cwd=root, capture_output=True, text=True)
    assert tests.returncode == 0, (done, tests)


@case
async def example_solves_the_demo_task_with_a_script():
    await asyncio.to_thread(run_example, f"script:{scratch / 'demo.script'}", {})


@case
async def example_solves_the_demo_task_with_an_openai_endpoint():
    env = {"OPENAI_BASE_URL": os.environ["MODEL_URL"], "OPENAI_API_KEY": "none"}
    await asyncio.to_thread(run_example, "openai/demo", env)


async def main():
    failed = False
    for function in cases:
        name = function.__name__
        if only and name not in only:
            continue
        words = name.replace("_", " ")
        try:
            await asyncio.wait_for(function(), 120)
            print(f"ok      Python: {words}", flush=True)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            failed = True
            print(f"FAILED  Python: {words}: {error!r}"[:2000], flush=True)
            if os.environ.get("VERBOSE"):
                traceback.print_exc()
    sys.exit(failed)


asyncio.run(main())
