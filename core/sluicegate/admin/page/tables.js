// A table whose rows stay the same elements while their values change: focus and selection survive each look.
class Table {
  // columns: `head`; `text(row)` or `draw(cell, row)`; `by(row)` if the table can be sorted by it; `kind`.
  constructor(caption, columns, { key, sort = null, empty = "Nothing." }) {
    Object.assign(this, { columns, key, empty, rows: new Map(), sortBy: sort, isDown: true, values: [] });
    this.body = el("tbody");
    this.heads = columns.map((column) => this.head(column));
    this.node = el("table", {}, el("caption", { text: caption }), el("thead", {}, el("tr", {}, ...this.heads)), this.body);
  }

  head(column) {
    const cell = el("th", { scope: "col", class: column.kind });
    if (column.by) {
      cell.append(el("button", { type: "button", text: column.head, onclick: () => {
        this.isDown = this.sortBy === column.head ? !this.isDown : column.kind === "number";
        this.sortBy = column.head;
        this.update(this.values);
      } }));
    } else cell.textContent = column.head;
    return cell;
  }

  update(values) {
    this.values = values;
    const focused = document.activeElement, order = this.sorted(values), kept = new Set();
    let next = this.body.firstChild;
    for (const value of order) {
      const key = this.key(value);
      if (kept.has(key)) continue;
      kept.add(key);
      const row = this.rows.get(key) ?? this.added(key);
      row.value = value;
      this.columns.forEach((column, place) => this.fill(column, row.cells[place], row));
      if (row.node === next) next = next.nextSibling;
      else this.body.insertBefore(row.node, next);
    }
    for (const [key, row] of this.rows) if (!kept.has(key)) { row.node.remove(); this.rows.delete(key); }
    this.body.querySelector("td.empty")?.parentNode.remove();
    if (!kept.size) this.body.append(el("tr", {}, el("td", { class: "empty", colspan: this.columns.length, text: this.empty })));
    // A row that is moved loses the focus.
    if (focused !== document.activeElement && this.body.contains(focused)) focused.focus({ preventScroll: true });
  }

  added(key) {
    const cells = this.columns.map((column) => el("td", { class: column.kind, "data-head": column.head }));
    const row = { cells, node: el("tr", {}, ...cells), value: null };
    this.rows.set(key, row);
    return row;
  }

  fill(column, cell, row) {
    if (column.draw) column.draw(cell, row.value);
    else if (column.press) {
      const does = column.can?.(row.value) ?? true;
      if (does && !cell.firstChild) cell.append(el("button", { type: "button", text: column.text, onclick: () => column.press(row.value) }));
      if (!does) cell.replaceChildren();
    } else {
      if (!cell.firstChild) cell.append(el("span", { class: column.kind === "name" ? "clip" : null }));
      setText(cell.firstChild, column.text(row.value));
    }
  }

  sorted(values) {
    const column = this.columns.find(({ head }) => head === this.sortBy);
    this.columns.forEach(({ head, by }, place) => {
      if (by) this.heads[place].setAttribute("aria-sort", head !== this.sortBy ? "none" : this.isDown ? "descending" : "ascending");
    });
    if (!column) return values;
    const sign = this.isDown ? -1 : 1;
    return [...values].sort((one, other) => {
      const [a, b] = [column.by(one), column.by(other)];
      return sign * (typeof a === "number" ? a - b : String(a).localeCompare(String(b)));
    });
  }
}
