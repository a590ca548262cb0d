// What is chosen on the page: languages, systems with their latency, and the source.
export const part = (name) => document.getElementById(name);
const COUNT = 2; // systems beside each other

export class Choices {
  constructor({systems, talks}) {
    this.systems = systems;
    this.talks = talks;
    const directions = new Map(systems.map((system) => [direction(system), direction(system)]));
    fill(part("direction"), directions);
    part("direction").parentElement.hidden = directions.size < 2;
    part("direction").addEventListener("change", () => this.showSystems());
    for (let place = 0; place < COUNT; place++) {
      part(`system-${place}`).addEventListener("change", () => this.showLatencies(place));
    }
    part("source").addEventListener("change", () => this.showFile());
    this.showSystems();
    this.showFile();
  }

  // The first system has the chosen languages; the second one shares the speech with it.
  showSystems() {
    const chosen = part("direction").value;
    const source = chosen.split(" → ")[0];
    const all = [...this.systems.entries()];
    const first = all.filter(([, system]) => direction(system) === chosen);
    fill(part("system-0"), first.map(([index, system]) => [index, system.name]));
    const second = all.filter(([, system]) => system.source_language === source);
    fill(part("system-1"), [["", "none"], ...second.map(([index, system]) => {
      const differs = direction(system) !== chosen;
      return [index, differs ? `${system.name} (${direction(system)})` : system.name];
    })]);
    for (let place = 0; place < COUNT; place++) this.showLatencies(place);
    this.showTalks(source);
  }

  showLatencies(place) {
    const system = this.systems[part(`system-${place}`).value];
    const select = part(`latency-${place}`);
    const label = select.parentElement;
    label.hidden = !system || system.latencies.length < 2;
    if (label.hidden) return;
    const where = place ? ", beside" : "";
    label.querySelector("span").textContent = `Latency (${system.knob} of ${system.name}${where})`;
    fill(select, system.latencies.map(({value}, index) => [index, `${system.knob} = ${value}`]));
  }

  showTalks(source) {
    const select = part("source");
    const before = select.value;
    for (const option of [...select.options].slice(2)) option.remove();
    for (const talk of this.talks) {
      if (source !== "auto" && talk.source_language !== source) continue;
      const text = `Talk ${talk.name} (${Math.round(talk.duration)} s)`;
      select.append(new Option(text, `talk:${talk.name}`));
    }
    select.value = [...select.options].some((option) => option.value === before) ? before : "microphone";
  }

  showFile() {
    part("file").parentElement.hidden = part("source").value !== "file";
  }

  // The chosen systems, each with its value of the latency.
  chosen() {
    return Array.from({length: COUNT}, (_, place) => place)
      .filter((place) => part(`system-${place}`).value !== "")
      .map((place) => {
        const system = this.systems[part(`system-${place}`).value];
        const several = system.latencies.length > 1;
        return {...system, ...system.latencies[several ? part(`latency-${place}`).value : 0]};
      });
  }

  // Name of the talk that is the source; null: another source.
  get talk() {
    const value = part("source").value;
    return value.startsWith("talk:") ? value.slice("talk:".length) : null;
  }

  enable(is) {
    for (const one of part("controls").querySelectorAll("select, input")) one.disabled = !is;
  }
}

function direction(system) {
  return `${system.source_language} → ${system.target_language}`;
}

function fill(select, entries) {
  select.replaceChildren(...[...entries].map(([value, text]) => new Option(text, value)));
}
