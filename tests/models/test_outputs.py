from __future__ import annotations

from typing import Any

import pytest

from graphut import (
    UniversalTransformer,
    UniversalTransformerClassifier,
    UniversalTransformerClassifierConfig,
    UniversalTransformerConfig,
    UniversalTransformerLM,
    UniversalTransformerLMConfig,
    UniversalTransformerPointer,
    UniversalTransformerPointerConfig,
)
from graphut.models import outputs

PAIRS = UniversalTransformer(UniversalTransformerConfig(source_vocab=9, target_vocab=9))
TEXTS = UniversalTransformerLM(UniversalTransformerLMConfig(vocab_size=9))
CLASSES = UniversalTransformerClassifier(
    UniversalTransformerClassifierConfig(vocab_size=9, classes=2)
)
WORDS = UniversalTransformerPointer(UniversalTransformerPointerConfig(vocab_size=9))


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (lambda: PAIRS(PAIRS.sentence_graph([[5, 3]], [[2]])), outputs.SequenceOutput),
        (lambda: TEXTS([[5, 3]]), outputs.LMOutput),
        (lambda: CLASSES([[[5, 3]]]), outputs.ClassifierOutput),
        (lambda: WORDS([[5, 3]]), outputs.PointerOutput),
        (lambda: PAIRS.generate([[5, 3]], max_length=2)[0], outputs.Generation),
        (lambda: TEXTS.generate([[5, 3]], max_length=2)[0], outputs.Generation),
        (lambda: CLASSES.predict([[[5, 3]]])[0], outputs.ClassifierPrediction),
        (lambda: WORDS.predict([[5, 3]])[0], outputs.PointerPrediction),
    ],
)
def test_outputs_has_the_result_of_every_model(found: Any, kind: type) -> None:
    assert type(found()) is kind
