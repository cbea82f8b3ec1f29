const MOST_DECISIONS = 500;
const AGAIN_MS = 5_000;

function decisions() {
  const found = new Map();
  let following = null, isPaused = false, isFiltered = {}, waitsUntil = 0, asked = 0, fresh = 0;
  const name = (head, key) => ({ head, kind: "name", text: (row) => row[key] });
  const table = new Table("Refusals and holds, the newest first", [
    { head: "time", kind: "time", text: (row) => moment(row.time_ms) },
    { head: "action", text: (row) => row.action },
    { head: "policy", text: (row) => row.reasons[0]?.policy ?? "" },
    name("topic", "topic"),
    name("client", "client"),
    name("principal", "principal"),
    { head: "operation", text: (row) => row.operation },
    name("broker", "broker"),
    { head: "explain", text: "Explain", press: (row) => explain(row) },
  ], { key: (row) => row.id, empty: "No refusals or holds that fit." });
  const broker = el("select"), action = el("select"), topic = el("input", { type: "search" }), principal = el("input", { type: "search" });
  setOptions(broker, brokerPairs("all"));
  setOptions(action, [["", "all"], ...["reject", "drop", "delay"].map((each) => [each, each])]);
  const pause = el("button", { type: "button", text: "Pause", onclick: () => { isPaused = !isPaused; fresh = 0; draw(); } });
  const state = el("span", { class: "hint", role: "status" }), panel = el("div", { class: "panel", hidden: true, tabindex: "-1", "aria-label": "Explanation" });
  const form = el("form", { class: "screen", onsubmit: (event) => { event.preventDefault(); begin(); }, onchange: begin },
    el("div", { class: "fields" }, field("Broker", broker), field("Topic (exact)", topic), field("Principal (exact)", principal), field("Action", action)),
    el("div", { class: "buttons" }, pause, state));

  function begin() {
    isFiltered = { broker: broker.value, topic: topic.value, principal: principal.value, action: action.value };
    leave();
    found.clear();
    waitsUntil = 0;
    draw();
  }

  function take(rows) {
    for (const row of rows) {
      if (!found.has(row.id)) { found.set(row.id, row); fresh += 1; }
    }
    const order = [...found.values()].sort((a, b) => b.time_ms - a.time_ms || b.number - a.number);
    for (const row of order.slice(MOST_DECISIONS)) found.delete(row.id);
    draw();
  }

  function draw() {
    setText(pause, isPaused ? "Go on" : "Pause");
    setText(state, isPaused ? `Paused; ${fresh} more since.` : following?.isOpen ? "Live." : "Asking every second.");
    if (!isPaused) table.update([...found.values()].sort((a, b) => b.time_ms - a.time_ms || b.number - a.number));
  }

  async function recent(signal) {
    const mine = asked += 1;
    const { decisions: rows } = await ask(`/decisions${query({ ...isFiltered, limit: 200 })}`, { signal });
    if (mine === asked) take(rows);
  }

  async function live() {
    const mine = following = { abort: new AbortController(), isOpen: false };
    try {
      await follow(`/decisions/live${query(isFiltered)}`, mine.abort.signal, () => {
        mine.isOpen = true;
        // What came before the stream was open.
        recent(mine.abort.signal).catch(() => {});
      }, (row) => take([row]));
    } catch { /* the next look asks again, and tells what is wrong */ }
    if (following === mine) { following = null; waitsUntil = Date.now() + AGAIN_MS; draw(); }
  }

  function leave() {
    const was = following;
    following = null;
    asked += 1;
    was?.abort.abort();
  }

  async function explain(row) {
    panel.hidden = false;
    panel.replaceChildren(el("p", { text: "Asking…" }));
    let decision = row, note = "";
    try { decision = await ask(`/decisions/${encodeURIComponent(row.id)}`); } catch (problem) { note = told(problem); }
    panel.replaceChildren(...explanation(decision, note), el("div", { class: "buttons" },
      el("button", { type: "button", text: "Close", onclick: () => { panel.hidden = true; } })));
    panel.focus();
  }

  return {
    title: "Decisions",
    node: el("section", {}, el("h2", { text: "Decisions" }), form, panel, table.node),
    leave,
    async refresh(signal) {
      setOptions(broker, brokerPairs("all"));
      if (following === null && Date.now() >= waitsUntil) live();
      if (!following?.isOpen) await recent(signal);
    },
  };
}

function explanation(decision, note) {
  const reasons = decision.reasons.map((reason) => {
    const entries = Object.entries(reason).filter(([, value]) => value !== null && value !== "");
    return el("li", {}, pairsOf(entries.map(([key, value]) => [key.replaceAll("_", " "), typeof value === "object" ? JSON.stringify(value) : value])));
  });
  return [
    el("h3", { text: `${decision.action} of ${decision.operation}` }),
    note ? el("p", { class: "warn", text: note }) : null,
    pairsOf([["id", decision.id], ["time", moment(decision.time_ms)], ["broker", decision.broker], ["topic", decision.topic], ["subscription", decision.subscription],
      ["client", decision.client], ["principal", decision.principal], ["policies", decision.policies]].filter(([, value]) => value)),
    el("h3", { text: "Reasons" }), el("ul", {}, ...reasons),
    el("p", {}, el("a", { href: `#policies${query({ broker: decision.broker, topic: decision.topic })}`, text: "Policies of this topic now" })),
  ].filter((part) => part !== null);
}
