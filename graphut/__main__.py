"""Run the command line by `python -m graphut`."""

import sys

from graphut.experiments.cli import main

sys.exit(main())
