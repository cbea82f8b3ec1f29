// What every view shares: the gateway's last answers, and their past while this page is open.
const gateway = { health: null, brokers: [], topics: [], factors: [], past: new Past() };
const FLOWS = { published_messages: "in", dispatched_messages: "out", refused: "refused", delayed: "delayed" };
const MOST = 1000;

function keyOf(row, name) {
  return JSON.stringify([row.broker, row[name]]);
}

async function sample(signal) {
  const health = await ask("/health", { signal });
  const wasRestarted = gateway.health !== null && gateway.health.process !== health.process;
  if (wasRestarted) gateway.past.clear();
  gateway.brokers = (await ask(`/brokers?limit=${MOST}`, { signal })).brokers;
  gateway.topics = (await ask(`/topics?limit=${MOST}`, { signal })).topics;
  gateway.factors = (await ask(`/factors?limit=${MOST}`, { signal })).brokers;
  gateway.health = health;
  remember(performance.now());
  return wasRestarted;
}

function remember(now) {
  const { past } = gateway, sums = Object.fromEntries(Object.keys(FLOWS).map((name) => [name, 0]));
  let held = 0;
  for (const row of gateway.topics) {
    const key = keyOf(row, "topic");
    held += row.held ?? 0;
    for (const name of Object.keys(FLOWS)) {
      sums[name] += row[name];
      past.add(`${name} ${key}`, row[name], now);
    }
    for (const { policy, used } of usedLimits(row.use)) past.add(`use ${policy} ${key}`, used, now);
  }
  for (const row of gateway.brokers) {
    for (const { policy, used } of usedLimits(row.use)) past.add(`use ${policy} ${keyOf(row, "broker")}`, used, now);
  }
  for (const name of Object.keys(FLOWS)) {
    past.add(`all ${name}`, sums[name], now);
    past.add(`rate ${name}`, past.rate(`all ${name}`), now);
  }
  past.add("held", held, now);
  for (const { key, value } of reportedNumbers()) past.add(key, value, now);
  past.forgetOld(now);
}

// Numbers among factors and adaptive states, whatever their controllers report: `at_ms` and its like are no values.
function reportedNumbers() {
  const found = [];
  const walk = (broker, path, value, why) => {
    if (typeof value === "number" && !/_(ms|ns|at)$/.test(path.at(-1))) {
      found.push({ broker, path, value, why, key: `reported ${JSON.stringify([broker, ...path])}` });
    } else if (value !== null && typeof value === "object") {
      const reason = value.why ?? value.reason ?? why;
      for (const [name, each] of Object.entries(value)) walk(broker, [...path, name], each, reason);
    }
  };
  for (const { broker, factors, adaptive } of gateway.factors) {
    walk(broker, ["factor"], factors, "");
    walk(broker, ["adaptive"], adaptive, "");
  }
  return found.slice(0, MOST);
}

const brokerPairs = (first) => [["", first], ...gateway.brokers.map(({ broker }) => [broker, broker])];
