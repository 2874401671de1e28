"""What the package index offers beyond the built-in set, and what moved in it.

``python -m tests.newest_releases [--torch] [--networks]`` resolves the dependencies for other
systems, compares the newest release of each package of the toolchain with the built-in set, and
makes an environment with the newest ones. It prints, pin by pin, the functions whose code moved, and
with ``--networks`` runs the networks of the corrections there. Without ``--torch`` the torch of the
built-in set stays, because the index has the newest one with several GB of CUDA. Ends with 1 if the
dependencies cannot be resolved, the environment does not start, or a network is worse.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests import toolchain_networks
from workbench import api
from workbench.errors import WorkbenchError
from workbench.toolchains.registry import toolchain_of, toolchains
from workbench.toolchains.versions import tool_versions

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
PACKAGES = ("torch", "torchao", "executorch", "ethos-u-vela", "tosa-tools")
# As uv names them: Windows on x86-64. macOS on arm64 has no wheel of tosa-tools.
PLATFORMS = ("x86_64-pc-windows-msvc",)
NAME = "newest"


def resolved(platform: str) -> str:
    """Return why the dependencies cannot be resolved for a system, from wheels alone; "" if they can."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    certificates = {"SSL_CERT_FILE": os.environ["PIP_CERT"]} if "PIP_CERT" in os.environ else {}
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.txt"
        wanted.write_text("\n".join(project["dependencies"]), encoding="utf-8")
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--only-binary", ":all:"]
        command += ["--python-platform", platform, "--python-version", "3.11", "--constraint"]
        done = subprocess.run(
            [*command, str(CONSTRAINTS), str(wanted)],
            env={**os.environ, **certificates},
            capture_output=True,
            text=True,
            check=False,
        )
    return "" if done.returncode == 0 else done.stderr.strip()[-2000:]


def newest(package: str) -> str:
    """Return the newest release that pip would take; "" if the index does not answer."""
    command = [sys.executable, "-m", "pip", "index", "versions", package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    first = done.stdout.splitlines()[:1]
    return first[0].partition("(")[2].rstrip(")") if first else ""


def make(releases: dict[str, str]) -> None:
    """Make the environment, as a toolchain.

    ExecuTorch names one release of Vela and of the TOSA tools; others are installed over them.
    """
    if NAME in toolchains():
        api.remove_toolchain(NAME)
    api.create_toolchain(NAME, f"executorch=={releases['executorch']} torch=={releases['torch']}", print)
    python = toolchain_of(NAME).python
    others = [f"{name}=={releases[name]}" for name in PACKAGES if name not in {"torch", "executorch"}]
    command = [python, "-m", "pip", "install", "--quiet", "--no-deps", *others]
    subprocess.run(command, check=True)


def main() -> int:
    """Print what is new and what moved; return 1 if something fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", action="store_true", help="take the newest torch too")
    parser.add_argument("--networks", action="store_true", help="run the networks of the corrections")
    chosen = parser.parse_args()
    failed = False
    for platform in PLATFORMS:
        problem = resolved(platform)
        print(f"Dependencies for {platform}: {problem or 'resolved'}")
        failed = failed or bool(problem)
    own = {name: tool_versions()[name].partition("+")[0] for name in PACKAGES}
    offered = {name: newest(name) or own[name] for name in PACKAGES}
    for name in PACKAGES:
        print(f"{name}: {own[name]} here, {offered[name]} offered")
    taken = offered if chosen.torch else {**offered, "torch": own["torch"]}
    if taken == own:
        print("Nothing newer is offered.")
        return int(failed)
    try:
        make(taken)
        check = api.check_toolchain(NAME)
    except (WorkbenchError, subprocess.CalledProcessError) as error:
        print(f"The newest releases cannot be used: {error}")
        return 1
    print(f"{check.toolchain.state}: {check.toolchain.reason}; {dict(check.counts)} corrections")
    for patch, paths in sorted(check.moved.items()):
        print(f"{patch}:", *paths, sep="\n  ")
    if chosen.networks:
        failed = bool(toolchain_networks.main([NAME])) or failed
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
