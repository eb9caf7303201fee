"use strict";
for (const head of document.querySelectorAll("table:not(.grouped) > thead th")) {
  head.style.cursor = "pointer";
  head.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0], place = head.cellIndex, numbers = head.classList.contains("n");
    const up = head.getAttribute("aria-sort") !== "ascending";
    const value = (row) => row.cells[place] ? row.cells[place].dataset.value ?? row.cells[place].textContent.trim() : "";
    const number = (row) => Number(value(row).replace(/[^0-9.+-]/g, "")) || 0;
    const order = (a, b) => numbers ? number(a) - number(b) : value(a).localeCompare(value(b));
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    body.append(...[...body.rows].sort((a, b) => up ? order(a, b) : order(b, a)));
  });
}
const made = (name, text = "") => Object.assign(document.createElement(name), { textContent: text });
const replaceTexts = (table, parts) => {
  const texts = document.createTreeWalker(table, NodeFilter.SHOW_TEXT), found = [];
  while (texts.nextNode()) found.push(texts.currentNode);
  for (const text of found) {
    if (!text.parentElement.closest(".whole")) text.replaceWith(...parts(text.data));
  }
};
// Words break only where a table would be wider than the page: after a dot, an underscore or a dash, or else anywhere.
const DIVIDED = /(?<=[._:@/-])(?=[^\s._:@/-]{3})/;
const soften = (text) => text.split(DIVIDED).flatMap((part, at) => at ? [made("wbr"), part] : [part]);
const wide = (table) => table.offsetWidth > table.parentElement.clientWidth + 1;
const fit = () => document.querySelectorAll("table").forEach((table) => {
  table.classList.remove("tight");
  if (wide(table)) replaceTexts(table, soften);
  table.classList.toggle("tight", wide(table));
});
window.addEventListener("resize", fit);
document.addEventListener("toggle", fit, true);
fit();
// Of a drawing of many links one is a tab stop; the arrow keys move on from it.
for (const drawing of document.querySelectorAll("svg[data-arrows]")) {
  const links = [...drawing.querySelectorAll("a")], step = Number(drawing.dataset.arrows), last = links.length - 1;
  const moves = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -step, ArrowRight: step, Home: -last, End: last };
  const stop = (link) => links.forEach((each) => each.setAttribute("tabindex", each === link ? "0" : "-1"));
  drawing.addEventListener("keydown", (event) => {
    const at = links.indexOf(document.activeElement);
    if (at < 0 || !(event.key in moves)) return;
    event.preventDefault();
    const next = links[Math.min(Math.max(at + moves[event.key], 0), last)];
    stop(next);
    next.focus();
  });
  stop(links[last]);
}
const unfold = () => {
  document.getElementById(location.hash.slice(1))?.querySelector(":scope > details")?.setAttribute("open", "");
};
window.addEventListener("hashchange", unfold);
unfold();
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
