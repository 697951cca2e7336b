"""Loading a model whose class is not known before."""

from __future__ import annotations

from pathlib import Path

from graphut.models.base import AdaptiveModel
from graphut.models.classifier import UniversalTransformerClassifier
from graphut.models.graph_transformer import UniversalGraphTransformer
from graphut.models.hub import model_folder
from graphut.models.language_model import UniversalTransformerLM
from graphut.models.pointer import UniversalTransformerPointer
from graphut.models.pretrained import CONFIG, read_kind
from graphut.models.universal_transformer import UniversalTransformer

_KINDS: dict[str, type[AdaptiveModel]] = {
    kind.__name__: kind
    for kind in (
        UniversalGraphTransformer,
        UniversalTransformer,
        UniversalTransformerClassifier,
        UniversalTransformerLM,
        UniversalTransformerPointer,
    )
}


def load(name: str | Path, *, revision: str | None = None) -> AdaptiveModel:
    """Return a saved model, of the class that its `config.json` names, in evaluation mode.

    Parameters
    ----------
    name : str or Path
        A folder that `save_pretrained` or `graphut train` has written; if there is no such folder,
        the name of a repository on the Hugging Face hub, such as "name/repo".
    revision : str, optional
        The branch, tag or commit of a repository.

    Raises
    ------
    ImportError, OSError
        If there is no such folder, and the repository cannot be downloaded.
    ValueError
        If it is no model of graphut, or its files are damaged.

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
    folder = model_folder(name, revision)
    kind = read_kind(folder)
    if kind not in _KINDS:
        raise ValueError(
            f"{folder / CONFIG} describes {kind}, and graphut has {', '.join(_KINDS)}: a class "
            "of another package has a from_pretrained of its own"
        )
    return _KINDS[kind].from_pretrained(folder)
