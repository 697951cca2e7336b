"""What others offer for the same attention: one file each, used if it is there."""

from graphut.experiments.bench.contender import Prepare
from graphut.experiments.bench.peers.flex import prepare_flex
from graphut.experiments.bench.peers.padded import prepare_padded
from graphut.experiments.bench.peers.pyg import prepare_pyg
from graphut.experiments.bench.peers.sentences import prepare_sentences

PEERS: dict[str, Prepare] = {
    "pyg": prepare_pyg,
    "padded": prepare_padded,
    "sentences": prepare_sentences,
    "flex": prepare_flex,
}

__all__ = ["PEERS"]
