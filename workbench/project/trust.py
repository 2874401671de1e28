"""Trust: which user code a project runs, and whether the user has allowed exactly this code."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickletools
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from workbench.errors import ErrorInfo, Place, TrustRequiredError, WorkbenchError
from workbench.installation import resources
from workbench.project import sources
from workbench.project.checkpoints import CONVERT_MODULE, form_of
from workbench.project.store import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.project.model import Project


_SAFE_TARGET = re.compile(
    r"torch\.ops\.[\w.]+|_operator\.\w+|operator\.\w+|math\.\w+|torch\._?sym_\w+|"
    r"torch\.(sym_\w+)|builtins\.(min|max|abs|pow|round|getitem)"
)
_UNSAFE_OPERATOR = re.compile(r"torch\.ops\.aten\.from_file\b|call_torchbind|torch\.ops\.profiler")
_SIZE = re.compile(r"[\w\s+\-*/().,<>=!&|%]*")
_SIZE_NAME = re.compile(
    r"[suz]\d+|Max|Min|Mod|PythonMod|FloorDiv|CleanDiv|CeilDiv|IntTrueDiv|FloatTrueDiv|Pow|"
    r"PowByNatural|FloatPow|ToFloat|TruncToInt|CeilToInt|FloorToInt|RoundToInt|Identity|"
    r"ModularIndexing|Where|Eq|Ne|Gt|Ge|Lt|Le|And|Or|Not|Abs|oo|int_oo|True|False|true|false|"
    r"ceiling|floor|sqrt|OpaqueUnaryFn_\w+|Integer|Rational|Float|Symbol|VR|nan"
)
_SAFE_GLOBALS = re.compile(
    r"collections OrderedDict|torch\._utils _rebuild_(tensor_v2|parameter|qtensor)|"
    r"torch\._utils _rebuild_device_tensor_from_numpy|torch \w+Storage|torch\.storage \w+|"
    r"torch (Size|device|float\d+|bfloat16|u?int\d+|bool|strided|contiguous_format|Tensor)|"
    r"torch\.serialization _get_layout|torch\.nn\.parameter Parameter|_codecs encode|"
    r"torch\._tensor _rebuild_from_type_v2"
)
_CODE_FOLDERS = re.compile(r"/(aotinductor|aoti|executorch)/|\.(so|dll|dylib|py|pyc|cubin)$")
_MAX_GRAPH_BYTES = 512 << 20


def archive_risks(path: Path) -> list[str]:
    """Return why loading the file may run code; "" if it cannot."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if not any(name.endswith("/archive_format") for name in names):
                return ["uses an old format, and loading it may run code"]
            return sorted(set(_risks(archive, names)))
    except (OSError, zipfile.BadZipFile, ValueError, RecursionError):
        # Not an archive: the import stage reports it, and no code is run.
        return []


def _risks(archive: zipfile.ZipFile, names: list[str]) -> Iterator[str]:
    for name in names:
        if _CODE_FOLDERS.search(name):
            yield "contains compiled code"
        elif re.search(r"/models/[^/]+\.json$", name):
            if archive.getinfo(name).file_size > _MAX_GRAPH_BYTES:
                yield "contains a graph that is too large to check"
            else:
                yield from _graph_risks(json.loads(archive.read(name)))
        elif name.endswith(".pt") and not _safe_pickle(archive.read(name)):
            yield "contains a pickle that can run code"
        elif re.search(r"(weights|constants)_config\.json$", name):
            yield from _payload_risks(archive, name)
        elif re.search(r"/constants/custom_obj_\d+$", name):
            yield "contains script objects"


def _payload_risks(archive: zipfile.ZipFile, name: str) -> Iterator[str]:
    folder = name.rpartition("/")[0]
    config = json.loads(archive.read(name)).get("config", {})
    for entry in config.values():
        if not isinstance(entry, dict):
            continue
        if entry.get("tensor_meta") is None and not entry.get("use_pickle"):
            yield "contains script objects"
        if entry.get("use_pickle"):
            payload = archive.read(f"{folder}/{entry.get('path_name')}")
            if not _safe_pickle(payload):
                yield "contains a pickle that can run code"


def _graph_risks(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(item)
            continue
        if not isinstance(item, dict):
            continue
        target = item.get("target")
        if isinstance(target, str) and "inputs" in item and not _safe_target(target):
            yield f"calls {target}"
        expression = item.get("expr_str")
        if isinstance(expression, str) and not _safe_size(expression):
            yield "contains a size that is not arithmetic"
        stack.extend(item.values())


def _safe_target(name: str) -> bool:
    return bool(_SAFE_TARGET.fullmatch(name)) and not _UNSAFE_OPERATOR.search(name)


def _safe_size(text: str) -> bool:
    if not _SIZE.fullmatch(text) or "__" in text or len(text) > 10_000:
        return False
    names = re.findall(r"[A-Za-z_]\w*", text)
    return all(_SIZE_NAME.fullmatch(name) for name in names)


def _safe_pickle(data: bytes) -> bool:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as inner:
            pickles = [inner.read(n) for n in inner.namelist() if n.endswith("data.pkl")]
    except zipfile.BadZipFile:
        return False
    return all(_SAFE_GLOBALS.fullmatch(name) for p in pickles for name in _globals(p))


def _globals(data: bytes) -> Iterator[str]:
    strings: list[str] = []
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in {"GLOBAL", "INST"}:
            yield str(argument)
        elif opcode.name == "STACK_GLOBAL":
            yield " ".join(strings[-2:])
        elif isinstance(argument, str):
            strings.append(argument)


# The program's own samples are a part of the program; copies of them are asked for like any code.
SAMPLES = resources() / "samples"
CONFIG_VARIABLE = "QUANTIZATION_WORKBENCH_CONFIG"


@dataclass(frozen=True)
class CodeUse:
    """One piece of user code: the option that refers to it, its files, and why it runs.

    ``instead`` says how to do without it.
    """

    option: str
    files: tuple[Path, ...]
    why: str
    instead: str = ""


def code_used(project: Project, folder: Path) -> list[CodeUse]:
    """Return all code that a run executes, except the shipped samples."""
    uses = []
    for option, reference in sources.references(project, folder):
        files = tuple(p for p in sources.files_of(reference) if p.is_file())
        if files and all(p.resolve().is_relative_to(SAMPLES) for p in files):
            continue
        if reference.runs_code:
            name = reference.module or (reference.path.name if reference.path else "")
            uses.append(CodeUse(option, files, f"runs {name}:{reference.attribute}"))
        elif reference.kind == "weights" and reference.path and files:
            if "module" in map(form_of, files):
                name = reference.path.name
                instead = CONVERT_MODULE.replace("{name}", name)
                uses.append(CodeUse(option, files, f"unpickles the module in {name}", instead))
        elif reference.kind == "program" and reference.path and reference.path.is_file():
            uses.extend(
                CodeUse(option, files, f"{reference.path.name} {risk}")
                for risk in archive_risks(reference.path)
            )
    return uses


def trust_digest(uses: list[CodeUse]) -> str:
    """Return one digest of this code; it changes when any file changes."""
    sha = hashlib.sha256()
    for use in uses:
        sha.update(use.why.encode() + b"\0")
        for path in use.files:
            sha.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return sha.hexdigest()


def config_folder() -> Path:
    """Return the user's configuration folder; it may not exist."""
    given = os.environ.get(CONFIG_VARIABLE)
    return Path(given) if given else Path(platformdirs.user_config_dir("quantization-workbench"))


def default_store() -> Path:
    """Return the file that stores trust: per user, never inside a project."""
    return config_folder() / "trust.json"


class TrustStore:
    """The digests that the user has allowed, each with a description of its project."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or default_store()

    def granted(self) -> dict[str, str]:
        """Return all trusted digests with their descriptions."""
        try:
            raw = json.loads(self._path.read_bytes())
            return {str(k): str(v) for k, v in raw.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def allows(self, uses: list[CodeUse]) -> bool:
        """Return whether the code may run: there is none, or it was allowed before."""
        return not uses or trust_digest(uses) in self.granted()

    def grant(self, uses: list[CodeUse], description: str) -> None:
        """Store the permission to run this code."""
        self._write({**self.granted(), trust_digest(uses): description})

    def revoke(self, digest: str) -> None:
        """Remove one permission."""
        self._write({k: v for k, v in self.granted().items() if k != digest})

    def _write(self, granted: dict[str, str]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, json.dumps(granted, indent=1).encode())


def demand(project: Project, folder: Path, store: TrustStore) -> None:
    """Return if the project's code may run.

    Raises:
        TrustRequiredError: the project refers to code that is not allowed; lists every piece.
    """
    try:
        uses = code_used(project, folder)
        allowed = store.allows(uses)
    except WorkbenchError:
        # An invalid reference runs no code; the run reports it.
        return
    if allowed:
        return
    raise TrustRequiredError(
        ErrorInfo(
            message=f"Running this project {use.why}.",
            hint=use.instead or "Read the code, then allow it (command line: --trust).",
            where=Place(kind="option", id=use.option),
            code="trust-required",
        )
        for use in uses
    )
