"""SCAN: translate commands to actions.

graphut train examples/tasks/scan.py --data SCAN --split length --out runs/scan
"""

from collections import Counter
from dataclasses import MISSING, dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from graphut.experiments.tasks.base import Pair, PairTask, hold_out
from graphut.experiments.tasks.files import read_text
from graphut.experiments.tasks.presets import NARROW_LAYERS, PAIRS, with_baselines
from graphut.models.checked_config import option
from graphut.vocabulary import Vocabulary

_WORDS = "after and around jump left look opposite right run thrice turn twice walk"
_COMMANDS = Vocabulary(_WORDS.split())
_ACTIONS = Vocabulary(["I_JUMP", "I_LOOK", "I_RUN", "I_TURN_LEFT", "I_TURN_RIGHT", "I_WALK"])
_FILES = {  # by split, with the part for {}
    "simple": "simple_split/tasks_{}_simple.txt",
    "length": "length_split/tasks_{}_length.txt",
    "jump": "add_prim_split/tasks_{}_addprim_jump.txt",
}
_ORIGIN = "get the data from https://github.com/brendenlake/SCAN: clone it, and name the clone"
_LONGEST = 48  # actions
_SMALL = PAIRS | {"share_embeddings": False, "dropout": 0.1, "target_accuracy": 0.999}


def parse(line: str) -> Pair:
    """Return the command and the actions in a line of SCAN's files, as token ids.

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
    """SCAN: translation of commands, such as "walk twice", to actions.

    The task of arXiv 1711.00350, section 4. The splits are "simple" (experiment 1: random, 16,728
    training and 4182 test pairs), "length" (experiment 2: 16,990 and 3920 pairs; up to 22 actions
    in training, 24 to 48 in the test) and "jump" (experiment 3: 14,670 and 7706 pairs; "jump"
    occurs in training only alone, and in the test only in longer commands). With `cut_off`, the
    pairs of the split "length" are divided at another number of actions (arXiv 2010.07174): 18,286
    and 2624 pairs at 26.

    There is no published validation set: a hash of the source selects `held_out` training pairs for
    validation. The three parts have no source in common.
    """

    name = "scan"
    presets = with_baselines(_SMALL, NARROW_LAYERS)
    source_vocabulary: ClassVar[Vocabulary] = _COMMANDS
    target_vocabulary: ClassVar[Vocabulary] = _ACTIONS

    data: str | Path = option(MISSING, f"folder of SCAN; {_ORIGIN}")
    split: Literal["simple", "length", "jump"] = option("simple", "one of the published splits")
    cut_off: int = option(
        22, "most actions of a training pair in the split 'length'; 22 as published", least=1
    )
    held_out: int = option(1000, "validation pairs, taken from the training pairs", least=1)

    def _check_values(self) -> None:
        self._check_defaults(self.split == "length", "if split is not 'length'", "cut_off")
        self._check("cut_off", self.cut_off < _LONGEST, f"below {_LONGEST}, the longest output")

    def load(self, part: str) -> list[Pair]:
        if part == "test":
            return self._read("test")
        is_train = part == "train"
        return [
            pair for pair in self._read("train") if (tuple(pair[0]) in self._chosen) != is_train
        ]

    @cached_property
    def _chosen(self) -> set[tuple[int, ...]]:
        """The sources, as token ids, of the pairs that are held out for validation."""
        count = Counter(tuple(source) for source, _ in self._read("train"))
        # A command that occurs many times, such as "jump" in the split "jump", stays in training.
        once = (source for source in count if count[source] == 1)
        return {*hold_out(once, self.held_out, bytes)[1]}

    def _read(self, part: str) -> list[Pair]:
        if self.split != "length":
            return self._read_file(part)
        pairs = self._read_file("train") + self._read_file("test")
        return [pair for pair in pairs if (len(pair[1]) > self.cut_off) == (part == "test")]

    def _read_file(self, part: str) -> list[Pair]:
        text = read_text(Path(self.data, _FILES[self.split].format(part)), _ORIGIN)
        return [parse(line) for line in text.splitlines()]
