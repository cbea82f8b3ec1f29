// The policies in force for one topic, each with where it comes from.
function effective(learn) {
  const topic = el("input", { maxlength: 4096, required: true, spellcheck: "false", id: "effective-topic" }), broker = el("select", { id: "effective-broker" });
  const result = el("div", { "aria-live": "polite" });
  const table = new Table("Policies in force", [
    { head: "policy", text: (row) => row.field, by: (row) => row.field },
    { head: "value", text: (row) => row.text },
    { head: "use now", text: (row) => row.use },
    { head: "level", text: (row) => row.level || "built in" },
    { head: "source", text: (row) => row.source },
    { head: "location", kind: "name", text: (row) => row.location },
    { head: "ceiling", text: (row) => (row.ceiling === null || row.ceiling === undefined || row.ceiling === false ? "" : row.ceiling === true ? "yes" : row.ceiling) },
    { head: "on this broker", text: (row) => row.applies },
  ], { key: (row) => row.field, sort: null });
  async function look() {
    try {
      const found = await ask(`/policies/effective${query({ topic: topic.value, broker: broker.value })}`);
      learn([...Object.keys(found.policies), ...found.unset]);
      const rows = Object.entries(found.policies).map(([name, each]) => ({ field: name, use: found.use?.[name] ?? "", ...each }));
      table.update([...rows.filter(({ level }) => level), ...rows.filter(({ level }) => !level)]); // defaults last
      result.replaceChildren(
        el("p", {}, named(found.topic), ` is a topic of ${shown(found.broker)} (${shown(found.system)}), namespace `, named(found.namespace), `; policies ${shown(found.version)}.`),
        found.observe_only ? el("p", { class: "warn", text: "They are only observed: nothing is refused or held." }) : "",
        table.node, ...reduction(found), ...unsetPart(found));
    } catch (problem) {
      result.replaceChildren(...told(problem).split("\n").map((line, place) => el("p", { class: place ? "" : "bad", text: line })));
    }
  }
  const form = el("form", { class: "screen", onsubmit: (event) => { event.preventDefault(); look(); } },
    el("div", { class: "fields" }, field("Topic", topic), field("Broker", broker), el("button", { type: "submit", text: "Show its policies" })));
  return {
    node: el("div", {}, el("h2", { text: "Policies of a topic" }), form, result),
    brokers: () => setOptions(broker, gateway.brokers.length > 1 ? brokerPairs("choose…") : brokerPairs("the only one")),
    choose(parameters) {
      topic.value = parameters.get("topic") ?? "";
      const wanted = parameters.get("broker") ?? "";
      if (![...broker.options].some(({ value }) => value === wanted)) broker.append(el("option", { value: wanted, text: wanted }));
      broker.value = wanted;
      if (topic.value) look();
    },
  };
}

function reduction({ factors, reduced }) {
  const parts = Object.entries(factors).map(([name, each]) => el("li", {}, `${shown(name)}: ${amount(each.value)} `, named(each.why), each.mode === "enforce" ? "" : ` (${each.mode})`));
  const rates = Object.entries(reduced?.rates ?? {}).map(([name, each]) => el("li", { text: `${name}: ${each.left} of ${each.full}` }));
  return [
    ...(parts.length ? [el("h3", { text: "Factors" }), el("ul", {}, ...parts)] : []),
    ...(reduced?.paused ? [el("p", { class: "bad", text: `${reduced.by} stops publishing.` })] : []),
    ...(rates.length ? [el("h3", { text: `What ${shown(reduced.by)} leaves` }), el("ul", {}, ...rates)] : []),
  ];
}

function unsetPart({ unset, unmatched }) {
  const lost = (unmatched ?? []).map(({ level, name, rule }) => el("li", { text: `${level} ${name}: ${rule}` }));
  return [
    unset.length ? el("details", {}, el("summary", { text: `${unset.length} policies that nothing sets` }), el("p", { text: unset.join(", ") })) : "",
    lost.length ? el("details", {}, el("summary", { text: "Policies that can match no topic of this broker" }), el("ul", {}, ...lost)) : "",
  ];
}
