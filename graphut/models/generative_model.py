"""The base of models that generate sequences token by token."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from graphut.models.base import AdaptiveModel
from graphut.models.config import ModelConfig
from graphut.models.decoding.cached import CachedDecoder
from graphut.models.decoding.decoder import EncodedSource, PrefixDecoder, TokenDecoder
from graphut.models.decoding.search import SearchOptions, beam_search, sample
from graphut.models.outputs import Generation
from graphut.nn import AdaptiveRecurrence, PositionwiseTransition, SeparableConvTransition
from graphut.nn.attention import is_hooked
from graphut.nn.recurrence import adaptive_loop
from graphut.sentences import BOS, EOS, Sentences, flatten
from graphut.topology import Topology


class GenerativeModel(AdaptiveModel):
    """A model whose recurrence `decoder` and linear layer `output` predict the next token."""

    decoder: AdaptiveRecurrence
    output: nn.Linear

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self._warned = False

    @torch.no_grad()
    def generate(
        self,
        sequences: Sentences,
        *,
        max_length: int = 100,
        beam_size: int = 1,
        length_penalty: float = 0.6,
        temperature: float | None = None,
        top_p: float | None = None,
        generator: torch.Generator | None = None,
        get_attention: bool = False,
    ) -> list[Generation]:
        """Answer sources or continue prompts: greedily, by beam search, or by sampling.

        Every token, of a prompt too, is computed once, over a cache of the steps that each earlier
        token took. Each result is without the prompt, and does not depend on the other sequences
        of the batch, except for random numbers.

        Parameters
        ----------
        sequences : sequence of sequences of int
            Source tokens; of a language model the prompts, of which one may be empty.
        max_length : int
            Generated tokens at most, `eos` included.
        beam_size : int
            Hypotheses kept for each sequence; 1 is greedy.
        length_penalty : float
            Of beam search: 0 ranks by log-probability, more prefers longer sequences.
        temperature : float, optional
            Draw tokens, at this temperature; below 1, likely tokens become likelier.
        top_p : float, optional
            Draw among the likeliest tokens that together have this probability.
        generator : torch.Generator, optional
            Of the drawn tokens, on the CPU; torch's own if not given.
        get_attention : bool
            Also keep the attention weights, as `result.encoder.attention`,
            `result.decoder.attention` and `result.decoder.cross_attention`. The decoder's cache has
            none: each sequence is run once more, by itself, with the tokens that were chosen.

        Raises
        ------
        ValueError
            If an option is out of range, the sequences do not fit the model, a weight is not a
            finite number, or attention is asked for under a rule that draws, as `Sampled`.

        Examples
        --------
        >>> from graphut import UniversalTransformerLM, UniversalTransformerLMConfig
        >>> model = UniversalTransformerLM(UniversalTransformerLMConfig(vocab_size=9, d_model=16))
        >>> [text] = model.generate([[5, 3, 4]], max_length=2)
        >>> len(text.source_steps), len(text.steps) <= 2
        (3, True)
        """
        options = SearchOptions(
            max_length, beam_size, length_penalty, temperature, top_p, generator
        )
        for rule in (recurrence.evaluation_rule for recurrence in self._recurrences):
            if get_attention and rule.needs_members:
                raise ValueError(
                    f"get_attention=True runs each sequence once more by itself, and {rule} would "
                    "draw other steps there: choose another evaluation_rule, as Quantile()"
                )
        with self.evaluating():
            found = self._generate(sequences, options)
            if not get_attention:
                return found
            tokens, lengths = flatten(sequences, "sequences")
            own = [part.tolist() for part in tokens.split(lengths.tolist())]
            return [self._run_again(*each) for each in zip(own, found, strict=True)]

    @abstractmethod
    def _generate(self, sequences: Sentences, options: SearchOptions) -> list[Generation]: ...

    @abstractmethod
    def _run_again(self, sequence: Sequence[int], answer: Generation) -> Generation:
        """Return an answer with the records of its encoder and decoder, and their attention."""

    def _search(
        self, decoder: TokenDecoder, first: Tensor, options: SearchOptions, steps: list[list[int]]
    ) -> list[Generation]:
        """Generate a sequence after each first token; `steps` are those of sources or prompts."""
        search = beam_search if options.beam_size > 1 else sample
        hypotheses = search(decoder, first, options, never=BOS)
        return [
            Generation([t for t in found.tokens if t != EOS], found.score, found.steps, own)
            for found, own in zip(hypotheses, steps, strict=True)
        ]

    def _predict(self, state: Tensor) -> Tensor:
        logits: Tensor = self.output(state)
        if not bool(logits.isfinite().all()):
            raise ValueError(
                f"a logit is {logits[~logits.isfinite()][0].item()}: a weight of the model is not "
                "a finite number"
            )
        return logits

    @property
    def _is_extended(self) -> bool:
        """True if hooks or other classes in the decoder do what the cached decoder leaves out."""
        loop = adaptive_loop(self.decoder)
        transitions = [step.transition for step in loop.steps]
        classes = PositionwiseTransition, SeparableConvTransition
        known = all(isinstance(transition, classes) for transition in transitions)
        return not known or loop.is_hooked or any(map(is_hooked, (self.decoder, *transitions)))

    def _token_decoder(
        self,
        topology: Topology,
        embed: Callable[[Tensor], Tensor],
        sentences: Tensor,
        source: EncodedSource | None = None,
    ) -> TokenDecoder:
        """Return the cached decoder where it is exact; else warn once and return the plain one."""
        parts = (self.decoder, source, topology, embed, self._predict, sentences)
        # Extra nodes may change with every token, and the cache holds tokens alone.
        cacheable = topology.stable and not topology.has_extra_nodes
        extended = self._is_extended
        if cacheable and not extended and (source is None or source.topology.stable):
            return CachedDecoder(*parts)
        if not self._warned:
            self._warned = True
            which = f"the topology {str(topology)!r} is"
            if source is not None:
                which = f"the topologies {str(topology)!r} and {str(source.topology)!r} are"
            reason = f"{which} not known to be stable as a sentence grows"
            if extended:
                reason = "hooks or classes of your own in the decoder act on whole sentences"
            warnings.warn(
                f"{reason}: every token runs the whole prefix again",
                stacklevel=5,  # past _generate, generate and torch.no_grad, to the caller
            )
        return PrefixDecoder(*parts)
