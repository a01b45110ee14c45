// The header, and the panels beside the timeline: failures, filters, files, context.

function headerView() {
  const started = trace.started ?? {};
  const first = trace.turns.find((turn) => turn.event);
  const last = trace.turns.findLast((turn) => turn.event && !turn.isGone);
  const ending = last ? (last.finished ? str(last.finished.ending) : "unfinished") : "no turn";
  const task = str(obj(first?.event).input) || "(no task)";
  const more = trace.turns.filter((turn) => turn.event).length - 1;
  const n = trace.requests.filter((request) => request.event.purpose === "main").length;
  const asides = trace.requests.length - n;
  const fact = (label, value, hint) => {
    const box = el("div", "fact", el("span", "label", label), el("b", "", value));
    if (hint) box.title = hint;
    return box;
  };
  const verified = obj(last?.finished).verified;
  const failed = new Set(trace.calls.filter((call) => call.code)).size;
  const title = el("h1", "", oneLine(task, 300));
  title.title = visible(task.slice(0, 2000));
  return el(
    "header", "top",
    el("div", "bar", badge(ending === "completed" ? "good" : "bad", ending, "how the last turn ended"), trace.name ? badge("info", trace.name) : null, title,
      more > 0 ? el("span", "quiet", "and " + plural(more, "more turn")) : null, el("span", "grow"),
      button("icon", "\u25d0", switchTheme, "light or dark (t)"), button("icon", "?", showHelp, "keys (?)")),
    el("div", "facts-line",
      fact("model", str(started.model) || "?"), fact("mode", str(started.permission_mode) || "?"), fact("turns", thousands(more + 1)),
      fact("rounds", thousands(n) + (asides > 0 ? " + " + thousands(asides) : ""), "model calls of the loop + others (reflections, plans, summaries)"),
      fact("calls", thousands(trace.calls.length) + (failed > 0 ? ", " + thousands(failed) + " failed" : "")),
      fact("checks", verified === true ? "passed" : verified === false ? "not passed" : "none", "whether checks ran on the last answer"),
      fact("tokens", short(trace.usage.input) + " in, " + short(trace.usage.output) + " out", thousands(trace.usage.cached) + " of the input from the cache"),
      fact("cost", trace.cost === null ? "?" : dollars(trace.cost)), fact("time", duration(trace.timeMs), duration(trace.modelMs) + " of it in models"),
      fact("session", facts.session.slice(0, 8) + "\u2026" + facts.session.slice(-4), facts.session), fact("started", str(started.ts).slice(0, 19).replace("T", " "))),
    facts.notices.map((notice) => el("p", "notice", notice)),
  );
}

// One line per failure, in order. Long lists show the part around the chosen one.
const MOST_FAILURES = 200;

function failuresPanel() {
  const list = el("ol", "failures");
  const bar = el("span", "grow");
  const box = el("section", "panel", el("h2", "", "Failures ", el("span", "n", thousands(trace.failures.length)), bar,
    button("icon", "\u2191", () => nextFailure(-1), "previous failure (p)"), button("icon", "\u2193", () => nextFailure(1), "next failure (n)")), list);
  let shownFrom = -1;
  const draw = (chosen) => {
    const from = Math.max(0, Math.min(chosen - MOST_FAILURES / 2, trace.failures.length - MOST_FAILURES));
    if (from !== shownFrom || list.children.length === 0) {
      shownFrom = from;
      list.replaceChildren(...trace.failures.slice(from, from + MOST_FAILURES).map((failure, n) => failureRow(failure, from + n)));
    }
    for (const row of list.children) row.classList.toggle("chosen", Number(row.dataset.n) === chosen);
    list.querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
  };
  if (trace.failures.length === 0) add(box, quiet("Nothing failed."));
  return { box, draw };
}

function failureRow(failure, n) {
  const { item, call } = failure;
  const decision = item.decision && item.decision.decision !== "continue" ? str(item.decision.decision) + " " + str(item.decision.detail) : "";
  const row = el("li", item.turn?.isGone ? "gone" : "", button("", [
    el("span", "where", (item.turn?.number ?? 0) + "." + item.number), badge("bad", failure.code),
    el("span", "what", call ? [el("b", "", call.tool), " ", target(call.tool, call.input)] : oneLine(failure.text, 120)),
    el("span", "why", call ? oneLine(failure.said || failure.text, 160) : ""), decision ? el("span", "then", "\u2192 " + decision) : call?.same ? el("span", "then", "the same call again") : null,
  ], () => chooseFailure(n)));
  row.dataset.n = n;
  return row;
}

// Chips that restrict the timeline.
function filtersPanel() {
  const count = (pick) => {
    const counts = new Map();
    for (const item of trace.items) for (const name of pick(item)) counts.set(name, (counts.get(name) ?? 0) + 1);
    return [...counts].sort((a, b) => b[1] - a[1]).slice(0, 40);
  };
  const group = (title, kind, counts) => counts.length === 0 ? null : el("div", "chips", el("span", "label", title), counts.map(([name, n]) => {
    const chip = button("chip", [name + " ", el("span", "n", thousands(n))], () => {
      const chosen = filter[kind];
      if (!chosen.delete(name)) chosen.add(name);
      applyFilter();
    });
    chip.dataset.kind = kind;
    chip.dataset.name = name;
    return chip;
  }));
  const search = el("input", "");
  search.type = "search";
  search.id = "search";
  search.placeholder = "search the record   /";
  search.autocomplete = "off";
  let timer = 0;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => setQuery(search.value), 150);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      clearTimeout(timer);
      setQuery(search.value);
      search.blur();
      moveRound(1);
    }
  });
  return el("section", "panel filters", search,
    group("code", "codes", count((item) => item.codes)), group("tool", "tools", count((item) => item.tools)), group("decision", "decisions", count((item) => item.decisions)),
    el("p", "shown", el("span", "", ""), button("more", "show everything", clearFilter)));
}

function filesView() {
  const box = el("div", "view");
  if (trace.files.size === 0) return add(box, quiet("No call reported a changed file."));
  for (const [path, changes] of trace.files) {
    const count = (sign) => changes.reduce((sum, change) => sum + (change.diff ? change.diff.split("\n").filter((line) => line[0] === sign && !line.startsWith(sign.repeat(3))).length : 0), 0);
    add(box, folded([el("code", "", path), " ", el("span", "plus-n", "+" + count("+")), " ", el("span", "minus-n", "\u2212" + count("-")), " ", el("span", "n", plural(changes.length, "change"))],
      () => changes.map(({ call, diff, how, isCut }) => [
        quiet(seqLink(call.seq), " ", call.tool, " in round ", (call.item.turn?.number ?? 0) + "." + call.item.number, how ? " \u00b7 " + how : "", call.item.turn?.isGone ? " \u00b7 the turn was removed by a rewind" : ""),
        diff ? diffView(diff) : quiet("changed by ", el("code", "", target(call.tool, call.input)), "; the record has no diff of it"), isCut ? quiet("The record has only this beginning of the diff.") : null,
      ]), trace.files.size <= 12, "changed-file"));
  }
  return box;
}

function contextView() {
  const box = el("div", "view");
  const group = (title, events) => events.length > 0 && add(box, el("h3", "", title), events.map((event) => {
    const part = eventPart(event);
    part.removeAttribute("id");
    const item = trace.itemOf.get(event.seq);
    return el("div", "", quiet(seqLink(event.seq), " turn ", item.turn?.number ?? 0), part);
  }));
  const of = (...kinds) => trace.context.filter(({ kind }) => kinds.includes(kind)).map(({ event }) => event);
  group("Compactions", trace.compactions.map(({ event }) => event));
  group("Recalled lessons", of("lesson"));
  group("Learnt", of("learnt"));
  group("Rules of directories", of("rules"));
  if (box.children.length === 0) add(box, quiet("No compaction or lesson."));
  return box;
}

const KEYS = [
  ["n  p", "next, previous failure"], ["j  k", "next, previous round"], ["Enter", "open or close the round"], ["/", "search; Enter goes to the first match"],
  ["o  c", "open the rounds in view, close all rounds"], ["1  2  3", "timeline, files, context"], ["t", "light or dark"], ["Esc", "close this, clear the search and the filters"], ["?", "these keys"],
];

function showHelp() {
  let help = document.getElementById("help");
  if (!help) {
    help = el("dialog", "", el("h2", "", "Keys"), el("dl", "keys", KEYS.map(([keys, what]) => el("div", "", el("dt", "", keys.split("  ").map((key) => el("kbd", "", key))), el("dd", "", what)))),
      quiet("Every #number is an event of the record and a link: …#seq-123 opens it."));
    help.id = "help";
    help.addEventListener("click", (event) => event.target === help && help.close());
    document.body.append(help);
  }
  if (help.open) help.close();
  else help.showModal();
}

function switchTheme() {
  const isDark = getComputedStyle(document.documentElement).colorScheme === "dark" || getComputedStyle(document.documentElement).colorScheme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
}
