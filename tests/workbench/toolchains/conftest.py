"""Folders of the test, and interpreters that are scripts."""

import sys
from pathlib import Path

import pytest

from workbench.installation import CACHE_VARIABLE, CONFIG_VARIABLE


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "config"))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


@pytest.fixture
def environment(tmp_path):
    """Return a function that makes an environment with packages of given versions."""

    def make(name="sdk", python=None, **versions):
        folder = tmp_path / "environments" / name
        site = folder / "packages"
        for package, version in {**WHOLE, **versions}.items():
            if version is not None:
                information = site / f"{package}-{version}.dist-info"
                information.mkdir(parents=True)
                name_line = f"Name: {package.replace('_', '-')}"
                text = f"Metadata-Version: 2.1\n{name_line}\nVersion: {version}\n"
                (information / "METADATA").write_text(text)
        return script(folder / "bin" / "python", python or _RUN.format(site=site))

    return make


WHOLE = {
    "torch": "2.13.0",
    "torchao": "0.18.0",
    "executorch": "1.4.1",
    "ethos_u_vela": "5.1.0",
    "tosa_tools": "2026.5.0",
}
# An interpreter that is this one with other packages.
_RUN = """
sys.path[:] = [entry for entry in sys.path if "site-packages" not in entry] + ["{site}"]
sys.argv = ["-c", sys.argv[-1]]
exec(SCRIPT)
"""


def script(path: Path, source: str) -> Path:
    """Write an executable that runs Python source; SCRIPT is what it was asked to run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable} -I\nimport sys\nSCRIPT = sys.argv[-2]\n{source}")
    path.chmod(0o755)
    return path
