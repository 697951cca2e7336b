"""`python -m graphut`."""

from __future__ import annotations

import sys

from graphut.cli import main

sys.exit(main())
