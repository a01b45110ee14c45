"""Checks of `agent mcp serve` with the client of the Python package `mcp`: mcp_client.py AGENT PREFIX

Works in the current directory. Each check is a line "ok" or "FAILED"; the exit code is 1 if one failed.
"""

import pathlib
import subprocess
import sys
import time

import anyio
from mcp import Client, ClientSession, StdioServerParameters, stdio_client

agent, prefix = sys.argv[1:]
failed = 0


def check(what, is_good, got=""):
    global failed
    if is_good:
        print(f"ok {prefix} {what}", flush=True)
    else:
        failed = 1
        print(f"FAILED {prefix} {what}: {str(got)[:600]}", flush=True)


def server(*options):
    return StdioServerParameters(command=agent, args=["mcp", "serve", *options])


def processes(mark):
    found = subprocess.run(["pgrep", "-f", mark], capture_output=True, text=True).stdout.split()
    return found


async def tools_of_a_session():
    async with stdio_client(server()) as (read, write), ClientSession(read, write) as session:
        begun = time.monotonic()
        hello = await session.initialize()
        took = (time.monotonic() - begun) * 1000
        check(f"initialize ({hello.protocol_version}, {took:.0f} ms)", took < 500, took)
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        check("lists ten tools", len(tools) == 10, list(tools))
        check("hints", tools["Read"].annotations.read_only_hint and tools["Bash"].annotations.destructive_hint)

        async def call(name, **arguments):
            result = await session.call_tool(name, arguments)
            return result.is_error, result.content[0].text

        file = pathlib.Path("p.txt")
        file.write_text("one\ntwo\n")
        edit = {"path": "p.txt", "old_string": "one", "new_string": "three"}
        is_error, text = await call("Edit", **edit)
        check("NOT_READ with the text of the file", is_error and "NOT_READ" in text and "1 | one" in text, text)
        file.write_text("one\nchanged\n")
        is_error, text = await call("Edit", **edit)
        check("CONFLICT with the change of another process", is_error and "CONFLICT" in text and "changed" in text, text)
        is_error, text = await call("Edit", **edit)
        check("the edit of the current text", not is_error and file.read_text() == "three\nchanged\n", text)

        is_error, text = await call("Bash", command="touch /usr/outside")
        check("a command outside of the sandbox", is_error and "COMMAND_FAILED" in text, text)
        is_error, text = await call("Bash", command="curl https://example.com")
        check("a missing permission", is_error and "--allow 'Bash(curl" in text, text)

        results = []

        async def read_file():
            results.append(await call("Read", path="p.txt"))

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(read_file)
        check("twenty calls at once", len(results) == 20 and not any(is_error for is_error, _ in results), results)

        with anyio.move_on_after(1):
            await call("Bash", command="(exec -a mark-of-a-call sleep 600)")
        is_error, text = await call("LS")
        gone = not processes("mark-of-a-call sleep|^mark-of-a-call")
        check("a cancelled call ends, and the next is answered", not is_error and gone, text)
        is_error, text = await call("Bash", command="exec -a mark-of-a-job sleep 600", background=True)
        check("a background command", not is_error, text)
        begun = time.monotonic()
    took = time.monotonic() - begun
    check(f"the end of the connection ({took * 1000:.0f} ms) ends it", took < 2 and not processes("^mark-of-a-job"), took)


async def tools_without_a_handshake():
    """The newest version of the protocol: each request stands alone."""
    async with Client(stdio_client(server("--permission-mode", "read-only"))) as client:
        tools = await client.list_tools()
        check(f"version {client.protocol_version}: lists the tools", len(tools.tools) == 10, tools)
        read = await client.call_tool("Read", {"path": "p.txt"})
        check("reads a file", not read.is_error and "1 | three" in read.content[0].text, read)
        write = await client.call_tool("Write", {"path": "q.txt", "content": "x\n"})
        check("read-only: no change", write.is_error and "ACCESS_DENIED" in write.content[0].text, write)


def undo():
    done = subprocess.run([agent, "session", "undo"], capture_output=True, text=True)
    text = pathlib.Path("p.txt").read_text()
    check("agent session undo", done.returncode == 0 and text == "one\nchanged\n", done.stderr + done.stdout + text)


anyio.run(tools_of_a_session)
undo()
pathlib.Path("p.txt").write_text("three\n")
anyio.run(tools_without_a_handshake)
sys.exit(failed)
