"""SimulU's step by Transformers' ``generate`` alone, as an implementation without the zoo runs it.

The text is generated after the forced prefix with attention weights, which only eager attention
returns. Speech needs ``generate`` once more: it encodes the audio again, generates the text again,
forces it for the decoder states and generates the units. Features of the audio are computed anew
for each. Unlike ``generate`` of SeamlessM4TForSpeechToSpeech, it accepts a forced prefix.
"""

import copy
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationMixin, SeamlessM4TForSpeechToSpeech

from zoo.backbones.encoders.audio.spectrogram import seamless_features
from zoo.backbones.seamless_m4t.encoder import STRIDE
from zoo.backbones.seamless_m4t.speech import SeamlessM4TSpeech
from zoo.base.languages import Language
from zoo.base.types import Task
from zoo.streaming.session import Session


class Generate:
    """One step after another through Transformers' own network.

    Args:
        backbone: loaded backbone, whose weights are copied.

    Attributes:
        written: new tokens of the last ``states``.
        passes: passes of the text-to-unit decoder in the last ``units``.
    """

    def __init__(self, backbone: SeamlessM4TSpeech) -> None:
        [source] = backbone._whole
        network = SeamlessM4TForSpeechToSpeech(copy.deepcopy(source.config)).eval()
        network.set_attn_implementation("eager")
        network.load_state_dict(source.state_dict(), strict=False)  # it has a text encoder too
        network.generation_config = source.generation_config
        self.network: Any = network
        self.backbone = backbone
        self.written: list[int] = []
        self.passes = 0
        self.features = torch.empty(0)
        self.prompt = torch.empty(0)

    def decode(self, session: Session) -> None:
        """Generate the text after the prefix."""
        backbone = self.backbone
        opening = backbone.opening(session, Task.TRANSLATION)
        self.prompt = torch.tensor([[*opening, *session.prefix_ids.tolist()]])
        self._text(session)

    def states(self, session: Session, *, tokens: int, close: bool) -> Tensor:
        """Text decoder states (positions, width) for the speech of the text: once more.

        Args:
            session: stream.
            tokens: number of new tokens to speak.
            close: whether an end of the text follows.
        """
        prompt = self.prompt.shape[1]
        sequences = self._text(session)[:, : prompt + tokens]
        self.written = sequences[0, prompt:].tolist()
        if close:
            sequences = torch.cat([sequences, torch.full((1, 1), self.backbone.end)], dim=1)
        memory = self.network.speech_encoder(input_features=self.features)[0]
        states: Tensor = self.network.text_decoder(
            input_ids=sequences, encoder_hidden_states=memory
        ).last_hidden_state[0]
        return states

    def units(self, states: Tensor, session: Session) -> Tensor:
        """Generate the units (n,) of a text, with their attention to it."""
        speaker, t2u = self.backbone.speaker, self.network.t2u_model
        language = speaker.languages.units[speaker.languages.code(session.target_language)]
        generated = t2u.generate(
            inputs_embeds=states[None],
            decoder_input_ids=torch.tensor([[t2u.config.t2u_eos_token_id, language]]),
            suppress_tokens=speaker._control,
            max_new_tokens=speaker.max_units + 1,
            eos_token_id=t2u.config.t2u_eos_token_id,
            pad_token_id=t2u.config.t2u_pad_token_id,
            output_attentions=True,
            return_dict_in_generate=True,
            do_sample=False,
        )
        ids: Tensor = generated.sequences[0, 2:]
        self.passes = len(ids)
        ids = ids[: speaker.max_units]
        return ids[ids != t2u.config.t2u_eos_token_id] - t2u.config.vocoder_offset

    def wave(self, units: Tensor, language: Language) -> Tensor:
        """Synthesise units (n,)."""
        speaker = self.backbone.speaker
        voice = speaker.languages.voices[speaker.languages.code(language)]
        samples: Tensor = self.network.vocoder(
            units[None], torch.tensor([[speaker.voice]]), torch.tensor([[voice]])
        )[0]
        return samples

    def _text(self, session: Session) -> Tensor:
        """Features of all audio, and the ids (1, n) of prompt and new text."""
        spectrogram = self.backbone.spectrogram
        frames = spectrogram.compute(spectrogram.open(), session.visible_audio(), 0)
        self.features = seamless_features(frames, STRIDE)[None]
        generated = GenerationMixin.generate(
            self.network,
            self.features,
            decoder_input_ids=self.prompt,
            suppress_tokens=self.backbone.never,
            max_new_tokens=self.backbone.max_tokens,
            output_attentions=True,
            return_dict_in_generate=True,
            do_sample=False,
        )
        sequences: Tensor = generated.sequences
        return sequences
