"""What models share that write token by token."""

from __future__ import annotations

import warnings

from torch import Tensor, nn

from graphut.models.base import AdaptiveModel
from graphut.models.config import ModelConfig
from graphut.models.decoding import CachedDecoder, Generation, Hypothesis, PrefixDecoder
from graphut.sentences import EOS
from graphut.topology import Topology


class WritingModel(AdaptiveModel):
    """A model that predicts the next token with `output`, and can be asked for one at a time."""

    output: nn.Linear

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self._warned = False

    def _predict(self, state: Tensor) -> Tensor:
        logits: Tensor = self.output(state)
        if not bool(logits.isfinite().all()):
            raise ValueError(
                f"a logit is {logits[~logits.isfinite()][0].item()}: a weight of the model is not "
                "a finite number"
            )
        return logits

    def _decoder_kind(
        self, decoder: Topology, cross: Topology | None = None
    ) -> type[CachedDecoder] | type[PrefixDecoder]:
        """The cached decoder where it is exact; else the plain one, and that is said once."""
        # Extra nodes may change with every token, and the cache holds tokens alone.
        cacheable = decoder.stable and not decoder.has_extra_nodes
        if cacheable and (cross is None or cross.stable):
            return CachedDecoder
        if not self._warned:
            self._warned = True
            who = f"the topology {str(decoder)!r} is"
            if cross is not None:
                who = f"the topologies {str(decoder)!r} and {str(cross)!r} are"
            warnings.warn(
                f"{who} not known to be stable as a sentence grows: every token runs the whole "
                "prefix again",
                stacklevel=4,  # past torch.no_grad, to the caller of generate
            )
        return PrefixDecoder


def generation(hypothesis: Hypothesis, source_steps: list[int]) -> Generation:
    """A hypothesis as it is handed back: without `eos`.

    Examples
    --------
    >>> generation(Hypothesis(tokens=[5, 3, EOS], steps=[2, 4, 1]), source_steps=[2]).tokens
    [5, 3]
    """
    tokens = hypothesis.tokens
    ended = tokens[-1:] == [EOS]
    return Generation(
        tokens[:-1] if ended else tokens, hypothesis.score, hypothesis.steps, source_steps
    )
