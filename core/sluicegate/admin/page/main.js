const EACH_MS = 1_000;
const NEWS_MS = 60_000;
const VIEWS = { overview, topics, held, decisions, policies, history, factors };
const at = (id) => document.getElementById(id);
const made = new Map();
let current = null, looking = null, timer = 0, wasAway = false, news = "", newsUntil = 0;

function view() {
  const [name, parameters] = location.hash.slice(1).split("?");
  return [Object.hasOwn(VIEWS, name) ? name : "overview", new URLSearchParams(parameters ?? "")];
}

function open() {
  const [name, parameters] = view();
  if (!made.has(name)) made.set(name, VIEWS[name]());
  const wanted = made.get(name);
  if (current !== wanted) {
    current?.leave?.();
    current = wanted;
    at("main").replaceChildren(wanted.node);
  }
  document.title = `${wanted.title} – Sluicegate`;
  for (const link of at("tabs").children) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  wanted.choose?.(parameters);
  look();
}

// One look at a time; a view that is left, or a page that is hidden, asks no more.
async function look() {
  clearTimeout(timer);
  looking?.abort();
  if (document.hidden) return;
  const mine = looking = new AbortController(), shows = current;
  try {
    const wasRestarted = await sample(mine.signal);
    if (wasAway || wasRestarted) {
      note(`The gateway ${wasRestarted ? "was started again; totals and lines begin anew" : "answers again"} (${clock(Date.now())}).`);
      wasAway = false;
    }
    shows.show?.();
    await shows.refresh?.(mine.signal);
    tell(Date.now() < newsUntil ? news : "");
  } catch (problem) {
    if (mine.signal.aborted) return;
    tellProblem(problem);
  }
  if (mine !== looking || mine.signal.aborted) return;
  const { health } = gateway;
  if (!wasAway && health) setText(at("state"), `${health.ready ? "Ready" : "Not ready"} · policies ${health.policies} · ${clock(Date.now())}`);
  timer = setTimeout(look, EACH_MS);
}

// What is told for a minute, as what was asked next may have gone well.
function note(text) {
  news = text;
  newsUntil = Date.now() + NEWS_MS;
}

function tell(text) {
  const banner = at("banner");
  banner.hidden = !text;
  setLines(banner, text);
}

// Keeps line ends, which are the page's own here.
function setLines(node, text) {
  const wanted = text.split("\n").map(shown).join("\n");
  if (node.textContent !== wanted) node.textContent = wanted;
}

function tellProblem(problem) {
  if (!(problem instanceof Problem)) {
    console.error(problem);
    tell(`This page has a defect: ${problem.message}`);
    return;
  }
  if (problem.status === 0) {
    if (!wasAway) setText(at("state"), `No answer since ${clock(Date.now())}`);
    wasAway = true;
  }
  tell(told(problem));
}

function openToken() {
  at("token-panel").hidden = false;
  at("token-open").setAttribute("aria-expanded", "true");
  at("token-input").focus();
}

function closeToken() {
  at("token-panel").hidden = true;
  at("token-open").setAttribute("aria-expanded", "false");
  at("token-open").focus();
}

function drawToken() {
  setText(at("token-open"), token.get() ? "Token in use…" : "Token…");
  at("token-forget").disabled = !token.get();
}

function changedToken() {
  note("");
  drawToken();
  closeToken();
  look();
}

at("tabs").append(...Object.entries(VIEWS).map(([name]) => el("a", { href: `#${name}`, text: name[0].toUpperCase() + name.slice(1) })));
at("skip").addEventListener("click", (event) => { event.preventDefault(); at("main").focus(); });
at("token-open").addEventListener("click", () => (at("token-panel").hidden ? openToken() : closeToken()));
at("token-panel").addEventListener("keydown", (event) => { if (event.key === "Escape") closeToken(); });
at("token-panel").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = at("token-input").value.trim();
  at("token-input").value = "";
  // A header takes printable ASCII alone; anything else was pasted by mistake.
  if (!/^[\x21-\x7e]+$/.test(text)) { tell("A token is one word of printable ASCII characters."); return; }
  token.set(text);
  changedToken();
});
at("token-forget").addEventListener("click", () => { token.forget(); changedToken(); });
document.addEventListener("forgotten", ({ detail }) => { note(told(detail)); drawToken(); });
document.addEventListener("visibilitychange", () => { if (document.hidden) current?.leave?.(); look(); });
addEventListener("hashchange", open);
drawToken();
open();
