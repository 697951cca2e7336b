"""Tasks: data sets and their presets."""

from typing import TYPE_CHECKING

from graphut._lazy import lazy_names
from graphut.experiments.tasks.agreement import Agreement
from graphut.experiments.tasks.algorithmic import (
    AlgorithmicAddition,
    AlgorithmicCopy,
    AlgorithmicReverse,
)
from graphut.experiments.tasks.babi import Babi
from graphut.experiments.tasks.base import (
    GraphTask,
    LabelledGraph,
    Pair,
    PairTask,
    Passage,
    PassageTask,
    Question,
    QuestionTask,
    Task,
    Text,
    TextTask,
    Vocabularies,
)
from graphut.experiments.tasks.char_lm import CharLM
from graphut.experiments.tasks.circuit_simulate import CircuitSimulate
from graphut.experiments.tasks.graph_problems import (
    GraphBFS,
    GraphDistance,
    GraphEccentricity,
    GraphMIS,
    GraphPath,
    GraphReach,
    PrefixParity,
)
from graphut.experiments.tasks.graphs import Graphs
from graphut.experiments.tasks.lambada import Lambada, LambadaReading
from graphut.experiments.tasks.letters import Copy, Reverse, Sort
from graphut.experiments.tasks.listops import ListOps, ListOpsTree
from graphut.experiments.tasks.lte import (
    LteAddition,
    LteControl,
    LteCopy,
    LteDouble,
    LteProgram,
    LteReverse,
)
from graphut.experiments.tasks.pairs import Pairs
from graphut.experiments.tasks.registry import (
    TASK_PRESETS,
    TASKS,
    load_task_plugins,
    preset_of,
    register_task,
)
from graphut.experiments.tasks.scan import Scan
from graphut.experiments.tasks.sudoku import Sudoku
from graphut.experiments.tasks.translation import Multi30k, Wmt14
from graphut.experiments.tasks.vocabulary import Vocabulary, Words
from graphut.models.checked_config import option

if TYPE_CHECKING:
    from graphut.experiments.tasks.graph_arrays import write_arrays

# In the order of the command line's help.
BUILT_IN: tuple[type[Task], ...] = (
    Copy,
    Reverse,
    Sort,
    AlgorithmicCopy,
    AlgorithmicReverse,
    AlgorithmicAddition,
    LteProgram,
    LteControl,
    LteAddition,
    LteCopy,
    LteDouble,
    LteReverse,
    Scan,
    ListOps,
    Babi,
    LambadaReading,
    Agreement,
    Lambada,
    Multi30k,
    Wmt14,
    CharLM,
    Pairs,
    GraphDistance,
    GraphReach,
    GraphPath,
    GraphBFS,
    GraphEccentricity,
    GraphMIS,
    PrefixParity,
    CircuitSimulate,
    Sudoku,
    ListOpsTree,
    Graphs,
)
for _task in BUILT_IN:
    register_task(_task)

__all__ = [
    "TASKS",
    "TASK_PRESETS",
    "Copy",
    "GraphTask",
    "LabelledGraph",
    "Pair",
    "PairTask",
    "Passage",
    "PassageTask",
    "Question",
    "QuestionTask",
    "Reverse",
    "Sort",
    "Task",
    "Text",
    "TextTask",
    "Vocabularies",
    "Vocabulary",
    "Words",
    "load_task_plugins",
    "option",
    "preset_of",
    "register_task",
    "write_arrays",
]

__getattr__ = lazy_names(__name__, {"write_arrays": "graph_arrays"})
