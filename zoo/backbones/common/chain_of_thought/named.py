"""A published speech LLM, by name or reduced: what all of them are told. Knows none of their networks."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from zoo.backbones.common.alignment import AlignmentConfig
from zoo.backbones.common.chain_of_thought.chain_of_thought import ChainOfThought
from zoo.backbones.common.chain_of_thought.prompt import Template
from zoo.backbones.common.lora import LoraConfig
from zoo.backbones.common.search import SearchConfig
from zoo.errors import ZooError


class NamedLLM(ChainOfThought):
    """name: hub id or folder; None: a network of random weights by ``config``, fields of the class's own config.

    tokenizer: hub id or folder; None: name's. embedding_std: spread of random embeddings. lora: an adapter of the text
    part that can be trained: the one that ``name`` brings, or a new one; None: one that it brings is added to the
    weights. gradient_checkpointing: training computes activations twice instead of keeping them. template: None: the
    published one. The rest: see ``ChainOfThought``.
    """

    noun: ClassVar[str]  # the model's name, for messages
    chat: ClassVar[Template] = Template()  # the published one
    weights_key = "name"

    def __init__(
        self,
        *,
        name: str | None = None,
        config: Mapping[str, Any] | None = None,
        tokenizer: str | None = None,
        embedding_std: float | None = None,
        lora: LoraConfig | None = None,
        gradient_checkpointing: bool = False,
        template: Template | None = None,
        draft: bool = True,
        reuse: bool = True,
        search: SearchConfig = SearchConfig(),  # noqa: B008 (frozen)
        alignment: AlignmentConfig = AlignmentConfig(),  # noqa: B008 (frozen)
        max_tokens: int = 256,
        dtype: str = "float32",
        words: Literal["jieba", "characters"] = "jieba",
    ) -> None:
        super().__init__(
            template=self.chat if template is None else template,
            draft=draft,
            reuse=reuse,
            search=search,
            alignment=alignment,
            max_tokens=max_tokens,
            dtype=dtype,
            words=words,
        )
        if name is None and (config is None or tokenizer is None):
            raise ZooError(
                f"{self.noun} needs backbone.name, or backbone.config and backbone.tokenizer."
            )
        self.name = name
        self.config = config or {}
        self.tokenizer_source = str(tokenizer or name)
        self.embedding_std = embedding_std
        self.lora = lora
        self.gradient_checkpointing = gradient_checkpointing
