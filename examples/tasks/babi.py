"""bAbI: questions about short stories, for a model whose nodes are the sentences of a story.

graphut train examples/tasks/babi.py --data tasks_1-20_v1-2 --tasks 1 --out runs/babi
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import cached_property
from itertools import chain, product
from math import exp
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import nn

from graphut.attention.layout import upload
from graphut.attention.ragged import ragged_arange, row_sums
from graphut.experiments.tasks import Task, Vocabulary, option
from graphut.experiments.tasks.base import PARTS, whole_numbers
from graphut.experiments.tasks.files import read_text
from graphut.experiments.tasks.presets import DEEP, model_size, with_baselines
from graphut.experiments.training import Evaluation, Outcome
from graphut.experiments.training.evaluation import answer_in_batches, rows_by
from graphut.experiments.training.generation import Answer, PonderedPart
from graphut.experiments.training.learners import Learner
from graphut.models.adaptive_model import AdaptiveModel
from graphut.models.config import ModelConfig
from graphut.models.layer_builders import make_recurrence
from graphut.models.sentence_nodes import SentenceNodes
from graphut.topology import parse

_ORIGIN = "get the folder tasks_1-20_v1-2 from https://research.facebook.com/downloads/babi"
# Dropout, offsets, weight decay and small batches reduce overfitting to the thousand stories.
_SMALL = (
    DEEP
    | model_size(64, 256, 6)
    | {"max_offset": 20, "dropout": 0.1, "weight_decay": 0.1, "batch_size": 32, "warmup": 500}
    | {"epochs": 150, "patience": 150, "target_accuracy": 0.999}
)


class Question(NamedTuple):
    """A question about a story, with its answer: as words, or as token ids and a class."""

    sentences: list[list[Any]]  # the facts, without earlier questions; then the question
    answer: Any  # in lower case; several answers are separated by commas
    supporting: int  # number of facts that imply the answer
    group: str  # the task, such as "qa3"


def parse_stories(text: str, group: str) -> Iterator[Question]:
    """Yield the questions in a file of bAbI (arXiv 1502.05698), with the facts before them.

    A line has a number and a sentence; the number 1 begins a new story. The answer and the numbers
    of the lines that imply it follow a question, after tabs. A question mark is a word.
    """
    facts: list[list[str]] = []
    for line in text.splitlines():
        sentence_text, *rest = line.split("\t")
        number, *sentence = re.findall(r"[\w'-]+|\?", sentence_text.lower())
        facts = [] if number == "1" else facts
        if rest:
            answer, supporting = rest
            yield Question([*facts, sentence], answer.lower(), len(supporting.split()), group)
        else:
            facts.append(sentence)


@dataclass(frozen=True, kw_only=True)
class SentenceModelConfig(ModelConfig):
    """The configuration of a `SentenceModel`; other fields call a sentence a token."""

    vocab_size: int = option(MISSING, "size of the vocabulary", least=3)
    classes: int = option(MISSING, "number of answers", least=2)
    longest_sentence: int = option(20, "maximum number of words in a sentence", least=1)
    topology: str = option("complete", "sentences that a sentence attends to")


class SentenceModel(AdaptiveModel):
    """A Universal Transformer whose nodes are sentences (arXiv 1807.03819, section 3.1).

    The first state of a sentence is the sum of its word embeddings, each multiplied by a learned
    mask for the position of the word (arXiv 1612.03969, Eq. 2). Positions of sentences count back
    from the last one, the question, whose final state predicts the answer.
    """

    config_class = SentenceModelConfig

    def __init__(self, config: SentenceModelConfig) -> None:
        super().__init__(config)
        self.topology = parse(config.topology)
        self.encoder = make_recurrence(config)
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.mask = nn.Parameter(torch.empty(config.longest_sentence, config.d_model))
        self.output = nn.Linear(config.d_model, config.classes)
        self.reset_parameters()
        nn.init.normal_(self.mask, mean=1.0)

    def forward(self, stories: Sequence[list[list[int]]], *, get_attention: bool = False) -> Any:
        """Return the logits of the answers to stories, and the record of their sentences."""
        sentences = [*chain.from_iterable(stories)]
        lengths, sizes = (torch.tensor([*map(len, each)]) for each in (stories, sentences))
        word, last = torch.tensor([*chain.from_iterable(sentences)]), lengths.cumsum(0) - 1
        nodes = SentenceNodes.from_tokens(lengths.new_empty(0), lengths, self.topology)
        inputs = [nodes.layout, last, word, *ragged_arange(sizes)]
        layout, last, word, sentence, place = upload(inputs, self.device)
        embedded = self._look_up(self.embedding, word) * self.mask[place]
        feat = self.dropout(row_sums(embedded, sentence, len(sizes)))
        position = nodes.expand(lengths + 1) - nodes.position
        if (drawn := self._drawn_positions(lengths)) is not None:
            position = nodes.redrawn(position, drawn)
        options = {"positions": position.to(self.device), "get_attention": get_attention}
        states, ponder, *_ = self.encoder(layout, feat, **options)
        return self.output(states[last]), ponder


class BabiLearner(Learner[Question, Any, SentenceModel]):
    """Trains and evaluates models that answer a question about a story."""

    model_kind = SentenceModel
    example: ClassVar[str] = "question"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "accuracy": "mean over the groups of the share of correct answers",
        "log_probability": "mean log-probability of the correct answers, in nats",
        "steps": "mean steps of a sentence, questions included",
    }
    rank_by = ("accuracy", "log_probability")
    # The geometric mean of probabilities: the accuracy over 100 questions soon reaches 1.
    target_metric = "probability"
    summary = "error {error:.2%}, steps {steps:.2f} per sentence"

    @staticmethod
    def derived(metrics: Mapping[str, Any]) -> dict[str, Any]:
        return {"error": 1 - metrics["accuracy"], "probability": exp(metrics["log_probability"])}

    def outcome(self, batch: list[Question], label_smoothing: float) -> Outcome:
        logits, ponder = self.model([each.sentences for each in batch])
        labels = torch.tensor([each.answer for each in batch], device=self.model.device)
        return Outcome.of(logits, labels, label_smoothing, encoder=ponder)

    @torch.no_grad()
    def evaluate_in_detail(
        self, examples: Sequence[Question], **options: Any
    ) -> tuple[Evaluation, dict[str, Any]]:
        """Return metrics, and details by task and by the number of supporting facts."""
        with self.model.evaluating():
            answered = answer_in_batches(self._predict, examples, 100, lambda x: len(x.sentences))
        keys = {"group": lambda x: x[0].group, "supporting": lambda x: x[0].supporting}
        rows = {f"by_{k}": rows_by(k, answered, keys[k], _metrics, "questions") for k in keys}
        metrics = {
            "accuracy": 1 - fmean(row["error"] for row in rows["by_group"]),
            "log_probability": fmean(logs[question.answer] for question, (logs, _) in answered),
            "steps": _metrics(answered)["steps"],
        }
        return self.evaluation(**metrics), rows

    def _predict(self, batch: list[Question]) -> Iterator[tuple[list[float], list[int]]]:
        """Yield the log-probabilities of the answers, and the steps of the sentences."""
        logits, ponder = self.model([each.sentences for each in batch])
        steps = ponder.steps.split([len(each.sentences) for each in batch])
        yield from zip(logits.log_softmax(-1).tolist(), (x.tolist() for x in steps), strict=True)

    @torch.no_grad()
    def answer(self, example: Question) -> Answer:
        """Return the likeliest answer, the correct one, and the steps."""
        with self.model.evaluating():
            logits, ponder = self.model([example.sentences], get_attention=True)
        names = [*map(self.vocabulary.write, example.sentences)]
        part = PonderedPart("encoder", "", names, names, ponder.steps.tolist(), ponder)
        answers = self.vocabularies["answer"].symbols
        found, correct = answers[int(logits.argmax())], answers[example.answer]
        note = f"answer  {found} ({logits[0].softmax(0).max():.1%}); correct: {correct}"
        return Answer(found, [part], correct, found == correct, note)


def _metrics(answered: Sequence[tuple[Question, Any]]) -> dict[str, float]:
    wrong = (question.answer != logs.index(max(logs)) for question, (logs, _) in answered)
    steps = chain.from_iterable(steps for _, (_, steps) in answered)
    return {"error": fmean(wrong), "steps": fmean(steps)}  # as in arXiv 1807.03819


@dataclass(frozen=True)
class Babi(Task):
    """bAbI: questions such as "Where is Mary?" about a story, with one answer out of a few.

    The English tasks of arXiv 1502.05698, with the published validation split. A list of answers,
    such as "apple,milk", is one class. The vocabularies come from all files of the chosen tasks.
    One model learns the chosen tasks jointly, and results are reported for each task.
    """

    name = "babi"
    presets = with_baselines(_SMALL, model_size(40, 80, 4))
    config_kind, learner = SentenceModelConfig, BabiLearner
    from_data = ("vocab_size", "classes", "longest_sentence")
    choices = ("accuracy", "log_probability")

    data: str | Path = option(MISSING, f"folder of bAbI; {_ORIGIN}")
    tasks: str = option("1", 'which of the 20 tasks, as in "1,2,18-20", or "all"')
    size: Literal["1k", "10k"] = option("1k", "training and validation questions of each task")

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {"text": self.vocabulary, "answer": self.answers}

    @property
    def model_sizes(self) -> dict[str, Any]:
        longest = max(max(map(len, each.sentences)) for each in chain(*self.stories.values()))
        sizes = {"vocab_size": len(self.vocabulary), "classes": len(self.answers.symbols)}
        return {**sizes, "longest_sentence": longest}

    @property
    def groups(self) -> list[str]:
        """The names of the chosen tasks, such as "qa3"."""
        text = "1-20" if self.tasks == "all" else self.tasks
        return [f"qa{n}" for n in sorted({*whole_numbers("tasks", text, 1)})]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        sentences = chain(*(each.sentences for each in chain(*self.stories.values())))
        return Vocabulary(sorted({*chain.from_iterable(sentences)}))

    @cached_property
    def answers(self) -> Vocabulary:
        return Vocabulary(sorted({each.answer for each in chain(*self.stories.values())}))

    def load(self, part: str) -> list[Question]:
        encode, classes = self.vocabulary.encode, self.answers.symbols.index
        part, groups = (part, self.groups) if part in PARTS else ("test", [part])
        stories = chain.from_iterable(self.stories[part, group] for group in groups)
        return [
            each._replace(sentences=[*map(encode, each.sentences)], answer=classes(each.answer))
            for each in stories
        ]

    @property
    def test_sets(self) -> list[str]:
        return ["test", *(self.groups if len(self.groups) > 1 else [])]

    @cached_property
    def stories(self) -> dict[tuple[str, str], list[Question]]:
        """The questions by part and task, such as `("test", "qa3")`."""
        stories = {}
        for part, group in product(PARTS, self.groups):
            name = f"en-valid{'-10k' * (self.size == '10k')}/{group}_{part[:5]}.txt"  # or valid
            text = read_text(Path(self.data, name), _ORIGIN)
            stories[part, group] = [*parse_stories(text, group)]
        return stories
