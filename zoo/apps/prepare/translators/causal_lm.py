"""A causal language model that follows instructions, as a translator."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

from zoo.backbones.base import dtype_named
from zoo.backbones.pretrained import hub
from zoo.backbones.pretrained.chat_templates import render
from zoo.backbones.pretrained.loading import (
    check_tokenizer,
    end_ids,
    load_network,
    load_tokenizer,
    loader_errors,
)
from zoo.backbones.text.prompt import fill_fields
from zoo.base.errors import ZooError, check_numbers
from zoo.base.languages import Language

NOUN = "causal language model"
PROMPT = (
    "Translate the following beginning of a sentence from {source} to {target}. Do not complete "
    "the sentence: translate only the given words. Answer with the translation only."
    "\n\n{transcript}"
)
MARK = "TRANSCRIPT-OF-THE-TALK"  # stands for the transcript in what a chat template writes


class CausalLM:
    """A causal language model by name, with greedy decoding.

    Attributes:
        owner: key of the configuration, for messages.

    Args:
        name: hub id or folder of a causal language model.
        prompt: message of the user, with {transcript}; it may have {source} and {target}, the
            English names of the languages.
        chat: whether the prompt is a message in the chat template of the tokenizer; false: it is
            the beginning of a text, and the translation is the rest of its last line.
        frequency_penalty: what the score of a token loses for each time that the translation
            already has it.
        max_tokens: maximum number of generated tokens of a translation, including its end.
        batch_size: number of texts that are translated at once.
        dtype: dtype of the network, by its name in torch.

    Raises:
        ZooError: an argument is impossible.
    """

    owner: ClassVar[str] = "prefixes"

    def __init__(
        self,
        *,
        name: str | None,
        prompt: str = PROMPT,
        chat: bool = True,
        frequency_penalty: float = 0.0,
        max_tokens: int = 256,
        batch_size: int = 32,
        dtype: str = "float32",
    ) -> None:
        check_numbers(self.owner, least=1, max_tokens=max_tokens, batch_size=batch_size)
        filled = fill_fields(prompt, source="", target="", transcript="<transcript>")
        if filled is None or "<transcript>" not in filled:
            raise ZooError(
                f"{self.owner}.prompt must have {{transcript}} in it; it may have {{source}} and "
                f"{{target}} and no other braces, not {prompt!r}."
            )
        self.name = name
        self.prompt = prompt
        self.chat = chat
        self.frequency_penalty = frequency_penalty
        self.max_tokens = max_tokens
        self.batch_size = batch_size
        self.dtype = dtype_named(dtype)
        self._network: Any = None
        self._chats: dict[tuple[str, str], str] = {}

    def check(self) -> None:
        """See ``Loadable``; the tokenizer is loaded as well."""
        self._load_tokenizer()

    def _load_tokenizer(self) -> Any:
        """Return the tokenizer. Raises ZooError if it has no chat template or no end token."""
        name = hub.required(NOUN, self.name, user=f"The step {self.owner}")
        tokenizer: Any = load_tokenizer(name)
        lacks_template = self.chat and not tokenizer.chat_template
        if lacks_template or tokenizer.eos_token_id is None:
            lacks = "chat template" if lacks_template else "end token"
            raise ZooError(
                f"The tokenizer of {name} has no {lacks}; {self.owner}.name must be a model that "
                f"follows instructions, or {self.owner}.chat=false with a plain prompt."
            )
        return tokenizer

    def load(self, device: torch.device | None = None) -> None:
        """See ``Loadable``."""
        if self._network is None:
            self._tokenizer = self._load_tokenizer()
            name = str(self.name)
            network = load_network(AutoModelForCausalLM, name, self.dtype)
            check_tokenizer(self._tokenizer, name, scores=network.config.vocab_size, tokens={})
            # Published settings such as sampling and penalties do not apply to greedy decoding.
            self._ends = end_ids(network, self._tokenizer.eos_token_id)
            network.generation_config = GenerationConfig(
                do_sample=False,
                max_new_tokens=self.max_tokens,
                eos_token_id=self._ends,
                pad_token_id=self._ends[0],
            )
            self._network = network.requires_grad_(False)
        self._network.to(device or "cpu")

    def translate(
        self, texts: Sequence[str], *, source: Language, target: Language
    ) -> list[str | None]:
        """See ``Translator``; call ``load`` first. An answer that is too long is not complete."""
        assert self._network is not None, "call load first"
        prompts = [self._opening(text, source, target) for text in texts]
        # Prompts of similar length share a batch, which keeps the padding short.
        order = sorted(range(len(prompts)), key=lambda place: -len(prompts[place]))
        found: dict[int, str | None] = {}
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            found.update(zip(batch, self._answers([prompts[one] for one in batch]), strict=True))
        return [found[place] for place in range(len(texts))]

    def _opening(self, text: str, source: Language, target: Language) -> list[int]:
        """Return the token ids before the answer. Raises ZooError if the chat template fails."""
        names = source.name, target.name
        if not self.chat:
            plain: list[int] = self._tokenizer(self._content(*names, text))["input_ids"]
            return plain
        if names not in self._chats:
            self._chats[names] = self._chat(*names)
        opening = self._chats[names].replace(MARK, text)
        ids: list[int] = self._tokenizer(opening, add_special_tokens=False)["input_ids"]
        return ids

    def _content(self, source: str, target: str, text: str) -> str:
        return self.prompt.format(source=source, target=target, transcript=text)

    def _chat(self, source: str, target: str) -> str:
        """Return the text before the answer, in which ``MARK`` stands for the transcript.

        Raises:
            ZooError: The chat template fails, or does not write a message as it is.
        """
        content = self._content(source, target, MARK)
        with loader_errors(f"The chat template of {self.name} cannot be applied"):
            opening = render(
                self._tokenizer.get_chat_template(),
                [{"role": "user", "content": content}],
                # enable_thinking is a variable of Qwen3; other templates ignore it
                {**self._tokenizer.special_tokens_map, "enable_thinking": False},
            )
        if opening.count(MARK) != content.count(MARK):
            raise ZooError(f"The chat template of {self.name} changes the text of a message.")
        return opening

    @torch.inference_mode()
    def _answers(self, prompts: Sequence[Sequence[int]]) -> list[str | None]:
        """Return the answers to prompts; None for one that did not end."""
        longest = max(map(len, prompts))
        padding = [longest - len(prompt) for prompt in prompts]
        fill = self._ends[0]
        rows = [[fill] * count + [*ids] for count, ids in zip(padding, prompts, strict=True)]
        masks = [[0] * count + [1] * (longest - count) for count in padding]
        device = self._network.device
        options: dict[str, Any] = {}
        if self.frequency_penalty:
            penalty = FrequencyPenalty(self.frequency_penalty, prompt_tokens=longest)
            options["logits_processor"] = LogitsProcessorList([penalty])
        if not self.chat:
            options["stopping_criteria"] = StoppingCriteriaList([LineEnd(self._tokenizer)])
        generated = self._network.generate(
            torch.tensor(rows, device=device),
            attention_mask=torch.tensor(masks, device=device),
            **options,
        )[:, longest:]  # (batch, at most max_tokens)
        return [self._text(row) for row in generated.tolist()]

    def _text(self, ids: Sequence[int]) -> str | None:
        """Return the text before the first end; None without an end.

        A line break also ends the translation of a plain prompt.
        """
        ends = [place for place, one in enumerate(ids) if one in self._ends]
        text = self._tokenizer.decode(ids[: ends[0]] if ends else ids, skip_special_tokens=True)
        line, line_break, _ = (text, "", "") if self.chat else text.partition("\n")
        return " ".join(line.split()) if ends or line_break else None


class FrequencyPenalty(LogitsProcessor):
    """Lowers the scores of tokens that the answer already has, by their counts.

    Args:
        penalty: what a score loses for each time.
        prompt_tokens: number of tokens before the answer.
    """

    def __init__(self, penalty: float, *, prompt_tokens: int) -> None:
        self.penalty = penalty
        self.prompt_tokens = prompt_tokens

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return scores (batch, vocabulary) after the tokens (batch, positions)."""
        answer = input_ids[:, self.prompt_tokens :]
        counts = torch.zeros_like(scores)
        counts.scatter_add_(1, answer, torch.ones_like(answer, dtype=scores.dtype))
        return scores - self.penalty * counts


class LineEnd(StoppingCriteria):
    """Ends each answer with its first line break.

    Args:
        tokenizer: tokenizer of the answers.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        """Return for each row (batch,) whether its last token has a line break."""
        last = [self.tokenizer.decode([token]) for token in input_ids[:, -1].tolist()]
        return torch.tensor(["\n" in text for text in last], device=input_ids.device)
