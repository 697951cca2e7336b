"""How the kinds of tasks are learned."""

from graphut.experiments.tasks import Task
from graphut.experiments.training.learner import AnyLearner
from graphut.experiments.training.learners.agreement import AgreementLearner
from graphut.experiments.training.learners.lambada import LambadaLearner
from graphut.experiments.training.learners.pairs import PairLearner
from graphut.experiments.training.learners.passages import PassageLearner
from graphut.experiments.training.learners.questions import QuestionLearner
from graphut.experiments.training.learners.texts import TextLearner
from graphut.experiments.training.learners.translation import TranslationLearner

LEARNERS: dict[type[Task], AnyLearner] = {
    learner.task_kind: learner
    for learner in (
        PairLearner(),
        QuestionLearner(),
        TextLearner(),
        AgreementLearner(),
        LambadaLearner(),
        PassageLearner(),
        TranslationLearner(),
    )
}
"""The learner of each kind of tasks."""


def learner_of(task: Task | type[Task]) -> AnyLearner:
    """The learner of a task, or of a class of tasks: that of its nearest kind.

    Raises
    ------
    TypeError
        If it is of no kind that can be learned.

    Examples
    --------
    >>> from graphut.experiments.tasks import Copy
    >>> learner_of(Copy()).examples
    'sequences'
    """
    kind = task if isinstance(task, type) else type(task)
    for base in kind.__mro__:
        if base in LEARNERS:
            return LEARNERS[base]
    kinds = ", ".join(known.__name__ for known in LEARNERS)
    raise TypeError(f"{kind.__name__} is no task that can be learned: derive it from {kinds}")


__all__ = ["LEARNERS", "learner_of"]
