// The details of a round: what the model received, said and called, the results, and what the kernel decided.

const section = (title, className, ...children) => el("section", "part " + className, el("h4", "", title), children);
const quiet = (...children) => el("p", "quiet", children);

function statusOf(call) {
  if (!call.finished) return badge("warn", "no result", "the record has no result of this call");
  const status = str(call.envelope.status);
  if (call.code) return badge("bad", call.code);
  return badge(status === "success" ? "good" : "warn", status);
}

// What the model received with a request.
function receivedPart(item) {
  const request = item.request;
  const before = item.previous;
  const layers = obj(request.layers);
  const names = { l1: "L1 system prompt", tools: "tool definitions", l2: "L2 session and rules", l3: "L3 conversation" };
  const order = [...new Set(["l1", "tools", "l2", "l3", ...Object.keys(layers)])].filter((name) => layers[name]);
  const hashOf = (request, name) => str(obj(obj(obj(request).layers)[name]).hash);
  const isChanged = order.filter((name) => before && name !== "l3" && hashOf(before, name) !== hashOf(request, name));
  const rows = order.map((name) => {
    const layer = obj(layers[name]);
    const old = obj(obj(obj(before).layers)[name]);
    const size = el("span", "n", "~" + thousands(layer.tokens) + " tokens");
    const text = trace.texts.get(layer.hash);
    let state;
    if (name === "l3") {
      const more = num(request.messages) - num(obj(before).messages);
      state = plural(num(request.messages), "message") + (before ? ", " + (more < 0 ? "\u2212" + -more : "+" + more) : "");
    } else state = !before ? "first request" : layer.hash === old.hash ? "unchanged" : el("b", "changed", "changed");
    const shown = text === undefined ? (layer.hash && layer.bytes ? quiet("its text is not in the record") : null)
      : folded("text", () => [layer.hash !== old.hash && old.hash && trace.texts.has(old.hash) ? lineDifference(trace.texts.get(old.hash), text) : null, longText(text, "")]);
    return el("div", "layer", el("b", "", names[name] || name), size, el("span", "state", state), shown);
  });
  const shared = num(request.bytes) ? Math.round((100 * num(request.shared_bytes)) / request.bytes) : 0;
  const window = num(request.window);
  const use = window ? " of " + short(window) + " (" + ((100 * num(request.estimated_tokens)) / window).toFixed(1) + " %)" : "";
  return section(
    "Received", "received",
    quiet(seqLink(request.seq), " ", str(request.model), request.effort ? ", effort " + str(request.effort) : "", " \u00b7 ~", thousands(request.estimated_tokens), " tokens", use,
      before ? " \u00b7 the first " + shared + " % of its bytes are those of the previous request" : ""),
    folded(["layers: ", order.map((name, n) => [n > 0 ? " \u00b7 " : "", (names[name] || name).split(" ")[0] + " ~" + thousands(obj(layers[name]).tokens)]),
      !before ? "" : isChanged.length > 0 ? [" \u00b7 ", el("b", "changed", "changed: " + isChanged.join(", "))] : " \u00b7 unchanged but for the conversation"], () => rows),
    el("h5", "", before ? ["Added since the previous request ", seqLink(before.seq)] : "Messages of the first request"),
    item.received.length === 0 ? quiet("nothing") : item.received.map((message) => {
      const text = typeof message.text === "function" ? message.text() : message.text;
      const title = [seqLink(message.seq), " ", el("span", message.isError ? "red" : "", message.what)];
      if (text === null) return el("div", "message", title);
      const isShort = str(text).length <= 240;
      return folded([...title, isShort ? "" : el("span", "n", bytes(str(text).length))], () => longText(text, ""), isShort || hasQuery(text), "message");
    }),
  );
}

function lineDifference(old, now) {
  const before = new Set(old.split("\n")), after = new Set(now.split("\n"));
  const lines = [...old.split("\n").filter((line) => !after.has(line)).map((line) => "-" + line), ...now.split("\n").filter((line) => !before.has(line)).map((line) => "+" + line)];
  return el("div", "", quiet("Lines that differ from the previous request:"), diffView(lines.join("\n")));
}

function answerPart(event) {
  const usage = obj(event.usage);
  const cost = typeof event.cost_usd === "number" ? " \u00b7 " + dollars(event.cost_usd) : "";
  const tokens = event.usage ? thousands(usage.input_tokens) + " in (" + thousands(usage.cached_tokens) + " cached), " + thousands(usage.output_tokens) + " out" : "tokens not reported";
  const purpose = event.purpose === "main" ? "" : " (" + str(event.purpose) + ")";
  return section(
    "Answered" + purpose, "answered",
    quiet(seqLink(event.seq), " ", tokens, cost, " \u00b7 ", duration(num(event.time_ms)), " \u00b7 stop: ", str(event.stop)),
    event.discarded ? el("p", "red", "Not used: empty, or cut off within its calls.") : null,
    event.reasoning ? folded("reasoning", () => longText(event.reasoning, ""), hasQuery(event.reasoning)) : null,
    event.text ? longText(event.text, "said") : event.calls ? null : quiet("no text"),
    event.discarded ? arr(event.calls).map((call) => [quiet("call ", str(call.name)), longText(call.arguments, "")]) : null,
  );
}

// The calls on the same file or command, in order: what happened to it.
function storyOf(call) {
  const related = call.related ?? [];
  if (related.length < 2 || !related.some((other) => other.code)) return null;
  const at = related.indexOf(call);
  const from = Math.max(0, Math.min(at - 4, related.length - 9));
  const shown = related.slice(from, from + 9);
  return el(
    "p", "story", el("span", "quiet", "On " + oneLine(call.path, 60) + ": "), from > 0 ? "\u2026 " : null,
    shown.map((other, n) => [
      n > 0 ? " \u2192 " : null,
      el("span", other === call ? "here" : "", seqLink(other.seq, other.tool + " " + (other.code || "\u2713"))),
    ]),
    from + 9 < related.length ? " \u2026" : null,
  );
}

// How the kernel and the model went on after a failed call.
function afterFailure(call) {
  const { item } = call;
  const decided = item.decision;
  const next = trace.items.slice(item.n + 1, item.n + 8).find((other) => other.kind === "round" && other.turn === item.turn);
  const counts = decided && Object.keys(COUNTERS).flatMap((name) => {
    const before = obj(decided.before)[name], after = obj(decided.after)[name];
    const n = (counter) => (typeof counter === "object" ? num(obj(counter).n) : num(counter));
    return n(before) === n(after) ? [] : [COUNTERS[name] + " " + n(before) + " \u2192 " + n(after) + (obj(after).max === undefined ? "" : " / " + after.max)];
  });
  return el("div", "after",
    decided ? el("p", "", el("span", "quiet", "The kernel: "), el("b", "decision", str(decided.decision) + (decided.detail ? " " + str(decided.detail) : "")), " \u2014 ", oneLine(decided.reason, 300), counts.length > 0 ? " (" + counts.join(", ") + ") " : " ", seqLink(decided.seq)) : null,
    next?.answer ? el("p", "", el("span", "quiet", "The model, next: "), next.answer.text ? ["\u201c" + oneLine(next.answer.text, 160) + "\u201d "] : null,
      next.calls.slice(0, 4).map((other) => [seqLink(other.seq, other.tool + " " + target(other.tool, other.input)), other.code ? [" ", el("span", "red", other.code)] : "", other.same ? el("span", "repeat", " the same call again") : "", " "])) : null);
}

function callPart(call) {
  const { envelope = {}, finished } = call;
  const error = obj(envelope.error);
  const data = obj(envelope.data);
  const ms = num(obj(envelope.stats).time_ms);
  const box = el("section", "part call" + (call.code ? " failed" : ""));
  box.id = "seq-" + call.seq;
  const head = el(
    "h4", "", call.by === "kernel" ? "Kernel calls " : "Called ", el("b", "", call.tool), " ", el("code", "", target(call.tool, call.input)), " ",
    statusOf(call), finished ? el("span", "n", duration(ms)) : null, finished?.synthetic ? badge("warn", "written on resume") : null,
    data.redirected_to ? badge("info", "answered by another tool") : null,
  );
  add(box, head);
  if (call.same) add(box, el("p", "repeat", "The same call as ", seqLink(call.same.seq), ", with the same arguments: attempt " + call.times + "."));
  if (call.code) {
    const said = lastLine(data);
    add(box, el("p", "cause", oneLine(error.message, 2000), said ? [" \u2014 ", el("code", "", oneLine(said, 300))] : null));
    if (error.hint) add(box, el("p", "hint", "Hint: ", oneLine(error.hint, 2000)));
  }
  add(box, storyOf(call), call.code ? afterFailure(call) : null);
  const diff = data.diff_preview;
  if (diff) {
    const what = data.applied === true ? null : call.code === "CONFLICT" ? "What another process changed since the file was read:" : call.code === "NO_MATCH" ? "The text of the call, and that of the file:" : "Not applied:";
    add(box, what ? quiet(what) : null, diffView(diff), data.diff_truncated ? quiet("The record has only this beginning of the diff.") : null);
  }
  add(box, folded("input", () => tree(call.input), Object.keys(call.input).length > 0 && JSON.stringify(call.input).length < (call.code ? 800 : 400) && (!diff || call.code) || hasQuery(JSON.stringify(call.input))));
  if (call.arguments && Object.keys(parsed(call.arguments)).length === 0 && call.arguments.trim() !== "{}") add(box, quiet("Arguments as received:"), longText(call.arguments, ""));
  for (const [event, what] of [[call.asked, "asked the user"], [call.ruled, str(call.ruled?.ruling)]]) {
    if (!event) continue;
    const isNo = what !== "allow" && what !== "asked the user";
    const line = el("p", isNo ? "ruling red" : "ruling", seqLink(event.seq), " permission: ", el("b", "", what), " by ", str(event.rule), event.reason ? ": " + str(event.reason) : "");
    line.id = "seq-" + event.seq;
    add(box, line);
  }
  if (finished) {
    const view = viewOf(finished);
    const isOpen = !!call.code || view.length < 1500 || hasQuery(view);
    const views = folded(["what the model received ", seqLink(finished.seq), el("span", "n", bytes(view.length))], () => longText(view, call.code ? "bad" : ""), isOpen);
    views.id = "seq-" + (finished.seq === call.seq ? finished.seq + "-view" : finished.seq);
    add(box, views, folded("the complete envelope", () => tree(finished.envelope), typeof finished.envelope !== "object"));
  }
  return box;
}

const COUNTERS = {
  retry_count: "retries", single_step_repair_count: "step repairs", task_replan_count: "replans", unvaried_failures: "same failure again",
  reflections: "reflections", consecutive_failures: "failed rounds in a row",
};

function countersView(before, after) {
  before = obj(before);
  after = obj(after);
  const names = [...new Set([...Object.keys(COUNTERS), ...Object.keys(after)])].filter((name) => after[name] !== undefined);
  return el("div", "counters", names.map((name) => {
    const value = (counter) => (typeof counter === "object" ? num(obj(counter).n) : num(counter));
    const max = obj(after[name]).max;
    const from = value(before[name]), to = value(after[name]);
    const state = (from !== to ? " moved" : to === 0 ? " zero" : "") + (max !== undefined && to >= max && to > 0 ? " full" : "");
    return el("span", "counter" + state, (COUNTERS[name] ?? name) + " ", el("b", "", (from !== to ? from + " \u2192 " : "") + to + (max === undefined ? "" : " / " + max)));
  }));
}

const planView = (plan) => el("ul", "plan", arr(plan.todos).map((todo) => {
  const mark = { pending: "\u25cb", in_progress: "\u25d0", completed: "\u25cf", cancelled: "\u2715" }[todo.status] ?? "?";
  return el("li", str(todo.status), mark + " ", str(todo.content));
}));

const lessons = (items) => arr(items).map((item) => el("li", "", el("code", "", str(item.id)), " ", str(item.kind), ": ", str(item.text)));

// How each kind of event is shown, apart from calls.
const SHOW = {
  "session.started": (event) => section("Session started", "", table([
    ["model", str(event.model)], ["mode", str(event.permission_mode)], ["folder", str(event.cwd)], ["program", str(event.program)],
    ["sandbox", str(obj(event.sandbox).backend) + ", files " + str(obj(event.sandbox).filesystem) + ", network " + str(obj(event.sandbox).network)],
    arr(obj(event.sandbox).gaps).length > 0 && ["not protected", arr(event.sandbox.gaps).join("; ")], ["tools", arr(event.tools).join(", ")],
  ]), Object.keys(obj(event.settings)).length > 0 ? folded("settings that are not the defaults", () => tree(event.settings)) : null,
    event.place ? folded("place (in the system prompt)", () => longText(event.place, "")) : null),
  "turn.started": (event) => section("The user", "user", longText(event.input, "said"), event.shown ? folded("what the model received instead", () => longText(event.shown, "")) : null, event.images ? tree(event.images) : null),
  "model.requested": (event) => section("Asked a model (" + str(event.purpose) + ")", "received",
    quiet(seqLink(event.seq), " ", str(event.model), " \u00b7 ~", thousands(event.estimated_tokens), " tokens"),
    event.question ? folded(["the whole question", el("span", "n", bytes(str(event.question).length))], () => longText(event.question, ""), hasQuery(event.question)) : quiet("with the conversation so far")),
  "model.responded": answerPart,
  "model.partial": (event) => quiet("received so far: ", plural(str(event.text).length, "character")),
  "evaluation": (event) => {
    const failure = obj(event.failure);
    if (!event.failure) return quiet(seqLink(event.seq), " evaluation: no failure needs a response");
    return section("Evaluated", "evaluated failed", table([
      ["signal", [str(failure.signal), failure.code ? [" \u00b7 ", el("b", "", str(failure.code))] : "", failure.class ? " \u00b7 class " + str(failure.class) : "", " \u00b7 cause: " + str(failure.category)]],
      ["message", str(failure.message)], failure.chain && ["chain", el("code", "", str(failure.chain))], failure.signature && ["signature", el("code", "", oneLine(failure.signature, 300))],
      failure.remedy && ["a lesson knows a fix", tree(failure.remedy)],
    ]));
  },
  "control.decided": (event) => {
    const words = str(event.decision) + (event.detail ? " " + str(event.detail) : "");
    const isCalm = event.decision === "continue";
    return section(["Decided: ", el("b", isCalm ? "" : "decision", words)], isCalm ? "decided" : "decided loud",
      el("p", "", str(event.reason), typeof event.evidence === "number" ? [" \u2014 evidence ", seqLink(event.evidence)] : null), countersView(event.before, event.after));
  },
  "reflection": (event) => {
    const reflection = obj(event.reflection);
    const cause = obj(reflection.root_cause);
    return section("Reflected", "reflected", quiet("about ", seqLink(event.evidence)),
      event.reflection ? table([
        ["cause", [str(cause.text), " (" + str(cause.category) + ", " + str(cause.kind) + ")"]],
        ["confidence", num(cause.confidence).toFixed(2) + [cause.transient && ", transient", cause.retry_may_succeed === false && ", a retry can not succeed", cause.plan_still_holds === false && ", the plan no longer holds", cause.recoverable === false && ", not recoverable"].filter(Boolean).join("")],
        arr(reflection.fix_strategy).length > 0 && ["fix", el("ul", "", reflection.fix_strategy.map((fix) => el("li", "", str(fix.kind) + ": " + str(fix.text))))],
        reflection.suggested_action && ["suggested action", tree(reflection.suggested_action)],
        reflection.patch_prompt && ["advice to the model", longText(reflection.patch_prompt, "")],
        arr(reflection.memory_to_write).length > 0 && ["to remember", tree(reflection.memory_to_write)],
      ]) : el("p", "red", "No usable answer."),
      arr(event.refused).map((why) => el("p", "red", "Not followed: ", str(why))));
  },
  "plan.updated": (event) => section("Plan", "", quiet(str(event.reason), obj(event.plan).summary ? " \u00b7 " + str(event.plan.summary) : ""), planView(obj(event.plan))),
  "feedback": (event) => section("Feedback to the model", "feedback", longText(event.text, ""), arr(event.files).length > 0 ? tree(event.files) : null),
  "reminder": (event) => section("Reminder to the model", "", quiet("mode ", str(event.mode)), longText(event.text, "")),
  "check.finished": (event) => section(["Check ", el("code", "", oneLine(event.command, 200)), " ", badge(event.passed ? "good" : "bad", event.passed ? "passed" : "failed")], event.passed ? "" : "failed",
    quiet(typeof event.exit_code === "number" ? "exit " + event.exit_code : "did not exit by itself", " \u00b7 ", duration(num(event.time_ms))), event.tail ? longText(event.tail, event.passed ? "" : "bad") : null),
  "verification": (event) => section("Verified by " + str(event.model), event.confirmed === false ? "failed" : "", table([
    ["confirmed", event.confirmed === undefined ? "no verdict" : String(event.confirmed)], event.objection && ["objection", str(event.objection)],
    event.no_effect_reason && ["without effect", str(event.no_effect_reason)], arr(event.evidence).length > 0 && ["evidence", tree(event.evidence)], arr(event.calls).length > 0 && ["calls", longText(event.calls.join("\n"), "")],
  ])),
  "context.compacted": (event) => section("Compacted", "compacted", table([
    ["cause", str(event.cause) + (event.focus ? ", focus: " + str(event.focus) : "")],
    ["replaced", plural(num(event.archived), "message") + ", from turn " + num(obj(event.from).turn) + "." + num(obj(event.from).round) + " to " + num(obj(event.to).turn) + "." + num(obj(event.to).round)],
    ["tokens", "~" + thousands(event.tokens_before) + " \u2192 ~" + thousands(event.tokens_after) + " of " + thousands(event.window)], ["summary by", str(event.by)],
    num(event.forgotten) > 0 && ["oldest summaries left out", thousands(event.forgotten)],
    event.cut && ["results cut", tree(event.cut)], event.shortened && ["texts shortened", tree(event.shortened)], event.user_messages && ["user messages shortened", tree(event.user_messages)],
  ]), event.summary ? longText(event.summary, "said") : null),
  "rules.found": (event) => section("Rules of " + str(event.path), "", longText(event.text, "")),
  "memory.recalled": (event) => section("Recalled (" + str(event.moment) + ")", "", quiet(event.applied ? "the kernel applies it itself" : event.in_rules ? "part of L2" : "told to the model"), el("ul", "", lessons(event.items)), event.text ? folded("as the model received it", () => longText(event.text, "")) : null),
  "memory.written": (event) => section("Learnt", "", el("ul", "", lessons(event.new), lessons(event.confirmed).map((item) => add(item, " (confirmed)")))),
  "error": (event) => section("Error (" + str(event.source) + ")", "failed", el("p", "cause", str(event.message)), event.retry_in_ms === undefined ? null : quiet("attempt " + num(event.attempt) + "; another follows in " + duration(num(event.retry_in_ms)))),
  "turn.finished": (event) => {
    const report = obj(event.report);
    return section(["Turn ended: ", badge(event.ending === "completed" ? "good" : "bad", str(event.ending))], "ended",
      table([
        ["verified", event.verified === true ? "yes" : event.verified === false ? "no: a check failed or could not run" : "no checks"],
        ["took", duration(num(event.time_ms)) + ", of it " + duration(num(event.model_ms)) + " in models; " + plural(num(event.rounds), "round")],
        arr(event.errors).length > 0 && ["errors", el("ul", "", event.errors.map((error) => el("li", "red", str(error))))],
        arr(event.files_changed).length > 0 && ["files changed", arr(event.files_changed).join(", ")],
        arr(event.open_todos).length > 0 && ["open todos", el("ul", "", event.open_todos.map((todo) => el("li", "", str(todo))))],
        report.reason && ["given up because", str(report.reason)],
        arr(report.attempts).length > 0 && ["tried", el("ul", "", report.attempts.map((tried) => el("li", "", str(tried.what) + ", " + num(tried.times) + "\u00d7: " + str(tried.failure))))],
        report.evidence && ["last evidence", longText(report.evidence, "bad")],
        arr(report.next).length > 0 && ["next", el("ul", "", report.next.map((next) => el("li", "", str(next))))],
      ]), event.result ? longText(event.result, "said") : null);
  },
  "user.command": (event) => section("The user ran", "user", longText("$ " + str(event.command) + "\n" + str(event.output), ""), quiet("exit ", str(event.exit_code))),
  "turn.steered": (event) => section("The user, meanwhile", "user", longText(event.input, "said")),
  "unreadable": (event) => section("A line that is not an event", "failed", quiet(str(event.reason), " \u00b7 ", bytes(num(event.bytes))), longText(event.text, "")),
};

const RAW_HIDDEN = new Set(["seq", "ts", "turn", "round", "step", "type", "at", "problem", "v", "session", "agent"]);

function rawPart(event, title) {
  const rest = Object.fromEntries(Object.entries(event).filter(([name]) => !RAW_HIDDEN.has(name)));
  return section(title, "", tree(rest));
}

function eventPart(event) {
  let part;
  try {
    part = Object.hasOwn(SHOW, event.type) && !event.problem ? SHOW[event.type](event) : rawPart(event, event.type || "event without a type");
  } catch {
    part = rawPart(event, event.type);
  }
  part.id ||= "seq-" + event.seq;
  part.title ||= "event " + event.seq + ", " + str(event.ts);
  return part;
}

// All parts of an entry, in the order of the record; those of a call together.
function detailsOf(item) {
  const box = el("div", "detail");
  const done = new Set();
  for (const event of item.events) {
    if (event === item.request) {
      const part = receivedPart(item);
      part.id = "seq-" + event.seq;
      add(box, part);
      continue;
    }
    const isOfCall = /^(tool\.started|tool\.finished|permission\.requested|permission\.decided)$/.test(event.type) && !event.problem;
    const call = isOfCall ? item.calls.find((call) => [call.started, call.finished, call.asked, call.ruled].includes(event)) : null;
    if (!call) add(box, eventPart(event));
    else if (!done.has(call)) {
      done.add(call);
      let part;
      try {
        part = callPart(call);
      } catch {
        part = rawPart(event, event.type);
        part.id = "seq-" + event.seq;
      }
      add(box, part);
    }
  }
  for (const call of item.calls) {
    if (!done.has(call) && call.answer) add(box, section(["Called ", el("b", "", call.tool), " ", badge("warn", "never ran")], "call", longText(call.arguments, "")));
  }
  return box;
}
