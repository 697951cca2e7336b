"""How a field is called on the command line."""


def flag(name: str) -> str:
    """The option of a field.

    Examples
    --------
    >>> flag("batch_size")
    '--batch-size'
    """
    return "--" + name.replace("_", "-")
