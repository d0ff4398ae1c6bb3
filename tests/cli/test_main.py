import subprocess
import sys

import pytest

import miniamp
from miniamp import cli, errors
from miniamp.cli import app


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"miniamp {miniamp.__version__}\n"


def test_help_names_the_commands(capsys):
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "demo" in out
    assert "--debug" in out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nonsense"], "nonsense"),
        (["demo", "--seed", "many"], "--seed"),
        (["demo", "--size", "3"], "10"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(capsys, arguments, part):
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("miniamp: ")
    assert captured.err.count("\n") == 1
    assert part in captured.err


@pytest.fixture
def failing(monkeypatch):
    """The command line with a command that fails in a chosen way."""

    def install(error):
        def command(*args, **options):
            raise error

        monkeypatch.setattr(app, "program", lambda: command)

    return install


def test_failure_is_one_line_and_exit_code_1(capsys, failing):
    failing(errors.InvalidInputError("y: got nan,\nexpected finite numbers; drop them"))
    assert cli.main(["demo"]) == 1
    assert capsys.readouterr().err == "miniamp: y: got nan, expected finite numbers; drop them\n"


def test_a_failure_without_words_names_its_kind(capsys, failing):
    failing(MemoryError())
    assert cli.main(["demo"]) == 1
    assert capsys.readouterr().err == "miniamp: MemoryError\n"


@pytest.mark.parametrize("arguments", [["--debug", "demo"], ["demo", "--debug"]])
def test_debug_shows_where_it_came_from(failing, arguments):
    failing(errors.InvalidInputError("y: bad"))
    with pytest.raises(errors.InvalidInputError, match="y: bad"):
        cli.main(arguments)


def test_interruption_is_exit_code_130(capsys, failing):
    failing(KeyboardInterrupt())
    assert cli.main(["demo"]) == 130
    assert capsys.readouterr().err == "miniamp: interrupted\n"


def test_without_the_extra_the_remedy_is_named():
    hidden = "import sys; sys.modules['typer'] = None"
    words = [sys.executable, "-c", f"{hidden}; from miniamp.cli import main; main(['demo'])"]
    run = subprocess.run(words, capture_output=True, text=True, check=True)
    assert run.stderr == 'miniamp: the command line needs typer; pip install "miniamp[cli]"\n'


def test_python_dash_m_works():
    run = subprocess.run(
        [sys.executable, "-m", "miniamp", "--version"], capture_output=True, text=True, check=True
    )
    assert run.stdout == f"miniamp {miniamp.__version__}\n"
