"""What to learn: sequences and the answers to them."""

from graphut._tokens import BOS, EOS
from graphut.tasks.agreement import Agreement
from graphut.tasks.algorithmic import (
    AlgorithmicAddition,
    AlgorithmicCopy,
    AlgorithmicReverse,
    AlgorithmicTask,
)
from graphut.tasks.babi import Babi
from graphut.tasks.base import (
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
from graphut.tasks.char_lm import CharLM
from graphut.tasks.characters import Characters
from graphut.tasks.lambada import Lambada
from graphut.tasks.lambada_reading import LambadaReading
from graphut.tasks.letters import Copy, LetterTask, Reverse, Sort
from graphut.tasks.listops import ListOps
from graphut.tasks.lte import LearningToExecute, LteAddition, LteControl, LteProgram
from graphut.tasks.memory import LteCopy, LteDouble, LteReverse
from graphut.tasks.multi30k import Multi30k
from graphut.tasks.pairs import Pairs, read_pairs
from graphut.tasks.scan import Scan
from graphut.tasks.subwords import Subwords
from graphut.tasks.translation import TranslationTask
from graphut.tasks.vocabulary import Vocabulary
from graphut.tasks.wmt14 import Wmt14
from graphut.tasks.words import Words

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
