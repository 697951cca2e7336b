"""The base class of models that generate sequences token by token."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import Any, ClassVar, overload

import torch
from torch import Tensor, nn

from graphut._tokens import EOS
from graphut.models.adaptive_model import AdaptiveModel
from graphut.models.checked_config import cut, quote
from graphut.models.config import SearchOptions
from graphut.models.decoders import CachedDecoder, EncodedSource, PrefixDecoder, TokenDecoder
from graphut.models.outputs import Generation
from graphut.models.search import beam_search, sample
from graphut.nn import AdaptiveRecurrence
from graphut.sentences import Sentences
from graphut.topology import Topology
from graphut.vocabulary import Vocabulary


class GenerativeModel(AdaptiveModel):
    """A base class of models that generate tokens, with a `decoder` and a linear `output` layer."""

    decoder: AdaptiveRecurrence
    output: nn.Linear
    reads: ClassVar[str]  # the name of the vocabulary of the sequences that `generate` takes
    writes: ClassVar[str]  # and of those that it returns

    @overload
    def generate(self, sequences: Sequence[str], **options: Any) -> list[str]: ...

    @overload
    def generate(self, sequences: Sentences, **options: Any) -> list[Generation]: ...

    @torch.no_grad()
    def generate(
        self,
        sequences: Sentences | Sequence[str],
        *,
        get_attention: bool = False,
        **options: Any,
    ) -> list[Generation] | list[str]:
        """Generate a target for each source, or a continuation of each prompt.

        Decoding is greedy, by beam search or by sampling, with a key/value cache. Except for random
        numbers, the result for a sequence does not depend on the other sequences in the batch.

        Parameters
        ----------
        sequences : sequence of str, or of sequences of int
            Texts, which the vocabularies of the model encode; texts are returned too, by a language
            model with the prompts. Or token ids, as from `encode` (0 is `<bos>`, 1 is `<eos>`);
            then each result is a `Generation`. Prompts may be empty.
        get_attention : bool
            Also return the attention weights, as `result.encoder.attention`,
            `result.decoder.attention` and `result.decoder.cross_attention`. The cached decoder
            does not store weights, so the model runs once more on each generated sequence.
        max_length : int
            Maximum number of generated tokens, including `eos` (default: 100).
        beam_size : int
            Number of hypotheses kept for each sequence; 1, the default, is greedy decoding.
        length_penalty : float
            For beam search: 0 ranks by log-probability, larger values prefer longer sequences
            (default: 0.6).
        temperature : float, optional
            Sample tokens at this temperature; values below 1 sharpen the distribution.
        generator : torch.Generator, optional
            Generator for sampling, on the CPU; by default, torch's global one.

        Raises
        ------
        TypeError, ValueError
            If an option is unknown or out of range, the sequences do not fit the model, a text has
            an unknown symbol, the model has no vocabulary, or a weight is not finite.

        Examples
        --------
        >>> from graphut import UniversalTransformerLM, UniversalTransformerLMConfig
        >>> model = UniversalTransformerLM(UniversalTransformerLMConfig(vocab_size=9, d_model=16))
        >>> [text] = model.generate([[5, 3, 4]], max_length=2)
        >>> len(text.source_steps), len(text.steps) <= 2
        (3, True)
        """
        search = SearchOptions(**options)
        texts = texts_in(sequences)
        if isinstance(sequences, Sequence) and not sequences:
            return []
        if texts and get_attention:
            raise TypeError("get_attention needs token ids: encode the texts with model.encode")
        ids: Any = [*map(self.encode, texts)] if texts else sequences
        with self.evaluating():
            answers = self._generate(ids, search)
            if texts:
                return [*map(self.text_of, ids, answers)]
            if not get_attention:
                return answers
            return [*map(self._run_again, [[*map(int, each)] for each in ids], answers)]

    @torch.no_grad()
    def record(self, sequence: Sequence[int], answer: Generation) -> Generation:
        """Add the records of a `sequence` and its generated `answer`, as `get_attention` does."""
        with self.evaluating():
            return self._run_again(sequence, answer)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a source or prompt; raise `ValueError` for an unknown symbol."""
        if not isinstance(text, str):
            raise TypeError(f"encode takes one text; got {quote(text)}")
        return self._vocabulary(self.reads).read(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of generated token ids."""
        if isinstance(tokens, str) or not isinstance(tokens, Iterable):
            raise TypeError(f"decode takes token ids, as answer.tokens; got {quote(tokens)}")
        return self._vocabulary(self.writes).write([*map(index, tokens)])

    def text_of(self, sequence: Sequence[int], answer: Generation) -> str:
        """Return the text that `generate` returns for a `sequence` and its generated `answer`."""
        text = self.decode(answer.tokens)
        if not answer.ended:
            warnings.warn(
                f"the output {cut(text, 60)!r} was cut off: give generate a larger max_length",
                stacklevel=4,  # the caller of generate
            )
        return text

    def _vocabulary(self, name: str) -> Vocabulary:
        if name not in self.vocabularies:
            raise ValueError(
                f"the model has no vocabulary {name!r}, so it takes token ids and no text: set "
                f"model.vocabularies[{name!r}], for example to graphut.Vocabulary(['a', 'b'])"
            )
        return self.vocabularies[name]

    @abstractmethod
    def _generate(self, sequences: Sentences, options: SearchOptions) -> list[Generation]: ...

    @abstractmethod
    def _run_again(self, sequence: Sequence[int], answer: Generation) -> Generation:
        """Run the model on a sequence with its `answer`; add attention weights to the answer."""

    def _search(
        self, decoder: TokenDecoder, first: Tensor, options: SearchOptions, steps: list[list[int]]
    ) -> list[Generation]:
        """Generate a sequence after each `first` token; `steps` become the `source_steps`."""
        search = beam_search if options.beam_size > 1 else sample
        with torch.inference_mode():
            found = search(decoder, first, options)
        return [
            Generation([t for t in best.tokens if t != EOS], best.score, best.steps, source_steps)
            for best, source_steps in zip(found, steps, strict=True)
        ]

    def _predict(self, state: Tensor) -> Tensor:
        logits: Tensor = self.output(state)
        if not bool(logits.isfinite().all()):
            raise ValueError(
                f"a logit is {logits[~logits.isfinite()][0].item()}: a weight is not finite"
            )
        return logits

    def _token_decoder(
        self,
        topology: Topology,
        embed: Callable[[Tensor], Tensor],
        sentences: Tensor,
        source: EncodedSource | None = None,
    ) -> TokenDecoder:
        """Return a `CachedDecoder` if caching is exact; else warn and return a `PrefixDecoder`."""
        parts = (self.decoder, source, topology, embed, self._predict, sentences)
        # The cache has only tokens, and extra nodes may change with every token.
        cacheable = topology.stable and not topology.has_extra_nodes
        if cacheable and (source is None or source.topology.stable):
            return CachedDecoder(*parts)
        which = topology if source is None or not cacheable else source.topology
        warnings.warn(
            f"the topology {str(which)!r} is not known to be stable as a sentence grows (its class "
            "can say stable = True), so the whole prefix is run again for every token",
            stacklevel=5,  # the caller of generate, which torch.no_grad wraps
        )
        return PrefixDecoder(*parts)


def texts_in(sequences: Any) -> list[str]:
    """Return the texts if all `sequences` are texts, else an empty list."""
    if isinstance(sequences, str):
        raise TypeError(f"generate takes a list of texts: [{sequences!r}]")
    if not isinstance(sequences, Sequence) or not all(isinstance(x, str) for x in sequences):
        return []
    return [*sequences]
