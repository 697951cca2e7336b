"""The model card: the page of a model on the Hugging Face hub, a README.md."""

from __future__ import annotations

from dataclasses import fields

from torch import nn

from graphut.models.config import ModelConfig

CARD = "README.md"

_CARD = """---
library_name: graphut
{license}tags:
- universal-transformer
- adaptive-computation-time
---

# {name}

A `{kind}` of graphut with {weights:,} weights.

```python
import graphut

model = graphut.load("{name}")
```

A model on the hub is loaded with `pip install "graphut[hub]"`.
{about}
## Configuration

{options}; the rest is as by default.
"""


def model_card(
    name: str, model: nn.Module, config: ModelConfig, *, about: str = "", license: str | None = None
) -> str:
    """Return the card of the model that `graphut.load(name)` loads.

    `about` are more sections, in Markdown, and `license` is the hub's short name of a license.

    Examples
    --------
    >>> from graphut.models import UniversalTransformer, UniversalTransformerConfig
    >>> config = UniversalTransformerConfig(source_vocab=28, target_vocab=28, d_model=16)
    >>> print(model_card("name/repo", UniversalTransformer(config), config, license="mit"))
    ... # doctest: +ELLIPSIS
    ---
    library_name: graphut
    license: mit
    tags:
    ...
    `d_model=16`, `source_vocab=28`, `target_vocab=28`; the rest is as by default.
    """
    values = {field: getattr(config, field.name) for field in fields(config)}
    changed = [f"`{f.name}={value}`" for f, value in values.items() if value != f.default]
    return _CARD.format(
        license="" if license is None else f"license: {license}\n",
        name=name,
        kind=type(model).__name__,
        weights=sum(parameter.numel() for parameter in model.parameters()),
        about=about,
        options=", ".join(changed),
    )
