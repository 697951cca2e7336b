"""Damage to files, drawn by chance."""

from random import Random


def damaged(data: bytes, random: Random) -> bytes:
    """Return the bytes of a file in which a bit is flipped, or from which bytes are missing."""
    start = random.randrange(min(len(data), random.choice([100, 2000, 10**9])))
    kind = random.choice(["flip", "cut", "remove"])
    if kind == "flip":
        return data[:start] + bytes([data[start] ^ (1 << random.randrange(8))]) + data[start + 1 :]
    return data[:start] if kind == "cut" else data[:start] + data[start + random.randint(1, 20) :]
