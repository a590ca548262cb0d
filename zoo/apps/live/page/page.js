// The page: what is spoken, which systems translate it, and the buttons.
import {Choices, part} from "./choices.js";
import {Panel} from "./panel.js";
import {Microphone, Recording, level} from "./sources.js";

const token = new URLSearchParams(location.search).get("token");
const query = token ? `?token=${encodeURIComponent(token)}` : "";
let choices = null;
let run = null; // what goes on since Start

function show(text) {
  part("status").textContent = text;
}

async function ask(path) {
  let answer;
  try {
    answer = await fetch(`${path}${query}`);
  } catch {
    throw new Error("The server does not answer.");
  }
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

async function chosenSource() {
  if (choices.talk !== null) {
    const answer = await ask(`talks/${encodeURIComponent(choices.talk)}`);
    return new Recording(await answer.arrayBuffer(), choices.talk);
  }
  if (part("source").value === "microphone") return new Microphone();
  const [file] = part("file").files;
  if (!file) throw new Error("Choose an audio file first.");
  return new Recording(await file.arrayBuffer(), file.name);
}

// From Start to the end: one source, and one or two systems that translate it.
class Run {
  constructor(panels) {
    this.panels = panels;
    this.source = null;
    this.isStopped = false;
    this.hasBegun = false; // the source sends audio
    this.isClosed = false;
    this.stopped = new Promise((resolve) => { this.endBeginning = resolve; });
  }

  async begin() {
    this.source = await chosenSource();
    if (this.isStopped) return;
    await Promise.all(this.panels.map((panel) => panel.connect(choices.talk)));
    if (this.isStopped) return;
    await this.source.start((samples) => this.receive(samples));
    if (this.isStopped) return;
    this.hasBegun = true;
    part("pause").disabled = false;
    show("Translating.");
    await Promise.all(this.panels.map((panel) => panel.ended));
    const problem = this.panels.map((panel) => panel.problem).find(Boolean);
    if (problem) throw new Error(problem);
  }

  // Pass audio on; null is the end of the source.
  receive(samples) {
    if (this.isClosed) return;
    for (const panel of this.panels) panel.send(samples);
    part("level").value = samples === null ? 0 : Math.min(1, 4 * level(samples));
    if (samples === null) {
      for (const name of ["pause", "stop"]) part(name).disabled = true;
      show("The source has ended.");
    } else if (this.panels.every((panel) => panel.problem)) {
      this.source.stop();
    }
  }

  // End the source; what it has sent is translated. Before it sends audio, everything ends.
  async stop() {
    if (!this.hasBegun) {
      this.isStopped = true;
      this.endBeginning();
    } else {
      await this.source.stop();
    }
  }

  async close() {
    this.isClosed = true;
    for (const panel of this.panels) panel.disconnect();
    await this.source?.stop();
  }
}

async function start() {
  for (const panel of run?.panels ?? []) panel.dispose();
  part("start").disabled = true;
  choices.enable(false);
  part("stop").disabled = false;
  show("Starting …");
  const panels = choices.chosen().map((system) => new Panel(system, token));
  part("panels").replaceChildren(...panels.map((panel) => panel.section));
  const current = run = new Run(panels);
  try {
    await Promise.race([current.begin(), current.stopped]); // a question for the microphone waits
    show(current.isStopped ? "Stopped." : "Done.");
  } catch (error) {
    show(current.isStopped ? "Stopped." : error.message);
  }
  await current.close();
  part("level").value = 0;
  part("pause").textContent = "Pause";
  for (const name of ["pause", "stop"]) part(name).disabled = true;
  choices.enable(true);
  part("start").disabled = false;
}

part("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!part("start").disabled) start();
});
part("pause").addEventListener("click", async () => {
  const isPaused = part("pause").textContent === "Resume";
  await (isPaused ? run.source.resume() : run.source.pause());
  part("pause").textContent = isPaused ? "Pause" : "Resume";
  show(isPaused ? "Translating." : "Paused.");
});
part("stop").addEventListener("click", () => run.stop());

async function load() {
  choices = new Choices(await (await ask("systems")).json());
  part("start").disabled = false;
  show("Ready.");
}

load().catch((error) => show(error.message));
