"""The house rules: what the package promises about itself and its documents."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import pilothouse
import pilothouse_sim
from pilothouse.faces.mcp.tools import listed

ROOT = Path(__file__).resolve().parent.parent


def run_python(*args: str) -> str:
    done = subprocess.run(
        [sys.executable, *args], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def commands() -> list[str]:
    """The commands as argparse lists them in the usage line: `{demo,doctor}`."""
    listed = re.search(r"\{([a-z][a-z,-]*)\}", run_python("-m", "pilothouse", "--help"))
    assert listed, "`pilothouse --help` lists its commands as {a,b,c}"
    return listed[1].split(",")


def test_public_names_are_sorted_and_unique():
    assert list(pilothouse.__all__) == sorted(set(pilothouse.__all__))


@pytest.mark.parametrize("name", pilothouse.__all__)
def test_every_public_name_resolves(name: str):
    assert getattr(pilothouse, name) is not None
    assert name in dir(pilothouse)


def test_every_lazy_name_is_public():
    assert set(pilothouse._HOME_OF) == set(pilothouse.__all__) - {"__version__"}


def test_an_unknown_name_is_an_attribute_error():
    name = "no_such_name"
    with pytest.raises(AttributeError, match=name):
        getattr(pilothouse, name)


@pytest.mark.parametrize("module", ["asyncio", "mcp", "msgspec", "subprocess"])
def test_importing_the_package_does_not_import(module: str):
    loaded = run_python("-c", "import sys, pilothouse; print(*sys.modules)").split()
    assert "pilothouse" in loaded
    assert module not in loaded


@pytest.mark.parametrize("package", [pilothouse, pilothouse_sim], ids=lambda each: each.__name__)
def test_the_type_marker_is_packaged(package: ModuleType):
    assert package.__file__
    assert (Path(package.__file__).parent / "py.typed").is_file()


def test_after_the_start_script_there_are_the_commands_of_an_installation(tmp_path: Path):
    (tmp_path / "bin").mkdir()
    made = 'source scripts/_env.sh; VENV="$1" PY="$2"; write_commands'
    given = [str(tmp_path), sys.executable]
    subprocess.run(["bash", "-euc", made, "bash", *given], cwd=ROOT, check=True, timeout=60)
    assert "\nwrite_commands\n" in (ROOT / "scripts/start").read_text()
    with (ROOT / "pyproject.toml").open("rb") as file:
        commands = tomllib.load(file)["project"]["scripts"]
    for command in commands:
        ran = subprocess.run(
            [tmp_path / "bin" / command, "--version"],
            env={"HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ran.returncode == 0, ran.stderr


def test_api_means_the_same_in_all_pages():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    told = re.compile(r"(?m)^api=|^With `api` and `token` as ")
    using = [page for page in pages if "$api" in page.read_text()]
    assert not [page.name for page in using if not told.search(page.read_text())]
    given = {each for page in pages for each in re.findall(r"(?m)^api=(\S+)", page.read_text())}
    assert given == {"http://127.0.0.1:8137/api"}
    assert not [page.name for page in pages if "$api/api" in page.read_text()]


def test_paths_are_given_to_pytest_with_an_equals_sign():
    # One that stands by itself is taken for a test, and pytest's root becomes the folder above.
    texts = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *ROOT.glob("examples/*/README.md")]
    texts += [*(ROOT / "src/pilothouse_sim").rglob("*.py")]
    wrong = re.compile(r"--pilothouse-cli [\"'$A-Z/]")
    assert not [each.name for each in texts if wrong.search(each.read_text())]


def test_no_page_installs_what_is_not_on_an_index():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *ROOT.glob("examples/*/README.md")]
    assert not [page.name for page in pages if "pip install pilothouse" in page.read_text()]


@pytest.mark.parametrize("command", ["./scripts/start", "./scripts/test"])
def test_the_readme_names_the_command(command: str):
    assert command in (ROOT / "README.md").read_text()


def test_the_readme_counts_the_tools_of_mcp():
    told = re.findall(
        r"\b(\w+) tools (?:start sessions|that fit)", (ROOT / "README.md").read_text()
    )
    words = ("Five", "Six", "Seven", "Eight", "Nine")
    assert [words.index(each) + 5 for each in told] == [len(listed())] * 2


def test_the_changelog_opens_with_the_version_of_the_package():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert newest[1] == pilothouse.__version__


def test_every_command_is_documented():
    pages = [*ROOT.glob("docs/reference*.md"), *ROOT.glob("docs/reference/**/*.md")]
    assert pages, "docs/ has a reference"
    documented = "".join(page.read_text() for page in pages)
    assert [name for name in commands() if f"pilothouse {name}" not in documented] == []
