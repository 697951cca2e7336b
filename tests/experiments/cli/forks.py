"""Commands in processes of their own, which can be killed."""

import os
import sys
import warnings
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from graphut.experiments.cli import main


def start(argv: list[str], errors: Path, **environment: str) -> BaseProcess:
    """Start a command in a fork of this process, which does not have to import torch again.

    The command uses one thread. It writes its errors to a file; if `environment` has variables, as
    of `torchrun`, also its output.
    """
    process = get_context("fork").Process(target=_run, args=(argv, errors, environment))
    with warnings.catch_warnings():
        # Python 3.12 warns about threads; idle threads, such as torch's, do no harm.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


def _run(argv: list[str], errors: Path, environment: dict[str, str]) -> None:
    torch.set_num_threads(1)  # the threads of the parent do not exist in a fork
    os.environ |= environment
    sys.stderr = errors.open("w")
    sys.stdout = sys.stderr if environment else sys.stdout
    sys.exit(main(argv))
