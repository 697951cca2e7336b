"""Greedy decoding, sampling and beam search, with keys and values cached for every step."""
