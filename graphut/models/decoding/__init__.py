"""Decoding: greedy, sampling and beam search over a cache as deep as each token pondered."""
