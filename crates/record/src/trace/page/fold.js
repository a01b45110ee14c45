// Folds the log into turns, rounds, calls and failures.

const facts = JSON.parse(document.getElementById("facts").textContent);
const raw = (() => {
  const element = document.getElementById("log");
  const lines = element.textContent.split("\n").filter((line) => line !== "");
  element.remove();
  return lines;
})();

const trace = {
  events: [], items: [], turns: [], failures: [], requests: [], files: new Map(), texts: new Map(),
  compactions: [], context: [], itemOf: new Map(), eventOf: new Map(), calls: [],
  usage: { input: 0, cached: 0, output: 0 }, cost: null, modelMs: 0, timeMs: 0, started: null, name: "",
};

// What begins an entry of its own in the timeline.
const ALONE = new Set([
  "session.started", "session.resumed", "session.forked", "session.rewound", "session.renamed", "session.summary",
  "turn.undone", "user.command", "mode.changed", "directory.added", "context.compacted",
  "turn.finished", "turn.steered", "memory.written", "rule.added", "rule.removed", "unreadable",
]);

const target = (tool, input) => {
  for (const name of ["command", "pattern", "path", "summary", "id"]) {
    if (typeof input[name] === "string") return oneLine(input[name], 90);
  }
  return "";
};

// The last line that a command printed: often the reason.
function lastLine(data) {
  const { stderr, stdout } = obj(data);
  for (const output of [str(stderr), str(stdout)]) {
    const line = output.slice(-2000).trim().split("\n").pop();
    if (line) return line;
  }
  return "";
}

function parsed(text) {
  try {
    return obj(JSON.parse(text));
  } catch {
    return {};
  }
}

// The texts that a view refers to, in the order of the record.
function textsIn(value, found = []) {
  if (typeof value === "string") found.push(value);
  else if (value && typeof value === "object") for (const name in value) textsIn(value[name], found);
  return found;
}

// What the model received for a result.
function viewOf(event) {
  const { view, envelope } = event;
  if (view === undefined) return str(obj(envelope).text);
  if (typeof view === "string") return view;
  const texts = textsIn(obj(envelope).data);
  return arr(view).map((part) => (typeof part === "number" ? str(texts[part]).replace(/\n$/, "") : str(part))).join("");
}

function fold() {
  let turn = null, round = null, plan = null, pending = [], previous = null;
  const open = new Map(), times = new Map(), byPath = new Map();

  const newItem = (kind, event) => {
    const item = {
      kind, n: trace.items.length, turn, number: num(event.round), step: num(event.step), plan, events: [], calls: [],
      codes: new Set(), tools: new Set(), decisions: new Set(), decision: null, isFailure: false, received: [], previous: null,
      request: null, answer: null,
    };
    trace.items.push(item);
    if (turn) turn.items.push(item);
    return item;
  };
  const newTurn = (event) => {
    turn = { number: event ? num(event.turn) : 0, event, items: [], finished: null, isGone: false };
    trace.turns.push(turn);
    round = null;
  };
  const fail = (item, event, code, text, more = {}) => {
    item.codes.add(code);
    item.isFailure = true;
    trace.failures.push({ item, seq: event.seq, code, text: str(text), ...more });
  };
  // Part of the next request.
  const say = (event, what, text, more) => pending.push({ seq: event.seq, what, text, ...more });
  const callOf = (event, item) => {
    let call = open.get(event.call);
    if (!call) {
      call = { id: str(event.call), tool: str(event.tool), input: obj(event.input), seq: event.seq, item, answer: null };
      open.set(event.call, call);
      trace.calls.push(call);
    }
    if (!call.item) call.item = item;
    if (!call.item.calls.includes(call)) call.item.calls.push(call);
    call.item.tools.add(call.tool);
    return call;
  };

  // The entry that an event belongs to.
  const place = (event) => {
    if (event.type === "turn.started") {
      newTurn(event);
      return newItem("task", event);
    }
    if (!turn) newTurn(null);
    if (event.type === "model.requested" && event.purpose === "main") return (round = newItem("round", event));
    if (round && (!ALONE.has(event.type) || event.type === "memory.written" && !turn.finished)) return round;
    if (event.type === "turn.finished" || event.type === "context.compacted") round = null;
    return newItem("note", event);
  };

  const take = {
    "session.started": (event) => (trace.started ??= event),
    "session.renamed": (event) => (trace.name = str(event.name)),
    "session.rewound": (event) => {
      for (const turn of trace.turns) turn.isGone ||= turn.event && turn.number >= num(event.from_turn);
    },
    "turn.started": (event) => say(event, "the user\u2019s message", event.shown ?? event.input),
    "turn.steered": (event) => say(event, "a message of the user, meanwhile", event.shown ?? event.input),
    "user.command": (event) => say(event, "a command that the user ran, with its output", "$ " + str(event.command) + "\n" + str(event.output)),
    "feedback": (event) => say(event, "feedback of the kernel", event.text),
    "reminder": (event) => say(event, event.recap ? "a reminder, with the recap of the plan" : "a reminder", event.text),
    "rules.found": (event) => {
      say(event, "the rules file " + str(event.path), event.text);
      trace.context.push({ event, kind: "rules" });
    },
    "directory.added": (event) => say(event, "a directory was added", event.path),
    "turn.undone": (event) => say(event, "an undo", JSON.stringify(event.files)),
    "memory.recalled": (event) => {
      trace.context.push({ event, kind: "lesson" });
      if (event.moment === "reflection" || event.in_rules) return;
      say(event, event.call ? "a lesson of earlier sessions, appended to a result" : "a lesson of earlier sessions", event.text);
    },
    "memory.written": (event) => trace.context.push({ event, kind: "learnt" }),
    "plan.updated": (event) => (plan = obj(event.plan)),
    "context.overflowed": (event, item) => fail(item, event, "OVERFLOW", "the provider refused the request as too long"),
    "context.compacted": (event) => {
      trace.compactions.push({ event, at: trace.requests.length });
      say(event, plural(num(event.archived), "older message") + " replaced by a summary", event.summary);
    },
    "model.requested": (event, item) => {
      for (const hash in obj(event.texts)) trace.texts.set(hash, str(event.texts[hash]));
      const request = { seq: event.seq, item, event, answer: null };
      trace.requests.push(request);
      if (event.purpose !== "main") return;
      item.request = event;
      item.received = pending;
      item.previous = previous;
      pending = [];
      previous = event;
    },
    "model.responded": (event, item) => {
      const request = trace.requests.findLast((request) => !request.answer && request.event.purpose === event.purpose);
      if (request) request.answer = event;
      const usage = obj(event.usage);
      trace.usage.input += num(usage.input_tokens);
      trace.usage.cached += num(usage.cached_tokens);
      trace.usage.output += num(usage.output_tokens);
      if (typeof event.cost_usd === "number") trace.cost = num(trace.cost) + event.cost_usd;
      trace.modelMs += num(event.time_ms);
      if (event.purpose !== "main") return;
      item.answer = event;
      if (!event.discarded) say(event, "the model\u2019s own answer", null);
      for (const asked of arr(event.calls)) {
        const key = str(asked.name) + " " + str(asked.arguments);
        const seen = times.get(key) ?? [];
        const call = {
          id: str(asked.id), tool: str(asked.name), input: parsed(asked.arguments), arguments: str(asked.arguments),
          seq: event.seq, item, answer: event, same: seen.at(-1) ?? null, times: seen.length + 1,
        };
        times.set(key, [...seen, call]);
        if (event.discarded) continue;
        open.set(asked.id, call);
        trace.calls.push(call);
        item.calls.push(call);
        item.tools.add(call.tool);
      }
    },
    "tool.started": (event, item) => {
      const call = callOf(event, item);
      Object.assign(call, { started: event, seq: event.seq, by: event.by, parent: event.parent_call, input: obj(event.input) });
    },
    "permission.requested": (event, item) => (callOf(event, item).asked = event),
    "permission.decided": (event, item) => (callOf(event, item).ruled = event),
    "tool.finished": (event, item) => {
      const call = callOf(event, item);
      const envelope = obj(event.envelope);
      const context = obj(envelope.context);
      if (!call.started) call.seq = event.seq;
      Object.assign(call, { finished: event, envelope, by: event.by ?? call.by, parent: event.parent_call ?? call.parent });
      if (Object.keys(call.input).length === 0) call.input = obj(context.params_input);
      const error = obj(envelope.error);
      call.code = envelope.status === "error" ? str(error.code) || "error" : "";
      call.path = str(context.path_resolved) || str(call.input.path) || str(call.input.command);
      if (call.path) {
        if (!byPath.has(call.path)) byPath.set(call.path, []);
        byPath.get(call.path).push(call);
        call.related = byPath.get(call.path);
      }
      if (call.code) fail(call.item, event, call.code, error.message, { call, said: lastLine(envelope.data) });
      const what = call.parent ? "appended to a result: the kernel\u2019s call " : "the result of ";
      say(event, what + call.tool + " " + target(call.tool, call.input), () => viewOf(event), { isError: !!call.code });
      changes(call);
      open.delete(event.call);
    },
    "evaluation": (event, item) => {
      const failure = obj(event.failure);
      if (!event.failure) return;
      const known = [...item.codes].length > 0 && (failure.code ? item.codes.has(failure.code) : item.codes.has("CHECK"));
      if (!known) fail(item, event, str(failure.signal).toUpperCase() || "FAILURE", failure.message);
    },
    "control.decided": (event, item) => {
      const decision = str(event.decision) + (event.detail ? " " + str(event.detail) : "");
      item.decisions.add(decision);
      if (event.decision !== "continue" || !item.decision) item.decision = event;
    },
    "check.finished": (event, item) => event.passed === false && fail(item, event, "CHECK", str(event.command) + " failed" + (event.exit_code === null ? "" : ", exit " + event.exit_code)),
    "verification": (event, item) => event.confirmed === false && fail(item, event, "OBJECTION", event.objection),
    "error": (event, item) => fail(item, event, "ERROR " + str(event.source), event.message),
    "turn.finished": (event, item) => {
      if (turn) turn.finished = event;
      trace.timeMs += num(event.time_ms);
      if (event.ending !== "completed") fail(item, event, str(event.ending).toUpperCase(), arr(event.errors).join("; ") || event.result);
    },
    "unreadable": (event, item) => fail(item, event, "UNREADABLE", event.reason),
  };

  raw.forEach((line, at) => {
    let event;
    try {
      event = obj(JSON.parse(line));
    } catch (error) {
      event = { type: "unreadable", reason: String(error), text: line.slice(0, 2000) };
    }
    if (!Number.isSafeInteger(event.seq) || trace.eventOf.has(event.seq)) event.seq = "line-" + (at + 1);
    event.type = str(event.type);
    trace.events.push(event);
    const item = place(event);
    item.events.push(event);
    trace.itemOf.set(event.seq, item);
    trace.eventOf.set(event.seq, event);
    event.at = at;
    try {
      if (Object.hasOwn(take, event.type)) take[event.type](event, item);
    } catch (error) {
      // An event of another shape than expected is shown as it is.
      event.problem = String(error);
    }
  });
}

function changes(call) {
  const data = obj(call.envelope.data);
  const change = (path, more) => {
    if (!trace.files.has(path)) trace.files.set(path, []);
    trace.files.get(path).push({ call, ...more });
  };
  if (data.applied === true && call.path) change(call.path, { diff: str(data.diff_preview), isCut: data.diff_truncated === true });
  for (const file of arr(data.files_changed)) {
    const path = typeof file === "string" ? file : str(obj(file).path);
    if (path) change(path, { diff: str(obj(file).diff), how: str(obj(file).change ?? obj(file).kind) });
  }
}
