"""Where graphut keeps what it can make again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder `$GRAPHUT_CACHE`, or `graphut` under `$XDG_CACHE_HOME` or `~/.cache`."""
    folder = os.environ.get("GRAPHUT_CACHE")
    if folder:
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "graphut")
