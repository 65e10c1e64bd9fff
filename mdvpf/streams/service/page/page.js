// The page of the service: surprise as it comes, incidents, states, memory and speed.
"use strict";

const KEPT = 600; // symbols in the chart
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
let token = sessionStorage.getItem("mdvpf-token") || "";
let stream = null;
let points = [];
let known = null; // numbers of the incidents that are shown
let watching = null; // aborts the requests of the stream that is shown
const answers = new Map(); // feedback that was given here, by stream and incident
let isDirty = false;

function element(name, attributes = {}, ...children) {
  const isSvg = ["path", "circle", "line", "text", "g", "title", "defs", "marker"].includes(name);
  const found = isSvg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  found.append(...children);
  return found;
}

async function ask(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(path, { ...options, headers });
  if (answer.status === 401) {
    $("login").hidden = false;
    $("main").hidden = true;
    $("token").focus();
    throw new Error("a token is needed");
  }
  if (!answer.ok) throw new Error((await answer.json()).error);
  return answer;
}

const json = async (path, options) => (await ask(path, options)).json();
const path = (rest) => `/v1/streams/${encodeURIComponent(stream)}${rest}`;

function tell(text, isBad = false) {
  if ($("state").textContent !== text) $("state").textContent = text;
  $("state").classList.toggle("bad", isBad);
  $("state").classList.toggle("live", text === "live");
}

// --- Numbers as text

function bytes(n) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) { n /= 1000; i += 1; }
  return `${i === 0 ? n : n.toFixed(n < 10 ? 1 : 0)} ${units[i]}`;
}
const count = (n) => Math.round(n).toLocaleString("en");
const percent = (share) => `${Math.round(100 * share)}\u00a0%`;
const unbroken = (text) => text.replaceAll(" %", "\u00a0%");
const clock = (seconds) => {
  const date = new Date(1000 * seconds); // not every number is a date
  return Number.isNaN(date.getTime()) ? `${seconds} s` : `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
};
const label = (symbol) => (symbol === null ? "(new)" : String(symbol));

// --- The chart

function drawChart() {
  const svg = $("chart");
  const width = svg.clientWidth || 600, height = svg.clientHeight || 240;
  const left = 34, right = 6, top = 10, bottom = 22;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const shown = points.slice(-KEPT);
  if (!shown.length) { svg.replaceChildren(); $("chart-text").textContent = "No symbols yet."; return; }
  const largest = Math.max(1, ...shown.map((p) => p.surprise ?? 0));
  const power = 10 ** Math.floor(Math.log10(largest / 5));
  const step = Math.max(0.5, power * [1, 2, 5, 10].find((each) => largest <= 5.0001 * each * power));
  const high = Math.ceil(largest / step) * step;
  const x = (i) => left + (i + KEPT - shown.length) * (width - left - right) / (KEPT - 1);
  const y = (v) => top + (1 - Math.min(v, high) / high) * (height - top - bottom);
  const parts = [];
  for (let v = 0; v <= high; v += step) {
    parts.push(element("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }));
    parts.push(element("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, String(v)));
  }
  parts.push(element("text", { x: Math.min(x(0), width - right - 170), y: height - 5 }, `event ${count(shown[0].line)}`));
  parts.push(element("text", { x: width - right, y: height - 5, "text-anchor": "end" }, `event ${count(shown.at(-1).line)}`));
  const each = [], mean = [];
  let sum = 0;
  shown.forEach((p, i) => {
    const value = p.surprise ?? high;
    each.push(`${i ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`);
    sum += value;
    if (i >= 20) sum -= shown[i - 20].surprise ?? high;
    if (i >= 19) mean.push(`${mean.length ? "L" : "M"}${x(i).toFixed(1)} ${y(sum / 20).toFixed(1)}`);
  });
  parts.push(element("path", { class: "each-line", d: each.join("") }));
  if (mean.length) parts.push(element("path", { class: "mean-line", d: mean.join("") }));
  let alarms = 0;
  shown.forEach((p, i) => {
    if (!p.alarm) return;
    alarms += 1;
    parts.push(element("line", { class: "alarm-line", x1: x(i), x2: x(i), y1: top, y2: height - bottom }));
    parts.push(element("circle", { class: "alarm-dot", cx: x(i), cy: top, r: 4.5 }));
  });
  svg.replaceChildren(...parts);
  const average = shown.reduce((total, p) => total + (p.surprise ?? high), 0) / shown.length;
  $("chart-text").textContent = `Mean surprise of the last ${count(shown.length)} symbols: ${average.toFixed(2)} nats; ${alarms} ${alarms === 1 ? "alarm" : "alarms"}.`;
}

function redraw() {
  if (isDirty) return;
  isDirty = true;
  requestAnimationFrame(() => { isDirty = false; drawChart(); });
}

// --- Incidents

function answerButtons(incident) {
  const box = element("div", { class: "answers", role: "group", "aria-label": `Feedback on incident ${incident.number}` });
  for (const [strange, text] of [[true, "True alarm"], [false, "False alarm"]]) {
    const button = element("button", { type: "button", "aria-pressed": "false" }, text);
    button.addEventListener("click", () => {
      if (button.getAttribute("aria-disabled") !== "true") answer(incident, strange).catch((error) => tell(error.message, true));
    });
    box.append(button);
  }
  return box;
}

async function answer(incident, strange) {
  const name = stream;
  await json(path(`/incidents/${incident.number}/feedback`), {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ strange }),
  });
  answers.set(`${name}/${incident.number}`, strange);
  $("news").textContent = `Incident ${incident.number} is marked as a ${strange ? "true" : "false"} alarm.`;
  if (name === stream) await showIncidents();
}

// A button stays focusable after an answer, so that the keyboard focus is not lost.
function markAnswer(item, strange) {
  const buttons = item.querySelectorAll("button");
  [true, false].forEach((value, i) => {
    buttons[i].setAttribute("aria-pressed", String(strange === value));
    buttons[i].setAttribute("aria-disabled", String(strange !== null));
  });
  item.classList.toggle("answered", strange !== null);
}

function incidentItem(incident) {
  const [first, ...reasons] = incident.why.split("\n");
  const p = incident.p_value === null ? "" : `; p = ${incident.p_value.toPrecision(2)}`;
  const when = incident.time === null ? "" : `, ${clock(incident.time)}`;
  const whose = incident.key === null ? "" : `, last key ${JSON.stringify(incident.key)}`;
  return element("li", { "data-number": incident.number, "data-alarms": incident.n_alarms },
    element("h3", {}, `Incident ${incident.number}: ${incident.side ?? "surprising"}`),
    element("div", { class: "note" }, `${first}${p}${when}${whose}`),
    element("ul", { class: "why" }, ...reasons.map((each) => element("li", {}, unbroken(each)))),
    answerButtons(incident));
}

async function showIncidents() {
  const name = stream;
  const { incidents } = await json(path("/incidents"));
  if (name !== stream) return; // the user chose another stream meanwhile: feedback would go there
  const list = $("incidents");
  const old = new Map([...list.children].map((each) => [each.dataset.number, each]));
  const active = document.activeElement?.closest?.("#incidents > li");
  const focused = active ? [...active.querySelectorAll("button")].indexOf(document.activeElement) : -1;
  const items = incidents.map((incident) => {
    const before = old.get(String(incident.number));
    const item = before?.dataset.alarms === String(incident.n_alarms) ? before : incidentItem(incident);
    markAnswer(item, incident.strange ?? answers.get(`${name}/${incident.number}`) ?? null);
    item.classList.toggle("new", known !== null && !known.has(incident.number));
    return item;
  });
  if (items.length !== list.children.length || items.some((each, i) => each !== list.children[i])) {
    list.replaceChildren(...items);
    if (focused >= 0) list.querySelector(`li[data-number="${active.dataset.number}"]`)?.querySelectorAll("button")[focused].focus();
  }
  $("no-incidents").hidden = incidents.length > 0;
  const fresh = known === null ? [] : incidents.filter((each) => !known.has(each.number));
  if (fresh.length) $("news").textContent = `New incident ${fresh[0].number} in ${stream}: ${fresh[0].why.split("\n")[0]}`;
  known = new Set(incidents.map((each) => each.number));
}

// --- States

function drawGraph(model) {
  const svg = $("graph");
  const states = model.states.slice(0, 16), chosen = new Set(states.map((each) => each.state));
  if (!states.length) {
    svg.replaceChildren();
    svg.setAttribute("viewBox", "0 0 1 0");
    $("states-text").textContent = model.filter === null ? "The predictor of this stream has no states." : "No states yet.";
    return;
  }
  const size = Math.max(330, Math.min(520, svg.clientWidth || 460)), centre = size / 2;
  const short = (text) => (text.length > 12 ? `${text.slice(0, 11)}…` : text);
  const names = new Map(states.map((each) => [each.state, each.emits.slice(0, 2).map((one) => short(label(one.symbol)))]));
  const longest = Math.max(...[...names.values()].flat().map((text) => text.length), 1);
  const isAlone = states.length === 1; // labels stand left and right of the ellipse, and need room there
  const wide = isAlone ? 0 : Math.max(60, centre - 60 - 7 * longest), tall = isAlone ? 0 : centre - 86;
  svg.setAttribute("viewBox", `0 0 ${size} ${size}`);
  const most = Math.max(...states.map((each) => each.visits), 1);
  const circles = new Map(states.map((each, i) => {
    const angle = 2 * Math.PI * i / states.length - Math.PI / 2;
    return [each.state, { x: centre + wide * Math.cos(angle), y: centre + tall * Math.sin(angle), r: 11 + 11 * Math.sqrt(each.visits / most), angle }];
  }));
  const edges = [], nodes = [];
  for (const move of model.transitions) {
    if (!chosen.has(move.from) || !chosen.has(move.to) || move.share < 0.05) continue;
    const a = circles.get(move.from), b = circles.get(move.to);
    let d;
    if (move.from === move.to) {
      const out = a.angle, r = a.r;
      const p = (turn, far) => `${(a.x + far * Math.cos(out + turn)).toFixed(1)} ${(a.y + far * Math.sin(out + turn)).toFixed(1)}`;
      d = `M${p(-0.6, r)}C${p(-0.7, r + 34)} ${p(0.7, r + 34)} ${p(0.6, r)}`;
    } else {
      const length = Math.hypot(b.x - a.x, b.y - a.y), ux = (b.x - a.x) / length, uy = (b.y - a.y) / length;
      const bend = 0.13 * length, mx = (a.x + b.x) / 2 - uy * bend, my = (a.y + b.y) / 2 + ux * bend;
      const along = (from, r) => { const l = Math.hypot(mx - from.x, my - from.y); return [from.x + (mx - from.x) * r / l, from.y + (my - from.y) * r / l]; };
      const [sx, sy] = along(a, a.r), [ex, ey] = along(b, b.r + 5);
      d = `M${sx.toFixed(1)} ${sy.toFixed(1)}Q${mx.toFixed(1)} ${my.toFixed(1)} ${ex.toFixed(1)} ${ey.toFixed(1)}`;
    }
    const edge = element("path", { class: "edge", d, "stroke-width": (0.8 + 4 * move.share).toFixed(1), "marker-end": "url(#arrow)" });
    edge.append(element("title", {}, `${move.from} to ${move.to}: ${percent(move.share)}`));
    edges.push(edge);
  }
  for (const state of states) {
    const at = circles.get(state.state), lines = names.get(state.state);
    const group = element("g");
    group.append(element("title", {}, `state ${state.state}: ${count(state.visits)} visits, emits ${state.emits.map((each) => `${label(each.symbol)} ${percent(each.share)}`).join(", ")}`));
    group.append(element("circle", { class: state.is_current ? "node current" : "node", cx: at.x, cy: at.y, r: at.r }));
    group.append(element("text", { class: state.is_current ? "name current" : "name", x: at.x, y: at.y + 4.5 }, String(state.state)));
    const loops = model.transitions.some((each) => each.from === state.state && each.to === state.state && each.share >= 0.05);
    const far = at.r + (loops ? 31 : 7), across = Math.cos(at.angle), down = Math.sin(at.angle);
    const anchor = across > 0.3 ? "start" : across < -0.3 ? "end" : "middle";
    const first = at.y + far * down + 4 + (lines.length - 1) * (down < -0.3 ? -14 : down > 0.3 ? 0 : -7) + (anchor === "middle" ? 6 * down : 0);
    lines.forEach((text, i) => {
      group.append(element("text", { class: "label", "text-anchor": anchor, x: at.x + far * across, y: first + 14 * i }, text));
    });
    nodes.push(group);
  }
  const arrow = element("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" });
  arrow.append(element("path", { d: "M0 0L8 4L0 8z", class: "arrow" }));
  const defs = element("defs");
  defs.append(arrow);
  svg.replaceChildren(defs, ...edges, ...nodes);
  const current = states.find((each) => each.is_current);
  $("states-text").textContent = `The heaviest particle of ${model.filter} has ${model.n_states} ${model.n_states === 1 ? "state" : "states"}${model.n_states > states.length ? `; the ${states.length} most visited are shown` : ""}${current ? `. It is now in state ${current.state}` : ""}. The table “Heaviest particle” has the numbers.`;
}

function showTable(model) {
  $("particle").tBodies[0].replaceChildren(...model.states.map((state) => {
    const next = model.transitions.filter((each) => each.from === state.state).sort((a, b) => b.share - a.share).slice(0, 4);
    return element("tr", {},
      element("th", { scope: "row" }, `${state.state}${state.is_current ? " (now)" : ""}`),
      element("td", {}, count(state.visits)),
      element("td", {}, state.emits.map((each) => `${label(each.symbol)}\u00a0(${percent(each.share)})`).join(", ")),
      element("td", {}, next.map((each) => `${each.to}\u00a0(${percent(each.share)})`).join(", ")));
  }));
}

// --- Memory and speed

let lastEvents = null;

function showHealth(status) {
  const now = performance.now();
  const speed = lastEvents && lastEvents.stream === stream && now > lastEvents.now
    ? Math.max(0, status.events - lastEvents.events) / ((now - lastEvents.now) / 1000) : null;
  lastEvents = { stream, now, events: status.events };
  const rows = [
    ["predictor", status.method],
    ["events", count(status.events)],
    ["events per second", speed === null ? "…" : speed < 10 ? speed.toFixed(1) : count(speed)],
    ["events waiting", count(status.lag)],
    ["events repeated", count(status.repeated)],
    ["events rejected", count(status.rejected)],
    ["processor time per event", status.microseconds_per_event === null ? "…" : `${count(status.microseconds_per_event)} µs`],
    ["distinct symbols", count(status.symbols)],
    ["keys", status.keys === null ? "none" : count(status.keys)],
    ["states, mean", status.mean_states === null ? "none" : status.mean_states.toFixed(1)],
    ["memory of the predictor", status.memory === null ? "unknown" : bytes(status.memory.allocated)],
  ];
  $("health").replaceChildren(...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

// --- Watching

async function watch(name, signal) {
  let pause = 500;
  while (!signal.aborted) {
    try {
      const answer = await ask(path("/reports?brief=true"), { signal });
      points = (await json(path("/recent"), { signal })).points;
      redraw();
      tell("live");
      pause = 500;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (signal.aborted) return;
        if (done) break;
        rest += value;
        const messages = rest.split("\n\n");
        rest = messages.pop();
        for (const message of messages) {
          const data = message.split("\n").find((line) => line.startsWith("data: ["));
          if (!data) continue;
          const last = points.length ? points.at(-1).line : 0;
          const fresh = JSON.parse(data.slice(6)).filter((each) => each.line > last);
          points = points.concat(fresh).slice(-KEPT);
          if (fresh.some((each) => each.alarm)) showIncidents().catch(() => {});
        }
        redraw();
      }
      tell("the connection was closed; trying again", true);
    } catch (error) {
      if (signal.aborted) return;
      tell(`${error.message}; trying again`, true);
    }
    await new Promise((done) => { setTimeout(done, pause); });
    pause = Math.min(2 * pause, 10000);
  }
}

async function refresh() {
  if (stream !== null && !document.hidden) {
    const name = stream;
    try {
      const [status, model] = await Promise.all([json(path("")), json(path("/model")), showIncidents()]);
      if (name !== stream) return;
      showHealth(status);
      drawGraph(model);
      showTable(model);
    } catch { /* `watch` reports it */ }
  }
}

function choose(name) {
  stream = name;
  points = [];
  known = null;
  history.replaceState(null, "", `#${name}`);
  document.title = `${name} · mdvpf`;
  if (watching) watching.abort();
  watching = new AbortController();
  $("incidents").replaceChildren();
  drawChart();
  watch(name, watching.signal);
  refresh();
}

// The list of streams says which ones have incidents.
function nameStreams(streams) {
  const found = new Map(streams.map((each) => [each.name, each.incidents]));
  for (const option of $("stream").options) {
    const n = found.get(option.value);
    option.textContent = n ? `${option.value} (${n} ${n === 1 ? "incident" : "incidents"})` : option.value;
  }
}

async function refreshStreams() {
  if (stream === null || document.hidden) return;
  try {
    nameStreams((await json("/v1/streams")).streams);
  } catch { /* `watch` reports it */ }
}

async function start() {
  try {
    const { streams } = await json("/v1/streams");
    $("login").hidden = true;
    $("main").hidden = false;
    const names = streams.map((each) => each.name);
    $("stream").replaceChildren(...names.map((name) => element("option", { value: name }, name)));
    nameStreams(streams);
    const wanted = location.hash.slice(1); // names need no escapes
    $("stream").value = names.includes(wanted) ? wanted : names[0];
    choose($("stream").value);
  } catch (error) {
    tell(error.message, true);
    if ($("login").hidden) setTimeout(start, 2000);
  }
}

$("stream").addEventListener("change", () => choose($("stream").value));
$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  sessionStorage.setItem("mdvpf-token", token);
  start();
});
addEventListener("resize", redraw);
setInterval(refresh, 2000);
setInterval(refreshStreams, 10000);
start();
