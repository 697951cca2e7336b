"""Options of restarts, which run a graph several times."""

from dataclasses import dataclass
from typing import Literal

from graphut.models.checked_config import CheckedConfig, option


@dataclass(frozen=True, kw_only=True)
class Restarts(CheckedConfig):
    """Run disjoint copies of each graph with the rule `EventDriven`, and join their answers.

    The first copy starts as usual. The shown states of the other copies get Gaussian noise before
    each of the first `restart_rounds` rounds, in which all their nodes compute. The noise is a
    function of the seed, of the round, of the copy, and of the node's place in its graph. Injected
    states get none.

    With `restart_keep="mean"`, the copies that come to rest count; if no copy of a graph does, all
    count. The probability of an answer is its mean over the copies that count. With "surest" all
    copies count, and all answers of a graph are those of one copy: the one whose answers have the
    largest product of probabilities, over all nodes.

    The agreement of an answer is the share of the copies that count and give the same answer alone.
    An answer with an agreement below 1 is in doubt. With "mean" the noise must be small if the
    answers depend on the first states. With one copy, the result is the usual one.
    """

    restarts: int = option(1, "copies of each graph, all but the first from noisy states", least=1)
    restart_noise: float = option(0.1, "standard deviation of the noise of restarts", least=0)
    restart_rounds: int = option(1, "first rounds that get noise, anew in each", least=1)
    restart_seed: int = option(0, "seed of the noise of restarts", least=0)
    restart_keep: Literal["mean", "surest"] = option(
        "mean", "answers of restarts: means, or those of the copy that is surest of all its answers"
    )

    def _check_values(self) -> None:
        self._check("restart_seed", self.restart_seed < 2**63, "at least 0 and below 2**63")
        others = "restart_noise", "restart_rounds", "restart_seed", "restart_keep"
        self._check_defaults(self.restarts > 1, "if restarts is 1", *others)
