"""The Dockerfile of a submission: a server of simulstream's speech processors."""

import json
from collections.abc import Sequence

SOURCE = "source"  # folder of the package in a submission
WEIGHTS = "weights"  # folder of the weights
REQUIREMENTS = "requirements.txt"
SERVER = "simulstream.server.speech_processors.remote.http_speech_processor_server"
PORT = 8080


PACKAGES = """# The packages of a base that is an argument have no versions in common to pin.
# hadolint ignore=DL3008
RUN apt-get update \\
  && apt-get install --yes --no-install-recommends ffmpeg python3 python3-venv \\
  && rm -rf /var/lib/apt/lists/* \\
  && python3 -m venv /opt/venv"""
INSTALL = f"""COPY {REQUIREMENTS} ./
RUN pip install --no-cache-dir --extra-index-url "${{TORCH_INDEX}}" -r {REQUIREMENTS}"""


def dockerfile(regimes: Sequence[str], hub_weights: Sequence[str], *, has_weights: bool) -> str:
    """Return the text of the Dockerfile.

    The base is one of Debian or Ubuntu, whose Python makes an environment. A base with CUDA and the
    index of its builds of torch are arguments of ``docker build``.

    Args:
        regimes: regimes that have a processor; the image serves the first one by default.
        hub_weights: hub ids that the image downloads when it is built.
        has_weights: whether the submission has folders of weights.
    """
    processors = " ".join(f"{regime}.yaml" for regime in regimes)
    server = json.dumps(["python", "-m", SERVER, "--speech-processor-config"])
    blocks = [
        "ARG BASE=debian:bookworm-slim\nFROM ${BASE}",
        "ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu",
        PACKAGES,
        f"ENV PATH=/opt/venv/bin:${{PATH}} PYTHONPATH=/opt/submission/{SOURCE}",
        "WORKDIR /opt/submission",
        INSTALL,
        *map(_download, hub_weights),
        *([f"COPY {WEIGHTS} ./{WEIGHTS}"] if has_weights else []),
        f"COPY {SOURCE} ./{SOURCE}",
        f"COPY {processors} ./",
        f"EXPOSE {PORT}",
        f"ENTRYPOINT {server}",
        f"CMD {json.dumps([f'{regimes[0]}.yaml'])}",
    ]
    return "\n\n".join(blocks) + "\n"


def _download(name: str) -> str:
    """Return the instruction that downloads weights; ``@`` and a revision may follow a hub id."""
    hub_id, _, revision = name.partition("@")
    arguments = f"{hub_id!r}, revision={revision!r}" if revision else repr(hub_id)
    code = f"from huggingface_hub import snapshot_download; snapshot_download({arguments})"
    return f"RUN {json.dumps(['python', '-c', code])}"
