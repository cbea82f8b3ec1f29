function held() {
  const since = (row) => Date.now() - row.since_ms;
  const name = (head, key) => ({ head, kind: "name", text: (row) => row[key], by: (row) => row[key] ?? "" });
  const table = new Table("Requests that are held now", [
    { head: "for", kind: "number", text: (row) => lasting(since(row)), by: since },
    { head: "since", kind: "time", text: (row) => clock(row.since_ms) },
    name("client", "client"),
    name("principal", "principal"),
    name("topic", "topic"),
    { head: "operation", text: (row) => row.operation, by: (row) => row.operation ?? "" },
    { head: "why", draw: (cell, row) => drawWhy(cell, row) },
    name("broker", "broker"),
  ], { key: (row) => JSON.stringify([row.broker, row.client, row.topic, row.operation, row.since_ms, row.place]), sort: "for", empty: "Nobody is held." });
  const note = el("p", { class: "hint" });
  return {
    title: "Held",
    node: el("section", {}, el("h2", { text: "Held" }), note, table.node),
    async refresh(signal) {
      const found = await ask(`/held?limit=${MOST}`, { signal });
      table.update(found.held.map((row, place) => ({ ...row, place })));
      setText(note, found.total > found.held.length ? `The first ${found.held.length} of ${found.total}.` : `${found.total} held.`);
    },
  };
}

function drawWhy(cell, row) {
  if (!cell.firstChild) cell.append(el("a"));
  setText(cell.firstChild, row.policy);
  cell.firstChild.href = `#policies${query({ broker: row.broker, topic: row.topic })}`;
}
