"""The two token ids that stand for no symbol, the same in every vocabulary and every model."""

BOS, EOS = 0, 1
