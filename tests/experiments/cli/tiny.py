"""Options of runs that take a second."""

from __future__ import annotations

import shlex

TINY = shlex.split(
    "--mean-length 3 --length-deviation 1 --epoch-size 16 --held-out 4 --batch-size 8 "
    "--d-model 8 --num-heads 2 --d-hidden 8 --max-steps 2 --device cpu --epochs 2"
)

MODEL = shlex.split("--d-model 8 --num-heads 2 --d-hidden 8 --max-steps 2 --epochs 1 --device cpu")
