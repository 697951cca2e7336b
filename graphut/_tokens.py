"""Token ids that are the same in every vocabulary; this module imports nothing."""

BOS, EOS = 0, 1  # token ids of <bos> and <eos>
