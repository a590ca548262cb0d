"""SeamlessM4T v1 (Barrault et al., 2023) as a text-to-speech model.

The text encoder encodes a text, and the text decoder generates a text in the same language from it,
or is forced to decode the same text. The text-to-unit model and the vocoder convert the text
decoder's states into speech.
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from transformers import SeamlessM4TForTextToSpeech, SeamlessM4TTokenizer

from zoo.backbones.architectures.encoder_decoder.branches import EncoderDecoderBranches
from zoo.backbones.architectures.encoder_decoder.decoder import Decoder
from zoo.backbones.base import Units, UnitSpeech, dtype_named
from zoo.backbones.decoding.continuation import SearchContext
from zoo.backbones.decoding.search import SearchConfig, search
from zoo.backbones.pretrained.loading import control_id, load_network, load_part, unpad_batch
from zoo.backbones.seamless_m4t.languages import SpokenLanguages
from zoo.backbones.seamless_m4t.speaker import UnitSpeaker
from zoo.backbones.seamless_m4t.weights import check_version, spoken_languages
from zoo.base.errors import check_choice
from zoo.base.languages import Language

DecodedText = Literal["generated", "forced"]
MAX_TOKENS = 256  # of a generated text, as in the generation config of the published models


class TextToSpeech(nn.Module):
    """A text-to-speech model. The constructor reads no files; ``load`` reads weights.

    Attributes:
        reader: Text encoder.
        decoder: Text decoder.
        speaker: Text-to-unit model and vocoder.
    """

    reader: Any
    decoder: Decoder
    speaker: UnitSpeaker

    def __init__(
        self,
        *,
        name: str,
        voice: int = 0,
        text: DecodedText = "generated",
        max_units: int = 1024,
        dtype: str = "float32",
    ) -> None:
        """Configure the model.

        Args:
            name: Hub id or folder of a SeamlessM4T v1 with a text encoder.
            voice: Index of the voice in the vocoder.
            text: Text whose decoder states are spoken. ``generated``: what the decoder generates
                from the encoded text, greedily, as SeamlessM4T's text to speech does; words may
                differ from the given text. ``forced``: the given text.
            max_units: Largest number of units generated for a text.
            dtype: Data type of weights and activations, such as float32 or bfloat16.

        Raises:
            ZooError: If ``text`` or ``dtype`` is unknown.
        """
        super().__init__()
        self.name = name
        check_choice("text of SeamlessM4T's text to speech", text, get_args(DecodedText))
        self.voice = voice
        self.text = text
        self.max_units = max_units
        self.dtype = dtype_named(dtype)

    def check(self, language: Language) -> None:
        """Raise ZooError unless the model is a SeamlessM4T v1 that speaks ``language``.

        The check reads configuration files, but no weights.
        """
        check_version(self.name)
        spoken_languages(self.name).code(language)

    def load(self) -> None:
        """Read tokenizer and weights.

        Raises:
            ZooError: If a file is missing or unreadable, the model is not a SeamlessM4T v1, or its
                parts do not fit together.
        """
        check_version(self.name)
        self.tokenizer = load_part("tokenizer", SeamlessM4TTokenizer.from_pretrained, self.name)
        network = load_network(SeamlessM4TForTextToSpeech, self.name, self.dtype)
        self.start = control_id(network.config, "decoder_start_token_id", self.name)
        self.end = control_id(network.config, "eos_token_id", self.name)
        self.ids = SpokenLanguages.from_generation_config(self.name, network.generation_config)
        self.reader = network.text_encoder
        self.decoder = Decoder(network.text_decoder, network.lm_head)
        self.speaker = UnitSpeaker(
            network.t2u_model,
            network.vocoder,
            languages=self.ids,
            voice=self.voice,
            max_units=self.max_units,
        )
        self.eval()

    @torch.inference_mode()
    def synthesize(self, texts: Sequence[str], language: Language) -> list[UnitSpeech]:
        """Synthesise the speech of texts as a batch; the texts do not influence one another.

        Args:
            texts: Texts to speak.
            language: Language of all texts.

        Returns:
            Waveform and unit durations of each text.

        Raises:
            ZooError: If the model does not speak the language.
        """
        units: list[Units] = []
        if texts:
            states = self.states(texts, language)
            units = self.speaker.units(states, [language] * len(states))
        return self.speaker.vocode([text_units.ids for text_units in units], language)

    def states(self, texts: Sequence[str], language: Language) -> list[Tensor]:
        """Generate texts, or force the text decoder to decode them, and return its states.

        Args:
            texts: Texts to speak, at least one.
            language: Language of all texts.

        Returns:
            States of each text, (2 + tokens + 1, width): start and language, the tokens of the
            decoded text, and the end.
        """
        code = self.ids.text[self.ids.code(language)]
        start, end = self.start, self.end
        tokens = [self.tokenizer.encode(text, add_special_tokens=False) for text in texts]
        memories = self._encode([[code, *ids, end] for ids in tokens])
        if self.text == "generated":
            tokens = self._generate(memories, [start, code])
        prompts = [[start, code, *ids, end] for ids in tokens]
        forced = EncoderDecoderBranches(self.decoder, memories, prompts, heads={}, states=True)
        # States of the prompts alone: no token was generated after the prompts
        no_positions = torch.empty(0, dtype=torch.long, device=memories[0].device)
        return [forced.states(stream, no_positions) for stream in range(len(texts))]

    def _generate(self, memories: Sequence[Tensor], opening: list[int]) -> list[list[int]]:
        """Decode each text encoder's output (ids, width) greedily after ``opening``: token ids."""
        prompts = [opening] * len(memories)
        answers = search(
            EncoderDecoderBranches(self.decoder, memories, prompts, heads={}),
            SearchConfig(),
            contexts=[SearchContext(earlier=[], prompt=prompt) for prompt in prompts],
            limits=[MAX_TOKENS] * len(prompts),
            ends=[self.end],
        )
        return [answer.tokens for answer in answers]

    def _encode(self, rows: Sequence[list[int]]) -> list[Tensor]:
        """Encode rows of token ids; return the text encoder's output of each row, (ids, width)."""
        padding = self.reader.padding_idx
        ids = [torch.tensor(row, device=self.decoder.head.weight.device) for row in rows]
        padded = nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=padding)
        mask = nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in ids], batch_first=True)
        output = self.reader(input_ids=padded, attention_mask=mask).last_hidden_state
        return unpad_batch(output, ids)
