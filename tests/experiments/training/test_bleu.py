from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut.experiments.training.bleu import bleu
from tests.experiments.training.naive_bleu import naive_bleu

SENTENCES = st.lists(st.sampled_from(["ein", "Mann", "Hund", "läuft"]), min_size=1, max_size=12)
PAIRS = st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=5)


@given(PAIRS)
def test_bleu_is_the_formula(pairs: list[tuple[list[str], list[str]]]) -> None:
    outputs = [" ".join(words) for words, _ in pairs]
    references = [" ".join(words) for _, words in pairs]
    assert bleu(outputs, references).score == pytest.approx(naive_bleu(outputs, references))


def test_bleu_counts_punctuation_and_capitals() -> None:
    # Marks are tokens of their own.
    assert bleu(["Ein Hund läuft hier!"], ["Ein Hund läuft hier."]).score == pytest.approx(
        naive_bleu(["Ein Hund läuft hier !"], ["Ein Hund läuft hier ."])
    )
    assert bleu(["ein Hund läuft los."], ["Ein Hund läuft los."]).score < 100
    assert bleu(["Ein Hund läuft los."], ["Ein Hund läuft los."]).score == pytest.approx(100)


def test_bleu_signature() -> None:
    wanted = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:"
    assert bleu(["a"], ["a"]).signature.startswith(wanted)


def test_bleu_of_what_looks_tokenised_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    bleu(["Ein Hund ."] * 200, ["Ein Hund ."] * 200)
    assert not caplog.records


def test_bleu_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ImportError, match=r"sacrebleu .*: pip install graphut\[translation\]"):
        bleu(["a"], ["a"])
