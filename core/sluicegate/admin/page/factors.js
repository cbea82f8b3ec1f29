function factors() {
  const table = new Table("Numbers that factors and adaptive controllers report", [
    { head: "broker", kind: "name", text: (row) => row.broker, by: (row) => row.broker },
    { head: "what", kind: "name", text: (row) => row.path.join(" › "), by: (row) => row.path.join(" ") },
    { head: "value", kind: "number", text: (row) => amount(row.value), by: (row) => row.value },
    { head: "last five minutes", draw: (cell, row) => spark(cell, gateway.past.points(row.key), row.path[0] === "factor" ? 1 : null) },
    { head: "why", kind: "name", text: (row) => row.why },
  ], { key: (row) => row.key, empty: "No factor and no adaptive controller reports anything." });
  const filter = el("input", { type: "search", oninput: show, maxlength: 4096 });
  function show() {
    const text = filter.value.toLowerCase();
    table.update(reportedNumbers().filter((row) => [row.broker, ...row.path, row.why].join(" ").toLowerCase().includes(text)));
  }
  return {
    title: "Factors",
    node: el("section", {}, el("h2", { text: "Factors" }),
      el("p", { class: "hint", text: "A factor multiplies rates and quotas: 1 leaves them whole, 0 stops publishing. The smallest one counts." }),
      el("div", { class: "fields screen" }, field("Filter", filter)), table.node),
    show,
  };
}
