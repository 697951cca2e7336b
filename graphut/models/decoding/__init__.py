"""Decoding: greedy, sampling and beam search over a cache as deep as each token pondered."""

from graphut.models.decoding.beam import beam_search
from graphut.models.decoding.cached import CachedDecoder
from graphut.models.decoding.generation import Generation, TokenDecoder, check_search
from graphut.models.decoding.prefix import PrefixDecoder
from graphut.models.decoding.search import search
from graphut.models.decoding.source import EncodedSource
from graphut.models.decoding.stepwise import Hypothesis, greedy, sample

__all__ = [
    "CachedDecoder",
    "EncodedSource",
    "Generation",
    "Hypothesis",
    "PrefixDecoder",
    "TokenDecoder",
    "beam_search",
    "check_search",
    "greedy",
    "sample",
    "search",
]
