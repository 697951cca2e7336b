"""The adaptive loop on a GPU, which never waits for the number of active nodes."""
