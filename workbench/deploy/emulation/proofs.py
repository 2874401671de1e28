"""Proofs that are kept: which program was proven with which firmware on the emulated board.

A proof is a file of its own in the user's folder of data. Its name has the digests of the program
and of the firmware, so that it holds for these very bytes only.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from workbench.errors import Place, failure, reason_of, write_remedy
from workbench.files import (
    MAX_TEXT_BYTES,
    file_digest,
    is_open_to_others,
    make_private_folder,
    read_limited,
    write_file,
)
from workbench.installation import data_folder
from workbench.project.frozen import Frozen
from workbench.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from workbench.deploy.emulation.findings import Proof
    from workbench.results import Deliverable

_SHA256 = r"^[0-9a-f]{64}$"
# How much of a digest a sentence has.
_SHOWN = 16


class KeptProof(Frozen):
    """A proof: digests of the program and of the firmware, and what it was proven with.

    Attributes:
        program_sha256: Digest of the .pte.
        firmware_sha256: Digest of the linked firmware.
        firmware: File name of the firmware.
        target: The NPU, as ethos-u55-128.
        driver: Version of Arm's driver in the firmware; "" if it does not tell it.
        qemu: Version of the emulator.
        date: The day, as 2026-11-26 (UTC).
        delegates: Number of the program's delegates.
        delegates_run: How many of them the firmware ran.
        cpu_kernels: Number of kernels that the program calls on the CPU; a proof does not cover them.
        cache_checked: Whether the maintenance of the data cache was checked.
    """

    program_sha256: str = Field(pattern=_SHA256)
    firmware_sha256: str = Field(pattern=_SHA256)
    firmware: str
    target: str
    driver: str
    qemu: str
    date: str
    delegates: int
    delegates_run: int
    cpu_kernels: int
    cache_checked: bool

    @property
    def short(self) -> str:
        """What was proven, without the digests."""
        driver = f"driver {self.driver}" if self.driver else "a driver of unknown version"
        return f"proven on an emulated Cortex-M55 with {driver} on {self.date}"

    @property
    def sentence(self) -> str:
        """The proof in full sentences, for the firmware note."""
        parts = ""
        if self.delegates_run != self.delegates:
            parts += f" {self.delegates_run} of its {self.delegates} delegates ran."
        if self.cpu_kernels:
            parts += f" Not checked: its {plural(self.cpu_kernels, 'CPU kernel')}."
        cache = "checked" if self.cache_checked else "not checked"
        return (
            f"Emulated, not measured: this program (sha256 {self.program_sha256[:_SHOWN]}) was {self.short}: "
            f"firmware {self.firmware} (sha256 {self.firmware_sha256[:_SHOWN]}), {self.target}, QEMU "
            f"{self.qemu}; maintenance of the data cache {cache}.{parts}"
        )


def keep_proof(elf: Path, program: Path, proof: Proof) -> KeptProof | None:
    """Keep a proof, or forget an older one of the same files if this one failed.

    Nothing is kept if one of the files is not the one that was proven any more.

    Returns:
        What is kept; None if nothing is.

    Raises:
        WorkbenchError: It cannot be written.
    """
    path = _folder() / f"{proof.program_sha256}-{proof.firmware_sha256}.json"
    try:
        if proof.verdict != "proven":
            path.unlink(missing_ok=True)
            return None
        if (file_digest(program), file_digest(elf)) != (proof.program_sha256, proof.firmware_sha256):
            return None
        kept = _stored(elf.name, proof)
        make_private_folder(path.parent)
        write_file(path, kept.model_dump_json(indent=1).encode())
    except OSError as error:
        raise failure(
            f"The proof cannot be kept: {path}: {reason_of(error)}.",
            f"The firmware is proven all the same. {write_remedy(error, 'Make the folder writable.')}",
            Place(kind="file", id=str(path)),
            code="proof-not-writable",
        ) from error
    return kept


def _stored(name: str, proof: Proof) -> KeptProof:
    return KeptProof(
        program_sha256=proof.program_sha256,
        firmware_sha256=proof.firmware_sha256,
        firmware=name,
        target=proof.target,
        driver=proof.driver,
        qemu=proof.qemu,
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        delegates=proof.delegates,
        cpu_kernels=proof.cpu_kernels,
        delegates_run=len({job["delegate"] for job in proof.jobs} - {None}),
        cache_checked="cleaned" in proof.checked,
    )


def proofs_of(program_sha256: str) -> tuple[KeptProof, ...]:
    """Return the kept proofs of a program, the newest first.

    A file that cannot be read, or that is another's, proves nothing and is passed over; so is one
    that other users can change.
    """
    if is_open_to_others(_folder()):
        return ()
    proofs = []
    for path in sorted(_folder().glob(f"{program_sha256}-*.json")):
        if is_open_to_others(path):
            continue
        try:
            proof = KeptProof.model_validate_json(read_limited(path, MAX_TEXT_BYTES))
        except (OSError, ValidationError):
            continue
        if path.stem == f"{proof.program_sha256}-{proof.firmware_sha256}":
            proofs.append(proof)
    return tuple(sorted(proofs, key=lambda proof: proof.date, reverse=True))


def stored_proof(elf: Path, program: Path) -> KeptProof | None:
    """Return the kept proof of a program with a firmware; None if there is none, or no such file."""
    try:
        digests = tuple(
            _digest(path, path.stat().st_mtime_ns, path.stat().st_size) for path in (program, elf)
        )
    except OSError:
        return None
    return next((proof for proof in proofs_of(digests[0]) if proof.firmware_sha256 == digests[1]), None)


@lru_cache(maxsize=8)
def _digest(path: Path, modified_ns: int, size: int) -> str:
    """Return the digest of a file; it is read again only if it has changed."""
    del modified_ns, size
    return file_digest(path)


def proofs_of_package(files: Iterable[Deliverable]) -> tuple[KeptProof, ...]:
    """Return the kept proofs of the program among deliverables, the newest first."""
    return tuple(p for file in files if file.name.endswith(".pte") for p in proofs_of(file.sha256))


def _folder() -> Path:
    return data_folder() / "emulated"
