"""The Universal Transformer as a pointer into a passage."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from graphut.models.config import UniversalTransformerPointerConfig
from graphut.models.output import PointerOutput
from graphut.models.reading import ReadingModel, last_of
from graphut.sentences import Sentences, flatten


@dataclass(frozen=True)
class Pointing:
    """Which word of a passage a pointer chose.

    Parameters
    ----------
    word : int
        The likeliest word, over all of its places.
    log_probability : float
        Its own, in nats.
    places : list of float
        The probability of each place of the passage.
    steps : list of int
        Ponder steps of each word.
    """

    word: int
    log_probability: float
    places: list[float]
    steps: list[int]


class UniversalTransformerPointer(ReadingModel):
    """An adaptive Universal Transformer that answers with a word of what it reads.

    Reading comprehension as in arXiv 1807.03819, section 3.3: a passage that breaks off is to be
    continued by a word that it has. A node is a word. The last one's state asks for the answer,
    all others' are held against it, and a word is as likely as all of its places together: the
    attention-sum reader (arXiv 1603.01547, Eq. 1 and 2), but with a learned map `W, b` between
    question and places, since here one encoder reads both: `score_i = x_i . (W x_last + b) /
    sqrt(d)`.

    Parameters
    ----------
    config : UniversalTransformerPointerConfig
        Its shape.

    Examples
    --------
    >>> config = UniversalTransformerPointerConfig(vocab_size=30, d_model=16)
    >>> model = UniversalTransformerPointer(config)
    >>> output = model([[5, 3, 5, 4], [6, 2]])
    >>> output.scores.shape, output.lengths
    (torch.Size([6]), tensor([4, 2]))
    >>> log_probability(output, torch.tensor([5, 7])).exp()[1].item()  # 7 is not in the second
    0.0
    """

    config_kind = UniversalTransformerPointerConfig
    config: UniversalTransformerPointerConfig

    def __init__(self, config: UniversalTransformerPointerConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.question = nn.Linear(config.d_model, config.d_model)
        self.reset_parameters()

    def forward(self, passages: Sentences) -> PointerOutput:
        """Say how likely each place of a passage is.

        Parameters
        ----------
        passages : sequence of sequences of int
            Words up to the one that is to come, as token ids: lists, 1-D tensors or arrays.

        Returns
        -------
        PointerOutput
            A log-probability for each place, and how long the words pondered.

        Raises
        ------
        TypeError
            If a word is not an integer.
        ValueError
            If the batch or a passage is empty, a word lies outside the vocabulary, or a passage
            is longer than `config.max_length`.
        """
        tokens, lengths = flatten(passages, "passages")
        if int(lengths.min()) == 0:
            raise ValueError(f"passages[{int(lengths.argmin())}] is empty: it needs a word")
        self._check_length(int(lengths.max()), "a passage")
        tokens = tokens.to(self.device)
        feat = self._embed(self.embedding, tokens, "word")
        states, steps, ponder = self._ponder(feat, lengths)
        passage = _passages(lengths, self.device)
        question = self.question(last_of(states, lengths))
        scores = (states * question[passage]).sum(-1) * self.config.d_model**-0.5
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        scores = scores - _log_sum(scores, passage, len(lengths))[passage]
        return PointerOutput(scores, tokens, ponder, steps, lengths)

    @torch.no_grad()
    def predict(self, passages: Sentences) -> list[Pointing]:
        """The likeliest word of each passage; what one gets does not depend on the others.

        Examples
        --------
        >>> config = UniversalTransformerPointerConfig(vocab_size=30, d_model=16)
        >>> [found] = UniversalTransformerPointer(config).predict([[5, 3, 5, 4]])
        >>> found.word in (3, 4, 5), len(found.steps)
        (True, 4)
        """
        with self.evaluating():
            output = self(passages)
        sizes = output.lengths.tolist()
        parts = (part.split(sizes) for part in (output.scores.exp(), output.steps))
        words, likely = likeliest(output)
        found = zip(words.tolist(), likely.tolist(), *parts, strict=True)
        return [Pointing(word, log, p.tolist(), own.tolist()) for word, log, p, own in found]


def log_probability(output: PointerOutput, answers: Tensor) -> Tensor:
    """The log-probability of a word in each passage, `(batch,)`: of all of its places together.

    Parameters
    ----------
    output : PointerOutput
        What a pointer says of the passages.
    answers : Tensor
        `(batch,)` int64, a word for each; `-inf` comes of one that its passage does not have.
    """
    passage = _passages(output.lengths, output.scores.device)
    here = (output.tokens == answers.to(passage.device)[passage]).nonzero()[:, 0]
    return _log_sum(output.scores[here], passage[here], len(output.lengths))


def likeliest(output: PointerOutput) -> tuple[Tensor, Tensor]:
    """The likeliest word of each passage and its log-probability, `(batch,)` each.

    Of words that are equally likely it is the one with the least id.
    """
    passage = _passages(output.lengths, output.scores.device)
    pairs, index = torch.stack([passage, output.tokens], 1).unique(dim=0, return_inverse=True)
    likely = _log_sum(output.scores, index, len(pairs))
    best = _maxima(likely, pairs[:, 0], len(output.lengths))
    at_best = (likely == best[pairs[:, 0]]).nonzero()[:, 0]
    first = torch.searchsorted(pairs[at_best, 0], torch.arange(len(best), device=best.device))
    return pairs[at_best[first], 1], best


def _passages(lengths: Tensor, device: torch.device) -> Tensor:
    """Which passage each place is in."""
    return torch.repeat_interleave(lengths).to(device)


def _maxima(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """The largest value of each group, `-inf` where there is none."""
    return values.new_full((groups,), -torch.inf).scatter_reduce(0, group, values, "amax")


def _log_sum(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """The logarithm of the sum of the exponentials of each group, `-inf` where there is none."""
    # The maximum only guards the exponential: its gradient is zero.
    top = _maxima(values.detach(), group, groups)
    total = values.new_zeros(groups).index_add(0, group, (values - top[group]).exp())
    return total.log() + top
