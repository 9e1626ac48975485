"""What is imported when: help and wrong requests do not wait for what only a fit needs."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest

from dvisr import DVISRRegressor
from dvisr.cli import COMMANDS, cli
from dvisr.fitting.beside import beside
from tests.cli.running import dvisr

HEAVY = (
    "jax", "numba", "numpy", "pandas", "scipy", "matplotlib", "bokeh", "sklearn", "sympy",
    "arviz_base",
)  # fmt: skip
CODE = """
import atexit, json, sys
def told():
    print(json.dumps([name for name in {names!r} if name in sys.modules]), file=sys.stderr)
atexit.register(told)
from dvisr.cli import main
main()
"""


def imported(*arguments: str, names: tuple[str, ...] = HEAVY) -> tuple[int, list[str], str]:
    """The status, which of these modules were imported by the end, and what was said."""
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(names=names), *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    *said, last = done.stderr.splitlines()
    return done.returncode, json.loads(last), "\n".join(said)


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)]
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert imported(*arguments)[:2] == (0, [])


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        f"import sys, dvisr; dir(dvisr); dvisr.__version__; "
        f"sys.exit(str([name for name in {HEAVY!r} if name in sys.modules] or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_ctrl_c_while_it_imports_is_one_line() -> None:
    code = (
        "import sys\n"
        "class Stopped:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'pandas':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stopped())\n"
        "from dvisr.cli import main\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "fit", "examples/planets.csv", "--target", "period"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "dvisr: interrupted\n")


def test_a_fit_imports_no_package_that_it_has_no_need_of(tmp_path: Path) -> None:
    """scikit-learn and SciPy's statistics take most of a second, with what they import."""
    (tmp_path / "t.csv").write_text("x,y\n1,2\n2,3.9\n3,6.1\n4,8\n5,9.9\n6,12.1\n")
    words = ["fit", str(tmp_path / "t.csv"), "--target", "y", "--max-tokens", "9", "--json"]
    names = ("sklearn", "scipy.stats", "scipy.optimize", "matplotlib", "bokeh", "sympy", "arviz")
    status, modules, _ = imported(*words, "--num-steps", "1", names=names)
    assert (status, modules) == (0, [])


@pytest.mark.parametrize("words", [["fti"], ["fit", "missing.csv", "--target", "y"]])
def test_what_goes_on_beside_keeps_no_process_from_ending(words: list[str]) -> None:
    code = (
        "import threading\n"
        "from dvisr.cli import main\n"
        "from dvisr.fitting.beside import beside\n"
        "beside(threading.Event().wait)\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_a_request_within_a_process_does_not_end_it() -> None:
    is_free = threading.Event()
    (work,) = beside(is_free.wait)
    assert dvisr("fti").returncode == 2
    is_free.set()
    assert work.result(timeout=10)


def test_the_estimator_imports_nothing_that_only_output_needs() -> None:
    code = (
        "import sys; from dvisr import DVISRRegressor; "
        "sys.exit(str([n for n in ('matplotlib', 'bokeh', 'sympy') if n in sys.modules] or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


@pytest.mark.parametrize("command", ["fit", "exact", "compare"])
@pytest.mark.parametrize(
    ("table", "target", "message"),
    [
        ("missing.csv", "y", "there is no file"),
        ("t.csv", "z", "there is no column 'z'"),
        ("t.csv", "name", "holds text"),
        ("https://example.org/t.csv", "y", "download it first"),
    ],
)
def test_a_wrong_table_is_told_before_the_compiler_is_loaded(
    command: str, table: str, target: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("x,y,name\n1,2,a\n2,3,b\n")
    where = table if "://" in table else str(tmp_path / table)
    more = ["--expression", "x"] if command == "compare" else []
    status, modules, said = imported(
        command, where, "--target", target, *more, names=("jax", "numba", "sklearn")
    )
    assert (status, modules) == (2, [])
    assert message in said


def test_every_command_is_where_the_list_says() -> None:
    context = click.Context(cli)
    assert cli.list_commands(context) == list(COMMANDS)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.help
    assert cli.get_command(context, "no such command") is None


def test_the_list_of_commands_is_the_help() -> None:
    shown = dvisr("--help").stdout
    for name, help_text in COMMANDS.items():
        assert f"  {name} " in shown
        assert help_text in shown


def test_an_unknown_command_suggests_one() -> None:
    done = dvisr("exprot")
    assert done.returncode == 2
    assert "did you mean 'export'?" in done.stderr


def test_the_version_is_the_packages() -> None:
    import importlib.metadata

    import dvisr as package

    assert importlib.metadata.version("dvisr") == package.__version__
    assert package.__version__ in dvisr("--version").stdout


def test_defaults_of_fit_are_the_estimators() -> None:
    """They are written down twice, so that help need not import the estimator."""
    command = cli.get_command(click.Context(cli), "fit")
    assert command is not None
    own = {option.name: option.default for option in command.params}
    own["operators"] = tuple(str(own["operators"]).split(","))
    parameters = inspect.signature(DVISRRegressor).parameters
    for name in ("operators", "constants", "max_tokens", "max_constants", "constraints",
                 "tree_prior", "constant_prior", "recipe"):  # fmt: skip
        assert own[name] == parameters[name].default, name


def test_defaults_of_pretrain_are_those_of_the_training() -> None:
    from dvisr.policy.conditioned import Sizes
    from dvisr.pretraining.training import TrainingSettings

    command = cli.get_command(click.Context(cli), "pretrain")
    assert command is not None
    own = {option.name: option.default for option in command.params}
    for source, names in (
        (Sizes(), ("width", "reader_layers", "decoder_layers")),
        (TrainingSettings(), ("batch", "rate")),
    ):
        for name in names:
            assert own[name] == getattr(source, name), name


def complete(line: str, position: int) -> list[str]:
    """What the shell is offered, by Click's own protocol."""
    import os

    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'dvisr'; from dvisr.cli import main; "
         "main()"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "_DVISR_COMPLETE": "bash_complete", "COMP_WORDS": line,
             "COMP_CWORD": str(position)},
    )  # fmt: skip
    return [offer.split(",", 1)[1] for offer in done.stdout.splitlines()]


def test_the_shell_is_offered_commands_and_options() -> None:
    assert complete("dvisr ", 1) == list(COMMANDS)
    assert complete("dvisr ex", 1) == ["export", "exact"]
    assert "--max-tokens" in complete("dvisr fit --max", 2)
