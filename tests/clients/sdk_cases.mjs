// Cases of tests/clients/sdk with the TypeScript SDK: sdk_cases.mjs AGENT DIR EXAMPLE [CASE]...
//
// EXAMPLE is the program of docs/INTEGRATION.md. Prints one line per case.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";
import { createRequire } from "node:module";

// (The packages are beside the example, not beside this file.)
const [agent, scratch, example, ...only] = process.argv.slice(2);
const load = createRequire(example);
const { query, tool, createSdkMcpServer } = await import(load.resolve("@anthropic-ai/claude-agent-sdk"));
const { z } = await import(load.resolve("zod"));

const run = promisify(execFile);
const demo = path.join(path.dirname(fileURLToPath(import.meta.url)), "../../demo");
const WRITE = 'call: Write {"path": "a.txt", "content": "one\\n"}\n---\n';

class Project {
  constructor(name, script) {
    this.root = path.join(scratch, "typescript", name);
    fs.rmSync(this.root, { recursive: true, force: true });
    fs.mkdirSync(this.root, { recursive: true });
    this.script = `${this.root}.script`;
    this.say(script);
  }

  say(script) {
    fs.writeFileSync(this.script, script);
  }

  options(more = {}) {
    const model = `script:${this.script}`;
    return { pathToClaudeCodeExecutable: agent, cwd: this.root, model, ...more };
  }

  read(name) {
    const file = path.join(this.root, name);
    return fs.existsSync(file) ? fs.readFileSync(file, "utf8") : null;
  }
}

// The messages of a query; an error result throws at the end.
async function all(project, prompt = "go", more = {}) {
  const messages = [];
  try {
    for await (const message of query({ prompt, options: project.options(more) })) messages.push(message);
  } catch (error) {
    const last = messages.at(-1);
    if (last?.type !== "result" || !last.is_error) throw error;
  }
  return messages;
}

// A conversation: messages are sent one after the other.
class Client {
  constructor(options) {
    this.waiting = [];
    this.query = query({ prompt: this.prompts(), options });
    this.messages = this.query[Symbol.asyncIterator]();
  }

  async *prompts() {
    for (;;) {
      const text = await new Promise((next) => (this.next = next));
      if (text === null) return;
      yield { type: "user", message: { role: "user", content: text }, parent_tool_use_id: null };
    }
  }

  async send(text) {
    while (!this.next) await new Promise((done) => setTimeout(done, 5));
    const next = this.next;
    this.next = undefined;
    next(text);
  }

  // The messages of a turn; `seen` is called for each.
  async turn(text, seen = async () => {}) {
    await this.send(text);
    const messages = [];
    for (;;) {
      const { value, done } = await this.messages.next();
      if (done) throw new Error("the session has ended");
      messages.push(value);
      await seen(value);
      if (value.type === "result") return messages;
    }
  }

  async close() {
    await this.send(null);
    while (!(await this.messages.next()).done);
  }
}

async function decided(name, expected, answer) {
  const project = new Project(name, `${WRITE}expect: ${expected}\ntext: done`);
  const asked = [];
  const canUseTool = async (toolName, input, options) => {
    asked.push({ toolName, input, options });
    return answer(input);
  };
  const client = new Client(project.options({ canUseTool }));
  const messages = await client.turn("write");
  await client.close();
  assert.equal(asked.length, 1);
  assert.equal(asked[0].toolName, "Write");
  assert.match(asked[0].input.file_path, /\/a\.txt$/);
  assert.ok(asked[0].options.suggestions.length > 0);
  return { project, result: messages.at(-1) };
}

const cases = {
  async "one shot query"() {
    const messages = await all(new Project("query", "text: hello"));
    assert.deepEqual([messages[0].subtype, messages.at(-1).result], ["init", "hello"]);
  },

  async "client with five turns"() {
    const script = [0, 1, 2, 3, 4].map((n) => `text: answer ${n}`).join("\n---\n");
    const client = new Client(new Project("turns", script).options());
    const sessions = new Set();
    for (let n = 0; n < 5; n++) {
      const result = (await client.turn(`message ${n}`)).at(-1);
      assert.equal(result.result, `answer ${n}`);
      sessions.add(result.session_id);
    }
    assert.equal(sessions.size, 1);
    assert.ok((await client.query.supportedModels()).length > 0);
    await client.close();
  },

  async "streaming deltas"() {
    const project = new Project("deltas", "text: hello out there");
    const messages = await all(project, "go", { includePartialMessages: true });
    const events = messages.filter((it) => it.type === "stream_event").map((it) => it.event);
    const deltas = events.filter((it) => it.type === "content_block_delta").map((it) => it.delta.text);
    assert.equal(deltas.join(""), "hello out there");
  },

  async interrupt() {
    const script = 'call: Bash {"command": "sleep 60"}\n---\ntimes: any\ntext: back';
    const project = new Project("interrupt", script);
    const options = { permissionMode: "bypassPermissions", allowDangerouslySkipPermissions: true };
    const client = new Client(project.options(options));
    const messages = await client.turn("hang", async (message) => {
      if (message.type === "assistant") await client.query.interrupt();
    });
    assert.equal(messages.at(-1).subtype, "error_during_execution");
    assert.equal((await client.turn("again")).at(-1).result, "back");
    await client.close();
  },

  async "permission allow"() {
    const { project, result } = await decided("allow", "a.txt", (input) => ({ behavior: "allow", updatedInput: input }));
    assert.equal(result.subtype, "success");
    assert.equal(project.read("a.txt"), "one\n");
  },

  async "permission allow with changed input"() {
    const change = (input) => ({ behavior: "allow", updatedInput: { ...input, content: "two\n" } });
    const { project } = await decided("changed", "changed the arguments", change);
    assert.equal(project.read("a.txt"), "two\n");
  },

  async "permission deny"() {
    const deny = () => ({ behavior: "deny", message: "not today" });
    const { project, result } = await decided("deny", "not today", deny);
    assert.deepEqual([result.subtype, result.permission_denials[0].tool_name], ["success", "Write"]);
    assert.equal(project.read("a.txt"), null);
  },

  async "permission deny and interrupt"() {
    const deny = () => ({ behavior: "deny", message: "stop", interrupt: true });
    const { project, result } = await decided("stop", "ended the turn", deny);
    assert.equal(result.is_error, true);
    assert.equal(project.read("a.txt"), null);
  },

  async "hooks before and after a tool"() {
    const project = new Project(
      "hooks",
      'call: Bash {"command": "echo first"}\n---\nexpect: no echo here\n' +
        'call: Write {"path": "a.txt", "content": "one\\n"}\n---\nexpect: check the file\ntext: done',
    );
    const seen = [];
    const before = async (input, id) => {
      seen.push([input.hook_event_name, input.tool_name, typeof id]);
      const permissionDecision = input.tool_name === "Bash" ? "deny" : "allow";
      const output = { hookEventName: "PreToolUse", permissionDecision };
      return { hookSpecificOutput: { ...output, permissionDecisionReason: "no echo here" } };
    };
    const after = async (input, id) => {
      seen.push([input.hook_event_name, input.tool_name, typeof id]);
      return { hookSpecificOutput: { hookEventName: "PostToolUse", additionalContext: "check the file" } };
    };
    const hooks = {
      PreToolUse: [{ matcher: "Bash|Write", hooks: [before] }],
      PostToolUse: [{ matcher: "Write", hooks: [after] }],
    };
    const messages = await all(project, "go", { hooks });
    const expected = [
      ["PreToolUse", "Bash", "string"],
      ["PreToolUse", "Write", "string"],
      ["PostToolUse", "Write", "string"],
    ];
    assert.deepEqual(seen, expected);
    assert.equal(messages.at(-1).result, "done");
    assert.equal(project.read("a.txt"), "one\n");
  },

  async "tool in the program"() {
    const script = 'call: mcp__calc__add {"a": 2, "b": 3}\n---\nexpect: the sum is 5\ntext: five';
    const add = tool("add", "Adds two numbers", { a: z.number(), b: z.number() }, async ({ a, b }) => ({
      content: [{ type: "text", text: `the sum is ${a + b}` }],
    }));
    const calc = createSdkMcpServer({ name: "calc", tools: [add] });
    const options = { mcpServers: { calc }, allowedTools: ["mcp__calc__add"] };
    const client = new Client(new Project("mcp", script).options(options));
    assert.equal((await client.turn("add")).at(-1).result, "five");
    assert.equal((await client.query.mcpServerStatus())[0].status, "connected");
    await client.close();
  },

  async "resume and fork"() {
    const project = new Project("resume", "text: one");
    const first = (await all(project, "the first message")).at(-1).session_id;
    project.say("when: the first message\ntext: two");
    const resumed = (await all(project, "second", { resume: first })).at(-1);
    assert.deepEqual([resumed.result, resumed.session_id], ["two", first]);
    const forked = (await all(project, "third", { resume: first, forkSession: true })).at(-1);
    assert.equal(forked.result, "two");
    assert.notEqual(forked.session_id, first);
    project.say("when: second\ntext: three");
    assert.equal((await all(project, "fourth", { continue: true })).at(-1).result, "three");
  },

  async "structured output"() {
    const schema = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
    const project = new Project("schema", 'text: {"n": 3}');
    const messages = await all(project, "go", { outputFormat: { type: "json_schema", schema } });
    assert.deepEqual(messages.at(-1).structured_output, { n: 3 });
  },

  async "limit of turns"() {
    const messages = await all(new Project("max_turns", "times: any\ncall: LS {}"), "go", { maxTurns: 2 });
    assert.deepEqual([messages.at(-1).subtype, messages.at(-1).num_turns], ["error_max_turns", 2]);
  },

  async "limit of cost"() {
    const project = new Project("budget", "times: any\nusage: 1000000 1000\ncall: LS {}");
    const extraArgs = { set: `models."script:${project.script}"={price_in=5.0, price_out=5.0}` };
    const messages = await all(project, "go", { maxBudgetUsd: 0.01, extraArgs });
    assert.equal(messages.at(-1).subtype, "error_max_budget_usd");
  },

  async "mode and model are changed"() {
    const project = new Project("modes", `${WRITE}text: first\n---\n${WRITE}text: second`);
    fs.writeFileSync(`${project.root}.other`, "text: other");
    const client = new Client(project.options());
    assert.equal((await client.turn("write")).at(-1).permission_denials.length, 1);
    await client.query.setPermissionMode("acceptEdits");
    assert.equal((await client.turn("write")).at(-1).permission_denials.length, 0);
    await client.query.setModel(`script:${project.root}.other`);
    assert.equal((await client.turn("who")).at(-1).result, "other");
    assert.ok((await client.query.getContextUsage()).totalTokens > 0);
    await client.close();
    assert.equal(project.read("a.txt"), "one\n");
  },

  async "files are rewound"() {
    const project = new Project("rewind", `${WRITE}text: done`);
    const extraArgs = { "replay-user-messages": null };
    const client = new Client(project.options({ permissionMode: "acceptEdits", extraArgs }));
    const messages = await client.turn("write");
    const user = messages.find((it) => it.type === "user" && it.isReplay);
    assert.equal(project.read("a.txt"), "one\n");
    assert.equal((await client.query.rewindFiles(user.uuid)).canRewind, true);
    assert.equal(project.read("a.txt"), null);
    await client.close();
  },

  async "example solves the demo task with a script"() {
    await runExample(`script:${path.join(scratch, "demo.script")}`, {});
  },

  async "example solves the demo task with an openai endpoint"() {
    await runExample("openai/demo", { OPENAI_BASE_URL: process.env.MODEL_URL, OPENAI_API_KEY: "none" });
  },
};

// The program of docs/INTEGRATION.md solves the demo task.
async function runExample(model, env) {
  const root = path.join(scratch, "typescript", "demo");
  fs.rmSync(root, { recursive: true, force: true });
  fs.cpSync(demo, root, { recursive: true });
  const all = { ...process.env, ...env, AGENT: agent };
  const { stdout } = await run(process.execPath, [example, model], { cwd: root, env: all, timeout: 120_000 });
  assert.match(stdout, /success/);
  await run("bash", ["test.sh"], { cwd: root });
}

let failed = false;
for (const [name, test] of Object.entries(cases)) {
  if (only.length > 0 && !only.includes(name)) continue;
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error("no end")), 120_000)));
  try {
    await Promise.race([test(), late]);
    console.log(`ok      TypeScript: ${name}`);
  } catch (error) {
    failed = true;
    console.log(`FAILED  TypeScript: ${name}: ${String(process.env.VERBOSE ? error.stack : error).slice(0, 2000)}`);
  }
  clearTimeout(timer);
}
process.exit(failed ? 1 : 0);
