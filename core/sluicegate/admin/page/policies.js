const FIELDS = "policy-fields";

function policies() {
  let rows = [], version = null, next = null, total = 0;
  const fields = new Set(), names = el("datalist", { id: FIELDS });
  const learn = (found) => {
    found.forEach((each) => fields.add(each));
    if (names.children.length !== fields.size) names.replaceChildren(...[...fields].sort().map((value) => el("option", { value })));
  };
  const wanted = changeForm(() => { version = null; });
  const table = new Table("Set policies", [
    { head: "level", text: (row) => row.level, by: (row) => row.level },
    { head: "name", kind: "name", text: (row) => row.name, by: (row) => row.name },
    { head: "broker", kind: "name", text: (row) => row.broker || "all", by: (row) => row.broker },
    { head: "policy", text: (row) => row.field, by: (row) => row.field },
    { head: "value", text: (row) => row.text },
    { head: "source", text: (row) => row.source, by: (row) => row.source },
    { head: "location", kind: "name", text: (row) => row.location },
    { head: "locked", text: (row) => (row.locked ? "locked" : "") },
    { head: "change", text: "Change", can: (row) => !row.locked, press: (row) => wanted.fill(row) },
  ], { key: (row) => JSON.stringify([row.source, row.broker, row.level, row.name, row.field]), empty: "Nothing that fits is set." });
  const filter = el("input", { type: "search", oninput: show, maxlength: 4096, id: "policies-filter" }), note = el("p", { class: "hint" });
  const more = el("button", { type: "button", text: "Load more", hidden: true, onclick: () => load(next).catch(tellProblem) });
  const topic = effective(learn);

  async function load(offset, signal) {
    const found = await ask(`/policies${query({ limit: MOST, offset })}`, { signal });
    if (offset && found.version !== version) { await load(0, signal); return; } // pages of two versions do not fit
    rows = offset ? [...rows, ...found.settings] : found.settings;
    [version, next, total] = [found.version, found.next_offset ?? null, found.total];
    learn(rows.map((row) => row.field));
    show();
  }

  function show() {
    const text = filter.value.toLowerCase();
    const found = rows.filter((row) => [row.level, row.name, row.broker, row.field, row.text, row.source, row.location].join(" ").toLowerCase().includes(text));
    table.update(found);
    more.hidden = next === null;
    setText(note, `${found.length} shown, ${rows.length} of ${total} loaded; policies ${version}.`);
  }

  return {
    title: "Policies",
    node: el("section", {}, names, topic.node, wanted.node, el("h2", { text: "Set policies" }),
      el("div", { class: "fields screen" }, field("Filter", filter)), note, table.node, el("div", { class: "buttons" }, more)),
    choose: (parameters) => topic.choose(parameters),
    async refresh(signal) {
      topic.brokers();
      wanted.brokers();
      if (version !== gateway.health?.policies) await load(0, signal);
    },
  };
}

// What to set or to unset; the plan of it is shown before it can be applied.
function changeForm(done) {
  const input = (id, more = {}) => el("input", { id: `change-${id}`, spellcheck: "false", maxlength: 4096, ...more });
  const level = el("select", { id: "change-level" }), broker = el("select", { id: "change-broker" }), does = el("select", { id: "change-does" });
  const name = input("name"), policy = input("field", { required: true, list: FIELDS, maxlength: 200 }), value = input("value"), reason = input("reason", { maxlength: 1000 });
  const change = new Change(done);
  setOptions(broker, brokerPairs("all"));
  setOptions(level, ["topic", "namespace", "broker"].map((each) => [each, each]));
  setOptions(does, [["set", "set"], ["unset", "unset (inherit)"]]);
  const adapt = () => {
    value.disabled = does.value === "unset";
    name.disabled = level.value === "broker";
    change.close(); // a plan of something else must not be applied
  };
  function submit(event) {
    event.preventDefault();
    const edit = { level: level.value, name: name.disabled ? "" : name.value, broker: broker.value, field: policy.value.trim(), value: valueOf() };
    const body = { edits: [edit], reason: reason.value };
    const request = (isDry, seen) => ask(`/policies${query({ dry_run: isDry || "" })}`, { method: "PATCH", body, seen });
    change.plan(`${does.value} ${edit.field} of ${placeOf(edit)}`, request, "Apply");
  }
  function valueOf() {
    if (value.disabled) return null;
    const text = value.value.trim();
    return text === "true" || text === "false" ? text === "true" : text;
  }
  const form = el("form", { class: "panel screen", id: "change-form", autocomplete: "off", onsubmit: submit, oninput: adapt },
    el("div", { class: "fields" }, field("Do", does), field("Level", level), field("Name, may hold *", name), field("Broker", broker),
      field("Policy", policy), field("Value, such as 500/s", value), field("Reason, for the history", reason)),
    el("div", { class: "buttons" }, el("button", { type: "submit", class: "main", text: "Show what it would do" })));
  return {
    node: el("div", { class: "screen" }, el("h2", { text: "Change a policy" }), form, change.node),
    brokers: () => setOptions(broker, brokerPairs("all")),
    fill(row) {
      [level.value, name.value, broker.value, policy.value, value.value, does.value] = [row.level, row.name, row.broker, row.field, row.text, "set"];
      adapt();
      form.scrollIntoView({ block: "nearest" });
      value.focus();
    },
  };
}
