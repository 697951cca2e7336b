"""Damage to files, drawn by chance."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

ODD: list[Any] = [
    None, True, False, 0, -1, 1.5, 10**9, 2**63, 10**400, float("nan"), float("inf"), "", "x",
    "../x", "é", [], {}, [1], {"a": 1}, [[]], ["x"], "(" * 5000, "9" * 5000,
]  # fmt: skip


def damaged(data: bytes, random: Random) -> bytes:
    """Return the bytes of a file after one accident."""
    kinds: list[Callable[[bytes, Random], bytes]] = [_flip, _cut, _remove]
    if data[:1] in b"[{" or b"__metadata__" in data[:64]:
        kinds += [_odd_value] * 3
    return random.choice(kinds)(data, random)


def _span(data: bytes, random: Random) -> tuple[int, int]:
    start = random.randrange(min(len(data), random.choice([100, 2000, 10**9])))
    return start, start + random.randint(1, 20)


def _flip(data: bytes, random: Random) -> bytes:
    start, _ = _span(data, random)
    return data[:start] + bytes([data[start] ^ (1 << random.randrange(8))]) + data[start + 1 :]


def _cut(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data))]


def _remove(data: bytes, random: Random) -> bytes:
    start, end = _span(data, random)
    return data[:start] + data[end:]


def _odd_value(data: bytes, random: Random) -> bytes:
    """Replace a value in a JSON file, in its first line, or in the header of safetensors."""
    if data[:1] in b"[{":
        first, newline, rest = data.partition(b"\n")
        lines = first.endswith(b"}")
        text = first if lines else data
        changed = json.dumps(_replaced(json.loads(text), random)).encode()
        return changed + newline + rest if lines else changed
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    if "state" in header["__metadata__"] and random.random() < 0.5:
        state = _replaced(json.loads(header["__metadata__"]["state"]), random)
        header["__metadata__"]["state"] = json.dumps(state)
        header["__metadata__"].pop("sha256", None)
    else:
        header = _replaced(header, random)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def _replaced(value: Any, random: Random) -> Any:
    """Return a JSON value in which some value, at any depth, is an odd one or is left out."""
    if not isinstance(value, (dict, list)) or not value or random.random() < 0.15:
        return random.choice(ODD)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = random.choice(keys)
    copy = value.copy()
    if random.random() < 0.15:
        del copy[key]
    else:
        copy[key] = _replaced(value[key], random)
    return copy
