"""SeamlessM4T, first version, as text to speech: it encodes a text, is forced to decode it, and
speaks it.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import SeamlessM4TForTextToSpeech, SeamlessM4TTokenizer

from zoo.backbones.base import UnitSpeech, dtype_named
from zoo.backbones.common.encoder_decoder.branches import EncoderDecoderBranches
from zoo.backbones.common.encoder_decoder.decoder import Decoder
from zoo.backbones.common.pretrained.loading import load_network, load_part, unpad_batch
from zoo.backbones.seamless_m4t.languages import SpokenLanguages
from zoo.backbones.seamless_m4t.speaker import UnitSpeaker
from zoo.backbones.seamless_m4t.weights import check_version, spoken_languages
from zoo.languages import Language


class TextToSpeech(nn.Module):
    """Speech of texts. The constructor touches no disk; ``load`` reads weights."""

    reader: Any
    decoder: Decoder
    speaker: UnitSpeaker

    def __init__(
        self, *, name: str, voice: int = 0, max_units: int = 1024, dtype: str = "float32"
    ) -> None:
        """Configure the model.

        Args:
            name: Hub id or folder of a SeamlessM4T v1 with its text encoder.
            voice: Number of the vocoder's speaker.
            max_units: Most units of the speech of a text.
            dtype: Of weights and activations.
        """
        super().__init__()
        self.name = name
        self.voice = voice
        self.max_units = max_units
        self.dtype = dtype_named(dtype)

    def check(self, language: Language) -> None:
        """Raise ZooError for a language that is not spoken and for another model; no weights are
        read.
        """
        check_version(self.name)
        spoken_languages(self.name).code(language)

    def load(self) -> None:
        """Read tokenizer and weights. Raises ZooError on what is missing or differs."""
        check_version(self.name)
        self.tokenizer = load_part("tokenizer", SeamlessM4TTokenizer.from_pretrained, self.name)
        network = load_network(SeamlessM4TForTextToSpeech, self.name, self.dtype)
        self.config, self.ids = (
            network.config,
            SpokenLanguages.from_generation_config(self.name, network.generation_config),
        )
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
        """Speech of each text, as a batch; texts do not interact.

        Raises ZooError for a language not spoken.
        """
        states = self.states(texts, language) if texts else []
        units = self.speaker.units(states, [language] * len(states), layer=0) if states else []
        return self.speaker.vocode([one.ids for one in units], language)

    def states(self, texts: Sequence[str], language: Language) -> list[Tensor]:
        """(opening + tokens + 1, width) each: the text decoder's states where the text, and its
        end, is forced.
        """
        code = self.ids.text[self.ids.code(language)]
        start, end = int(self.config.decoder_start_token_id), int(self.config.eos_token_id)
        tokens = [self.tokenizer.encode(text, add_special_tokens=False) for text in texts]
        memories = self._encode([[code, *ids, end] for ids in tokens])
        prompts = [[start, code, *ids, end] for ids in tokens]
        forced = EncoderDecoderBranches(self.decoder, memories, prompts, heads={}, states=True)
        nothing = torch.empty(0, dtype=torch.long, device=memories[0].device)
        return [forced.states(stream, nothing) for stream in range(len(texts))]

    def _encode(self, rows: Sequence[list[int]]) -> list[Tensor]:
        """(tokens, width) each, of the text encoder."""
        padding = self.reader.padding_idx
        ids = [torch.tensor(row, device=self.decoder.head.weight.device) for row in rows]
        padded = nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=padding)
        inside = nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in ids], batch_first=True)
        return unpad_batch(
            self.reader(input_ids=padded, attention_mask=inside).last_hidden_state, ids
        )
