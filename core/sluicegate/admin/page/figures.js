const KEPT_MS = 300_000;
const RATE_MS = 5_000;
const GAP_MS = 5_000;
const SVG = "http://www.w3.org/2000/svg";

function amount(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  for (const [least, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    const divisor = unit === "k" ? 1e3 : least;
    if (Math.abs(value) >= least) return `${(value / divisor).toFixed(Math.abs(value) >= 10 * divisor ? 0 : 1)}${unit}`;
  }
  return Number.isInteger(value) || Math.abs(value) >= 10 ? value.toFixed(0) : value.toFixed(value < 0.1 ? 3 : 1);
}

function percent(share) {
  return `${(100 * share).toFixed(0)} %`;
}

function clock(ms) {
  return new Date(ms).toLocaleTimeString([], { hour12: false });
}

function moment(value) {
  const at = new Date(value);
  return Number.isNaN(at.getTime()) ? String(value) : `${at.toLocaleDateString()} ${clock(at)}`;
}

function lasting(ms) {
  const seconds = Math.max(0, ms / 1000);
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return seconds < 3600 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

// Values over the last minutes, which this page collects itself, by key.
class Past {
  constructor() { this.series = new Map(); }

  add(key, value, now) {
    const points = this.series.get(key) ?? this.series.set(key, []).get(key);
    points.push([now, value]);
    while (points[0][0] < now - KEPT_MS) points.shift();
  }

  points(key) { return this.series.get(key) ?? []; }

  // Growth of a total each second, over the last seconds; a total that shrank began anew.
  rate(key) {
    const points = this.points(key), last = points.at(-1);
    if (!last) return 0;
    let first = last;
    for (let place = points.length - 2; place >= 0 && last[0] - points[place][0] <= RATE_MS; place--) {
      if (points[place][1] > first[1]) break;
      first = points[place];
    }
    return first === last ? 0 : (1000 * (last[1] - first[1])) / (last[0] - first[0]);
  }

  forgetOld(now) {
    for (const [key, points] of this.series) if (points.at(-1)[0] < now - KEPT_MS) this.series.delete(key);
  }

  clear() { this.series.clear(); }
}

// A line of the last five minutes with the limit across it; where nothing was asked, the line has a gap.
function spark(parent, points, limit = null) {
  const width = 120, height = 24, now = points.at(-1)?.[0] ?? 0;
  const most = Math.max(limit ?? 0, ...points.map(([, value]) => value), 1e-9);
  const y = (value) => (height - 1 - ((height - 2) * value) / most).toFixed(1);
  let path = "", before = -Infinity;
  for (const [at, value] of points) {
    path += `${at - before > GAP_MS ? "M" : "L"}${(width - ((now - at) / KEPT_MS) * width).toFixed(1)} ${y(value)}`;
    before = at;
  }
  let svg = parent.querySelector("svg");
  if (!svg) {
    svg = document.createElementNS(SVG, "svg");
    for (const [key, value] of [["viewBox", `0 0 ${width} ${height}`], ["class", "spark"], ["role", "img"], ["preserveAspectRatio", "none"]]) {
      svg.setAttribute(key, value);
    }
    svg.append(document.createElementNS(SVG, "path"), document.createElementNS(SVG, "line"));
    parent.append(svg);
  }
  svg.firstChild.setAttribute("d", path);
  const across = limit ? y(limit) : -9;
  for (const [key, value] of [["x1", 0], ["x2", width], ["y1", across], ["y2", across]]) svg.lastChild.setAttribute(key, value);
  const last = points.at(-1)?.[1];
  svg.setAttribute("aria-label", last === undefined ? "nothing yet" : `now ${amount(last)}, at most ${amount(Math.max(...points.map(([, value]) => value)))} in five minutes`);
}

function gauge(parent, share) {
  let fill = parent.querySelector(".gauge i");
  if (!fill) {
    fill = el("i");
    parent.append(el("div", { class: "gauge", "aria-hidden": "true" }, fill));
  }
  fill.style.width = `${Math.min(100, Math.max(0, 100 * share)).toFixed(1)}%`;
  fill.className = share >= 0.995 ? "full" : "";
}

// Limits of one row with the share that is used, the fullest first.
function usedLimits(use) {
  return Object.entries(use ?? {})
    .filter(([, each]) => each.used_1s !== null && each.used_1s !== undefined && each.in_force)
    .map(([policy, each]) => ({ policy, used: each.used_1s, limit: each.in_force, share: each.used_1s / each.in_force, each }))
    .sort((a, b) => b.share - a.share);
}
