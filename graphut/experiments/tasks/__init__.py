"""What to learn: sequences and the answers to them."""

from graphut.experiments.tasks.agreement import Agreement
from graphut.experiments.tasks.algorithmic import (
    AlgorithmicAddition,
    AlgorithmicCopy,
    AlgorithmicReverse,
    AlgorithmicTask,
)
from graphut.experiments.tasks.babi import Babi
from graphut.experiments.tasks.base import (
    Pair,
    PairTask,
    Passage,
    PassageTask,
    Question,
    QuestionTask,
    Task,
    Text,
    TextTask,
)
from graphut.experiments.tasks.char_lm import CharLM
from graphut.experiments.tasks.characters import Characters
from graphut.experiments.tasks.lambada import Lambada
from graphut.experiments.tasks.lambada_reading import LambadaReading
from graphut.experiments.tasks.letters import Copy, LetterTask, Reverse, Sort
from graphut.experiments.tasks.listops import ListOps
from graphut.experiments.tasks.lte import LearningToExecute, LteAddition, LteControl, LteProgram
from graphut.experiments.tasks.memory import LteCopy, LteDouble, LteReverse
from graphut.experiments.tasks.multi30k import Multi30k
from graphut.experiments.tasks.pairs import Pairs, read_pairs
from graphut.experiments.tasks.scan import Scan
from graphut.experiments.tasks.subwords import Subwords
from graphut.experiments.tasks.translation import TranslationTask
from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.experiments.tasks.wmt14 import Wmt14
from graphut.experiments.tasks.words import Words
from graphut.sentences import BOS, EOS

TASKS: dict[str, type[Task]] = {
    task.name: task
    for task in (
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
    )
}
"""Every task by its name."""

__all__ = [
    "BOS",
    "EOS",
    "TASKS",
    "Agreement",
    "AlgorithmicAddition",
    "AlgorithmicCopy",
    "AlgorithmicReverse",
    "AlgorithmicTask",
    "Babi",
    "CharLM",
    "Characters",
    "Copy",
    "Lambada",
    "LambadaReading",
    "LearningToExecute",
    "LetterTask",
    "ListOps",
    "LteAddition",
    "LteControl",
    "LteCopy",
    "LteDouble",
    "LteProgram",
    "LteReverse",
    "Multi30k",
    "Pair",
    "PairTask",
    "Pairs",
    "Passage",
    "PassageTask",
    "Question",
    "QuestionTask",
    "Reverse",
    "Scan",
    "Sort",
    "Subwords",
    "Task",
    "Text",
    "TextTask",
    "TranslationTask",
    "Vocabulary",
    "Wmt14",
    "Words",
    "read_pairs",
]
