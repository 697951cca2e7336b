import re
import sys
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from graphut._tokens import EOS
from graphut.subwords import Subwords
from graphut.vocabulary import Vocabulary
from tests.helpers import refuses

TEXTS = [
    "A man rides a bike.",
    "Ein Mann fährt auf einem Fahrrad.",
    "Two men are riding two bikes, aren't they?",
    "Zwei Männer fahren auf zwei Fahrrädern.",
    "A man's bike; Männer mit Fahrrädern",
] * 2
# The words that byte-level encodings join nothing across, as in GPT-2's published encoder.
WORD = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")

Word = tuple[bytes, ...]


def words(text: str) -> list[Word]:
    """A text as words, each of single bytes."""
    plain = " ".join(unicodedata.normalize("NFC", text).split())
    pieces = WORD.findall(f" {plain}" if plain else "")
    return [tuple(bytes([byte]) for byte in word.encode()) for word in pieces]


def join(word: Word, pair: tuple[bytes, bytes]) -> Word:
    """Join a pair wherever it stands, from the left."""
    pieces: list[bytes] = []
    for piece in word:
        if pieces and (pieces[-1], piece) == pair:
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return tuple(pieces)


def bytes_of(subwords: Subwords) -> dict[str, bytes]:
    """The bytes of each symbol: of one that is a byte, by the published mapping."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in visible]
    table = {chr(byte): bytes([byte]) for byte in visible}
    table |= {chr(256 + i): bytes([byte]) for i, byte in enumerate(others)}
    return {symbol: b"".join(table[c] for c in symbol) for symbol in subwords.symbols}


def by_hand(subwords: Subwords, text: str) -> list[bytes]:
    """The pieces of a text: at each merge's turn, wherever it is the earliest one left."""
    of = bytes_of(subwords)
    merges = [(of[first], of[second]) for first, second in subwords.merges]
    rank = {merge: place for place, merge in reversed(list(enumerate(merges)))}
    pieces: list[bytes] = []
    for word in words(text):
        while ranks := [rank[pair] for pair in pairwise(word) if pair in rank]:
            word = join(word, merges[min(ranks)])
        pieces += word
    return pieces


@pytest.fixture(scope="module")
def learned() -> Subwords:
    return Subwords.learn(TEXTS, 300)


def test_subwords_learn_joins_nothing_that_comes_once() -> None:
    assert Subwords.learn(["abc"], 300).merges == Subwords.learn([], 300).merges == ()
    refuses("subwords must be more than the 256 bytes; got 256", Subwords.learn, TEXTS, 256)


SENTENCES = st.one_of(
    st.text(max_size=30),
    st.text(alphabet="aeinrdtM F'ä.\t<bos>", max_size=60),
    st.lists(st.sampled_from(TEXTS), max_size=3).map(" ".join),
)
# Python counts these as white space, Unicode does not.
SEPARATORS = re.compile("[\x1c-\x1f]")


@given(SENTENCES.filter(lambda text: not SEPARATORS.search(text)))
def test_subwords_read_is_the_same_by_hand(learned: Subwords, text: str) -> None:
    of = bytes_of(learned)
    tokens = learned.read(text)
    assert [of[symbol] for symbol in learned.decode(tokens)] == by_hand(learned, text)
    assert all(token > EOS for token in tokens)  # whatever the text says, it has no <bos> in it


@given(st.lists(SENTENCES, max_size=4))
def test_subwords_write_gives_back_what_was_read(learned: Subwords, texts: list[str]) -> None:
    encoded = learned.read_all(texts)
    assert encoded == [learned.read(text) for text in texts]
    normal = [" ".join(unicodedata.normalize("NFC", text).split()) for text in texts]
    assert [learned.write(tokens) for tokens in encoded] == normal


def test_subwords_readable_pieces(learned: Subwords) -> None:
    assert len(learned.symbols) == 300 and len(learned.merges) == 300 - 256
    assert "".join(learned.readable(learned.read("Zwei Männer, 2"))) == "▁Zwei▁Männer,▁2"
    assert learned.write([*learned.read("a"), *learned.read("\n")]) == "a"
    # The two bytes of a character that is no piece are shown as the symbols that they are.
    assert learned.readable([0, *learned.read("aß"), 1]) == ["<bos>", "▁a", "Ã", "Ł", "<eos>"]


def test_subwords_save_and_load(learned: Subwords, tmp_path: Path) -> None:
    learned.save(tmp_path / "subwords.json")
    loaded = Vocabulary.load(tmp_path / "subwords.json")
    assert loaded == learned == Subwords.learn(iter(TEXTS), 300) != Subwords.learn(TEXTS, 299)
    assert loaded.read(TEXTS[1]) == learned.read(TEXTS[1])
    two_ways_to_a_piece = Subwords([("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc")])
    assert two_ways_to_a_piece.symbols[-3:] == ("ab", "bc", "abc")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"merges": [["a", "b"]]}', ""),
        ('{"merges": ["ab"]}', "'ab ' joins the unknown symbol 'ab'"),
        ('{"merges": ["a b", "ab cd"]}', "'ab cd' joins the unknown symbol 'cd'"),
    ],
)
def test_subwords_load_refuses_other_files(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "vocabulary.json"
    path.write_text(content)
    refuses(rf"vocabulary\.json is not a vocabulary: {message}", Subwords.load, path)


def test_subwords_need_tokenizers_only_for_texts(
    learned: Subwords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned.save(tmp_path / "subwords.json")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    loaded = Subwords.load(tmp_path / "subwords.json")
    with pytest.raises(ImportError, match=r"tokenizers .*: pip install tokenizers"):
        loaded.read("a bike")
