function history() {
  let rows = [], next = null, version = null;
  const change = new Change(() => { version = null; });
  const reason = el("input", { maxlength: 1000, id: "undo-reason" });
  const table = new Table("Revisions, the newest first", [
    { head: "revision", kind: "number", text: (row) => row.number },
    { head: "at", kind: "time", text: (row) => moment(row.at) },
    { head: "by", kind: "name", text: (row) => row.actor },
    { head: "source", text: (row) => row.source },
    { head: "reason", kind: "name", text: (row) => row.reason },
    { head: "changes", draw: (cell, row) => { if (!cell.firstChild) cell.append(changeList(row.changes)); } },
    { head: "policies", kind: "name", text: (row) => row.policies },
    { head: "undo", text: "Undo…", can: (row) => row.source === "store", press: (row) => undo(row) },
  ], { key: (row) => row.number, empty: "Nothing was changed yet." });
  const more = el("button", { type: "button", text: "Older ones", hidden: true, onclick: () => load(next).catch(tellProblem) });

  function undo(row) {
    const request = (isDry, seen) => ask(`/policies/history/${row.number}/undo${query({ dry_run: isDry || "" })}`, { method: "POST", body: { reason: reason.value }, seen });
    change.plan(`Undo revision ${row.number}`, request, `Undo revision ${row.number}`);
  }

  async function load(before, signal) {
    const seen = gateway.health?.policies;
    const found = await ask(`/policies/history${query({ before })}`, { signal });
    rows = before ? [...rows, ...found.revisions] : found.revisions;
    next = found.next_before ?? null;
    version = seen;
    table.update(rows);
    more.hidden = next === null;
  }

  return {
    title: "History",
    node: el("section", {}, el("h2", { text: "History" }), el("div", { class: "fields screen" }, field("Reason for an undo", reason)),
      change.node, table.node, el("div", { class: "buttons" }, more)),
    async refresh(signal) {
      if (version === null || version !== gateway.health?.policies) await load("", signal);
    },
  };
}
