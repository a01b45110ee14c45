// The timeline: one row per round, in blocks that are filled when they come into view.

const BLOCK = 40;
const ROW = 30;
const filter = { codes: new Set(), tools: new Set(), decisions: new Set(), query: "", matches: null };
let shown = [];
let current = -1;
let chosenFailure = -1;
const timelineBox = el("div", "timeline");
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) fillBlock(entry.target);
}, { rootMargin: "1200px" });
const blocks = new Map();

function rowText(item) {
  const first = item.events[0];
  if (item.kind === "round") {
    if (!item.answer) return el("span", "said dim", item.codes.size > 0 ? oneLine(trace.failures.find((failure) => failure.item === item)?.text, 140) : "no answer in the record");
    const text = oneLine(item.answer.text, 160);
    return el("span", "said", text || (item.calls.length > 0 ? "" : el("i", "dim", "no text")));
  }
  if (item.kind === "task") return el("span", "said user", oneLine(first.input, 200));
  return el("span", "said dim", noteText(first));
}

function noteText(event) {
  switch (event.type) {
    case "session.started": return "session started: " + str(event.model) + ", mode " + str(event.permission_mode);
    case "session.resumed": return "session resumed after " + plural(num(event.events), "event") + (arr(event.uncertain).length > 0 ? ", outcome unknown: " + event.uncertain.join(", ") : "");
    case "session.rewound": return "rewound: turn " + num(event.from_turn) + " and later ones are no longer part of the session";
    case "session.forked": return "forked from " + str(event.from) + ", up to turn " + num(event.up_to);
    case "context.compacted": return "compacted: " + plural(num(event.archived), "message") + " \u2192 a summary, ~" + short(num(event.tokens_before)) + " \u2192 ~" + short(num(event.tokens_after)) + " tokens";
    case "turn.finished": return "turn ended: " + str(event.ending) + (event.result ? " \u2014 " + oneLine(event.result, 140) : "");
    case "mode.changed": return "mode " + str(event.mode) + (event.words ? ": \u201c" + str(event.words) + "\u201d" : "");
    case "reminder": case "feedback": return event.type + ": " + oneLine(event.text, 140);
    case "memory.recalled": return "recalled: " + arr(event.items).map((item) => oneLine(item.text, 100)).join("; ");
    case "memory.written": return "learnt: " + [...arr(event.new), ...arr(event.confirmed)].map((item) => oneLine(item.text, 100)).join("; ");
    case "user.command": return "! " + oneLine(event.command, 140);
    case "turn.steered": return "the user: " + oneLine(event.input, 140);
    case "error": return "error (" + str(event.source) + "): " + oneLine(event.message, 140);
    case "model.requested": return "asked a model (" + str(event.purpose) + ")";
    case "unreadable": return "a line that is not an event: " + oneLine(event.reason, 100);
    case "session.summary": return "totals of the session";
    case "turn.undone": return "turn " + num(event.undone) + (event.is_redo ? " redone" : " undone") + ": " + Object.keys(obj(event.files)).join(", ");
    default: return event.type + (Object.hasOwn(SHOW, event.type) || ALONE.has(event.type) ? "" : event.type.includes(".") ? "" : " (unknown)");
  }
}

function rowOf(item) {
  const chips = item.calls.slice(0, 6).map((call) => el("span", "call-chip" + (call.code ? " bad" : !call.finished ? " warn" : ""),
    el("b", "", call.tool), " ", oneLine(target(call.tool, call.input), 44), call.code ? [" ", el("em", "", call.code)] : null, call.same ? el("em", "again", "again") : null));
  const codes = [...item.codes].filter((code) => !item.calls.some((call) => call.code === code)).map((code) => badge("bad", code));
  const decision = item.decision && item.decision.decision !== "continue" ? badge("info", str(item.decision.decision) + " " + str(item.decision.detail)) : null;
  const usage = obj(obj(item.answer).usage);
  const tokens = item.answer?.usage ? short(num(usage.input_tokens)) + " / " + short(num(usage.output_tokens)) : "";
  const row = el("div", "row", el("span", "place", item.kind === "round" ? item.turn.number + "." + item.number : ""), el("span", "step", item.step > 0 ? "step " + item.step : ""),
    el("span", "main", rowText(item), chips, item.calls.length > 6 ? el("span", "dim", "+" + (item.calls.length - 6)) : null), codes, decision,
    el("span", "tokens", tokens), el("span", "ms", item.answer ? duration(num(item.answer.time_ms)) : ""));
  if (item.step > 0) row.title = visible("step " + item.step + ": " + str(obj(arr(obj(item.plan).todos)[item.step - 1]).content));
  row.tabIndex = 0;
  row.setAttribute("role", "button");
  row.setAttribute("aria-expanded", "false");
  return row;
}

function articleOf(item) {
  const article = el("article", item.kind + (item.isFailure ? " failing" : "") + (item.turn?.isGone ? " gone" : ""));
  article.id = "item-" + item.n;
  const row = rowOf(item);
  row.addEventListener("click", () => {
    setCurrent(item);
    toggle(item);
  });
  row.addEventListener("focus", () => setCurrent(item));
  article.append(row);
  item.article = article;
  if (item.isOpen) open(item);
  return article;
}

function open(item) {
  item.isOpen = true;
  if (!item.article || item.article.children.length > 1) return;
  const part = detailsOf(item);
  if (item.step > 0) part.prepend(quiet("Step " + item.step + " of the plan: " + str(obj(arr(obj(item.plan).todos)[item.step - 1]).content)));
  item.article.append(part);
  item.article.classList.add("open");
  item.article.firstChild.setAttribute("aria-expanded", "true");
  highlight();
}

function close(item) {
  item.isOpen = false;
  if (!item.article) return;
  item.article.querySelector(":scope > .detail")?.remove();
  item.article.classList.remove("open");
  item.article.firstChild.setAttribute("aria-expanded", "false");
}

const toggle = (item) => (item.isOpen ? close(item) : open(item));

function fillBlock(block) {
  const items = blocks.get(block);
  if (!items) return;
  blocks.delete(block);
  observer.unobserve(block);
  block.style.minHeight = "";
  block.replaceChildren(...items.map(articleOf));
}

function matches(item) {
  const any = (chosen, has) => chosen.size === 0 || [...chosen].some((name) => has.has(name));
  return any(filter.codes, item.codes) && any(filter.tools, item.tools) && any(filter.decisions, item.decisions) && (!filter.matches || filter.matches.has(item));
}

function drawTimeline() {
  observer.disconnect();
  blocks.clear();
  for (const item of trace.items) item.article = null;
  shown = trace.items.filter(matches);
  timelineBox.replaceChildren();
  let begin = 0;
  for (const turn of trace.turns) {
    let end = begin;
    while (end < shown.length && shown[end].turn === turn) end++;
    const items = shown.slice(begin, end);
    begin = end;
    if (items.length === 0) continue;
    const ending = turn.finished ? badge(turn.finished.ending === "completed" ? "good" : "bad", str(turn.finished.ending)) : turn.event ? badge("warn", "unfinished") : null;
    const box = el("section", "turn" + (turn.isGone ? " gone" : ""));
    if (turn.event) {
      const head = el("h3", "", button("fold", [el("b", "", "Turn " + turn.number), el("span", "task-line", oneLine(turn.event.input, 200)), turn.isGone ? badge("warn", "removed by a rewind") : null, ending, el("span", "n", plural(items.filter((item) => item.kind === "round").length, "round"))], () => box.classList.toggle("closed")));
      box.append(head);
    }
    for (let from = 0; from < items.length; from += BLOCK) {
      const part = items.slice(from, from + BLOCK);
      const block = el("div", "block");
      block.style.minHeight = part.length * ROW + "px";
      for (const item of part) item.block = block;
      blocks.set(block, part);
      box.append(block);
      observer.observe(block);
    }
    timelineBox.append(box);
  }
  // What is in view at once is drawn at once.
  for (const block of [...blocks.keys()].slice(0, 2)) fillBlock(block);
  if (shown.length === 0) timelineBox.append(quiet("Nothing matches. Esc shows everything."));
}

function applyFilter() {
  for (const chip of document.querySelectorAll(".chip")) chip.classList.toggle("on", filter[chip.dataset.kind].has(chip.dataset.name));
  drawTimeline();
  const isFiltered = filter.matches || filter.codes.size + filter.tools.size + filter.decisions.size > 0;
  const line = document.querySelector(".shown");
  line.classList.toggle("on", !!isFiltered);
  line.firstChild.textContent = thousands(shown.length) + " of " + thousands(trace.items.length) + " entries ";
  current = -1;
  showTab("timeline");
  highlight();
}

function clearFilter() {
  filter.codes.clear();
  filter.tools.clear();
  filter.decisions.clear();
  document.getElementById("search").value = "";
  setQuery("");
}

const escapeRegex = (text) => text.replace(/[.*+?^${}()|[\]\\\/]/g, "\\$&");

// Searches the lines of the record, in which texts are written as in JSON.
function setQuery(query) {
  filter.query = query;
  if (query === "") filter.matches = null;
  else {
    const pattern = escapeRegex(JSON.stringify(query).slice(1, -1)).replace(/[<]/g, "(?:<|\\\\u003c)");
    const regex = new RegExp(pattern, "i");
    filter.matches = new Set();
    raw.forEach((line, at) => {
      if (regex.test(line)) filter.matches.add(trace.itemOf.get(trace.events[at].seq));
    });
  }
  applyFilter();
}

function hasQuery(text) {
  return filter.query !== "" && str(text).toLowerCase().includes(filter.query.toLowerCase());
}

// Marks what was searched, where the browser can.
function highlight() {
  if (!globalThis.Highlight || !CSS.highlights) return;
  CSS.highlights.delete("found");
  if (filter.query === "") return;
  const ranges = [];
  const query = filter.query.toLowerCase();
  const walker = document.createTreeWalker(timelineBox, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode()) && ranges.length < 2000; ) {
    const text = node.data.toLowerCase();
    for (let at = text.indexOf(query); at >= 0; at = text.indexOf(query, at + query.length)) {
      const range = new Range();
      range.setStart(node, Math.min(at, node.length));
      range.setEnd(node, Math.min(at + query.length, node.length));
      ranges.push(range);
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}

function setCurrent(item) {
  document.querySelector("article.current")?.classList.remove("current");
  current = shown.indexOf(item);
  item.article?.classList.add("current");
}

function show(item, isOpening) {
  showTab("timeline");
  if (!matches(item)) clearFilter();
  if (!item.article) fillBlock(item.block);
  item.article.closest(".turn").classList.remove("closed");
  if (isOpening) open(item);
  setCurrent(item);
  item.article.scrollIntoView({ block: isOpening ? "start" : "nearest" });
  // Blocks above may have been filled by the scrolling.
  requestAnimationFrame(() => item.article?.scrollIntoView({ block: isOpening ? "start" : "nearest" }));
}

function moveRound(step) {
  if (shown.length === 0) return;
  const item = shown[Math.max(0, Math.min(shown.length - 1, current + step))];
  show(item, false);
}

// Opens the entry of an event, and the event in it.
function goTo(seq) {
  const item = trace.itemOf.get(seq) ?? trace.itemOf.get(Number(seq));
  if (!item) return false;
  show(item, true);
  const part = item.article.querySelector("#seq-" + CSS.escape(String(seq)));
  if (part) {
    if (part.tagName === "DETAILS") part.open = true;
    requestAnimationFrame(() => part.scrollIntoView({ block: "start" }));
    document.querySelector(".flash")?.classList.remove("flash");
    void part.offsetWidth;
    part.classList.add("flash");
  }
  return true;
}

function chooseFailure(n) {
  chosenFailure = n;
  const failure = trace.failures[n];
  failures.draw(n);
  goTo(failure.call ? failure.call.seq : failure.seq);
  try {
    history.replaceState(null, "", "#seq-" + failure.seq);
  } catch {
    // A browser may refuse it for files; the address then stays.
  }
}

function nextFailure(step) {
  if (trace.failures.length === 0) return;
  // From where the reader is.
  const at = current >= 0 ? shown[current] : null;
  let n = chosenFailure + step;
  if (chosenFailure < 0 || (at && trace.failures[chosenFailure].item !== at)) {
    const from = at ? at.n : -1;
    n = step > 0 ? trace.failures.findIndex(({ item }) => item.n > from) : trace.failures.findLastIndex(({ item }) => item.n < from);
    if (n < 0) n = step > 0 ? 0 : trace.failures.length - 1;
  }
  chooseFailure((n + trace.failures.length) % trace.failures.length);
}
