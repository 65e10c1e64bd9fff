"""`mdvpf filter` and `mdvpf inspect`: output, checkpoints and exit codes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

import mdvpf
from mdvpf.checkpoint import Generations
from mdvpf.cli import main
from mdvpf.cli.stop import Stop
from mdvpf.mixture.base import MixtureBase
from mdvpf.streams.filter_run import FilterRun
from mdvpf.streams.line_buffer import LONGEST_LINE
from mdvpf.streams.monitor import Monitor

pytest.importorskip("typer")

Run = Callable[..., tuple[int, list[dict[str, Any]], str]]
SINGLE = ["--symbols", "4", "-K", "30", "--beta", "0.1"]
MODEL = [*SINGLE, "--method", "MD-VPA"]
MIXED = ["--symbols", "4", "-K", "100"]  # through the default mixture
COMMAND = [sys.executable, "-m", "mdvpf"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `mdvpf filter`; return the exit code, the printed objects and standard error."""

    def run_filter(text: str | bytes, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
        content = text.encode() if isinstance(text, str) else text
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        code = main(["filter", *arguments])
        printed = capsys.readouterr()
        return code, [json.loads(line) for line in printed.out.splitlines()], printed.err

    return run_filter


def stream(n: int = 60) -> list[int]:
    return [int(x) for x in np.cumsum(np.random.default_rng(3).integers(1, 3, n)) % 4]


def lines(symbols: list[int]) -> str:
    return "".join(f"{symbol}\n" for symbol in symbols)


def begun() -> mdvpf.ParticleFilter:
    return mdvpf.ParticleFilter(mdvpf.InfiniteHMM(4, beta=0.1), n_particles=30)


def test_reports_are_what_the_filter_and_the_detector_say(run: Run) -> None:
    symbols = stream()
    code, reports, _ = run(lines(symbols), *MODEL)
    assert code == 0
    pf, detector = begun(), mdvpf.SurpriseDetector(begun())
    for i, (symbol, report) in enumerate(zip(symbols, reports, strict=True)):
        expected = pf.predict_proba()
        step = pf.update(symbol)
        detection = detector.update(symbol)
        assert report["line"] == i + 1
        assert report["symbol"] == symbol
        assert report["log_predictive"] == step.log_predictive
        assert report["surprise"] == detection.surprise
        assert report["alarm"] == detection.alarm
        assert report["mean_states"] == step.mean_states
        named = [(each["symbol"], each["probability"]) for each in report["expected"]]
        assert named == sorted(enumerate(expected.tolist()), key=lambda pair: -pair[1])[:3]


def test_by_default_symbols_go_through_the_default_mixture(run: Run) -> None:
    symbols = stream()
    code, reports, _ = run(lines(symbols), *MIXED, "--seed", "5")
    assert code == 0
    mixture = mdvpf.auto(4, 100, rng=5)
    for symbol, report in zip(symbols, reports, strict=True):
        expected = mixture.predict_proba()
        step = mixture.update(symbol)
        assert report["log_predictive"] == step.log_predictive
        assert report["mean_states"] == step.mean_states
        assert report["expected"][0]["probability"] == expected.max()


def weighted(mixture: MixtureBase) -> list[tuple[float, mdvpf.Predictor]]:
    """Return the simple members of nested mixtures, with their weights in the whole."""
    found = []
    for weight, member in zip(mixture.weights, mixture.members, strict=True):
        inside = weighted(member) if isinstance(member, MixtureBase) else [(1.0, member)]
        found += [(weight * w, leaf) for w, leaf in inside]
    return found


def test_without_filters_there_is_no_number_of_states(run: Run, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    mdvpf.Mixture([mdvpf.Markov(2), mdvpf.ContextTree(2)]).save(kept)
    _, reports, _ = run("0\n1\n", "--checkpoint", str(kept), "--resume")
    assert [report["mean_states"] for report in reports] == [None, None]


def test_alarms_at_a_wanted_rate(run: Run) -> None:
    rng = np.random.default_rng(1)
    symbols = rng.integers(0, 4, 1500).tolist()
    _, reports, _ = run(lines(symbols), *MODEL, "--false-alarms", "0.2")
    share = np.mean([report["alarm"] for report in reports])
    assert 0.1 < share < 0.3


def test_empty_lines_end_sequences_and_missing_symbols_are_told(run: Run) -> None:
    code, reports, _ = run("0\n1\n\nNA\n2\r\n 3 ", *MODEL, "--missing", "NA")
    assert code == 0
    pf = begun()
    steps = [pf.update(0), pf.update(1)]
    pf.new_sequence()
    steps += [pf.update(None), pf.update(2), pf.update(3)]
    assert [report["line"] for report in reports] == [1, 2, 4, 5, 6]
    assert [report["symbol"] for report in reports] == [0, 1, None, 2, 3]
    assert [report["log_predictive"] for report in reports] == [s.log_predictive for s in steps]
    assert reports[2]["surprise"] == 0.0
    assert not reports[2]["alarm"]


def test_labels_are_read_from_a_file_and_others_are_unknown(run: Run, tmp_path: Path) -> None:
    vocabulary = tmp_path / "labels"
    vocabulary.write_text("ls\nmake all\nls\nżółw\n", encoding="utf-8")
    code, reports, _ = run(
        "żółw\nmake all\nrm\n", "--vocabulary", str(vocabulary), "--unknown", "OTHER", "-K", "84"
    )
    assert code == 0
    assert [report["symbol"] for report in reports] == ["żółw", "make all", "OTHER"]
    labels = {each["symbol"] for report in reports for each in report["expected"]}
    assert labels <= {"ls", "make all", "żółw", "OTHER"}


def test_files_of_labels_may_come_from_windows(run: Run, tmp_path: Path) -> None:
    vocabulary = tmp_path / "labels"
    vocabulary.write_bytes("ls\r\na\u2028b\r\n".encode("utf-8-sig"))
    code, reports, complaint = run(
        "\ufeffls\r\na\u2028b\r\n", "--vocabulary", str(vocabulary), "-K", "84"
    )
    assert (code, complaint) == (0, "")
    assert [report["symbol"] for report in reports] == ["ls", "a\u2028b"]


MALFORMED = [b"x", b"4", b"-1", b"1.0", b"1_0", b"\xff", "٣".encode(), b"9" * 5000, b"0 1", b"\x00"]


@pytest.mark.parametrize("bad", MALFORMED)
def test_a_malformed_line_is_fatal_by_default(bad: bytes, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "kept"
    text = b"0\n1\n" + bad + b"\n2\n"
    code, reports, complaint = run(text, *MODEL, "--checkpoint", str(file))
    assert code == 1
    assert [report["symbol"] for report in reports] == [0, 1]
    assert complaint.startswith("mdvpf: line 3: ")
    assert len(complaint) < 200
    assert Monitor.load(file).n_lines == 2  # what came before it is kept


@pytest.mark.parametrize("bad", MALFORMED)
def test_a_malformed_line_is_skipped_by_choice(bad: bytes, run: Run) -> None:
    code, reports, complaint = run(b"0\n1\n" + bad + b"\n2\n", *MODEL, "--skip-malformed")
    assert code == 0
    assert complaint.startswith("mdvpf: line 3: ")
    assert len(complaint.splitlines()) == 1
    pf = begun()
    expected = [pf.update(symbol).log_predictive for symbol in (0, 1, 2)]
    assert [report["log_predictive"] for report in reports] == expected
    assert [report["line"] for report in reports] == [1, 2, 4]


def test_a_line_without_end_is_cut(run: Run) -> None:
    text = b"0\n" + b"7" * (3 * LONGEST_LINE + 5) + b"\n1\n"
    _, reports, complaint = run(text, *MODEL, "--skip-malformed")
    assert [report["line"] for report in reports] == [1, 3]
    assert f"line 2: expected at most {LONGEST_LINE} bytes" in complaint


def test_an_unknown_label_is_refused(run: Run, tmp_path: Path) -> None:
    vocabulary = tmp_path / "labels"
    vocabulary.write_text("a\nb\n")
    code, _, complaint = run("a\nc\n", "--vocabulary", str(vocabulary))
    assert code == 1
    assert "line 2: 'c': expected one of the 2 labels" in complaint


@pytest.mark.parametrize("from_file", [False, True])
@pytest.mark.parametrize("algorithm", ["MD-VPA", "SMC", "auto"])
def test_resuming_is_as_if_never_interrupted(
    from_file: bool, algorithm: str, run: Run, tmp_path: Path
) -> None:
    symbols, kept, source = stream(), tmp_path / "kept", tmp_path / "stream"
    model = MIXED if algorithm == "auto" else SINGLE
    options = [*model, "--method", algorithm, "--seed", "5"]
    _, expected, _ = run(lines(symbols), *options)
    found = []
    options += ["--checkpoint", str(kept), "--every", "7", "--resume"]
    for first, stop in ((0, 11), (11, 12), (12, 40), (40, 60)):
        if from_file:  # which grows
            source.write_text(lines(symbols[:stop]))
            code, reports, complaint = run("", str(source), *options)
        else:
            code, reports, complaint = run(lines(symbols[first:stop]), *options)
        assert (code, complaint) == (0, "")
        found += reports
    assert found == expected


def test_a_checkpoint_made_in_python_continues(run: Run, tmp_path: Path) -> None:
    pf, kept = begun(), tmp_path / "kept"
    pf.run(stream())
    pf.save(kept)
    code, reports, _ = run("0\n1\n", "--checkpoint", str(kept), "--resume")
    assert code == 0
    expected = [pf.update(0).log_predictive, pf.update(1).log_predictive]
    assert [report["log_predictive"] for report in reports] == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--symbols", "3", "--column", "a"], "column='a': expected only with --format (json"),
        ([], "one of --max-labels N (labels as they appear, up to N), --vocabulary FILE"),
        (["--symbols", "3", "--vocabulary", __file__], "one of --max-labels N"),
        (["--symbols", "0"], "n_symbols=0"),
        (["--symbols", "3", "--unknown", "x"], "unknown='x'"),
        (["--symbols", "3", "--method", "magic"], "method='magic'"),
        (["--symbols", "3", "--every", "0"], "every=0"),
        (["--symbols", "3", "--beta", "0.1"], "beta=0.1: auto chooses the settings of its filters"),
        (["--symbols", "3", "-K", "3"], "n_particles=3"),
        (["--symbols", "3", "--resume"], "--resume"),
        (["--symbols", "3", "--false-alarms", "2"], "false_alarms=2.0"),
        (["--symbols", "3", "--missing", " x"], "missing=' x'"),
        (["--symbols", "3", "--missing", "2"], "missing='2'"),
        (["--symbols", "3", "--missing", ""], "missing='': expected text that is not empty"),
        (
            ["--symbols", "3", "--format", "lines", "--column", "a"],
            "column='a': expected only with",
        ),
        (["no such file", "--symbols", "3"], "no such file"),
    ],
)
def test_a_wrong_command_line_is_one_line_of_complaint(
    arguments: list[str], message: str, run: Run
) -> None:
    code, reports, complaint = run("0\n", *arguments)
    assert (code, reports) == (2, [])
    assert message in complaint
    assert len(complaint.splitlines()) == 1


def test_a_file_with_fields_is_not_read_as_lines_without_a_warning(
    run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "clicks.csv"
    path.write_text("page,user\n1,0\n")
    options = [str(path), "--max-labels", "9", "--method", "Markov 1"]
    code, reports, complaint = run("", *options)
    assert (code, [report["label"] for report in reports]) == (0, ["page,user", "1,0"])
    assert "clicks.csv: each line is read as one symbol" in complaint
    assert "--format csv and --column" in complaint
    assert run("", *options, "--format", "lines")[2] == ""
    code, reports, complaint = run("", *options, "--format", "csv", "--column", "page")
    assert ([report["label"] for report in reports], complaint) == (["1"], "")


def test_no_checkpoint_is_lost_by_mistake(run: Run, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    options = [*MODEL, "--checkpoint", str(kept)]
    assert run("0\n", *options)[0] == 0
    before = kept.read_bytes()
    code, reports, complaint = run("0\n", *options)
    assert (code, reports) == (2, [])
    assert "pass --resume" in complaint
    code, reports, complaint = run("0\n", *options, "-K", "31", "--resume")
    assert (code, reports) == (2, [])
    assert "particles=31: the checkpoint has 30" in complaint
    code, reports, complaint = run("0\n", *options, "--method", "auto", "--resume")
    assert (code, reports) == (2, [])
    assert "method='auto': the checkpoint has MDVPA(" in complaint
    assert kept.read_bytes() == before


def test_options_that_contradict_a_mixture(run: Run, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    options = ["--checkpoint", str(kept), "--resume"]
    assert run("0\n1\n", *MIXED, *options)[0] == 0
    for same in (["-K", "100"], ["--method", "auto"], ["--symbols", "4"], []):
        assert run("2\n", *options, *same)[0] == 0
    before = kept.read_bytes()
    for other, message in (
        (["-K", "200"], "particles=200: the checkpoint has 100"),
        (["--method", "SMC"], "method='SMC': the checkpoint has 'auto'"),
        (["--max-states", "9"], "max_states=9: the checkpoint has None"),
        (["--beta", "0.1"], "beta=0.1: the checkpoint has None"),
    ):
        code, reports, complaint = run("0\n", *options, *other)
        assert (code, reports) == (2, [])
        assert message in complaint
    assert kept.read_bytes() == before
    mdvpf.Mixture.grid(4, n_particles=10).save(kept)  # a mixture, but not that one
    code, _, complaint = run("0\n", *options, "--method", "auto")
    assert code == 2
    assert "method='auto': the checkpoint has None" in complaint


def test_a_checkpoint_that_can_never_be_written_is_an_error_at_once(
    run: Run, tmp_path: Path
) -> None:
    code, reports, complaint = run("0\n", *MODEL, "--checkpoint", str(tmp_path / "no" / "kept"))
    assert (code, reports) == (1, [])
    assert "No such file or directory" in complaint


def test_a_file_that_is_shorter_than_it_was(run: Run, tmp_path: Path) -> None:
    source, kept = tmp_path / "stream", tmp_path / "kept"
    source.write_text("0\n1\n2\n")
    options = [str(source), *MODEL, "--checkpoint", str(kept), "--resume"]
    assert run("", *options)[0] == 0
    source.write_text("0\n")
    code, reports, complaint = run("", *options)
    assert (code, reports) == (1, [])
    assert "2 bytes, and the checkpoint was made after 6 (3 lines): it was truncated" in complaint
    assert "--from-start" in complaint


def test_a_checkpoint_that_cannot_be_written_on_the_way_stops_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Generations, run: FilterRun, before: Any) -> None:
        if 0 < run.monitor.n_lines < 5:
            raise OSError(28, "No space left on device", str(self.path))
        real(self, run, before)

    real: Any = Generations._write
    monkeypatch.setattr(Generations, "_write", full)
    kept = tmp_path / "kept"
    options = [*MODEL, "--checkpoint", str(kept), "--every", "2"]
    code, reports, complaint = run("0\n1\n2\n3\n0\n", *options)
    assert code == 0
    assert len(reports) == 5
    # The report on line 4 is missing: the last checkpoint replaces it.
    assert [line[:13] for line in complaint.splitlines()] == ["mdvpf: line 2"]
    assert "No space left" in complaint
    assert Monitor.load(kept).n_lines == 5
    code, reports, complaint = run("0\n1\n2\n", *MODEL, "--checkpoint", str(tmp_path / "other"))
    assert code == 1  # at the end there is no later checkpoint
    assert "No space left" in complaint


# --- Live streams


class Live:
    """`mdvpf filter` in a separate process."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "filter", *MODEL, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def input(self) -> IO[str]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def output(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def ask(self, symbol: int) -> dict[str, Any]:
        """Send one symbol; return the report, which comes before the next symbol is sent."""
        self.input.write(f"{symbol}\n")
        self.input.flush()
        report: dict[str, Any] = json.loads(self.output.readline())
        return report


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)], ids=["SIGTERM", "Ctrl-C"]
)
def test_signals_end_with_a_checkpoint(number: int, code: int, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    pf = begun()
    with Live("--checkpoint", str(kept)) as process:
        for symbol in (0, 1, 2):
            report = process.ask(symbol)  # every report arrives at once, with the pipe still open
            assert report["log_predictive"] == pf.update(symbol).log_predictive
        process.process.send_signal(number)
        assert process.process.wait(60) == code
        assert process.output.read() == ""
    monitor = Monitor.load(kept)
    assert monitor.n_lines == 3
    assert monitor.predictor.update(3) == pf.update(3)


def test_a_closed_pipe_is_a_clean_exit(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with Live("--checkpoint", str(kept)) as process:
        process.ask(0)
        process.output.close()
        process.input.write("1\n")
        process.input.flush()
        assert process.process.wait(60) == 0
        assert process.process.stderr is not None
        assert process.process.stderr.read() == ""
    assert Monitor.load(kept).n_lines == 2


@pytest.mark.skipif(sys.platform == "win32", reason="no signals to send")
def test_a_signal_is_noted_and_ends_a_wait() -> None:
    stop = Stop()
    reading, writing = os.pipe()
    with stop.listening():
        os.write(writing, b"0")
        assert stop.wait_for(reading=reading)
        assert os.read(reading, 1) == b"0"
        os.kill(os.getpid(), signal.SIGTERM)
        assert not stop.wait_for(reading=reading)  # it would last for ever
        assert (stop.signal, stop.n_signals, stop.is_interrupt) == (signal.SIGTERM, 1, False)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    os.close(reading)
    os.close(writing)


# --- Inspect


def inspected(file: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    capsys.readouterr()
    assert main(["inspect", str(file), *options]) == 0
    return capsys.readouterr().out


def test_inspect_shows_the_filter(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vocabulary, kept = tmp_path / "labels", tmp_path / "kept"
    vocabulary.write_text("ls\n[red]\nmake\n")
    options = ["--vocabulary", str(vocabulary), "--checkpoint", str(kept)]
    run("ls\n[red]\nmake\n" * 5, *options, "--method", "MD-VPA", "--beta", "0.3")
    shown = inspected(kept, capsys)
    monitor = Monitor.load(kept)
    pf = monitor.predictor
    assert isinstance(pf, mdvpf.ParticleFilter)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    facts = {row[0]: row[1] for row in rows if len(row) == 2}
    assert facts["model"] == str(pf.model)
    assert facts["algorithm"] == str(pf.algorithm)
    assert facts["lines read"] == "15"
    assert facts["particles"] == f"{len(pf.weights):,}"
    assert facts["states: most"] == str(pf.n_states.max())
    assert facts["live"] == f"{pf.memory().live:,}"
    counts = pf.counts()
    for i, row in enumerate(counts.emission.tolist()):
        assert [str(i), *(str(n) for n in row)] in rows
    assert ["start", *(str(n) for n in counts.start)] in rows
    assert all(label in shown for label in ("ls", "[red]", "make"))
    assert "2 others" in inspected(kept, capsys, "--top", "1")


def test_inspect_where_labels_are_still_to_come(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    run("ls\ncd\n" * 5, "--max-labels", "4", "--checkpoint", str(kept), "--method", "VPA")
    shown = inspected(kept, capsys)
    assert "Vocabulary.open(('ls', 'cd'), max_labels=4" in " ".join(shown.split())


def test_inspect_shows_the_members_of_a_mixture_by_weight(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    run(lines(stream()), *MIXED, "--checkpoint", str(kept))
    shown = inspected(kept, capsys, "--top", "3")
    mixture = Monitor.load(kept).predictor
    assert isinstance(mixture, mdvpf.GeometricMixture)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    facts = {row[0]: row[1] for row in rows if len(row) == 2}
    assert facts["predictor"] == "auto, the default mixture"
    assert facts["live"] == f"{mixture.memory().live:,}"
    found = weighted(mixture)
    filters = [leaf for _, leaf in found if isinstance(leaf, mdvpf.ParticleFilter)]
    assert facts["budget of particles"] == str(sum(pf.n_particles for pf in filters))
    chains = [(weight, leaf) for weight, leaf in found if isinstance(leaf, mdvpf.Markov)]
    assert ["Markov", str(len(chains)), f"{sum(w for w, _ in chains):.4f}"] in rows
    totals: dict[str, float] = {}
    for weight, leaf in found:
        totals[repr(leaf)] = totals.get(repr(leaf), 0.0) + weight
    heaviest = sorted(totals.values(), reverse=True)
    # A name may take several rows; the first has the weight.
    weights = [float(row[2]) for row in rows if len(row) == 3 and row[2][:2] in ("0.", "1.")][-4:]
    assert weights == pytest.approx([*heaviest[:3], sum(heaviest[3:])], abs=1e-4)
    mdvpf.Mixture([mdvpf.Markov(2), mdvpf.ContextTree(2)], restart=8).save(kept)
    shown = inspected(kept, capsys)
    assert "Restart(every=8" in shown
    assert "ContextTree(2, depth=3, beta=0.5)" in shown


def test_inspect_of_a_filter_whose_discount_is_a_function(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    algorithm = mdvpf.MDVPA(discount=lambda n: 1 / n)
    pf = mdvpf.ParticleFilter(mdvpf.InfiniteHMM(3), algorithm, n_particles=10, rng=0)
    pf.run([0, 1, 2] * 5)
    pf.save(tmp_path / "kept")
    shown = inspected(tmp_path / "kept", capsys)
    assert "MDVPA(discount=<function _not_in_the_file" in " ".join(shown.split())
    assert f"{pf.memory().live:,}" in shown


def test_inspect_of_a_comparator_and_of_nonsense(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    mdvpf.Markov(3, order=1).save(kept)
    assert "Markov" in inspected(kept, capsys)
    kept.write_bytes(kept.read_bytes()[:-1])
    assert main(["inspect", str(kept)]) == 1
    assert f"mdvpf: file={str(kept)!r}: " in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on the size of files")
def test_a_full_disk_at_the_end_keeps_the_old_checkpoint(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    Monitor(begun()).save(kept)
    before = kept.read_bytes()
    limited = (
        "import resource, sys; from mdvpf.cli import main; "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) // 2},) * 2); sys.exit(main())"
    )
    command = [sys.executable, "-c", limited, "filter", "--checkpoint", str(kept), "--resume"]
    done = subprocess.run(command, input=b"0\n1\n", capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"mdvpf: ")
    assert b"too large" in done.stderr
    assert len(done.stdout.splitlines()) == 2
    assert kept.read_bytes() == before
    assert os.listdir(tmp_path) == ["kept"]
