function topics() {
  const rate = (name) => (row) => gateway.past.rate(`${name} ${keyOf(row, "topic")}`);
  const flow = (head, name) => ({ head, kind: "number", text: (row) => amount(rate(name)(row)), by: rate(name) });
  const count = (head, name) => ({ head, kind: "number", text: (row) => amount(row[name]), by: (row) => row[name] });
  const fullest = (row) => usedLimits(row.use)[0];
  const table = new Table("Topics by broker", [
    { head: "topic", kind: "name", by: (row) => row.topic, draw: drawTopic },
    { head: "broker", kind: "name", text: (row) => row.broker, by: (row) => row.broker },
    flow("in/s", "published_messages"),
    flow("out/s", "dispatched_messages"),
    { head: "use", kind: "number", by: (row) => fullest(row)?.share ?? -1, text: (row) => (fullest(row) ? percent(fullest(row).share) : "") },
    { head: "limit used most", draw: (cell, row) => drawUse(cell, row, fullest(row)) },
    count("producers", "producers"),
    count("consumers", "consumers"),
    count("held", "held"),
    flow("refused/s", "refused"),
    count("refused", "refused"),
    count("delayed", "delayed"),
  ], { key: (row) => keyOf(row, "topic"), sort: "use", empty: "No topic of this name is in use." });
  const filter = el("input", { type: "search", oninput: show, maxlength: 4096, id: "topics-filter" });
  const note = el("p", { class: "hint" });
  function show() {
    const text = filter.value.toLowerCase();
    const found = gateway.topics.filter((row) => `${row.topic} ${row.broker}`.toLowerCase().includes(text));
    table.update(found);
    setText(note, `${found.length} of ${gateway.topics.length} topics. Those less busy are counted together in “other”. Lines show the last five minutes.`);
  }
  return {
    title: "Topics",
    node: el("section", {}, el("h2", { text: "Topics" }), el("div", { class: "fields screen" }, field("Filter by name", filter)), note, table.node),
    show,
  };
}

function drawTopic(cell, row) {
  const isRest = row.topic === "other" && row.namespace === "other"; // no topic, but all that are less busy
  if (!cell.firstChild) cell.append(el(isRest ? "span" : "a", { class: "clip" }));
  if (!isRest) cell.firstChild.href = `#policies${query({ broker: row.broker, topic: row.topic })}`;
  setText(cell.firstChild, row.topic);
}

function drawUse(cell, row, use) {
  if (!use) { cell.replaceChildren(); return; }
  if (!cell.firstChild) cell.append(el("div", {}, el("div"), el("span", { class: "hint use" })));
  const [chart, label] = cell.firstChild.children;
  spark(chart, gateway.past.points(`use ${use.policy} ${keyOf(row, "topic")}`), use.limit);
  setText(label, `${use.policy}: ${amount(use.used)} of ${amount(use.limit)}`);
}
