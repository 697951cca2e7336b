"""SCAN: from commands to actions."""

from __future__ import annotations

from collections import Counter
from dataclasses import MISSING, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal

from graphut.experiments.tasks.base import Pair, PairTask, option
from graphut.experiments.tasks.files import DataSet
from graphut.experiments.tasks.presets import NARROW_LAYERS, PAIRS, with_baselines
from graphut.experiments.tasks.splits import hold_out
from graphut.experiments.tasks.vocabulary import Vocabulary

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
_CHECKSUMS = """
941bb8a088c5f53ceff12fde902dc008933cf0c4203cc672c47b5f79d73262dd
1fe1c8f5a19d0dc40e41bab94278f45f66f3dc415a978bd29855a23440610fc6
b034212dc7cf87ce62f3a067dd6ad49c4d5cd18d51d615d13825516bcb1ebbc2
0760752ed34a75116ae11dcc1ee17526b7500060da1366540730fa24894d7db3
e3c78485692e028eed4205e1b8b3fd0e785ef2c12d45b5b89204dadf5b239e23
8147ae2651422c701162e174d9d66158daa57858a26b30317ac61797118ac7a5
"""
_DATA = DataSet(
    "from https://github.com/brendenlake/SCAN: clone it, and name the clone",
    dict(zip(chain.from_iterable(_SPLITS.values()), _CHECKSUMS.split(), strict=True)),
)
_SMALL = {**PAIRS, "share_embeddings": False, "dropout": 0.1, "target_accuracy": 0.999}


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

    The task of arXiv 1711.00350. Training, validation and test have no source in common. The
    publishers have no validation set: it is split off from the training pairs, by a hash of
    the source.

    Parameters
    ----------
    data : str or Path
        The folder with `simple_split` and the like in it.
    split : str
        "simple" (16,728 training and 4182 test pairs, at random; section 4, experiment 1),
        "length" (16,990 and 3920; up to 22 actions in training, 24 to 48 in test; experiment 2)
        or "jump" (14,670 and 7706; "jump" is trained on alone and tested in company;
        experiment 3).
    held_out : int
        Validation pairs.

    Raises
    ------
    ValueError, FileNotFoundError
        When pairs are asked for: if a file is not there, or not as it was published.

    Examples
    --------
    >>> Scan("SCAN", split="length").target_vocabulary
    Vocabulary(I_JUMP I_LOOK I_RUN I_TURN_LEFT I_TURN_RIGHT I_WALK)
    """

    name = "scan"
    presets = with_baselines(_SMALL, NARROW_LAYERS)

    data: str | Path = option(MISSING, f"folder of SCAN, {_DATA.origin}")
    split: Literal["simple", "length", "jump"] = option("simple", "which of the published splits")
    held_out: int = option(1000, "training pairs to validate on instead", least=1)

    @property
    def source_vocabulary(self) -> Vocabulary:
        """The words of commands."""
        return _COMMANDS

    @property
    def target_vocabulary(self) -> Vocabulary:
        """The actions."""
        return _ACTIONS

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
