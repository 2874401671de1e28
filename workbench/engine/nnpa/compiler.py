"""Checks predictions with the installed compiler, if there is one.

The compiler's intermediate form (``--EmitZHighIR``) names int8 products. It writes
``BASE.onnx.mlir``. A container image is used if present; none is downloaded.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.operating_system import end_group
from workbench.process_guard import guarded
from workbench.results import CONFIG_FILE, MODEL_FILE, CompilerCheck
from workbench.targets.nnpa.command import COMPILER, CONTAINER_TOOL, IMAGE, arguments
from workbench.text import plural
from workbench.tool_output import tool_output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pydantic import JsonValue

# Of the end of the compiler's output.
_MOST_OUTPUT_BYTES = 1 << 20
_TOOL_TIMEOUT_S, _TIMEOUT_S, _POLL_S, _PATIENCE_S = 20.0, 1800.0, 0.1, 1.0
_QUANTIZED = "zhigh.QuantizedMatMul"
_ABSENT = (
    f"Neither {COMPILER} nor {CONTAINER_TOOL} is installed, so the compiler was "
    "not run; the number of int8 products is predicted."
)


@dataclass(frozen=True)
class Compiler:
    """An installed compiler: its command in a folder, and its version."""

    call: tuple[str, ...]
    version: str


def find_compiler(folder: Path) -> Compiler | str:
    """Return the compiler, or a sentence why there is none."""
    if path := shutil.which(COMPILER):
        version_text = _answer([path, "--version"])
        return Compiler((path,), f"{COMPILER} {_version(version_text)}")
    docker = shutil.which(CONTAINER_TOOL)
    if docker is None:
        return _ABSENT
    if not _answer([docker, "image", "inspect", "--format", "{{.Id}}", IMAGE]):
        return (
            f"{CONTAINER_TOOL} is installed, but without the image {IMAGE}, so the "
            f"compiler was not run. Run: docker pull {IMAGE}, then run again without the "
            "cache."
        )
    mount = ("-v", f"{folder}:{folder}", "-w", str(folder))
    call = (docker, "run", "--rm", *mount, IMAGE)
    return Compiler(call, f"{IMAGE} {_version(_answer([*call, '--version']))}")


def check(
    model: bytes,
    config: str,
    options: Mapping[str, JsonValue],
    predicted: int,
    check_cancelled: Callable[[], None],
) -> CompilerCheck:
    """Run the compiler, and compare its int8 products with the prediction.

    Args:
        model: The ONNX file.
        config: Its exclusion file, or "".
        options: All options of the target.
        predicted: Number of predicted products.
        check_cancelled: Raises when the user cancels.
    """
    with tempfile.TemporaryDirectory(prefix="nnpa-") as name:
        folder = Path(name)
        compiler = find_compiler(folder)
        if isinstance(compiler, str):
            return CompilerCheck(sentence=compiler)
        (folder / MODEL_FILE).write_bytes(model)
        if config:
            (folder / CONFIG_FILE).write_text(config)
        flags = arguments(MODEL_FILE, options, emit="EmitZHighIR", config=CONFIG_FILE if config else "")
        code, output = _run([*compiler.call, *flags], folder, check_cancelled)
        written = folder / f"{MODEL_FILE.removesuffix('.onnx')}.onnx.mlir"
        listing = written.read_text(errors="replace") if written.is_file() else None
    shown = shlex.join([COMPILER, *flags])
    if code != 0 or listing is None:
        last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
        why = f"ended with {code}" if code else "wrote nothing"
        sentence = f"{compiler.version} {why}: {last.strip()[:300] or 'no output'}"
        return CompilerCheck(compiler=compiler.version, command=shown, sentence=sentence)
    count = listing.count(_QUANTIZED)
    agrees = "as predicted" if count == predicted else f"but {predicted} were predicted"
    sentence = f"{compiler.version} creates {plural(count, 'int8 product')}, {agrees}."
    return CompilerCheck(compiler=compiler.version, command=shown, quantized=count, sentence=sentence)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a running process: terminate first, which docker forwards to its container."""
    for ask, patience in ((True, _PATIENCE_S), (False, None)):
        if process.poll() is None:
            end_group(process.pid, ask=ask)
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                continue


def _version(text: str) -> str:
    match = re.search(r"\d+\.\d+(\.\d+)*", text)
    return match.group() if match else "of an unknown version"


def _answer(command: Sequence[str]) -> str:
    """Return the output of a short command; "" if it fails or times out."""
    try:
        output = tool_output(command, _TOOL_TIMEOUT_S)
    except OSError:
        return ""
    return output.text.strip() if output.code == 0 else ""


def _run(command: Sequence[str], folder: Path, check_cancelled: Callable[[], None]) -> tuple[int, str]:
    """Run the compiler; return its exit code and output. It ends when the user cancels."""
    log = folder / "compiler.log"
    started = time.monotonic()
    with log.open("wb") as out:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return -1, str(error)
        try:
            with guarded(process.pid):
                while process.poll() is None:
                    check_cancelled()
                    if time.monotonic() - started > _TIMEOUT_S:
                        return -1, f"it did not end within {_TIMEOUT_S / 60:.0f} minutes"
                    time.sleep(_POLL_S)
        finally:
            _end(process)
    with log.open("rb") as output:
        output.seek(max(0, log.stat().st_size - _MOST_OUTPUT_BYTES))
        return process.returncode, output.read(_MOST_OUTPUT_BYTES).decode(errors="replace")
