"""What this machine has for running programs: where simulators, runners and sources lie.

It belongs to the machine, not to a project: one file in the user's configuration folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from workbench.errors import Place, failure
from workbench.project.frozen import Frozen
from workbench.project.store import write_atomically
from workbench.project.trust import default_store

if TYPE_CHECKING:
    from pathlib import Path

FILE = "machine.json"


class MachineSettings(Frozen):
    """What the user has named. ``simulators`` is keyed by NPU generation, e.g. ``u55``.

    ``addresses`` says, by the path of a runner, where in memory it looks for its program.
    ``fast``, ``trace`` and ``timeout_s`` are for the runs of projects.
    """

    simulators: Mapping[str, str] = Field(default_factory=dict)
    runners: tuple[str, ...] = ()
    addresses: Mapping[str, int] = Field(default_factory=dict)
    executorch: str = ""
    fast: bool = False
    trace: bool = False
    timeout_s: float = Field(default=600.0, gt=0)


def settings_path() -> Path:
    """Return the file, beside the memory of trusted code."""
    return default_store().parent / FILE


def runners_folder() -> Path:
    """Return where runners that were built here stay."""
    return default_store().parent / "runners"


def load_settings() -> MachineSettings:
    """Return the settings; those of a machine where nothing was named are empty.

    Raises:
        WorkbenchError: the file is damaged.
    """
    path = settings_path()
    try:
        return MachineSettings.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return MachineSettings()
    except (OSError, ValidationError) as error:
        raise failure(
            f"{path} cannot be understood.",
            "Correct it or delete it; the paths of simulators and runners are then named anew.",
            Place(kind="file", id=str(path)),
            str(error),
        ) from error


def save_settings(settings: MachineSettings) -> None:
    """Write the settings."""
    path = settings_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, settings.model_dump_json(indent=1).encode())


def adopt_runner(path: Path, address: int | None = None) -> MachineSettings:
    """Name a runner before all others, for good; return the settings as they are now.

    Args:
        path: The runner.
        address: Where it looks for its program; None if in a file or in itself.
    """
    settings = load_settings()
    others = (runner for runner in settings.runners if runner != str(path))
    addresses = {k: v for k, v in settings.addresses.items() if k != str(path)}
    if address is not None:
        addresses[str(path)] = address
    changes = {"runners": (str(path), *others), "addresses": addresses}
    settings = settings.model_copy(update=changes)
    save_settings(settings)
    return settings
