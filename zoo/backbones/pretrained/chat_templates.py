"""Renders chat templates of unknown origin, in a process of their own that has limits.

A chat template is a program: the sandbox of Jinja keeps it from files and modules, but a loop in a
loop takes years, and a text that doubles itself takes all memory. This file is also the program of
that process, and imports nothing of the zoo.
"""

import contextlib
import json
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SECONDS = 10  # of computing; published templates need milliseconds
BYTES = 2**30  # of memory
LONGEST = 1_000_000  # characters of a prompt
WAITED = 300  # seconds until a process that does not compute is ended


def render(
    template: str, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any]
) -> str:
    """Return the prompt for an answer to messages.

    Args:
        template: Chat template of a model.
        messages: Messages as the template expects them.
        variables: Further variables of the template, such as the special tokens.

    Raises:
        ValueError: If the template fails, or needs more time, memory or characters than any
            published one.
    """
    request = {
        **variables,
        "conversations": [messages],
        "chat_template": template,
        "add_generation_prompt": True,
    }
    command = [sys.executable, "-P", __file__]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=WAITED,
            check=False,
        )
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError) as error:  # it was ended before its answer
        raise ValueError(f"it needs more than {SECONDS} seconds or {BYTES >> 30} GiB") from error
    if "error" in answer:
        raise ValueError(answer["error"])
    return str(answer["prompt"])


def main() -> None:
    """Read a request from the standard input and write the prompt, or why there is none."""
    from transformers.utils.chat_template_utils import render_jinja_template

    request = json.load(sys.stdin)
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    with contextlib.suppress(ValueError, OSError):  # macOS has no limit of memory
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most = pages * resource.getpagesize() + BYTES  # libraries reserve much and use little
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        rendered: Any = render_jinja_template(**request)  # annotated as a text
        prompt = rendered[0][0]
        answer = {"prompt": prompt}
        if len(prompt) > LONGEST:
            answer = {"error": f"it makes a prompt of {len(prompt)} characters"}
    except MemoryError:
        answer = {"error": f"it needs more than {BYTES >> 30} GiB"}
    except Exception as error:  # a template may raise any error
        answer = {"error": str(error)[:LONGEST] or type(error).__name__}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
