"""Which check notices which fault of firmware, with Arm's driver: the fault matrix.

``python -m tests.firmware.matrix --driver DIR --cmsis DIR [PROGRAM.pte ...]`` builds firmware with
each fault and runs it. It ends with 1 if a fault is missed, or firmware without one not proven.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.firmware.faulty import CONTROLS, FAULTS, Fault, fast_fault
from workbench.deploy.emulation.findings import Proof
from workbench.deploy.emulation.firmware_project import Sources, build_project, sources, write_project
from workbench.deploy.emulation.prover import Board, delegates_of, prove


def built(program: Path, fault: Fault, found: Sources, folder: Path) -> Path:
    """Write, edit and build firmware with a fault."""
    write_project(program, folder)
    for name, edits in (("main.c", fault.code), ("mps3_an547.ld", fault.linker)):
        text = (folder / name).read_text()
        for old, new in edits:
            assert old in text, (fault.name, old)
            text = text.replace(old, new)
        (folder / name).write_text(text)
    if fault.blocks is not None:
        fault.blocks(folder)
    return build_project(folder, found, cached=fault.cached, flags=fault.flags)


def proof_of(program: Path, fault: Fault, found: Sources, folder: Path) -> Proof:
    """Run firmware with a fault."""
    elf = built(program, fault, found, folder)
    board = Board(cached=fault.cached, delay_s=fault.delay_s, limit_s=8.0, folder=folder)
    return prove(elf, program, board)


def row(fault: Fault, proof: Proof) -> tuple[bool, str]:
    """Return whether a fault was noticed as it must be, and the row of the table."""
    broken = sorted({finding.check for finding in proof.findings})
    if not fault.checks:
        held = proof.verdict == "proven"
        return held, "proven" if held else f"not proven: {', '.join(broken)}"
    itself = proof.exit_code == 0
    noticed = bool(set(broken) & set(fault.checks)) and fault.equal in {None, itself}
    return noticed, f"{', '.join(broken) or 'not noticed'}{' (exit code 0)' if itself else ''}"


def main() -> int:
    """Build and run all; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--driver", type=Path, required=True)
    parser.add_argument("--cmsis", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("programs", nargs="+", type=Path)
    options = parser.parse_args()
    found, missed = sources(options.driver, options.cmsis), 0
    for program in options.programs:
        delegates = delegates_of(program)
        target = delegates[0].target
        fast = any(delegate.fast_bytes for delegate in delegates)
        print(f"{program.name} for {target}, driver {found.driver_version}")
        for fault in (*CONTROLS, *FAULTS, *([fast_fault()] if fast else [])):
            if options.only not in fault.name or fault.family not in target:
                continue
            with tempfile.TemporaryDirectory() as folder:
                proof = proof_of(program, fault, found, Path(folder))
            held, text = row(fault, proof)
            missed += not held
            print(f"  {'ok ' if held else 'MISSED'} {fault.name}: {text}", flush=True)
            if not held:
                print(
                    "\n".join(f"      {f.message}" for f in proof.findings),
                    proof.exit_code,
                    proof.output[-300:],
                )
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
