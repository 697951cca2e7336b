from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count, product
from pathlib import Path
from random import Random
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from graphut.experiments.cli import main, train
from graphut.experiments.results.records import add_run
from graphut.experiments.tasks import TASK_PRESETS, Sort
from graphut.experiments.training import Run, TrainingConfig, is_run
from graphut.experiments.training.folder_lock import LOCK, FolderLock
from graphut.experiments.training.learners.pairs import PairLearner
from graphut.experiments.training.run_files import METRICS, model_digest, read_metrics
from tests.experiments.cli.tiny import MODEL, TINY

FLOAT32 = ["--precision", "float32"]
"""For processes that would measure which precision is faster: they may find different ones."""


def test_train_ends_with_the_test_set_and_a_few_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "copy", "--out", str(tmp_path / "run"), *TINY]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:8] for line in lines if line.startswith("epoch")] == ["epoch 1:", "epoch 2:"]
    assert "done after 2 epochs: all 2 epochs are done" in lines
    test = next(line for line in lines if line.startswith("test"))
    assert re.match(r"test, 4 sequences: [\d.]+% of sequences and [\d.]+% of tokens right", test)
    assert [line.split()[0] for line in lines[-5:] if line] == ["input", "steps", "output", "steps"]


def test_train_repeats_a_run_by_its_options(tmp_path: Path) -> None:
    first, again, other = (str(tmp_path / name) for name in ("first", "again", "other"))
    halting = ["--dropout", "0.1", "--halting-bias=-1e-05", "--evaluation-rule", "convergence"]
    assert main(["train", "sort", *TINY, *halting, "--seed", "3", "--out", first]) == 0
    argv = ["train", "sort", "--config", f"{first}/options.yaml", "--device", "cpu", "--out"]
    assert main([*argv, again]) == 0
    assert_same_run(Path(again), Path(first))
    for name in ("options.yaml", "run.json", "config.json", "evaluation-test.json"):
        assert Path(again, name).read_bytes() == Path(first, name).read_bytes()
    assert main([*argv, other, "--epochs", "1"]) == 0
    assert Run.open(other).options == Run.open(first).options | {"epochs": 1}


@pytest.mark.parametrize(("gain", "taken"), [(2.5, "bfloat16"), (1.05, "float32")])
def test_train_takes_bfloat16_where_it_is_faster_and_says_so(
    gain: float,
    taken: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(train, "multiplies_bfloat16", lambda: True)
    monkeypatch.setattr(train, "bfloat16_gain", lambda *given: gain)
    measured, asked = str(tmp_path / "measured"), str(tmp_path / "asked")
    argv = ["train", "copy", *TINY, "--device", "cpu", "--out"]
    assert main([*argv, measured]) == 0
    assert f"precision {taken}: bfloat16 is {gain:.2f} times as fast" in capsys.readouterr().out
    assert Run.open(measured).training.precision == taken
    assert main([*argv, asked, "--precision", taken]) == 0
    assert "times as fast" not in capsys.readouterr().out
    assert_same_run(Path(measured), Path(asked))
    monkeypatch.setattr(train, "bfloat16_gain", lambda *given: 1 / gain)
    assert main([*argv, measured, "--resume", "--epochs", "3"]) == 0
    assert Run.open(measured).training.precision == taken  # a run stays with what it began with


def test_train_repeats_a_run_that_began_with_the_weights_of_another(
    tmp_path: Path, finished_run: Path
) -> None:
    first, again = str(tmp_path / "first"), str(tmp_path / "again")
    begin = ["train", "sort", *TINY, "--init-from", str(finished_run), "--out"]
    assert main([*begin, first]) == 0
    argv = ["train", "sort", "--config", f"{first}/options.yaml", "--device", "cpu", "--out"]
    assert main([*argv, again]) == 0
    assert_same_run(Path(again), Path(first))


def test_train_passes_options_to_the_run(finished_run: Path) -> None:
    run = Run.open(finished_run)
    assert run.task() == Sort(mean_length=3, length_deviation=1, epoch_size=16, held_out=4)
    tuned = {
        name: TASK_PRESETS["sort"]["small"][name] for name in ("learning_rate", "ponder_weight")
    }
    assert run.training == TrainingConfig(batch_size=8, epochs=2, **tuned)
    assert run.model().config.d_model == 8


def test_train_prefers_an_option_to_a_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preset = {"patience": 5, "batch_size": 3, "d_model": 16, "short_share": 0.5}
    monkeypatch.setitem(TASK_PRESETS, "copy", {"small": {"patience": 6}, "huge": preset})
    main(["train", "copy", "--preset", "huge", "--out", str(tmp_path / "run"), *TINY])
    run = Run.open(tmp_path / "run")
    assert (run.training.patience, run.training.batch_size) == (5, 8)
    assert run.model().config.d_model == 8
    assert run.task_options["short_share"] == 0.5


def test_train_refuses_to_resume_with_another_preset(
    finished_run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(TASK_PRESETS, "sort", {"large": {"d_model": 512}})
    argv = ["train", "sort", "--out", str(finished_run), "--resume", "--preset", "large"]
    assert main(argv) == 2
    assert "began with d_model 8: it cannot be resumed with 512" in capsys.readouterr().err


def test_train_on_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"a {'b ' * n}\t{'y ' * n}x\n" for n in range(1, 20)))
    options = [text for text in TINY if text != "--held-out"]
    start = options.index("--batch-size")
    monkeypatch.chdir(tmp_path)
    argv = ["train", "pairs", "--data", "pairs.tsv", "--out", str(tmp_path / "run")]
    assert main([*argv, *options[start:]]) == 0
    assert main([*argv, "--resume"]) == 0
    path.unlink()
    assert main(["generate", str(tmp_path / "run"), "a b b"]) == 0
    assert "input   a b b" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["sort", "--minutes", "0"], "--minutes must be positive, got 0.0"),
        (["sort", "--accumulate", "0"], "--accumulate must be at least 1, got 0"),
        (["sort", "--epochs", "0"], "epochs must be positive; got 0"),
        (["sort", "--data", "x.tsv"], "--data is no option of the task sort"),
        (["pairs", "--epoch-size", "3"], "--epoch-size is no option of the task pairs"),
        (["sort", "--preset", "huge"], "the task sort has no preset 'huge'; it has: small"),
        (["pairs", "--preset", "x", "--data", "x"], "pairs has no preset 'x'; it has none"),
        (["pairs"], "--data is missing: file of pairs"),
        (["scan"], "--data is missing: folder of SCAN, from https://"),
        (["scan", "--data", "."], "there is no"),
        (["pairs", "--data", "nowhere.tsv"], "nowhere.tsv"),
        (["sort", "--device", "abacus"], '--device must be "cpu", "cuda" or'),
        (["sort", "--resume"], "there is no run in"),
    ],
)
def test_train_refuses_bad_input_in_one_line(
    tmp_path: Path, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *argv, "--out", str(tmp_path / "run")]) == 2
    text = capsys.readouterr().err
    assert text.startswith("graphut: ") and message in text
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("length", "most", "options"),
    [
        (100_000, 10_000, []),
        (5000, 4000, ["--max-length", "4000"]),
        (4000, 3998, ["--max-length", "4000", "--frame-source"]),
    ],
)
def test_train_names_a_line_that_is_too_long(
    tmp_path: Path,
    length: int,
    most: int,
    options: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tx\n" * 20 + f"{'a ' * length}\tx\n" + "a a\tx\n" * 20)
    argv = ["train", "pairs", "--data", str(path), "--out", str(tmp_path / "run"), *options]
    assert main(argv) == 2
    assert capsys.readouterr().err == (
        f"graphut: {path}:21: the source has {length} tokens, but the model takes {most} at most: "
        "shorten it, or train a model with a larger max_length\n"
    )
    assert not (tmp_path / "run").exists()


def test_train_takes_lines_as_long_as_the_model(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(f"{'a ' * 20}\t{'x ' * 19}\n" + "a\t\na a\tx\n")
    argv = ["train", "pairs", "--data", str(path), "--out", str(tmp_path / "run")]
    assert main([*argv, *MODEL, "--max-length", "20"]) == 0


def test_train_says_that_memory_is_too_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(PairLearner, "outcome", lambda *batch: torch.empty(2**50))
    assert main(["train", "sort", "--out", str(tmp_path / "run"), *TINY]) == 2
    said = capsys.readouterr().err
    assert said.startswith("graphut: too little memory: try a smaller --batch-size")
    assert said.count("\n") == 1


def test_train_gives_a_run_a_folder_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine")
    for out in ("", str(tmp_path / "file")):
        assert main(["train", "sort", "--out", out]) == 2
        assert f"--out must be a folder, there already or not yet; got {out!r}" in (
            capsys.readouterr().err
        )


def test_train_removes_a_run_that_learned_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["train", "sort", "--out", str(tmp_path / "run"), *TINY]
    assert main([*argv, "--max-length", "2"]) == 2
    assert "the model takes 2 at most" in capsys.readouterr().err
    assert main(argv) == 0


def test_train_removes_a_run_interrupted_at_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(run: Run) -> None:
        raise KeyboardInterrupt

    argv = ["train", "sort", "--out", str(tmp_path / "run"), *TINY]
    with monkeypatch.context() as patched:
        patched.setattr(Run, "model", interrupted)
        assert main(argv) == 130
    assert main(argv) == 0


@pytest.mark.parametrize(
    "removed", [["checkpoint.safetensors"], ["checkpoint.safetensors", "run.json"]]
)
def test_train_begins_where_it_was_killed_before_the_first_checkpoint(
    tmp_path: Path, removed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["train", "sort", *TINY, "--dropout", "0.1", "--out"]
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    assert main([*argv, str(straight)]) == 0
    assert main([*argv, str(killed), "--minutes", "1e-9"]) == 0
    for name in removed:
        (killed / name).unlink()
    begin = [*argv, str(killed)]
    if "run.json" not in removed:
        assert main(begin) == 2
        assert "--resume it" in capsys.readouterr().err
        begin = ["train", "sort", "--resume", "--device", "cpu", "--out", str(killed)]
    assert main(begin) == 0
    assert_same_run(killed, straight)


def assert_same_run(folder: Path, other: Path) -> None:
    """The same model, training state and metrics, but for the time; and nothing else is left."""
    models = [(each / "model.safetensors").read_bytes() for each in (folder, other)]
    assert models[0] == models[1]
    states = [load_file(each / "checkpoint.safetensors") for each in (folder, other)]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    lines = [read_metrics(each / METRICS) for each in (folder, other)]
    assert [x | {"seconds": 0} for x in lines[0]] == [x | {"seconds": 0} for x in lines[1]]
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.full)])
def test_train_goes_on_after_kills_while_saving(tmp_path: Path, kills: int) -> None:
    code = (
        "import sys; from graphut.experiments.cli import main\n"
        "from graphut.experiments.training import trainer; trainer.SAVE_EVERY = 0.0\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    begin = ["train", "sort", *TINY, *FLOAT32, "--dropout", "0.1", "--epochs", "40"]
    resume = ["train", "sort", "--device", "cpu", "--resume"]
    random, folder = Random(kills), tmp_path / "killed"
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # as here: others sum in another order
    assert main([*begin, "--out", str(tmp_path / "straight")]) == 0
    for _ in range(kills):
        argv = [*(resume if is_run(folder) else begin), "--out", str(folder)]
        with subprocess.Popen([sys.executable, "-c", code, *argv], env=one_thread) as process:
            before = (folder / "machines.json").exists() and (folder / "run.json").stat().st_mtime
            while process.poll() is None:
                now = (folder / "machines.json").exists() and (folder / "run.json").stat().st_mtime
                if now != before:  # it has begun to train
                    break
            time.sleep(random.uniform(0, 0.5))
            process.kill()
    assert main([*(resume if is_run(folder) else begin), "--out", str(folder)]) == 0
    assert_same_run(folder, tmp_path / "straight")


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


@pytest.mark.parametrize(
    ("numbers", "points"),
    [([signal.SIGTERM], 1), pytest.param(SIGNALS, 20, marks=pytest.mark.full)],
)
def test_train_goes_on_after_a_signal_at_any_moment(
    tmp_path: Path, numbers: Sequence[signal.Signals], points: int
) -> None:
    begin = ["train", "sort", *TINY, *FLOAT32, "--dropout", "0.1", "--epochs", "12", "--out"]
    resume = ["train", "sort", "--device", "cpu", "--resume", "--out"]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # as here: others sum in another order

    def run(folder: Path, seconds: float, number: signal.Signals) -> float:
        """Stop a run so many seconds after its folder is there; return those that it took."""
        command = [sys.executable, "-m", "graphut", *begin, str(folder)]
        with subprocess.Popen(command, env=one_thread, stderr=subprocess.PIPE) as process:
            while not folder.exists():
                assert process.poll() is None
            start = time.monotonic()
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            process.send_signal(number)
            assert process.stderr and process.stderr.read() == b""
            assert process.wait() in (0, -number, 128 + number)
        return time.monotonic() - start

    seconds = run(tmp_path / "straight", 600.0, signal.SIGKILL)
    for number, point in product(numbers, range(points)):
        folder = tmp_path / f"{number.name}-{point}"
        run(folder, seconds * (point + 0.5) / points, number)
        assert main([*(resume if is_run(folder) else begin), str(folder)]) == 0
        assert_same_run(folder, tmp_path / "straight")


def test_train_goes_on_where_a_file_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["train", "sort", *TINY, "--dropout", "0.1", "--out"]
    straight, full = tmp_path / "straight", tmp_path / "full"
    assert main([*argv, str(straight)]) == 0
    updates, outcome = count(1), PairLearner.outcome
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def outcome_without_room(*args: Any) -> Any:
        if next(updates) == 4:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        return outcome(*args)

    monkeypatch.setattr(PairLearner, "outcome", outcome_without_room)
    assert main([*argv, str(full)]) == 2
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert re.search(
        rf"graphut: .*cannot write {full}/\S+: File too large: raise", capsys.readouterr().err
    )
    assert main([*argv, str(full), "--resume"]) == 0
    assert_same_run(full, straight)


@pytest.fixture
def read_only(finished_run: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The current folder holds a run, nobody may write there, and this process is not root.

    ``monkeypatch`` is asked for here, so that it goes back to the former folder, where perhaps
    only root may go, after this process is root again.
    """
    with TemporaryDirectory() as folder:
        copytree(finished_run, Path(folder, "run"))
        for path in (Path(folder), Path(folder, "run")):
            path.chmod(0o555)
        monkeypatch.chdir(folder)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        yield
        os.seteuid(user)
        Path(folder, "run").chmod(0o755)


@pytest.mark.parametrize(
    ("argv", "file"),
    [
        (["train", "sort", *TINY, "--out", "new"], "new"),
        (["train", "sort", "--device", "cpu", "--resume", "--out", "run"], "run/lock"),
        (["eval", "run", "--device", "cpu"], "run/evaluation-test.json"),
        (["generate", "run", "b a", "--device", "cpu"], None),
        (["info", "run"], None),
    ],
)
def test_train_and_eval_say_that_a_folder_is_read_only(
    finished_run: Path,
    tmp_path: Path,
    argv: list[str],
    file: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    copytree(finished_run, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    main(argv)  # imports all that the command needs, from where perhaps only root may read
    capsys.readouterr()
    request.getfixturevalue("read_only")
    assert main(argv) == (2 if file else 0)
    message = f"graphut: cannot write {file}: Permission denied: name a folder in which"
    said = capsys.readouterr().err
    assert said.startswith(message) if file else not said


def test_train_says_that_a_folder_cannot_be_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "run"
    assert main(["train", "sort", "--out", str(folder), *TINY]) == 2
    assert f"cannot write {folder}: Not a directory: name a folder" in capsys.readouterr().err


def test_train_says_that_the_checkpoint_is_gone(
    tmp_path: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copytree(finished_run, tmp_path / "run")
    (folder / "checkpoint.safetensors").unlink()
    assert main(["train", "sort", "--out", str(folder), "--resume"]) == 2
    assert "checkpoint.safetensors: put it back, or begin in" in capsys.readouterr().err


def test_train_trains_a_finished_run_longer(
    tmp_path: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copytree(finished_run, tmp_path / "run")
    argv = ["train", "sort", "--out", str(folder), "--resume", "--device", "cpu"]
    assert main([*argv, "--epochs", "1"]) == 2
    assert "began with epochs 2: it cannot be resumed with 1" in capsys.readouterr().err
    assert main([*argv, "--epochs", "4", "--patience", "30"]) == 0
    said = capsys.readouterr().out
    assert "goes on after update 4, 2 epochs and 0 batches" in said and "nothing is lost" in said
    assert "done after 4 epochs: all 4 epochs are done" in said
    assert [line["update"] for line in read_metrics(folder / METRICS)] == [2, 4, 6, 8]
    run = Run.open(folder)
    assert (run.training.epochs, run.training.patience) == (4, 30)
    [event] = run.history
    assert event["longer"] == {"epochs": 4, "patience": 30} and event["before"]["epochs"] == 2
    for _ in range(2):
        assert main(argv) == 0 and Run.open(folder) == run
        assert "nothing is lost" in capsys.readouterr().out
    assert main(["info", str(folder)]) == 0
    first, more = re.findall("command   (.*)", capsys.readouterr().out)
    assert "--epochs 2 " in first
    assert more == "graphut train sort --resume --epochs 4 --patience 30 --out RUN"
    with pytest.raises(ValueError, match="was made longer: no table has a place for it"):
        add_run(folder, tmp_path / "records")


def test_train_begins_with_the_weights_of_another_run(
    tmp_path: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    begin = ["train", "sort", "--out", str(folder), *TINY, "--minutes", "1e-9"]
    assert main([*begin, "--init-from", str(finished_run)]) == 0
    run, other = Run.open(folder), Run.open(finished_run)
    expected = other.model().state_dict()
    assert all(torch.equal(v, expected[name]) for name, v in run.model().state_dict().items())
    digest = model_digest(finished_run)
    assert run.history == [{"init_from": str(finished_run.resolve()), "model": digest}]
    assert main(["info", str(folder)]) == 0
    assert f" --out RUN --init-from DATA/{finished_run.name}\n" in capsys.readouterr().out
    resume = ["--resume", "--config", str(folder / "options.yaml"), "--device", "cpu"]
    assert main(["train", "sort", "--out", str(folder), *resume]) == 0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["sort", *TINY, "--d-model", "16"], "the configuration makes it"),
        (["algorithmic-addition", "--device", "cpu"], "the symbols of the run in"),
        (["sort", *TINY, "--resume"], "--init-from begins a run: leave out --resume"),
        (["sort", *TINY, "--init-from", "nowhere"], "nowhere is not a model: it has no config"),
    ],
)
def test_train_refuses_weights_of_another_shape(
    tmp_path: Path,
    finished_run: Path,
    argv: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = ["--out", str(tmp_path / "run"), "--init-from", str(finished_run)]
    assert main(["train", *out, *argv]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_train_says_how_a_model_was_that_it_begins_with(
    tmp_path: Path, finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["train", "sort", "--out", str(tmp_path / "run"), *TINY, "--num-heads", "4"]
    assert main([*argv, "--init-from", str(finished_run), "--minutes", "1e-9"]) == 0
    assert f"the model in {finished_run} had num_heads 2\n" in capsys.readouterr().out


def test_train_draws_examples_once_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    draw = Sort.train
    monkeypatch.setattr(
        Sort, "train", lambda task, seed, epoch: drawn.append(epoch) or draw(task, seed, epoch)
    )
    assert main(["train", "sort", "--out", str(tmp_path / "run"), *TINY, "--epochs", "2"]) == 0
    assert drawn == [0, 1]


def test_train_resumes_a_run_older_than_an_option(tmp_path: Path, finished_run: Path) -> None:
    path = Path(copytree(finished_run, tmp_path / "run"), "run.json")
    state = json.loads(path.read_text())
    del state["task_options"]["fixed"]
    path.write_text(json.dumps(state))
    assert main(["train", "sort", "--out", str(path.parent), "--resume"]) == 0


def test_train_leaves_a_run_alone_that_another_process_began(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FolderLock(tmp_path):
        assert main(["train", "sort", "--out", str(tmp_path), *TINY]) == 2
    assert "another process is training" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


@pytest.mark.parametrize("pairs", [1, pytest.param(24, marks=pytest.mark.full)])
def test_train_begins_one_run_of_two_that_start_at_the_same_moment(
    tmp_path: Path, pairs: int
) -> None:
    for number in range(pairs):
        folder = tmp_path / str(number)
        argv = [sys.executable, "-m", "graphut", "train", "sort", *TINY, "--out", str(folder)]
        started = [
            subprocess.Popen([*argv, "--seed", str(seed), "--minutes", "1e-9"]) for seed in (0, 1)
        ]
        ends = [process.wait(timeout=120) for process in started]
        assert sorted(ends) == [0, 2]
        run = Run.open(folder)
        assert run.training.seed == ends.index(0)
        model = run.model()
        torch.manual_seed(run.training.seed)
        first = type(model)(model.config).state_dict()
        found = model.state_dict()
        assert all(torch.equal(found[name], first[name]) for name in first)
        checkpoint = load_file(folder / "checkpoint.safetensors")
        assert all(torch.equal(checkpoint[f"model.{name}"], first[name]) for name in first)


def test_train_leaves_a_folder_with_a_run_alone(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in finished_run.iterdir()}
    assert main(["train", "sort", "--out", str(finished_run)]) == 2
    assert "--resume it, or give another --out" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in finished_run.iterdir()} == before


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["sort", "--batch-size", "9"], "began with batch_size 8: it cannot be resumed with 9"),
        (["sort", "--d-model", "16"], "began with d_model 8"),
        (["sort", "--held-out", "5"], "began with held_out 4"),
        (["copy"], "began with task sort: it cannot be resumed with copy"),
    ],
)
def test_train_resumes_a_run_as_it_began(
    finished_run: Path, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *argv, "--out", str(finished_run), "--resume"]) == 2
    assert message in capsys.readouterr().err


def test_train_resumes_after_data_was_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"a {'b ' * n}\t{'y ' * n}x\n" for n in range(1, 20)))
    options = TINY[TINY.index("--batch-size") :]
    run = ["--out", str(tmp_path / "run")]
    assert main(["train", "pairs", "--data", str(path), *run, *options]) == 0
    new = path.rename(tmp_path / "moved.tsv")
    assert main(["eval", str(tmp_path / "run")]) == 2
    hint = f"train pairs --resume --data PATH --out {tmp_path / 'run'}"
    assert f"there is no {path} any more" in (said := capsys.readouterr().err) and hint in said
    other = tmp_path / "other.tsv"
    other.write_text(new.read_text().replace("b", "a", 1))
    assert main(["train", "pairs", "--data", str(other), *run, "--resume"]) == 2
    assert "other.tsv has changed since the run" in capsys.readouterr().err
    assert main(["train", "pairs", "--data", str(new), *run, "--resume"]) == 0
    assert main(["eval", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_train_stops_on_a_signal_ready_to_be_resumed(
    tmp_path: Path,
    number: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "my run"
    losses = []

    outcome = PairLearner.outcome

    def outcome_with_signal(*args: Any) -> Any:
        losses.append(outcome(*args))
        if len(losses) == 3:
            signal.raise_signal(number)
        return losses[-1]

    monkeypatch.setattr(PairLearner, "outcome", outcome_with_signal)
    assert main(["train", "copy", "--out", str(folder), *TINY]) == 128 + number
    hint = f"to go on: graphut train copy --out '{folder}' --resume"
    assert hint in capsys.readouterr().out
    assert len(losses) == 3

    monkeypatch.undo()
    assert main(["train", "copy", "--out", str(folder), "--resume", "--device", "cpu"]) == 0
    assert "test, 4 sequences" in capsys.readouterr().out
    assert [line["update"] for line in read_metrics(folder / METRICS)] == [2, 4]


PROCESSES = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.mark.parametrize(
    ("last_act", "message"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "Signal 9 (SIGKILL) received"),
        pytest.param(
            "raise ValueError('no luck')", "graphut: no luck", marks=pytest.mark.full, id="error"
        ),
    ],
)
def test_train_with_two_processes_of_which_one_dies_and_resume_with_one(
    tmp_path: Path, last_act: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = (
        "import os, signal, sys\n"
        "from graphut.experiments.cli import main\n"
        "from graphut.experiments.training.gradient import BatchGradient\n"
        "add, updates = BatchGradient.add, []\n"
        "def add_until_death(*args):\n"
        "    updates.append(args)\n"
        f"    if len(updates) == 4 and os.environ['RANK'] == '1': {last_act}\n"
        "    return add(*args)\n"
        "BatchGradient.add = add_until_death\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    argv = ["train", "sort", *TINY, *FLOAT32, "--batch-size", "7", "--epochs", "3", "--out"]
    alone, together = tmp_path / "alone", tmp_path / "together"
    assert main([*argv, str(alone)]) == 0
    found = subprocess.run(
        [*PROCESSES, "--no-python", sys.executable, "-c", code, *argv, str(together)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode != 0 and message in found.stderr
    assert found.stdout.count("updates in an epoch") == found.stdout.count("epoch 1: ") == 1
    assert len(read_metrics(together / METRICS)) == 1
    capsys.readouterr()
    assert main(["train", "sort", "--resume", "--device", "cpu", "--out", str(together)]) == 0
    assert "goes on after update 3, 1 epochs and 0 batches" in capsys.readouterr().out
    losses = [[line["loss"] for line in read_metrics(run / METRICS)] for run in (alone, together)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.full
def test_train_with_two_processes_ends_as_with_one(tmp_path: Path) -> None:
    argv = ["train", "sort", *TINY, *FLOAT32, "--batch-size", "7", "--accumulate", "2", "--out"]
    alone, together = tmp_path / "alone", tmp_path / "together"
    assert main([*argv, str(alone)]) == 0
    subprocess.run([*PROCESSES, "-m", "graphut", *argv, str(together)], check=True)
    names = [sorted(path.name for path in run.iterdir()) for run in (alone, together)]
    assert names[0] == names[1]
    first, second = (
        json.loads((run / "evaluation-test.json").read_text()) for run in (alone, together)
    )
    assert first["examples"] == second["examples"] == 4
    for name in PairLearner.metric_meanings:
        assert first[name] == pytest.approx(second[name], rel=1e-4)


def test_train_accumulates(tmp_path: Path) -> None:
    losses = []
    for parts in ("1", "3"):
        folder = tmp_path / parts
        assert main(["train", "sort", *TINY, "--accumulate", parts, "--out", str(folder)]) == 0
        losses.append([line["loss"] for line in read_metrics(folder / METRICS)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_train_stops_after_minutes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["train", "copy", "--out", str(tmp_path / "run"), "--minutes", "1e-9", *TINY]
    assert main(argv) == 0
    text = capsys.readouterr().out
    announced, stopped = text.splitlines()
    assert re.fullmatch(
        r"[\d,]+ weights on \w+; 2 updates in an epoch, 2 epochs at most", announced
    )
    assert stopped.startswith("stopped; to go on: graphut train copy")
    assert not (tmp_path / "run" / METRICS).exists()


@pytest.mark.parametrize("command", [["eval"], ["generate", "a"]])
def test_generate_and_eval_need_an_epoch_done(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    name, *text = command
    folder = str(tmp_path / "run")
    assert main(["train", "copy", "--out", folder, "--minutes", "1e-9", *TINY]) == 0
    assert main([name, folder, *text]) == 2
    hint = f"there is no model yet: graphut train copy --out {folder} --resume"
    assert hint in capsys.readouterr().err


def test_train_keeps_what_was_saved_before_it_diverged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["train", "sort", "--out", str(tmp_path / "run"), *TINY]
    norms = iter([torch.tensor(1.0), torch.tensor(float("nan"))])
    with monkeypatch.context() as patched:
        patched.setattr("graphut.experiments.training.trainer.SAVE_EVERY", 0.0)
        patched.setattr(
            "graphut.experiments.training.trainer.clip_grad_norm_", lambda *args: next(norms)
        )
        assert main(argv) == 2
    assert "update 1 is saved in" in capsys.readouterr().err
    assert main([*argv, "--resume"]) == 0
    assert main(["info", str(tmp_path / "run")]) == 0


def test_train_removes_a_run_that_diverges_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["train", "sort", "--out", str(tmp_path / "run"), *TINY]
    norms = iter([torch.tensor(1.0), torch.tensor(float("inf"))])
    with monkeypatch.context() as patched:
        patched.setattr(
            "graphut.experiments.training.trainer.clip_grad_norm_", lambda *args: next(norms)
        )
        assert main(argv) == 2
    assert "try a lower learning_rate" in capsys.readouterr().err
    assert main(argv) == 0
