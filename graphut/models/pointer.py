"""The Universal Transformer as a pointer to words of a passage."""

import torch
from torch import Tensor, nn

from graphut.attention.layout import upload
from graphut.attention.ragged import row_log_sums, row_maxima
from graphut.models.config import UniversalTransformerPointerConfig
from graphut.models.encoder_model import EncoderModel
from graphut.models.outputs import PointerOutput, PointerPrediction
from graphut.sentences import Sentences, flatten


class UniversalTransformerPointer(EncoderModel):
    """An adaptive Universal Transformer that predicts the next word from the words of a passage.

    It is for reading comprehension as in arXiv 1807.03819, section 3.3, where the next word of a
    passage also occurs in the passage. Nodes are words. The final state `x_last` of the last word
    is the question, and position `i` has the score `x_i . (W x_last + b) / sqrt(d)`. The
    probability of a word is the sum of the softmax over its positions. This is the attention-sum
    reader (arXiv 1603.01547, Eqs. 1 and 2), with one encoder and a linear map in place of two.

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

    config_class = UniversalTransformerPointerConfig
    config: UniversalTransformerPointerConfig

    def __init__(self, config: UniversalTransformerPointerConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.question = nn.Linear(config.d_model, config.d_model)
        self.reset_parameters()

    def forward(self, passages: Sentences, *, get_attention: bool = False) -> PointerOutput:
        """Compute the log-probability that the next word is copied from each position.

        Parameters
        ----------
        passages : sequence of sequences of int
            The words before the word to predict, as token ids: lists, 1-D tensors or arrays.
        get_attention : bool
            Also return the attention weights between words, as `output.ponder.attention`.

        Raises
        ------
        TypeError, ValueError
            If a word is not an integer in the vocabulary, or a passage is empty or longer than
            `config.max_length`.
        """
        tokens, lengths = flatten(passages, "passages", allow_empty=False)
        self._check_length(int(lengths.max()), "a passage")
        self._check_tokens(tokens, self.embedding.num_embeddings, "word")
        tokens, passage = upload([tokens, torch.repeat_interleave(lengths)], self.device)
        feat = self._embed(self.embedding, tokens)
        nodes, last, out, ponder, _ = self._encode(feat, lengths, get_attention=get_attention)
        states, steps = nodes.select_tokens(out), nodes.select_tokens(ponder.steps)
        scores = (states * self.question(states[last])[passage]).sum(-1) * self.config.d_model**-0.5
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        scores = scores - row_log_sums(scores, passage, len(lengths))[passage]
        return PointerOutput(scores, tokens, ponder, steps, lengths)

    @torch.no_grad()
    def predict(self, passages: Sentences) -> list[PointerPrediction]:
        """Return the most likely word of each passage; other passages do not influence it."""
        with self.evaluating():
            output = self(passages)
        sizes = output.lengths.tolist()
        parts = (part.split(sizes) for part in (output.scores.exp(), output.steps))
        words, likely = likeliest(output)
        rows = zip(words.tolist(), likely.tolist(), *parts, strict=True)
        return [PointerPrediction(w, log, p.tolist(), s.tolist()) for w, log, p, s in rows]


def log_probability(output: PointerOutput, answers: Tensor) -> Tensor:
    """Return the log-probability of one given word per passage, `(batch,)`.

    `answers`, `(batch,)` int64, are the words. The probability of a word is the sum over its
    positions. The result is `-inf` if the passage does not contain the word.
    """
    passage = torch.repeat_interleave(output.lengths).to(output.scores.device)
    here = (output.tokens == answers.to(passage.device)[passage]).nonzero()[:, 0]
    return row_log_sums(output.scores[here], passage[here], len(output.lengths))


def likeliest(output: PointerOutput) -> tuple[Tensor, Tensor]:
    """Return the most likely word of each passage and its log-probability, `(batch,)` each.

    Ties are broken in favour of the smaller token id.
    """
    passage = torch.repeat_interleave(output.lengths).to(output.scores.device)
    pairs, index = torch.stack([passage, output.tokens], 1).unique(dim=0, return_inverse=True)
    likely = row_log_sums(output.scores, index, len(pairs))
    best = row_maxima(likely, pairs[:, 0], len(output.lengths))
    at_best = (likely == best[pairs[:, 0]]).nonzero()[:, 0]
    first = torch.searchsorted(pairs[at_best, 0], torch.arange(len(best), device=best.device))
    return pairs[at_best[first], 1], best
