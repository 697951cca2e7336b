"""Decoding: greedy, sampling and beam search over a cache as deep as each token pondered."""

from graphut.decoding.beam import beam_search
from graphut.decoding.cached import CachedDecoder
from graphut.decoding.generation import Generation, TokenDecoder, check_search
from graphut.decoding.prefix import PrefixDecoder
from graphut.decoding.search import search
from graphut.decoding.source import EncodedSource
from graphut.decoding.stepwise import Hypothesis, greedy, sample

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
