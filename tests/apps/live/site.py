"""A live server in this process, and what tests do on its page."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo.apps.live.hub import Hub
from zoo.apps.live.server import application
from zoo.apps.live.settings import Address
from zoo.apps.live.work import Server, listen, new_server

# Keeps what each AudioContext plays, as its samples are when they are played.
CAPTURE = """
window.played = [];
const connect = AudioNode.prototype.connect;
AudioNode.prototype.connect = function (target, ...others) {
  if (target instanceof AudioDestinationNode && this instanceof AudioBufferSourceNode) {
    const context = this.context;
    if (!context.tap) {
      context.tap = context.createScriptProcessor(4096, 1, 1);
      const samples = [];
      window.played.push(samples);
      context.tap.onaudioprocess = (event) => {
        samples.push(Array.from(event.inputBuffer.getChannelData(0), (x) => Math.round(32768 * x)));
      };
      connect.call(context.tap, target);
    }
    connect.call(this, context.tap);
  }
  return connect.call(this, target, ...others);
};
"""
# Notes when each word is shown, in seconds since the first audio was sent.
CLOCK = """
window.shown = [];
let begun = null;
const send = WebSocket.prototype.send;
WebSocket.prototype.send = function (data) {
  if (begun === null && typeof data !== "string") begun = performance.now() - 100;
  return send.call(this, data);
};
new MutationObserver((changes) => {
  for (const change of changes) for (const node of change.addedNodes) {
    if (node.dataset?.elapsed) {
      window.shown.push([Number(node.dataset.elapsed), (performance.now() - begun) / 1000]);
    }
  }
}).observe(document, {childList: true, subtree: true});
"""


@dataclass(frozen=True)
class Site:
    """A running server: the address of its page, its hub and its web server."""

    address: str
    hub: Hub
    server: Server


@contextmanager
def serving(hub: Hub) -> Iterator[Site]:
    """Serve a hub on a free port."""
    address = Address(host="127.0.0.1", port=0)
    with listen(address, hub.limits) as listening:
        server = new_server(application(hub, listening=listening), hub.limits)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield Site(f"http://127.0.0.1:{listening.getsockname()[1]}/", hub, server)
        finally:
            server.should_exit = True
            thread.join()


def load(page: Any, address: str) -> None:
    """Load the page; an error in its scripts fails the test."""
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.set_default_timeout(60_000)
    page.goto(address)
    wait_for_status(page, "Ready.")


def wait_for_status(page: Any, text: str) -> None:
    """Wait for a text in the line that says what goes on."""
    page.wait_for_selector(f'#status:text-is("{text}")')
    assert page.errors == []


def translate(page: Any, source: str, systems: Sequence[str]) -> None:
    """Choose a source and systems, start, and wait for the end."""
    page.select_option("#source", source)
    for place, system in enumerate(systems):
        page.select_option(f"#system-{place}", label=system)
    page.click("#start")
    wait_for_status(page, "Done.")


def words(page: Any, place: int = 0) -> list[tuple[str, float, float]]:
    """Text, delay and elapsed time of each output of a panel that stands."""
    panel = page.locator(".panel").nth(place)
    found = panel.locator(".word:not(.deleted)").evaluate_all(
        "all => all.map(one => [one.textContent, one.dataset.delay, one.dataset.elapsed])"
    )
    return [(text, float(delay), float(elapsed)) for text, delay, elapsed in found]


def text(page: Any, place: int = 0) -> str:
    """The translation of a panel."""
    return "".join(one for one, _, _ in words(page, place)).strip()


def download(page: Any, label: str, folder: Path, place: int = 0) -> Path:
    """Save a file that a panel offers."""
    with page.expect_download() as started:
        page.locator(".panel").nth(place).get_by_role("link", name=label, exact=True).click()
    path = folder / started.value.suggested_filename
    started.value.save_as(path)
    return path


def played(page: Any) -> list[np.ndarray]:
    """16-bit samples that each AudioContext has played; the page needs ``CAPTURE``."""
    contexts = json.loads(page.evaluate("JSON.stringify(window.played.map((one) => one.flat()))"))
    return [np.array(samples, dtype=np.int16) for samples in contexts]
