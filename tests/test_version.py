from importlib.metadata import version

from graphut._version import __version__


def test_version_is_that_of_the_installed_package() -> None:
    assert version("graphut") == __version__
