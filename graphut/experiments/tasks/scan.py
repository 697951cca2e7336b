"""SCAN: from commands to actions."""

from __future__ import annotations

from collections import Counter
from dataclasses import MISSING, dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from graphut.experiments.tasks.base import Pair, PairTask
from graphut.experiments.tasks.files import DataSet, published_checksums
from graphut.experiments.tasks.presets import NARROW_LAYERS, PAIRS, with_baselines
from graphut.experiments.tasks.splits import hold_out
from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.models.checked_config import option

_WORDS = "after and around jump left look opposite right run thrice turn twice walk"
_COMMANDS = Vocabulary(_WORDS.split())
_ACTIONS = Vocabulary(["I_JUMP", "I_LOOK", "I_RUN", "I_TURN_LEFT", "I_TURN_RIGHT", "I_WALK"])
_SPLITS = {  # files of training and of test
    "simple": ("simple_split/tasks_train_simple.txt", "simple_split/tasks_test_simple.txt"),
    "length": ("length_split/tasks_train_length.txt", "length_split/tasks_test_length.txt"),
    "jump": (
        "add_prim_split/tasks_train_addprim_jump.txt",
        "add_prim_split/tasks_test_addprim_jump.txt",
    ),
}
_DATA = DataSet(
    "from https://github.com/brendenlake/SCAN: clone it, and name the clone",
    published_checksums("scan"),
)
_SMALL = PAIRS | {"share_embeddings": False, "dropout": 0.1, "target_accuracy": 0.999}


def parse(line: str) -> Pair:
    """Return the token ids of a line of SCAN's files.

    Examples
    --------
    >>> source, target = parse("IN: walk twice OUT: I_WALK I_WALK")
    >>> _COMMANDS.decode(source), _ACTIONS.decode(target)
    (['walk', 'twice'], ['I_WALK', 'I_WALK'])
    """
    command, out, actions = line.removeprefix("IN: ").partition(" OUT: ")
    if not out:
        raise ValueError(f"expected 'IN: commands OUT: actions', got {line!r}")
    return _COMMANDS.encode(command.split()), _ACTIONS.encode(actions.split())


@dataclass(frozen=True)
class Scan(PairTask):
    """SCAN: commands such as "walk twice", into actions.

    The task of arXiv 1711.00350, section 4. Training, validation and test have no source in
    common. The publishers have no validation set: it is split off from the training pairs, by a
    hash of the source. The splits are "simple" (experiment 1: 16,728 training and 4182 test pairs,
    at random), "length" (experiment 2: 16,990 and 3920; up to 22 actions in training, 24 to 48 in
    test) and "jump" (experiment 3: 14,670 and 7706; "jump" is trained on alone and tested in
    company).
    """

    name = "scan"
    presets = with_baselines(_SMALL, NARROW_LAYERS)
    source_vocabulary: ClassVar[Vocabulary] = _COMMANDS
    target_vocabulary: ClassVar[Vocabulary] = _ACTIONS

    data: str | Path = option(MISSING, f"folder of SCAN, {_DATA.origin}")
    split: Literal["simple", "length", "jump"] = option("simple", "which of the published splits")
    held_out: int = option(1000, "training pairs to validate on instead", least=1)

    def load(self, part: str) -> list[Pair]:
        """Return the pairs of a part; those of training are not validated on."""
        return self._read(1) if part == "test" else self._split[part]

    @cached_property
    def _split(self) -> dict[str, list[Pair]]:
        pairs = self._read(0)
        count = Counter(tuple(source) for source, _ in pairs)
        # A command that comes many times ("jump", in the split of that name) stays in training.
        once = (source for source in count if count[source] == 1)
        chosen = {*hold_out(once, self.held_out, bytes)[1]}
        return {
            "train": [pair for pair in pairs if tuple(pair[0]) not in chosen],
            "validation": [pair for pair in pairs if tuple(pair[0]) in chosen],
        }

    def _read(self, part: int) -> list[Pair]:
        text = _DATA.read(self.data, _SPLITS[self.split][part])
        return [parse(line) for line in text.splitlines()]
