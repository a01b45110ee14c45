// Builds the page, and connects keys and links.

fold();
document.title = visible("trace " + facts.session.slice(0, 8) + " \u2014 " + oneLine(obj(trace.turns.find((turn) => turn.event)?.event).input, 60));

const failures = failuresPanel();
const views = { timeline: null, files: null, context: null };
const tabs = el("nav", "tabs");
const content = el("main", "");

function showTab(name) {
  for (const tab of tabs.children) tab.classList?.toggle("on", tab.dataset.name === name);
  views.files ??= name === "files" ? filesView() : null;
  views.context ??= name === "context" ? contextView() : null;
  for (const other in views) if (views[other]) views[other].hidden = other !== name;
  if (!views[name].isConnected) content.append(views[name]);
}

{
  views.timeline = timelineBox;
  for (const [name, label, n] of [["timeline", "Timeline", trace.items.length], ["files", "Files", trace.files.size], ["context", "Context", trace.compactions.length + trace.context.length]]) {
    const tab = button("tab", [label + " ", el("span", "n", thousands(n))], () => showTab(name));
    tab.dataset.name = name;
    tabs.append(tab);
  }
  add(tabs, el("span", "grow"), button("more", "close all", closeAll, "close all rounds (c)"));
  const aside = el("aside", "", filtersPanel(), failures.box);
  add(content, tabs, timelineBox);
  add(document.body, headerView(), charts(), el("div", "columns", aside, content));
  drawTimeline();
  showTab("timeline");
  failures.draw(-1);
  if (trace.failures.length === 0 && trace.items.length <= 3) trace.items.forEach(open);
}

function closeAll() {
  for (const item of trace.items) if (item.isOpen) close(item);
}

function openInView() {
  for (const item of shown) {
    const box = item.article?.getBoundingClientRect();
    if (box && box.bottom > 0 && box.top < innerHeight) open(item);
  }
}

function follow() {
  const seq = /^#seq-([\w-]+)$/.exec(location.hash)?.[1];
  if (seq) goTo(/^\d+$/.test(seq) ? Number(seq) : seq);
}

const ACTIONS = {
  n: () => nextFailure(1), p: () => nextFailure(-1), j: () => moveRound(1), k: () => moveRound(-1), o: openInView, c: closeAll, t: switchTheme, "?": showHelp,
  1: () => showTab("timeline"), 2: () => showTab("files"), 3: () => showTab("context"),
  "/": () => document.getElementById("search").focus(),
  Enter: () => current >= 0 && toggle(shown[current]),
  Escape: () => clearFilter(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = event.target.tagName === "INPUT";
  if (isTyping && event.key === "Escape") event.target.blur();
  else if (isTyping) return;
  if (document.getElementById("help")?.open && event.key !== "?") return;
  // A focused button or link acts by itself.
  if (event.key === "Enter" && /^(BUTTON|A|SUMMARY)$/.test(event.target.tagName)) return;
  if (Object.hasOwn(ACTIONS, event.key)) {
    event.preventDefault();
    ACTIONS[event.key]();
  }
});
// A link to the event that is already in the address changes nothing in it.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a.seq");
  if (link && link.hash === location.hash) follow();
});
addEventListener("hashchange", follow);
follow();
document.documentElement.dataset.ready = Math.round(performance.now());
