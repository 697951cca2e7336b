"""A translation task with few lines, which needs no files."""

from dataclasses import dataclass

from graphut.experiments.tasks import option
from graphut.experiments.tasks.translation import TranslationTask

ENGLISH = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
GERMAN = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]
LINES = {
    "train.en": ENGLISH,
    "train.de": GERMAN,
    "validation.en": ["two one", "A & B"],
    "validation.de": ["zwei eins", "A & B"],
    "test.en": ["ten\u2028nine", "one"],
    "test.de": ["zehn neun", "eins"],
}


@dataclass(frozen=True)
class Numbers(TranslationTask):
    """Numbers in English and German."""

    name = "numbers-of-tests"

    data: str = option(".", "not read")

    def read_sentences(self, part: str, language: str) -> list[str]:
        return LINES[f"{part}.{language}"]
