"""A speech processor of simulstream in the place of a system (``system=simulstream_processor``)."""

from pathlib import Path
from typing import Any

from zoo.base.errors import ZooError
from zoo.base.types import Action, Seconds, SpeechChunk
from zoo.extras.interop.foreign import ForeignStream, ForeignSystem
from zoo.streaming.text import revise_text

UNKNOWN: Seconds = 1.0  # duration of a chunk until the processor is created


class SimulstreamProcessor(ForeignSystem):
    """Runs a processor with its own chunks (``speech_chunk_size``).

    A processor may delete text that it has written. A word has the delay of the chunk that last
    changed it, as in simulstream's scorers.

    Args:
        name: Name of the system in results.
        source_language: Code of the source language.
        target_language: Code of the target language.
        config: YAML file of the processor.
        src_lang: Code of the source language that the processor expects; None: the zoo's.
        tgt_lang: Code of the target language that the processor expects; None: the zoo's.
    """

    def __init__(
        self,
        *,
        name: str,
        source_language: str,
        target_language: str,
        config: str | Path | None = None,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
    ) -> None:
        super().__init__(
            package="simulstream",
            install="pip install simulstream==1.0.0",
            name=name,
            source_language=source_language,
            target_language=target_language,
            chunk_seconds=UNKNOWN,
        )
        self.config = None if config is None else Path(config)
        self.src_lang = src_lang or source_language
        self.tgt_lang = tgt_lang or target_language

    @property
    def emits_speech(self) -> bool:
        """False: simulstream has no speech output. Raises ZooError if it is not installed."""
        self.check_package()
        return False

    def create(self) -> Any:
        """Create a processor, as simulstream's server does; see ``ForeignSystem``."""
        self.check_package()
        from simulstream.config import yaml_config
        from simulstream.server.speech_processors import build_speech_processor

        if self.config is None:
            raise ZooError(
                "system=simulstream_processor needs system.config, the YAML file of a processor."
            )
        if not self.config.is_file():
            raise ZooError(f"There is no file {self.config} (system.config).")
        config = yaml_config(str(self.config))
        if not isinstance(vars(config).get("type"), str):
            raise ZooError(f"{self.config} names no processor; it needs the key 'type'.")
        processor = build_speech_processor(config)
        self.chunk_seconds = processor.speech_chunk_size
        return processor

    def open(self, talk: str, **known: Any) -> ForeignStream:
        """Open a stream; see ``System``."""
        stream = super().open(talk, **known)
        stream.part.clear()
        stream.part.set_source_language(self.src_lang)
        stream.part.set_target_language(self.tgt_lang)
        return stream

    def advance(self, stream: ForeignStream, chunk: SpeechChunk) -> Action:
        """Send a chunk to the processor, and the end of the stream; see ``ForeignSystem``."""
        outputs = []
        if chunk.samples.numel():
            outputs.append(stream.part.process_chunk(chunk.samples.numpy()))
        if chunk.final:
            outputs.append(stream.part.end_of_stream())

        for output in outputs:
            if deleted := len(output.deleted_tokens):
                del stream.tokens[-deleted:]
            stream.tokens += output.new_tokens
        text = stream.part.tokens_to_string(stream.tokens).strip()
        return rewrite_output(stream, text, words=self.target_language.unit == "word")


def rewrite_output(stream: ForeignStream, text: str, *, words: bool) -> Action:
    """Return the output that turns the text of a stream into another text.

    Args:
        stream: The stream; its text becomes ``text``.
        text: All text that remains and that is new.
        words: Whether a word that loses characters is written again as a whole.
    """
    revision = revise_text(stream.text, text, words=words)
    action = Action(text=revision.text, retracted=revision.retracted)
    stream.text = text
    return action
