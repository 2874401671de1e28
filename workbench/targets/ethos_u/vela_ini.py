"""The user's own Vela .ini: parsing, validation, clocks and memories.

Source of the format: OPTIONS.md of Vela 5.1, and ``ArchitectureFeatures``, which reads it.
"""

from __future__ import annotations

import configparser
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.files import MAX_TEXT_BYTES, read_limited
from workbench.project.board_files import board_file
from workbench.project.sources import absolute
from workbench.text import whole_number

if TYPE_CHECKING:
    from workbench.project.model import TargetChoice

OPTION = "config_ini"
# The file name passed to Vela. The compiled program contains Vela's flags; a fixed name keeps its
# bytes independent of the file's location.
OWN_INI = "own.ini"
BOARD_PREFIX = "board:"
_SYSTEM, _MODE = "System_Config.", "Memory_Mode."
_PORTS = ("axi0_port", "axi1_port")
_AREAS = ("const_mem_area", "arena_mem_area", "cache_mem_area")
_MEMORIES = ("Sram", "Dram", "OnChipFlash", "OffChipFlash")
_MOST_BYTES = 1 << 20
_MOST_INHERITED = 20
# Vela 5.1 takes an AXI port as 8 bytes wide if the name of the section begins so, else as 16:
# regor.cpp, ParseConfig. The ports of U55 have 8 bytes, those of U65 and U85 16 (Arm's TRMs).
_NARROW, _WIDE = "Ethos_U55_", "Own_"
_HINT = "Vela's documentation (OPTIONS.md) shows the sections and their keys."


@dataclass(frozen=True)
class IniSystem:
    """A system configuration: clock [Hz] and the memory on each AXI port."""

    name: str
    clock_hz: int
    ports: tuple[str, str]


@dataclass(frozen=True)
class IniMode:
    """A memory mode: the port (0 or 1) of constants, arena and cache, and the cache bytes."""

    name: str
    const: int
    arena: int
    cache: int
    cache_bytes: int | None


@dataclass(frozen=True)
class VelaIni:
    """The contents of a file, and its text."""

    text: str
    systems: dict[str, IniSystem] = field(default_factory=dict)
    modes: dict[str, IniMode] = field(default_factory=dict)

    def fitting(self, system: str) -> list[str]:
        """Return the memory modes that fit a system configuration: the arena must be writable."""
        if system not in self.systems:
            return list(self.modes)
        ports = self.systems[system].ports
        return [
            mode.name
            for mode in self.modes.values()
            if ports[mode.arena] in {"Sram", "Dram"} and ports[mode.cache] == "Sram"
        ]


def section_for_vela(name: str, device: str) -> str:
    """Return the name under which Vela takes a section of an own .ini as one of the device.

    Args:
        name: The section's name without ``System_Config.``.
        device: E.g. ``ethos-u55-128``.
    """
    is_narrow = device.startswith("ethos-u55-")
    if is_narrow == name.startswith("Ethos_U55"):
        return name
    return f"{_NARROW if is_narrow else _WIDE}{name}"


def text_for_vela(ini: VelaIni, name: str, device: str) -> str:
    """Return the text of an own .ini with the section under its name for Vela, if that differs.

    Args:
        ini: The file.
        name: A system configuration in it.
        device: E.g. ``ethos-u55-128``.
    """
    wanted = section_for_vela(name, device)
    if wanted == name or wanted in ini.systems:
        return ini.text
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(ini.text)
    section, keys = f"{_SYSTEM}{name}", dict[str, str]()
    while parser.has_section(section):
        keys = {**parser[section], **keys}
        parent = keys.pop("inherit", "")
        parser.remove_section(section)
        section = parent
    lines = [f"{key}={value}" for key, value in keys.items()]
    return "\n".join((ini.text.rstrip(), "", f"[{_SYSTEM}{wanted}]", *lines, ""))


def ini_path(reference: str, folder: Path) -> Path:
    """Return the path of the file; ``board:NAME/FILE`` is beside that board's file.

    Raises:
        WorkbenchError: there is no such board.
    """
    if not reference.startswith(BOARD_PREFIX):
        return absolute(folder, reference)
    name, _, file = reference.removeprefix(BOARD_PREFIX).rpartition("/")
    return board_file(name, folder).parent / file


def ini_of(choice: TargetChoice, folder: Path) -> VelaIni | None:
    """Return the choice's own .ini; None if it uses Vela's.

    Raises:
        WorkbenchError: it is missing or invalid.
    """
    reference = choice.options.get(OPTION)
    return load(ini_path(str(reference), folder)) if reference else None


def load(path: Path) -> VelaIni:
    """Return the contents of a file.

    Raises:
        WorkbenchError: it is unreadable or not a Vela configuration.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise failure(
                f"{path.name} is too large for an .ini file.",
                "Choose an .ini file of Vela.",
                where=_where(),
                code="vela-config-too-large",
            )
        text = read_limited(path, MAX_TEXT_BYTES).decode()
    except UnicodeDecodeError:
        raise failure(
            f"{path.name} is not a text file.", "Choose an .ini file.", _where(), code="vela-config-not-text"
        ) from None
    except OSError as error:
        raise failure(
            f"{path.name} cannot be read: {error.strerror or error}.",
            "Correct the path, or leave it empty to use Vela's own configurations.",
            _where(),
            code="vela-config-unreadable",
        ) from error
    return parse(text, path.name)


def parse(text: str, name: str) -> VelaIni:
    """Return the contents of a text; ``name`` is used in messages.

    Raises:
        WorkbenchError: the text is invalid; lists every problem.
    """
    # Interpolation can make gigabytes of a few lines. Vela interpolates, but needs it nowhere.
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text, name)
        if any("%" in value for section in parser.values() for value in section.values()):
            raise configparser.Error("% is not supported in values.")
        problems = list(_lacking(parser, name))
        systems = [_system(parser, s, name, problems) for s in parser.sections() if _is(s, _SYSTEM)]
        modes = [_mode(parser, s, name, problems) for s in parser.sections() if _is(s, _MODE)]
    except configparser.Error as error:
        line = " ".join(str(error).split())
        raise failure(
            f"{name} is not a valid .ini file: {line}", _HINT, _where(), code="vela-config-invalid"
        ) from None
    if problems:
        raise WorkbenchError(problems)
    return VelaIni(text, {s.name: s for s in systems if s}, {m.name: m for m in modes if m})


def _is(section: str, prefix: str) -> bool:
    return section.startswith(prefix) and len(section) > len(prefix)


def _where() -> Place:
    return Place(kind="option", id=f"target.options.{OPTION}")


def _lacking(parser: configparser.ConfigParser, name: str) -> Iterator[ErrorInfo]:
    for prefix in (_SYSTEM, _MODE):
        if not any(_is(section, prefix) for section in parser.sections()):
            yield ErrorInfo(
                message=f"{name} has no section [{prefix}NAME].",
                hint="Vela needs at least one [System_Config.NAME] and one [Memory_Mode.NAME].",
                where=_where(),
                code="vela-config-section-missing",
            )


def _value(parser: configparser.ConfigParser, section: str, key: str) -> str | None:
    """Return a key of a section or of the sections it inherits from.

    Raises:
        KeyError: it inherits from a missing section, from itself, or over too many sections.
    """
    seen: list[str] = []
    while section not in seen and len(seen) < _MOST_INHERITED:
        seen.append(section)
        if not parser.has_section(section):
            raise KeyError(section)
        if parser.has_option(section, key):
            return parser.get(section, key)
        if not parser.has_option(section, "inherit"):
            return None
        section = parser.get(section, "inherit")
    raise KeyError(section)


def _values(
    parser: configparser.ConfigParser,
    section: str,
    keys: tuple[str, ...],
    name: str,
    problems: list[ErrorInfo],
) -> dict[str, str] | None:
    """Return the keys of a section; None, with a problem added, if keys are missing."""
    try:
        values = {key: _value(parser, section, key) for key in keys}
    except KeyError as error:
        problems.append(
            _problem(
                name,
                section,
                f"inherits from [{error.args[0]}], which is not "
                "there, inherits from itself, or is too far away",
            )
        )
        return None
    missing = [key for key, value in values.items() if value is None]
    if missing:
        problems.append(_problem(name, section, f"lacks {', '.join(missing)}"))
        return None
    return {key: str(value) for key, value in values.items()}


def _system(
    parser: configparser.ConfigParser, section: str, name: str, problems: list[ErrorInfo]
) -> IniSystem | None:
    values = _values(parser, section, ("core_clock", *_PORTS), name, problems)
    if values is None:
        return None
    ports = (values["axi0_port"], values["axi1_port"])
    if unknown := [port for port in ports if port not in _MEMORIES]:
        known = ", ".join(_MEMORIES)
        problems.append(_problem(name, section, f"has a port {unknown[0]!r}; known are {known}"))
        return None
    scales = tuple(f"{port}_clock_scale" for port in dict.fromkeys(ports))
    numbers = _values(parser, section, scales, name, problems)
    if numbers is None:
        return None
    for key, value in {"core_clock": values["core_clock"], **numbers}.items():
        if not _is_positive(value):
            problems.append(_problem(name, section, f"has {key}={value}, not a positive number"))
            return None
    clock = int(float(values["core_clock"]))
    return IniSystem(section.removeprefix(_SYSTEM), clock, ports)


def _mode(
    parser: configparser.ConfigParser, section: str, name: str, problems: list[ErrorInfo]
) -> IniMode | None:
    values = _values(parser, section, _AREAS, name, problems)
    if values is None:
        return None
    for key, value in values.items():
        if value not in {"Axi0", "Axi1"}:
            problems.append(_problem(name, section, f"has {key}={value}; it is Axi0 or Axi1"))
            return None
    size = _value(parser, section, "arena_cache_size")
    cache_bytes = None if size is None else whole_number(size)
    if size is not None and cache_bytes is None:
        problems.append(_problem(name, section, f"has arena_cache_size={size[:40]}, not bytes"))
        return None
    const, arena, cache = (int(values[key][-1]) for key in _AREAS)
    title = section.removeprefix(_MODE)
    return IniMode(title, const, arena, cache, cache_bytes)


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False


def _problem(name: str, section: str, what: str) -> ErrorInfo:
    return ErrorInfo(
        message=f"{name}: [{section}] {what}.", hint=_HINT, where=_where(), code="vela-config-value-invalid"
    )
