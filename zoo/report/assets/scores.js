// The table of scores: sortable by any column within systems and within reference rows; links open the talks.
function sortScores(button) {
  const head = button.closest("th");
  const table = head.closest("table");
  const column = head.cellIndex;
  const order = ["ascending", "descending"];
  if (head.dataset.better === "higher") order.reverse(); // the first click puts the best row first
  const down = order[head.getAttribute("aria-sort") === order[0] ? 1 : 0] === "descending";
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  for (const body of table.tBodies) {
    const rows = [...body.rows].sort((a, b) => compareRows(a, b, column, down));
    body.classList.toggle("sorted", column > 0);
    body.append(...rows);
  }
}

function filterScores() {
  for (const line of document.querySelectorAll("tr[data-row], li[data-row]")) line.hidden = !isShown(data.rows[line.dataset.row]);
  for (const table of document.querySelectorAll(".scores:not(.matched)")) {
    table.closest(".scroll").hidden = !table.querySelector("tr[data-row]:not([hidden])");
  }
}

function compareRows(a, b, column, down) {
  const sign = down ? -1 : 1;
  if (column > 0) {
    const [x, y] = [a, b].map((row) => row.cells[column].dataset.value);
    if ((x === "") !== (y === "")) return x === "" ? 1 : -1; // undefined values stay below
    if (Number(x) !== Number(y)) return sign * (Number(x) - Number(y));
  }
  const [x, y] = [a, b].map((row) => data.rows[row.dataset.row]);
  return (column ? 1 : sign) * x.system.localeCompare(y.system) || x.order - y.order;
}

function setUpScores(open) {
  for (const button of document.querySelectorAll(".scores th button")) {
    button.addEventListener("click", () => sortScores(button));
  }
  onFilter(filterScores);
  byId("extra").addEventListener("change", (event) => document.body.classList.toggle("all-scores", event.target.checked));
  byId("extra-label").hidden = !document.querySelector(".scores .extra");
  const streamed = new Set(data.streams.map((stream) => stream.row));
  for (const link of document.querySelectorAll("a[data-open]")) {
    const row = Number(link.dataset.open);
    if (streamed.has(row)) link.addEventListener("click", () => open(row));
    else link.removeAttribute("href");
  }
}
