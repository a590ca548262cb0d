"""The plain loop and the zoo emit the same words; other words are detected."""

import json
import sys
from types import ModuleType
from typing import Any

import pytest

from zoo.base.errors import ZooError

TINY = ["--small", "--hidden", "32", "--vocabulary", "600", "--chunks", "2", "--max-tokens", "5"]


def test_it_runs(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["whisper_step.py", *TINY])
    script.main()
    facts = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert {"step_speedup", "unpadded_speedup"} < set(facts)
    assert facts["words"][script.PLAIN] == facts["words"][script.OURS] > 0


def test_other_words_are_detected(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(script.PlainWhisper):  # type: ignore[misc, name-defined]
        def _generate(self, *arguments: Any) -> Any:
            tokens, ended, attention = super()._generate(*arguments)
            return [*tokens[:-1], 70, 71], ended, attention

    monkeypatch.setattr(script, "PlainWhisper", Wrong)
    monkeypatch.setattr(sys, "argv", ["whisper_step.py", *TINY])
    with pytest.raises(ZooError, match="emit different text"):
        script.main()
