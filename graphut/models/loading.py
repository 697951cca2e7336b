"""Loading of saved models of all classes."""

from pathlib import Path

import graphut.models.graph_transformer
import graphut.models.language_model
import graphut.models.universal_transformer  # noqa: F401  # each of them adds its model to KINDS
from graphut.models.adaptive_model import KINDS, AdaptiveModel
from graphut.models.checked_config import quote
from graphut.models.model_files import CONFIG, check_is_trained, read_config


def load(folder: str | Path) -> AdaptiveModel:
    """Load a saved model of any class with its vocabularies, in evaluation mode.

    `folder` is from `save_pretrained` or `graphut train`.

    Raises
    ------
    OSError
        If there is no such folder.
    ValueError
        If the files are not a model of graphut, or are damaged, or `graphut train` has not
        completed an epoch.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from graphut import UniversalTransformer, UniversalTransformerConfig, Vocabulary
    >>> config = UniversalTransformerConfig(source_vocab=5, target_vocab=5, d_model=16)
    >>> model, letters = UniversalTransformer(config), Vocabulary("abc")
    >>> model.vocabularies = {"source": letters, "target": letters}
    >>> with TemporaryDirectory() as folder:
    ...     model.save_pretrained(folder)
    ...     loaded = load(folder)
    >>> loaded.encode("c a b")
    [4, 2, 3]
    """
    kind, _ = read_config(folder)
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(
            f"{Path(folder, CONFIG)} describes {quote(kind)}; known models are {', '.join(KINDS)} "
            "(import the module of your own class first)"
        )
    check_is_trained(folder)
    return KINDS[kind].from_pretrained(folder)
