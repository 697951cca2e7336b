"""Options of restarts, which run a graph several times."""

from __future__ import annotations

from dataclasses import dataclass

from graphut.models.checked_config import CheckedConfig, option


@dataclass(frozen=True, kw_only=True)
class Restarts(CheckedConfig):
    """Run disjoint copies of each graph with the rule `EventDriven`, and average their answers.

    The first copy starts as usual. The first shown states of the other copies get Gaussian noise,
    a function of the seed, of the copy, and of the node's place in its graph; injected states do
    not. The copies that come to rest count; if no copy of a graph does, all count. The probability
    of an answer is its mean over the copies that count. Its agreement is the share of these copies
    that give the same answer alone. An answer with an agreement below 1 is in doubt.

    The noise must be small if the answers depend on the first states. With one copy, the result is
    the usual one.
    """

    restarts: int = option(1, "copies of each graph, all but the first from noisy states", least=1)
    restart_noise: float = option(0.1, "standard deviation of the noise of restarts", least=0)
    restart_seed: int = option(0, "seed of the noise of restarts", least=0)

    def _check_values(self) -> None:
        self._check("restart_seed", self.restart_seed < 2**63, "at least 0 and below 2**63")
