// A change in two steps: first what it would do, then the change itself, for the policies that were looked at.
class Change {
  // request(dryRun, seen): makes the request. done(answer): after it.
  constructor(done) {
    this.done = done;
    this.node = el("div", { class: "panel", hidden: true, tabindex: "-1", role: "region", "aria-label": "What it would do" });
    this.number = 0;
  }

  close() {
    this.number += 1;
    this.node.hidden = true;
    this.node.replaceChildren();
  }

  async plan(title, request, verb) {
    const mine = this.number += 1;
    this.tell(el("p", { text: "Asking what it would do…" }));
    try {
      const plan = await request(true);
      if (mine !== this.number) return;
      const apply = el("button", { type: "button", class: "main", text: verb, onclick: () => this.apply(title, request, plan, verb, apply) });
      this.tell(el("h3", { text: title }), ...planParts(plan), el("div", { class: "buttons" },
        plan.changes.length ? apply : null, el("button", { type: "button", text: "Do nothing", onclick: () => this.close() })));
      this.node.focus();
    } catch (problem) {
      if (mine === this.number) this.refused(problem);
    }
  }

  async apply(title, request, plan, verb, button) {
    const mine = this.number += 1;
    button.disabled = true; // once
    try {
      const answer = await request(false, plan.version);
      if (mine !== this.number) return;
      this.tell(el("p", { class: "good", text: `Done: revision ${answer.revision}, policies ${answer.version} are in force.` }), changeList(answer.changes));
      this.done(answer);
    } catch (problem) {
      if (mine !== this.number) return;
      if (problem.status !== 412) { this.refused(problem); return; }
      const again = el("button", { type: "button", class: "main", text: "Look again", onclick: () => this.plan(title, request, verb) });
      this.tell(el("p", { class: "bad", text: "Nothing was changed: somebody changed the policies since you looked." }),
        el("p", { text: "Look at what your change would do now; then apply it." }), el("div", { class: "buttons" }, again));
      again.focus();
    }
  }

  refused(problem) {
    this.tell(...told(problem).split("\n").map((line, place) => el("p", { class: place ? "" : "bad", text: line })));
    if (problem.status === 401 || problem.status === 403) openToken();
    else this.node.focus();
  }

  tell(...parts) {
    this.node.hidden = false;
    this.node.replaceChildren(...parts);
  }
}

function placeOf({ level, name, broker }) {
  return `${level}${name ? ` ${name}` : ""}${broker ? ` of broker ${broker}` : ""}`;
}

function changeList(changes) {
  return el("ul", {}, ...changes.map((change) => el("li", {}, named(placeOf(change)), ` ${shown(change.field)}: `,
    named(change.old_text), " → ", named(change.new_text))));
}

function planParts(plan) {
  if (!plan.changes.length) return [el("p", { text: "It would change nothing." })];
  const topics = new Table("Topics in use whose policies would differ", [
    { head: "topic", kind: "name", text: (row) => row.topic },
    { head: "broker", kind: "name", text: (row) => row.broker },
    { head: "policy", text: (row) => row.field },
    { head: "now", text: (row) => row.before },
    { head: "then", text: (row) => row.after },
    { head: "use now", text: (row) => row.use_text },
  ], { key: (row) => JSON.stringify([row.broker, row.topic, row.field]) });
  topics.update(plan.topics);
  return [el("p", { text: "It would change:" }), changeList(plan.changes),
    el("p", { text: `Of ${plan.topics_known} topics in use, ${plan.topics_changed} would have other policies.` }), plan.topics.length ? topics.node : null,
    ...hindsightParts(plan.last_hour)].filter((part) => part !== null);
}

// Whom it would have held or refused in the last hour.
function hindsightParts(found) {
  if (!found.known) return [el("p", {}, "Who would have been refused is not known: ", named(found.reason), "; ", named(found.remedy), ".")];
  const minutes = Math.round((found.to_ms - found.from_ms) / 60_000);
  const said = found.topics.length ? "would have been held or refused:" : "nobody would have been held or refused.";
  const rows = found.topics.flatMap((row) => [{ ...row, who: "" }, ...row.clients.map((client) => ({ ...row, ...client, who: client.client }))]);
  const table = new Table("Messages that would have been held or refused", [
    { head: "topic", kind: "name", text: (row) => row.topic },
    { head: "broker", kind: "name", text: (row) => row.broker },
    { head: "of", text: (row) => row.operation },
    { head: "client", kind: "name", text: (row) => row.who },
    { head: "messages", text: (row) => String(row.messages) },
    { head: "held", text: (row) => String(row.held) },
    { head: "refused", text: (row) => String(row.refused) },
    { head: "share", text: (row) => `${(100 * row.share).toFixed(1)} %` },
  ], { key: (row) => JSON.stringify([row.broker, row.topic, row.operation, Object.keys(row.limits), row.who, row.principal]) });
  table.update(rows);
  const counts = found.counts.map((row) => el("p", {}, named(row.topic), ` has ${row.count} now, ${row.over} above ${row.field} ${row.limit}.`));
  const left = found.not_estimated.length ? [el("p", { class: "hint", text: `Not estimated: ${found.not_estimated.join(", ")}.` })] : [];
  return [el("p", { text: `Estimated from the decision log: in the last ${minutes} minutes, ${said}` }), rows.length ? table.node : null,
    ...found.notes.map((note) => el("p", { class: "hint" }, named(note))), ...counts, ...left];
}
