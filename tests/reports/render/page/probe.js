// Measures what only a browser knows of a page, and writes it to the data attributes of the page around its frame.
addEventListener("load", () => {
  const root = document.documentElement;
  const width = root.clientWidth;
  const drawn = (element) => element.getClientRects().length > 0;
  const scrolls = (element) => element.closest(".scroll, pre, .unseen") !== null;
  const box = (element) => element.getBoundingClientRect();

  const beyond = [...document.body.querySelectorAll("*")]
    .filter((element) => drawn(element) && !scrolls(element) && box(element).right > width + 1)
    .map((element) => `${element.tagName}.${element.getAttribute("class")} ${element.textContent.slice(0, 40)}`);

  // Two texts of one drawing: a pixel of either may touch the other.
  const meet = (one, other) =>
    one.left < other.right - 1 && other.left < one.right - 1 && one.top < other.bottom - 1 && other.top < one.bottom - 1;
  const drawings = [...document.querySelectorAll("svg")].filter(drawn);
  const over = [];
  for (const drawing of drawings) {
    const texts = [...drawing.querySelectorAll(":scope > text")].filter(drawn);
    texts.forEach((one, index) => {
      for (const other of texts.slice(index + 1)) {
        if (meet(box(one), box(other))) over.push(`${one.textContent}|${other.textContent}`);
      }
    });
  }

  // A word of one cell on several lines.
  const lines = (cell) => {
    const range = new Range();
    range.selectNodeContents(cell);
    return new Set([...range.getClientRects()].map((each) => each.top)).size;
  };
  const broken = [...document.querySelectorAll("details td")]
    .filter((cell) => !/\s/.test(cell.textContent.trim()) && cell.children.length === 0 && lines(cell) > 1)
    .map((cell) => cell.textContent);

  const found = {
    width,
    content: root.scrollWidth,
    beyond: beyond.join(";"),
    over: over.join(";"),
    broken: broken.join(";"),
    drawings: drawings.length,
    sections: [...document.querySelectorAll("section")].filter(drawn).map((section) => section.id).join(" "),
    policies: Math.floor(Math.min(...[...document.querySelectorAll(".matrix tbody th")].map((cell) => box(cell).width))),
    matrix: Math.round(Math.min(...[...document.querySelectorAll(".matrix .badge")].map((badge) => box(badge).bottom + scrollY))),
    unfolded: [...document.querySelectorAll("details:not(.points, .origins) > :not(summary)")].every(drawn),
  };
  for (const [name, value] of Object.entries(found)) parent.document.documentElement.dataset[window.name + name] = value;
});
