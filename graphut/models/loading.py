"""Loading of saved models of all classes."""

from pathlib import Path

import graphut.models.graph_transformer
import graphut.models.language_model
import graphut.models.universal_transformer  # noqa: F401  # each of them adds its model to KINDS
from graphut.models.adaptive_model import KINDS, AdaptiveModel
from graphut.models.checked_config import quote
from graphut.models.model_files import CONFIG, check_is_trained, read_config


def load(folder: str | Path) -> AdaptiveModel:
    """Load a saved model of any class, in evaluation mode.

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
    >>> from graphut import UniversalTransformer, UniversalTransformerConfig
    >>> config = UniversalTransformerConfig(source_vocab=28, target_vocab=28, d_model=16)
    >>> with TemporaryDirectory() as folder:
    ...     UniversalTransformer(config).save_pretrained(folder)
    ...     type(load(folder)).__name__
    'UniversalTransformer'
    """
    kind = read_config(folder).kind
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(
            f"{Path(folder, CONFIG)} describes {quote(kind)}; known models are {', '.join(KINDS)} "
            "(import the module of your own class first)"
        )
    check_is_trained(folder)
    return KINDS[kind].from_pretrained(folder)
