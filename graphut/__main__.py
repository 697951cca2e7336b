"""Run the command line by `python -m graphut`."""

from __future__ import annotations

import sys

from graphut.experiments.cli import main

sys.exit(main())
