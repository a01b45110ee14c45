// Elements. Text of the log becomes text nodes only, never markup.

const SVG = "http://www.w3.org/2000/svg";
const CLIP = 4000;
const CHUNK = 65536;

// What would control, hide or reorder text.
const HIDDEN =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;

function visible(text) {
  return text.replace(HIDDEN, (char) => {
    const code = char.codePointAt(0);
    if (code < 32) return String.fromCharCode(0x2400 + code);
    if (code === 127) return "\u2421";
    return "\u27e8U+" + code.toString(16).toUpperCase().padStart(4, "0") + "\u27e9";
  });
}

function add(parent, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    parent.append(child instanceof Node ? child : document.createTextNode(visible(String(child))));
  }
  return parent;
}

function el(name, className, ...children) {
  const element = document.createElement(name);
  if (className) element.className = className;
  return add(element, children);
}

function svg(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  return add(element, children);
}

function button(className, label, action, hint) {
  const element = el("button", className, label);
  element.type = "button";
  if (hint) element.title = hint;
  element.addEventListener("click", action);
  return element;
}

// Values of a log may have any type.
const str = (value) => (typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value));
const num = (value) => (typeof value === "number" && Number.isFinite(value) ? value : 0);
const obj = (value) => (value && typeof value === "object" && !Array.isArray(value) ? value : {});
const arr = (value) => (Array.isArray(value) ? value : []);

const thousands = (n) => Math.round(num(n)).toString().replace(/\B(?=(\d{3})+$)/g, ",");
const short = (n) => (n < 1000 ? String(Math.round(n)) : n < 99950 ? (n / 1000).toFixed(1) + "k" : n < 1e6 ? Math.round(n / 1000) + "k" : (n / 1e6).toFixed(1) + "M");
const bytes = (n) => (n < 1024 ? n + " B" : n < 1048576 ? (n / 1024).toFixed(1) + " KB" : (n / 1048576).toFixed(1) + " MB");
const duration = (ms) => (ms < 1000 ? Math.round(ms) + " ms" : ms < 60000 ? (ms / 1000).toFixed(1) + " s" : Math.floor(ms / 60000) + " m " + Math.round((ms % 60000) / 1000) + " s");
const dollars = (usd) => "$" + num(usd).toFixed(4);
const plural = (n, word) => thousands(n) + " " + word + (n === 1 ? "" : "s");

function oneLine(text, max) {
  const line = str(text).slice(0, max * 4).trim().replace(/\s*\n\s*/g, " \u23ce ");
  return line.length > max ? line.slice(0, max - 1) + "\u2026" : line;
}

// A text that may be very long: its beginning, and a button for the rest.
function longText(text, className, limit = CLIP) {
  text = str(text);
  const pre = el("pre", className || "");
  if (text.length <= limit) return add(pre, text);
  // No half of a surrogate pair.
  let end = text.lastIndexOf("\n", limit) + 1;
  if (end < limit / 2) end = limit - (text.charCodeAt(limit - 1) >> 10 === 0x36 ? 1 : 0);
  add(pre, text.slice(0, end));
  const more = button("more", "show all (" + bytes(text.length) + ")", () => {
    more.remove();
    pre.textContent = "";
    for (let from = 0; from < text.length; ) {
      let to = Math.min(from + CHUNK, text.length);
      const line = text.lastIndexOf("\n", to) + 1;
      if (to < text.length && line > from) to = line;
      add(pre, el("span", "chunk", text.slice(from, to)));
      from = to;
    }
  });
  const box = el("div", "clipped", pre, more);
  box.dataset.length = text.length;
  return box;
}

// A part that is built when it is opened.
function folded(title, build, isOpen = false, className = "") {
  const details = el("details", className, el("summary", "", title));
  const fill = () => {
    if (details.children.length === 1) add(details, build());
  };
  if (isOpen) {
    fill();
    details.open = true;
  }
  details.addEventListener("toggle", () => details.open && fill());
  details.fill = fill;
  return details;
}

// A unified diff.
function diffView(text) {
  text = str(text);
  const box = el("pre", "diff");
  const lines = text.replace(/\n$/, "").split("\n");
  const draw = (lines) => {
    for (const line of lines) {
      const kind = /^(\+\+\+|---)/.test(line) ? "file" : { "+": "plus", "-": "minus", "@": "hunk" }[line[0]] || "";
      add(box, el("span", kind, line || " "));
    }
  };
  const LINES = 80;
  draw(lines.slice(0, LINES));
  if (lines.length > LINES) {
    const more = button("more", "show all (" + plural(lines.length, "line") + ")", () => {
      more.remove();
      draw(lines.slice(LINES, 20000));
      if (lines.length > 20000) add(box, longText(lines.slice(20000).join("\n")));
    });
    return el("div", "", box, more);
  }
  return box;
}

// Any JSON value, with texts of several lines as text.
function tree(value, depth = 0) {
  if (typeof value === "string") {
    return value.includes("\n") || value.length > 200 ? longText(value, "value", 2000) : el("code", "text", value === "" ? "\u201c\u201d" : value);
  }
  if (value === null || typeof value !== "object") return el("code", "atom", String(value));
  const isList = Array.isArray(value);
  const names = Object.keys(value);
  if (names.length === 0) return el("code", "atom", isList ? "[ ]" : "{ }");
  const isPlain = (item) => item === null || typeof item !== "object" && !(typeof item === "string" && (item.length > 80 || item.includes("\n")));
  if (isList && names.length <= 12 && value.every(isPlain)) return el("code", "text", value.map((item) => (typeof item === "string" ? item : JSON.stringify(item))).join(", "));
  if (depth > 12) return longText(JSON.stringify(value, null, 1), "value");
  const list = el("dl", "tree");
  const MOST = 100;
  const draw = (from, to) => {
    for (const name of names.slice(from, to)) {
      add(list, el("div", "", el("dt", "", isList ? Number(name) + 1 + "." : name), el("dd", "", tree(value[name], depth + 1))));
    }
  };
  draw(0, MOST);
  if (names.length <= MOST) return list;
  const more = button("more", "show all (" + plural(names.length, "item") + ")", () => {
    more.remove();
    draw(MOST, Infinity);
  });
  return el("div", "", list, more);
}

function table(rows) {
  return el("dl", "facts", rows.filter(Boolean).map(([name, value]) => el("div", "", el("dt", "", name), el("dd", "", value))));
}

// A link to an event.
function seqLink(seq, label) {
  const link = el("a", "seq", label || "#" + seq);
  link.href = "#seq-" + seq;
  link.title = "event " + seq;
  return link;
}

const badge = (kind, label, hint) => {
  const element = el("span", "badge " + kind, label);
  if (hint) element.title = visible(hint);
  return element;
};
