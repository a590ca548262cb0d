// The page: what is spoken, which systems translate it, and the buttons.
import {Panel} from "./panel.js";
import {Microphone, Recording, level} from "./sources.js";

const token = new URLSearchParams(location.search).get("token");
const query = token ? `?token=${encodeURIComponent(token)}` : "";
const part = (name) => document.getElementById(name);
let source = null;
let panels = [];

function show(text) {
  part("status").textContent = text;
}

function option(select, value, text) {
  const entry = document.createElement("option");
  entry.value = value;
  entry.textContent = text;
  select.append(entry);
}

async function load() {
  const answer = await fetch(`systems${query}`);
  if (!answer.ok) throw new Error(await answer.text());
  const {systems, talks} = await answer.json();
  option(part("system-1"), "", "none");
  systems.forEach((system, index) => {
    const label = `${system.name} (${system.source_language} → ${system.target_language})`;
    for (const select of [part("system-0"), part("system-1")]) option(select, index, label);
  });
  for (const talk of talks) {
    option(part("source"), `talk:${talk.name}`, `Talk ${talk.name} (${Math.round(talk.duration)} s)`);
  }
  load.systems = systems;
  show("Ready.");
}

async function chosenSource() {
  const value = part("source").value;
  if (value === "microphone") return new Microphone();
  if (value === "file") {
    const [file] = part("file").files;
    if (!file) throw new Error("Choose an audio file first.");
    return new Recording(await file.arrayBuffer());
  }
  const name = encodeURIComponent(value.slice("talk:".length));
  const answer = await fetch(`talks/${name}${query}`);
  if (!answer.ok) throw new Error(await answer.text());
  return new Recording(await answer.arrayBuffer());
}

function running(is) {
  part("start").disabled = is;
  for (const name of ["pause", "stop"]) part(name).disabled = !is;
  for (const name of ["source", "file", "system-0", "system-1"]) part(name).disabled = is;
  part("pause").textContent = "Pause";
}

async function start() {
  running(true);
  try {
    source = await chosenSource();
    const chosen = [part("system-0").value, part("system-1").value].filter(Boolean);
    panels = chosen.map((index) => new Panel(load.systems[index], token));
    part("panels").replaceChildren(...panels.map((panel) => panel.section));
    await Promise.all(panels.map((panel) => panel.connect()));
    await source.start((samples) => {
      for (const panel of panels) panel.send(samples);
      part("level").value = samples === null ? 0 : Math.min(1, 4 * level(samples));
      if (samples === null) {
        for (const name of ["pause", "stop"]) part(name).disabled = true;
        show("The source has ended.");
      }
    });
    show("Translating.");
    await Promise.all(panels.map((panel) => panel.ended));
    show("Done.");
  } catch (error) {
    show(error.message);
  }
  running(false);
}

part("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  start();
});
part("source").addEventListener("change", () => {
  part("file-label").hidden = part("source").value !== "file";
});
part("pause").addEventListener("click", async () => {
  const paused = part("pause").textContent === "Resume";
  await (paused ? source.resume() : source.pause());
  part("pause").textContent = paused ? "Pause" : "Resume";
  show(paused ? "Translating." : "Paused.");
});
part("stop").addEventListener("click", () => source.stop());
load().catch((error) => show(error.message));
