"""The console command as a user meets it: output, files, exit codes, one line per error."""

import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner, Result

from experiments.__main__ import main
from experiments.cli import app

SMALL = ["compare", "--ranks", "4", "--micro-steps", "2", "--samples", "1000"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the text on stderr of a command that must end with the code 2."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    return capsys.readouterr().err


def test_compare_prints_table_packing_and_answer() -> None:
    lines = run(*SMALL).stdout.splitlines()
    assert [line.split()[0] for line in lines if "()" in line] == [
        "RoundRobin()",
        "Zigzag()",
        "LPT()",
        "KarmarkarKarp()",
        "Auto()",
        "LeastMovement(Auto(),",
    ]
    assert any(line.startswith("1,000 samples in ") for line in lines)
    assert any("cuts the step from " in line for line in lines)
    assert max(map(len, lines)) <= 110


def test_compare_writes_the_same_json_twice_but_for_what_is_measured(tmp_path: Path) -> None:
    paths = tmp_path / "one.json", tmp_path / "two.json"
    results = []
    for path in paths:
        run(*SMALL, "--json", str(path))
        results.append(json.loads(path.read_text()))
        for row in results[-1]["rows"]:
            del row["measured"]
    assert results[0] == results[1]
    assert results[0]["config"]["n_ranks"] == 4
    assert sorted(tmp_path.iterdir()) == sorted(paths)  # nothing half-written stays


def test_compare_reads_a_table_and_parses_balancers(tmp_path: Path) -> None:
    table, result = tmp_path / "a.csv", tmp_path / "a.json"
    table.write_text("tokens,image_tokens\n" + "8000,100\n" * 5)
    run("compare", str(table), "--ranks", "2", "--micro-steps", "1", "--balancer", "lpt", "--json", str(result))
    written = json.loads(result.read_text())
    assert [row["balancer"] for row in written["rows"]] == ["LPT()"]
    assert (written["steps"], written["left_over_packs"]) == (2, 1)
    assert written["rows"][0]["cost"] == 2 * (60_000 + 280 * 100)


def test_plot_is_a_png_of_1200_x_450(tmp_path: Path) -> None:
    path = tmp_path / "loads.png"
    run(*SMALL, "--plot", str(path))
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert (int.from_bytes(content[16:20]), int.from_bytes(content[20:24])) == (1200, 450)


def test_bench_writes_growth_and_quality(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    assert "KarmarkarKarp()" in run("bench", "--quick", "--json", str(path)).stdout
    rows = json.loads(path.read_text())["rows"]
    assert {" ".join(row) for row in rows} == {"case algorithm n us growth sorts quality"}
    assert all(row["quality"] >= 1 if "step" in row["case"] else 0 < row["quality"] <= 1 for row in rows)
    assert all(row["us"] > 0 and row["sorts"] > 0 for row in rows)


def test_algorithms_lists_packers_and_balancers() -> None:
    output = run("algorithms").stdout
    assert all(name in output for name in ("BestFitDecreasing", "NextFit", "LPT", "KarmarkarKarp", "RoundRobin"))
    assert "bound packs." in output  # of a sentence on two lines, its end


def test_an_algorithm_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    for name in ("packing.exact", "balancers.ilp"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert run("algorithms").stdout.count('pip install "evenstep[ilp]"') == 2


def test_a_broken_plug_in_is_a_row_of_the_list() -> None:
    broken = [EntryPoint("Gone", "nowhere_at_all:Gone", "evenstep.packers")]
    with patch("importlib.metadata.entry_points", side_effect=lambda group: broken if "packers" in group else []):
        output = run("algorithms").stdout
    assert 'the entry point "Gone"' in output
    assert "KarmarkarKarp" in output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["compare", "none.csv"], "evenstep: none.csv: no such file.\n"),
        (["compare", "--shares", ""], 'evenstep: --shares must be three numbers, of vlm, vqa, text; got "".\n'),
        (["compare", "--shares", "1,2"], 'evenstep: --shares must be three numbers, of vlm, vqa, text; got "1,2".\n'),
        (["compare", "--ranks", "0"], "evenstep: n_ranks must be in [1, 2147483647]; got 0.\n"),
        (["compare", "--json", "/"], "evenstep: cannot write /: it is not a regular file.\n"),
        (
            ["compare", "--json", "/nowhere/a.json"],
            "evenstep: cannot write /nowhere/a.json: No such file or directory. Choose a folder that exists and is "
            "yours.\n",
        ),
    ],
)
def test_errors_are_one_line_and_exit_with_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    assert failure(capsys, *arguments) == text


def test_unknown_balancers_are_corrected(capsys: pytest.CaptureFixture[str]) -> None:
    assert 'did you mean "karmarkar_karp"?' in failure(capsys, "compare", "--balancer", "karmakar_karp")


def test_oversize_samples_name_the_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("tokens,image_tokens\n9000,100\n")
    error = failure(capsys, "compare", str(table))
    assert error.startswith("evenstep: every sample must fit in a pack; sample 0 takes 9000 tokens, the limit is 8192")
    assert error.endswith("On the command line: --oversize drop, or isolate.\n")
    assert error.count("\n") == 1
    assert "--oversize" not in failure(capsys, "compare", str(table), "--packer", "Concatenate")  # it always cuts


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "a.csv", "--samples", "5"],
        ["compare", "--counts", "odd"],
        ["compare", "a.csv", "--json", "./a.csv"],  # a table is not written over, nor one result over the other
        ["even", "a.csv", "b.csv", "c.csv", "--json", "b.csv"],
        ["reproduce", "--json", "a.png", "--plot", "a.png"],
        ["reproduce", "--plot", "a.jpg"],
        ["other"],
    ],
)
def test_usage_errors_exit_with_2(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert "Usage: evenstep" in failure(capsys, *arguments)


def test_a_missing_extra_is_named_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "experiments.cli")
    assert failure(capsys, "compare") == (
        'evenstep: this command needs typer, which is not installed: pip install "evenstep[experiments]".\n'
    )


def test_module_runs_and_shows_no_traceback(tmp_path: Path) -> None:
    damaged = tmp_path / "a.parquet"
    damaged.write_bytes(b"PAR1 and then nothing good")
    command = [sys.executable, "-m", "experiments", "compare", str(damaged)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"evenstep: {damaged}: damaged, or not a parquet file: ")
    assert done.stderr.count("\n") == 1


def test_results_do_not_overwrite_each_other_or_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "in.csv"
    table.write_text("tokens,image_tokens\n5,1\n")
    same = tmp_path / "out.png"
    for arguments in (
        ["compare", str(table), "--json", str(table)],
        ["compare", "--json", str(same), "--plot", str(same)],
    ):
        assert "must be different files." in failure(capsys, *arguments)
    assert "--plot writes PNG" in failure(capsys, "compare", "--plot", str(tmp_path / "out.jpg"))
    assert sorted(tmp_path.iterdir()) == [table]
    assert table.read_text() == "tokens,image_tokens\n5,1\n"


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_one_process_of_torchrun_has_nobody_to_exchange_with(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert "torchrun started one process" in failure(capsys, "exchange")


@pytest.mark.parametrize(
    ("command", "option", "values"),
    [
        ("exchange", "--mb", "inf nan 1e300 0 -1"),
        ("exchange", "--compute-ms", "inf nan 1e300 -1"),
        ("exchange", "--packs-per-cell", "0 5000000000"),
        ("exchange", "--ranks", "1 1000000000"),
        ("exchange", "--steps", "-1"),
        ("chaos", "--timeout", "inf nan 1e300 0"),
        ("chaos", "--ranks", "1 1000000000"),
        ("chaos", "--times", "0"),
    ],
)
def test_ranks_are_not_started_with_what_they_cannot_do(
    capsys: pytest.CaptureFixture[str], command: str, option: str, values: str
) -> None:
    for value in values.split():
        assert f"Invalid value for '{option}'" in failure(capsys, command, option, value)
