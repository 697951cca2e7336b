"""The Universal Transformer as a document classifier."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from graphut.attention.layout import upload
from graphut.attention.ragged import ragged_arange, row_sums
from graphut.models.config import UniversalTransformerClassifierConfig
from graphut.models.encoder_model import EncoderModel
from graphut.models.outputs import ClassifierOutput, ClassifierPrediction, StepAnswers
from graphut.models.sentence_nodes import SentenceNodes
from graphut.nn.call_state import FrontierRows
from graphut.sentences import Sentences, flatten


class UniversalTransformerClassifier(EncoderModel):
    """An adaptive Universal Transformer whose nodes are sentences (arXiv 1807.03819, section 3.1).

    The initial state of a sentence is the sum of its word embeddings, each multiplied by a learned
    mask for the position of the word in the sentence (arXiv 1612.03969, Eq. 2). Masks are
    initialised around one, so that word order matters from the start. One step is repeated over the
    graph of the sentences of a document. The last sentence, usually the question, predicts the
    class. In tensor2tensor, all masks are one at first, and the mean over sentences predicts the
    class; for this, use `mask_init="ones"` and `readout="mean"` in the configuration. To classify a
    sequence of symbols, pass a document with one symbol per sentence.

    Examples
    --------
    >>> config = UniversalTransformerClassifierConfig(vocab_size=30, classes=6, d_model=16)
    >>> model = UniversalTransformerClassifier(config)
    >>> facts, question = [[2, 3, 4], [5, 3, 6]], [7, 8, 2]
    >>> output = model([[*facts, question], [question]])
    >>> output.logits.shape, output.lengths
    (torch.Size([2, 6]), tensor([3, 1]))
    """

    config_class = UniversalTransformerClassifierConfig
    config: UniversalTransformerClassifierConfig

    def __init__(self, config: UniversalTransformerClassifierConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.mask = nn.Parameter(torch.empty(config.longest_sentence, config.d_model))
        self.output = nn.Linear(config.d_model, config.classes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.normal_(self.mask, mean=1.0, std=float(self.config.mask_init == "normal"))

    def forward(
        self,
        documents: Sequence[Sentences],
        *,
        get_attention: bool = False,
        get_steps: bool = False,
    ) -> ClassifierOutput:
        """Compute the logits of the classes of each document.

        Parameters
        ----------
        documents : sequence of sequences of sequences of int
            The words of each sentence of each document, as token ids.
        get_attention : bool
            Also return the attention weights between sentences, as `output.ponder.attention`.
        get_steps : bool
            Also return the logits after every step, as `output.answers`, for a loss at each step.

        Raises
        ------
        TypeError, ValueError
            If a word is not an integer in the vocabulary, a document or a sentence is empty, a
            sentence has more words than `config.longest_sentence`, or a document has more sentences
            than `config.max_length`.
        """
        words, sizes, lengths = self._read(documents)
        feat = self._first_states(words, sizes)
        nodes, last, out, ponder, by_step = self._encode(
            feat, lengths, get_attention=get_attention, get_steps=get_steps
        )
        answers = [*self._answers(nodes, last, torch.zeros_like(out), by_step)]
        logits, steps = (
            self._read_out(nodes.select_tokens(out), last),
            nodes.select_tokens(ponder.steps),
        )
        return ClassifierOutput(logits, ponder, steps, lengths, answers if get_steps else None)

    def _answers(
        self, nodes: SentenceNodes, last: Tensor, states: Tensor, by_step: list[FrontierRows]
    ) -> Iterator[StepAnswers]:
        """Yield the predictions after each step, in which halted nodes keep their last state."""
        questions = nodes.select_tokens(torch.arange(len(states), device=states.device))[last]
        for rows in by_step:
            states = states.index_copy(0, rows.nodes, rows.states)
            active = torch.isin(questions, rows.nodes).nonzero()[:, 0]
            logits = self._read_out(nodes.select_tokens(states), last)
            yield StepAnswers(active, logits[active])

    def _read_out(self, states: Tensor, last: Tensor) -> Tensor:
        """Return the logits of documents; `last` are the indices of their last sentences."""
        read = states[last]
        if self.config.readout == "mean":
            sizes = last.diff(prepend=last.new_full((1,), -1))
            read = row_sums(states, torch.repeat_interleave(sizes), len(sizes)) / sizes[:, None]
        return self.output(read)

    @torch.no_grad()
    def predict(self, documents: Sequence[Sentences]) -> list[ClassifierPrediction]:
        """Return the most likely class of each document; other documents do not influence it."""
        with self.evaluating():
            output = self(documents)
        logits = output.logits.to(torch.promote_types(output.logits.dtype, torch.float32))
        labels, likely = logits.argmax(-1), logits.log_softmax(-1)
        steps = [part.tolist() for part in output.steps.split(output.lengths.tolist())]
        return [*map(ClassifierPrediction, labels.tolist(), likely.tolist(), steps)]

    def _read(self, documents: Sequence[Sentences]) -> tuple[Tensor, Tensor, Tensor]:
        """Return all words, the numbers of words of sentences, and of sentences of documents."""
        if not hasattr(documents, "__len__"):
            raise TypeError(f"documents must be a list, got {documents!r}")
        if len(documents) == 0:
            raise ValueError("documents is empty: a batch needs at least one document")
        parts = [
            flatten(document, f"documents[{index}]", allow_empty=False)
            for index, document in enumerate(documents)
        ]
        words, sizes = (torch.cat(part) for part in zip(*parts, strict=True))
        lengths = torch.tensor([len(document) for document in documents])
        self._check_length(int(lengths.max()), "a document")
        if int(sizes.max()) > self.config.longest_sentence:
            raise ValueError(
                f"a sentence has {int(sizes.max())} words, but the model takes at most "
                f"{self.config.longest_sentence} (longest_sentence in its configuration)"
            )
        return words, sizes, lengths

    def _first_states(self, words: Tensor, sizes: Tensor) -> Tensor:
        """Return initial states, `(sentences, d)`: sums of word embeddings times position masks."""
        self._check_tokens(words, self.embedding.num_embeddings, "word")
        words, sentence, position = upload([words, *ragged_arange(sizes)], self.device)
        embedded = self._look_up(self.embedding, words)
        total = row_sums(embedded * self.mask[position], sentence, len(sizes))
        return self.dropout(total)
