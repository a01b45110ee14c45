// Charts of the requests: tokens, context use, cost.

const COLUMNS = 240;

// At most so many columns: each stands for one request, or for the largest of several.
function columns(requests) {
  const each = Math.max(1, Math.ceil(requests.length / COLUMNS));
  const found = [];
  for (let from = 0; from < requests.length; from += each) {
    const part = requests.slice(from, from + each);
    const size = (request) => num(obj(obj(request.answer).usage).input_tokens) || num(request.event.estimated_tokens);
    found.push({ from, to: from + part.length, request: part.reduce((a, b) => (size(b) > size(a) ? b : a)) });
  }
  return found;
}

function chart(title, legend, shown, draw, read) {
  const W = 480, H = 64;
  const width = W / Math.max(shown.length, 24);
  const picture = svg("svg", { viewBox: "0 0 " + W + " " + H, preserveAspectRatio: "none", role: "img" });
  draw({ W, H, width, picture });
  const label = el("span", "reading", legend);
  const at = (event) => {
    const box = picture.getBoundingClientRect();
    return shown[Math.floor(((event.clientX - box.left) / box.width) * W / width)];
  };
  picture.addEventListener("pointermove", (event) => {
    const column = at(event);
    label.replaceChildren(...(column ? [document.createTextNode(read(column))] : legend.map((part) => part.cloneNode(true))));
  });
  picture.addEventListener("pointerleave", () => label.replaceChildren(...legend.map((part) => part.cloneNode(true))));
  picture.addEventListener("click", (event) => {
    const column = at(event);
    if (column) goTo(column.request.seq);
  });
  return el("figure", "chart", el("figcaption", "", el("b", "", title), label), picture);
}

const key = (kind, label) => el("span", "key", el("i", kind), label);

function charts() {
  const all = trace.requests;
  if (all.length === 0) return null;
  const shown = columns(all);
  const usage = ({ request }) => {
    const usage = obj(obj(request.answer).usage);
    const input = num(usage.input_tokens), cached = Math.min(num(usage.cached_tokens), input);
    return { input, cached, output: num(usage.output_tokens) };
  };
  const name = ({ from, to, request }) => (to - from > 1 ? "requests " + (from + 1) + "\u2013" + to : "request " + to) + " (" + str(request.event.purpose) + ")";
  const rect = (kind, x, y, w, h) => svg("rect", { class: kind, x: x.toFixed(2), y: y.toFixed(2), width: Math.max(w, 0.3).toFixed(2), height: Math.max(h, 0).toFixed(2) });
  const marks = ({ H, width, picture }) => {
    for (const { at } of trace.compactions) {
      const x = (shown.findIndex(({ to }) => to > at) + 1 || shown.length + 1) - 1;
      picture.append(svg("line", { class: "mark", x1: x * width, x2: x * width, y1: 0, y2: H }));
    }
  };

  const most = Math.max(1, ...shown.map((column) => { const { input, output } = usage(column); return input + output; }));
  const tokens = chart(
    "Tokens per request", [key("c-in", "input"), key("c-cached", "cached"), key("c-out", "output"), el("span", "key", "max " + short(most))], shown,
    (place) => {
      shown.forEach((column, n) => {
        const { input, cached, output } = usage(column);
        const { H, width, picture } = place;
        const x = n * width, w = width * 0.82, scale = H / most;
        picture.append(rect("c-cached", x, H - cached * scale, w, cached * scale));
        picture.append(rect("c-in", x, H - input * scale, w, (input - cached) * scale));
        picture.append(rect("c-out", x, H - (input + output) * scale, w, output * scale));
      });
      marks(place);
    },
    (column) => { const { input, cached, output } = usage(column); return name(column) + ": " + thousands(input) + " in, " + thousands(cached) + " cached, " + thousands(output) + " out"; },
  );

  const use = ({ request }) => {
    const window = num(request.event.window);
    return window ? num(request.event.estimated_tokens) / window : 0;
  };
  const top = [0.05, 0.1, 0.25, 0.5, 1].find((top) => shown.every((column) => use(column) <= top)) ?? 1;
  const window = num(all.findLast((request) => num(request.event.window))?.event.window);
  const context = chart(
    "Context use", window ? [el("span", "key", "up to " + top * 100 + " % of " + short(window) + " tokens"), trace.compactions.length ? key("c-mark", "compaction") : el("span")] : [el("span", "key", "the window is not known")], shown,
    (place) => {
      const { W, H, width, picture } = place;
      for (const part of [0.5]) picture.append(svg("line", { class: "grid", x1: 0, x2: W, y1: H - part * H + 0.5, y2: H - part * H + 0.5 }));
      shown.forEach((column, n) => {
        const part = Math.min(use(column) / top, 1);
        picture.append(rect(use(column) > 0.9 ? "c-bad" : "c-in", n * width, H - part * H, width * 0.82, part * H));
      });
      marks(place);
    },
    (column) => name(column) + ": ~" + thousands(column.request.event.estimated_tokens) + " tokens, " + (use(column) * 100).toFixed(1) + " %",
  );

  if (trace.cost === null) return el("div", "charts", tokens, context);
  let sum = 0;
  const sums = all.map((request) => (sum += num(obj(request.answer).cost_usd)));
  const cost = chart(
    "Cost so far", [el("span", "key", dollars(sum))], shown,
    ({ H, width, picture }) => {
      if (sum === 0) return;
      shown.forEach(({ to }, n) => {
        const h = (sums[to - 1] / sum) * (H - 2);
        picture.append(rect("c-cost", n * width, H - h, width * 0.82, h));
      });
    },
    (column) => name(column) + ": " + dollars(sums[column.to - 1]),
  );
  return el("div", "charts", tokens, context, cost);
}
