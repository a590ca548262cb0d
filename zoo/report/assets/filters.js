// Filters by test set, system and latency setting. They hide rows in the chart, the tables and the choices of rows.
const FACETS = [
  { name: "Test sets", of: (row) => data.sets[row.set] },
  { name: "Systems", of: (row) => row.system },
  { name: "Settings", of: (row) => row.knob || "none" },
];
const excluded = FACETS.map(() => new Set());
const filterListeners = [];
const onFilter = (listener) => filterListeners.push(listener);
const isShown = (row) => FACETS.every((facet, place) => !excluded[place].has(facet.of(row)));

function setUpFilters() {
  const holder = byId("filters");
  FACETS.forEach((facet, place) => {
    const values = [...new Set(data.rows.map(facet.of))];
    if (values.length < 2) return;
    const summary = dropDown(holder, facet.name, values.map((value) => [value, value]), (value, checked) => {
      if (checked) excluded[place].delete(value);
      else excluded[place].add(value);
    }, () => {
      summary(values.length - excluded[place].size, values.length);
      filterListeners.forEach((listener) => listener());
    }, () => true);
    summary(values.length, values.length);
  });
  holder.hidden = !holder.children.length;
}

// A button that opens a list of check boxes; the returned function writes "name (some of all)". `change` is called for
// each box that changes, `done` once after them. A list that would leave the screen begins left of its button.
function dropDown(holder, name, entries, change, done, isChecked) {
  const details = build(holder, "details", { class: "choice" });
  const summary = build(details, "summary");
  const list = build(details, "div", { class: "choice-list", role: "group", "aria-label": name });
  const boxes = [];
  details.addEventListener("toggle", () => {
    list.style.left = "0";
    const over = list.getBoundingClientRect().right - document.documentElement.clientWidth + 16;
    if (over > 0) list.style.left = `${-over}px`;
  });
  if (entries.length > 2) {
    const buttons = build(list, "p", { class: "choice-all" });
    for (const [text, checked] of [["all", true], ["none", false]]) {
      build(buttons, "button", { type: "button", class: "plain" }, text).addEventListener("click", () => {
        boxes.forEach((box, place) => {
          if (box.checked === checked) return;
          box.checked = checked;
          change(entries[place][0], checked);
        });
        done();
      });
    }
  }
  for (const [value, text] of entries) {
    const label = build(list, "label");
    const box = build(label, "input", { type: "checkbox" });
    box.checked = isChecked(value);
    box.addEventListener("change", () => {
      change(value, box.checked);
      done();
    });
    boxes.push(box);
    label.append(text);
  }
  return (some, all) => { summary.textContent = some === all ? `${name} (${all})` : `${name} (${some} of ${all})`; };
}

// An open list closes when the reader clicks elsewhere or presses Escape.
addEventListener("pointerdown", ({ target }) => {
  for (const open of document.querySelectorAll("details.choice[open]")) if (!open.contains(target)) open.open = false;
});
addEventListener("keydown", ({ key }) => {
  if (key !== "Escape") return;
  for (const open of document.querySelectorAll("details.choice[open]")) open.open = false;
});
