const TILES = [
  ["Messages in", "rate published_messages", "/s"],
  ["Messages out", "rate dispatched_messages", "/s"],
  ["Refusals", "rate refused", "/s"],
  ["Holds", "rate delayed", "/s"],
  ["Held now", "held", ""],
];
const BARS = 12;

function overview() {
  const tiles = TILES.map(([head]) => {
    const value = el("b"), chart = el("div");
    return { value, chart, node: el("div", { class: "tile" }, el("h3", { text: head }), value, chart) };
  });
  const health = el("div"), bars = el("div", { class: "bars" });
  const brokers = new Table("Brokers and their workers", [
    { head: "broker", kind: "name", text: (row) => row.broker, by: (row) => row.broker },
    { head: "system", text: (row) => row.system },
    { head: "state", draw: (cell, row) => drawState(cell, row) },
    { head: "since", kind: "time", text: (row) => (row.since_ms ? moment(row.since_ms) : "") },
    { head: "connections", kind: "number", text: (row) => row.connections, by: (row) => row.connections },
    { head: "topics", kind: "number", text: (row) => row.topics, by: (row) => row.topics },
    { head: "policies", kind: "name", text: (row) => row.policies },
  ], { key: (row) => row.broker, empty: "No broker’s worker has told anything yet." });
  return {
    title: "Overview",
    node: el("section", {}, el("h2", { text: "Now" }), health, el("div", { class: "tiles" }, ...tiles.map(({ node }) => node)), brokers.node,
      el("h2", { text: "Busiest limits" }), el("p", { class: "hint", text: "Used in the last second, of what factors leave of the limit." }), bars),
    show() {
      drawHealth(health);
      TILES.forEach(([, key, unit], place) => {
        const points = gateway.past.points(key);
        setText(tiles[place].value, points.length ? `${amount(points.at(-1)[1])}${unit}` : "–");
        spark(tiles[place].chart, points);
      });
      brokers.update(gateway.brokers);
      drawBars(bars);
    },
  };
}

function drawState(cell, row) {
  const isUp = row.up && row.worker?.up !== false;
  const why = row.worker?.up === false ? "its worker is down" : row.reason || (row.notes ?? []).join("; ");
  if (!cell.firstChild) cell.append(el("span"));
  cell.firstChild.className = isUp ? (why ? "warn" : "good") : "bad";
  setText(cell.firstChild, `${isUp ? "up" : "not reachable"}${why ? `: ${why}` : ""}`);
}

function drawHealth(parent) {
  const { health } = gateway, parts = [];
  if (!health) return;
  parts.push([health.ready ? "good" : "bad", health.ready ? "Clients are served." : `Not all clients are served: ${health.reasons.join("; ")}`]);
  if (!health.last_reload_successful) parts.push(["bad", "The file or the store has errors: the last good policies are in force. The log tells what is wrong."]);
  parts.push(["", `Policies ${health.policies}, store read ${lasting(1000 * health.store_age_s)} ago, process ${health.process}.`]);
  while (parent.children.length > parts.length) parent.lastChild.remove();
  while (parent.children.length < parts.length) parent.append(el("p"));
  parts.forEach(([kind, text], place) => { parent.children[place].className = kind; setText(parent.children[place], text); });
}

function drawBars(parent) {
  const rows = [...gateway.brokers.map((row) => [row.broker, row.use]), ...gateway.topics.map((row) => [`${row.topic} (${row.broker})`, row.use])];
  const found = rows.flatMap(([name, use]) => usedLimits(use).map((each) => ({ name, ...each }))).sort((a, b) => b.share - a.share).slice(0, BARS);
  while (parent.children.length > Math.max(1, 3 * found.length)) parent.lastChild.remove();
  if (!found.length) { parent.replaceChildren(el("span", { text: "No limit is used." })); return; }
  while (parent.children.length < 3 * found.length || parent.children.length % 3) {
    if (parent.children.length % 3) parent.lastChild.remove();
    else parent.append(el("span"), el("div"), el("span"));
  }
  found.forEach(({ name, policy, used, limit, share }, place) => {
    const [label, bar, value] = [0, 1, 2].map((part) => parent.children[3 * place + part]);
    setText(label, `${short(name)} · ${policy}`);
    gauge(bar, share);
    setText(value, `${percent(share)} of ${amount(limit)}`);
    label.title = shown(`${name}: ${amount(used)} of ${amount(limit)}`);
  });
}

function short(name, most = 80) {
  return name.length > most ? `${name.slice(0, most - 20)}…${name.slice(-19)}` : name;
}
