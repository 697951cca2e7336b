"""Configurations of the models that generate tokens: for pairs of sequences, and for texts."""

from dataclasses import MISSING, dataclass
from typing import Literal

from graphut.models.checked_config import option
from graphut.models.config.base import ModelConfig
from graphut.topology import parse


@dataclass(frozen=True, kw_only=True)
class UniversalTransformerConfig(ModelConfig):
    """The configuration of a `UniversalTransformer`.

    Examples
    --------
    >>> config = UniversalTransformerConfig(source_vocab=28, target_vocab=28, d_model=64)
    >>> UniversalTransformerConfig.from_dict(config.to_dict()) == config
    True
    """

    source_vocab: int = option(MISSING, "size of the source vocabulary", least=3)
    target_vocab: int = option(MISSING, "size of the target vocabulary", least=3)
    tie_output: bool = option(True, "use the target embedding as output projection")
    add_bos_eos: bool = option(False, "put <bos> before and <eos> after every source")
    source_positions: Literal["start", "both"] = option(
        "start",
        "count source positions from the start, or from both ends, half of the features each",
    )
    restart_after: int = option(
        0, "id of a source token after which positions restart at 1, such as '+'; 0 for none"
    )
    segment_embedding: bool = option(
        False, "add one learned vector to source tokens before restart_after, another to later ones"
    )
    share_embeddings: bool = option(False, "use one embedding for source and target")
    encoder_topology: str = option("complete", "source tokens that a source token attends to")
    decoder_topology: str = option("causal", "target tokens that a target token attends to")
    cross_topology: str = option("complete", "source tokens that a target token attends to")

    decodes = True

    @property
    def longest_pair(self) -> tuple[int, int]:
        """The maximum lengths of a source and of a target, without `<bos>` and `<eos>`."""
        return self.max_length - 2 * self.add_bos_eos, self.max_length - 1

    def _check_values(self) -> None:
        super()._check_values()
        same = self.source_vocab == self.target_vocab
        self._check_defaults(same, "if the two vocabularies differ in size", "share_embeddings")
        encoder = self._parsed("encoder_topology", parse)
        decoder = self._check_causal("decoder_topology")
        cross = self._parsed("cross_topology", parse)
        name, single = self.position_signal, ("learned", "relative")
        one = self.source_positions == "start" or name not in single
        self._check("position_signal", one, f"other than {name!r} if source_positions is 'both'")
        even = self.d_model % 2 == 0
        self._check_defaults(even, f"if d_model is odd, {self.d_model}", "source_positions")
        self._check("cross_topology", not cross.has_extra_nodes, "one without extra nodes")
        self._check_extra_nodes(encoder, decoder)
        exists = 0 <= self.restart_after < self.source_vocab
        self._check("restart_after", exists, f"one of the {self.source_vocab} tokens, or 0")
        one_way = self.source_positions == "start"
        self._check_defaults(one_way, "if source_positions is 'both'", "restart_after")
        extra = "if the encoder's topology has extra nodes"
        self._check_defaults(not encoder.has_extra_nodes, extra, "restart_after")
        self._check_defaults(self.restart_after != 0, "if restart_after is 0", "segment_embedding")


@dataclass(frozen=True, kw_only=True)
class UniversalTransformerLMConfig(ModelConfig):
    """The configuration of a `UniversalTransformerLM`."""

    vocab_size: int = option(MISSING, "size of the vocabulary", least=3)
    tie_output: bool = option(True, "use the embedding as output projection")
    topology: str = option("causal", "tokens that a token attends to")

    decodes = True

    def _check_values(self) -> None:
        super()._check_values()
        self._check_extra_nodes(self._check_causal("topology"))
