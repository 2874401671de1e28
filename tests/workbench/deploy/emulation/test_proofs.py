"""Proofs that are kept, and where they are stated."""

import hashlib
import json

import pytest

from tests.for_each import for_each
from tests.workbench.deploy.test_delivery import ACCURATE
from workbench.analysis.answers import Answers
from workbench.analysis.gate import GateResult
from workbench.deploy.delivery import deliver
from workbench.deploy.emulation.findings import Finding, Proof
from workbench.deploy.emulation.proofs import keep_proof, proofs_of
from workbench.errors import WorkbenchError
from workbench.results import Deliverable, PackageResult, save_result

RIGHT = Answers(GateResult(verdict="right"), ACCURATE)
PAGES = {
    "net.md": b"# net on ethos-u55-128\n\n## Program\n",
    "net.html": b"<!doctype html>\n<html>\n<body>\n<h1>net</h1>\n<p>x</p>\n</body></html>\n",
}


def sha(data):
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("QUANTIZATION_WORKBENCH_CONFIG", str(tmp_path / "config"))
    elf, program = tmp_path / "app.elf", tmp_path / "net.pte"
    elf.write_bytes(b"firmware")
    program.write_bytes(b"program")
    return elf, program


def proof_of(elf, program, **changes):
    digests = sha(program.read_bytes()), sha(elf.read_bytes())
    proof = Proof("ethos-u55-128", "7.2.22", *digests, delegates=1, driver="1.0.0", exit_code=0)
    proof.jobs.append({"delegate": 0})
    for name, value in changes.items():
        setattr(proof, name, value)
    return proof


def delivered(tmp_path, program):
    """Return manifest, note and page of a package with a program."""
    folder, out = tmp_path / "package", tmp_path / "out"
    folder.mkdir(exist_ok=True)
    contents = {"net.pte": program.read_bytes(), **PAGES}
    contents["manifest.json"] = json.dumps({"board": None, "files": []}).encode()
    listed = []
    for name, data in contents.items():
        (folder / name).write_bytes(data)
        listed.append(Deliverable(name=name, bytes=len(data), sha256=sha(data), purpose=""))
    package = PackageResult(
        files=tuple(listed), kernels=(), method_pool_bytes=0, scratch_pool_bytes=0, planned_bytes=()
    )
    save_result(package, folder)
    deliver(folder, out, RIGHT)
    manifest = json.loads((out / "manifest.json").read_text())
    return manifest, (out / "net.md").read_text(), (out / "net.html").read_text()


def test_that_deliverables_say_that_their_program_was_proven(files, tmp_path):
    elf, program = files
    keep_proof(elf, program, proof_of(elf, program))
    manifest, *pages = delivered(tmp_path, program)
    (row,) = manifest["emulated_board"]
    assert (row["program_sha256"], row["firmware_sha256"]) == (sha(b"program"), sha(b"firmware"))
    assert (row["driver"], row["firmware"]) == ("1.0.0", "app.elf")
    for page in pages:
        for fact in (
            "proven on an emulated Cortex-M55 with driver 1.0.0",
            row["date"],
            sha(b"firmware")[:16],
        ):
            assert fact in page


def test_that_a_proof_is_gone_when_the_program_changes(files, tmp_path):
    elf, program = files
    keep_proof(elf, program, proof_of(elf, program))
    program.write_bytes(b"progran")
    manifest, *pages = delivered(tmp_path, program)
    assert manifest["emulated_board"] == []
    assert not any("mulated" in page for page in pages)


def test_that_a_program_or_firmware_that_changed_meanwhile_is_not_proven(files):
    elf, program = files
    proof = proof_of(elf, program)
    elf.write_bytes(b"built again")
    assert keep_proof(elf, program, proof) is None
    assert proofs_of(proof.program_sha256) == ()


def test_that_a_later_failure_of_the_same_files_ends_a_proof(files):
    elf, program = files
    proof = proof_of(elf, program)
    keep_proof(elf, program, proof)
    other = elf.with_name("other.elf")
    other.write_bytes(b"other firmware")
    keep_proof(other, program, proof_of(other, program))
    keep_proof(elf, program, proof_of(elf, program, findings=[Finding("cleaned", "not cleaned")]))
    assert [kept.firmware for kept in proofs_of(proof.program_sha256)] == ["other.elf"]


@for_each("changes", [{"exit_code": 3}, {"exit_code": None}, {"jobs": []}])
def test_that_only_what_is_proven_is_kept(files, changes):
    elf, program = files
    assert keep_proof(elf, program, proof_of(elf, program, **changes)) is None
    assert proofs_of(sha(b"program")) == ()


def test_that_what_was_not_run_or_not_checked_is_said(files):
    elf, program = files
    whole = keep_proof(elf, program, proof_of(elf, program)).sentence
    assert "delegates ran" not in whole
    assert "CPU kernel" not in whole
    assert "its 2 CPU kernels" in keep_proof(elf, program, proof_of(elf, program, cpu_kernels=2)).sentence
    kept = keep_proof(elf, program, proof_of(elf, program, delegates=3))
    assert "1 of its 3 delegates ran" in kept.sentence
    assert "unknown version" in keep_proof(elf, program, proof_of(elf, program, driver="")).sentence


def test_that_damaged_and_foreign_proofs_prove_nothing(files, tmp_path):
    elf, program = files
    proof = proof_of(elf, program)
    keep_proof(elf, program, proof)
    (path,) = (tmp_path / "config").rglob("*.json")
    other = sha(b"another program")
    path.with_name(f"{other}-{proof.firmware_sha256}.json").write_bytes(path.read_bytes())
    assert proofs_of(other) == ()
    path.write_bytes(path.read_bytes()[:-20])
    assert proofs_of(proof.program_sha256) == ()


def test_that_a_folder_that_cannot_be_written_is_told(files, tmp_path):
    elf, program = files
    (tmp_path / "config").write_text("a file")
    with pytest.raises(WorkbenchError) as refused:
        keep_proof(elf, program, proof_of(elf, program))
    assert refused.value.infos[0].code == "proof-not-writable"


@pytest.mark.parametrize("name", [".", "proof"])
def test_that_a_proof_that_others_can_write_proves_nothing(files, name):
    keep_proof(*files, proof_of(*files))
    program = sha(files[1].read_bytes())
    (kept,) = (files[0].parent / "config").rglob(f"{program}-*.json")
    place = kept if name == "proof" else kept.parent
    assert len(proofs_of(program)) == 1
    place.chmod(0o777)
    assert proofs_of(program) == ()
