"""Files in the places of WMT14's, with few lines."""

from pathlib import Path

TRAIN = ("commoncrawl.de-en", "europarl-v7.de-en", "news-commentary-v9.de-en")
NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
ZAHLEN = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]


def write(folder: Path, name: str, english: list[str], german: list[str]) -> None:
    for language, lines in (("en", english), ("de", german)):
        (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines))


def write_corpora(folder: Path) -> Path:
    """Ten training pairs in three corpora, two validation and two test pairs."""
    for name, some in zip(TRAIN, (slice(0, 5), slice(5, 9), slice(9, 10)), strict=True):
        write(folder, name, NUMBERS[some], ZAHLEN[some])
    write(folder, "newstest2013", ["two one", "A &amp; B"], ["zwei eins", "A &amp; B"])
    write(folder, "newstest2014", ["ten\u2028nine", "one"], ["zehn neun", "eins"])
    return folder
