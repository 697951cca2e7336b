"""The directive `run`: run a command of graphut, and show it, its output and its picture."""

import io
import os
import shlex
import shutil
from contextlib import redirect_stdout
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

from graphut.experiments.cli import main

EXAMPLES = Path(__file__).parents[1] / "examples"


class Run(SphinxDirective):
    """Run a command while the site is built; `alt` describes the picture that it draws.

    The commands of a page run in one folder, in which the checkout's `examples` are, too.
    """

    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"alt": directives.unchanged_required}  # noqa: RUF012, as docutils has it

    def run(self) -> list[nodes.Node]:
        """Return the command with its output, and the picture of its `--out`."""
        command = " ".join(self.arguments[0].split())
        words = shlex.split(command)
        folder = _folder(self.env, self.env.docname)
        text = f"$ {command}\n{self.output(words[1:], folder)}".rstrip()
        shown: list[nodes.Node] = [nodes.literal_block(text, text, language="console")]
        if "alt" in self.options:
            picture = folder / words[words.index("--out") + 1]
            page = Path(self.env.doc2path(self.env.docname)).parent
            uri = Path(os.path.relpath(picture, page)).as_posix()
            shown.append(nodes.image(uri=uri, alt=self.options["alt"]))
        return shown

    def output(self, arguments: list[str], folder: Path) -> str:
        """Return what a command prints in a folder; its failure is one of the build."""
        if not folder.exists():
            folder.mkdir(parents=True)
            (folder / "examples").symlink_to(EXAMPLES)
        before, printed = Path.cwd(), io.StringIO()
        os.chdir(folder)
        try:
            with redirect_stdout(printed):
                status = main(arguments)
        except SystemExit as stop:  # --help
            status = stop.code
        finally:
            os.chdir(before)
        if status != 0:
            raise self.error(f"graphut {shlex.join(arguments)} ended with the status {status}")
        return printed.getvalue()


def _folder(env: BuildEnvironment, page: str) -> Path:
    return Path(env.doctreedir, "commands", page)


def _remove(app: Sphinx, env: BuildEnvironment, page: str) -> None:
    """Remove the files of a page that is read again."""
    shutil.rmtree(_folder(env, page), ignore_errors=True)


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("run", Run)
    app.connect("env-purge-doc", _remove)
