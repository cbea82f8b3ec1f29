// Names of topics, clients and principals are chosen by others. They reach the document as text alone, and
// characters that would reorder or hide text are written out.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

function shown(value) {
  return String(value ?? "").replace(UNSEEN, (sign) => {
    const code = sign.charCodeAt(0);
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

function el(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === "text") made.textContent = shown(value);
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function setText(node, value) {
  const text = shown(value);
  if (node.textContent !== text) node.textContent = text;
}

function named(value) {
  return el("span", { class: "name", text: value });
}

function field(label, control) {
  return el("label", {}, label, control);
}

// Options change only if they differ, so that an open list stays open.
function setOptions(select, pairs) {
  const wanted = JSON.stringify(pairs);
  if (select.dataset.options === wanted) return;
  const chosen = select.value;
  select.dataset.options = wanted;
  select.replaceChildren(...pairs.map(([value, text]) => el("option", { value, text })));
  if (pairs.some(([value]) => value === chosen)) select.value = chosen;
}

function pairsOf(entries) {
  const list = el("dl");
  for (const [key, value] of entries) {
    list.append(el("dt", { text: key }), el("dd", {}, value instanceof Node ? value : named(value)));
  }
  return list;
}
