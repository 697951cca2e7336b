import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut._tokens import EOS
from graphut.subwords import Subwords
from graphut.vocabulary import vocabulary_from_json
from tests.helpers import refuses

TEXTS = [
    "A man rides a bike.",
    "Ein Mann fährt auf einem Fahrrad.",
    "Two men are riding two bikes, aren't they?",
    "Zwei Männer fahren auf zwei Fahrrädern.",
    "A man's bike; Männer mit Fahrrädern",
] * 2


@pytest.fixture(scope="module")
def learned() -> Subwords:
    return Subwords.learn(TEXTS, 300)


def test_subwords_refuse_ids_that_are_no_tokens(learned: Subwords) -> None:
    for token in (-1, 10_000):
        refuses(f"token id {token} is not in", learned.write, [token])


def test_subwords_learn_joins_nothing_that_comes_once() -> None:
    assert Subwords.learn(["abc"], 300).merges == Subwords.learn([], 300).merges == ()
    refuses("subwords must be more than the 256 bytes; got 256", Subwords.learn, TEXTS, 256)


SENTENCES = st.one_of(
    st.text(max_size=30),
    st.text(alphabet="aeinrdtM F'ä.\t<bos>", max_size=60),
    st.lists(st.sampled_from(TEXTS), max_size=3).map(" ".join),
)


@given(st.lists(SENTENCES, max_size=4))
def test_subwords_write_gives_back_what_was_read(learned: Subwords, texts: list[str]) -> None:
    encoded = learned.read_all(texts)
    assert encoded == [learned.read(text) for text in texts]
    normal = [" ".join(unicodedata.normalize("NFC", text).split()) for text in texts]
    assert [learned.write(tokens) for tokens in encoded] == normal
    # Whatever the texts say, they have no <bos> in them.
    assert all(token > EOS for tokens in encoded for token in tokens)


def test_subwords_readable_pieces(learned: Subwords) -> None:
    assert len(learned.symbols) == 300 and len(learned.merges) == 300 - 256
    assert "".join(learned.readable(learned.read("Zwei Männer, 2"))) == "▁Zwei▁Männer,▁2"
    assert learned.write([*learned.read("a"), *learned.read("\n")]) == "a"
    # The two bytes of a character that is no piece are shown as the symbols that they are.
    assert learned.readable([0, *learned.read("aß"), 1]) == ["<bos>", "▁a", "Ã", "Ł", "<eos>"]


def test_subwords_are_restored_from_json(learned: Subwords) -> None:
    loaded = vocabulary_from_json(learned.to_json())
    assert loaded == learned == Subwords.learn(iter(TEXTS), 300) != Subwords.learn(TEXTS, 299)
    assert loaded.read(TEXTS[1]) == learned.read(TEXTS[1])
    two_ways_to_a_piece = Subwords([("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc")])
    assert two_ways_to_a_piece.symbols[-3:] == ("ab", "bc", "abc")


def test_subwords_need_tokenizers_only_for_texts(
    learned: Subwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    loaded = Subwords.from_json(learned.to_json())
    with pytest.raises(ImportError, match=r"tokenizers .*: pip install tokenizers"):
        loaded.read("a bike")
