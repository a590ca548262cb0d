"""The tokenizer file of Mistral's models, tekken.json, with the settings of streaming.

Only ids are converted to text here. Mistral's own package, mistral-common, is not needed.
"""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from zoo.backbones.text.vocabulary import BYTES
from zoo.base.disk.parsing import MALFORMED, bounded_whole, read_json
from zoo.base.errors import ZooError
from zoo.base.types import SAMPLE_RATE, Frames

FILE = "tekken.json"
MOST_TOKENS = 1_000_000  # published files have 1,000 special tokens and 131,072 in all
FRAME_RATE = 12.5  # tokens per second of audio
FRAME_MILLISECONDS = 1000 / FRAME_RATE
BEGIN, PADDING = "<s>", "[STREAMING_PAD]"

_CHARACTERS = {byte: character for character, byte in BYTES.items()}


@dataclass(frozen=True, slots=True)
class Tekken:
    """What a tekken.json states.

    Attributes:
        tokenizer: Converts ids to text. It does not tokenise, because it has no merges.
        begin: Id of the token that begins a stream.
        padding: Id of the token of a frame without text.
        first_text: The first id with text. Smaller ids are special tokens.
        left: Frames of silence before a stream.
        delay: Frames from speech to its text; None if the file states no delay.
    """

    tokenizer: PreTrainedTokenizerFast
    begin: int
    padding: int
    first_text: int
    left: Frames
    delay: Frames | None


def read_tekken(folder: Path, name: str) -> Tekken:
    """Read the tekken.json of a folder.

    Args:
        folder: Folder of the model.
        name: Name of the model, for error messages.

    Raises:
        ZooError: If the file is missing or damaged, or is that of a model that does not stream.
    """
    path = folder / FILE
    if not path.is_file():
        raise ZooError(f"{name} has no {FILE}, the tokenizer of Voxtral-Realtime.")
    try:
        content = read_json(path)
        special = {
            str(token["token_str"]): bounded_whole(token["rank"], most=MOST_TOKENS)
            for token in content["special_tokens"]
        }
        first_text = bounded_whole(
            content["config"]["default_num_special_tokens"], most=MOST_TOKENS
        )
        tokenizer = _tokenizer(content, first_text)
        audio = content.get("audio") or {}
        streams = audio.get("transcription_format") == "streaming" and {BEGIN, PADDING} <= {
            *special
        }
        rates = audio.get("sampling_rate"), audio.get("frame_rate")
        left = bounded_whole(audio.get("streaming_n_left_pad_tokens") or 0, most=MOST_TOKENS)
        delay = audio.get("transcription_delay_ms")
        frames = None if delay is None else round(delay / FRAME_MILLISECONDS)
    except (OSError, *MALFORMED) as error:
        raise ZooError(f"The {FILE} of {name} is damaged; download it again.") from error
    if not streams:
        raise ZooError(
            f"The {FILE} of {name} is not that of a Voxtral-Realtime: it has no streaming "
            "transcription."
        )
    if rates != (SAMPLE_RATE, FRAME_RATE):
        raise ZooError(
            f"The {FILE} of {name} has a sampling_rate of {rates[0]} and a frame_rate of "
            f"{rates[1]}; only {SAMPLE_RATE} and {FRAME_RATE} (frames of 80 ms) are supported."
        )
    return Tekken(tokenizer, special[BEGIN], special[PADDING], first_text, left, frames)


def _tokenizer(content: Mapping[str, Any], num_special: int) -> PreTrainedTokenizerFast:
    """Build a byte-level tokenizer: ids of special tokens, then those of byte sequences.

    The name of a special token can be equal to the bytes of another token. Special tokens therefore
    have names with a space, which no byte-level piece has.
    """
    size = bounded_whole(content["config"]["default_vocab_size"], least=num_special)
    num_plain = size - num_special
    names = [f"<special {token}>" for token in range(num_special)]
    pieces = [
        "".join(_CHARACTERS[byte] for byte in b64decode(token["token_bytes"]))
        for token in content["vocab"][:num_plain]
    ]
    ids = {piece: token for token, piece in enumerate(names + pieces)}

    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in names]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)
