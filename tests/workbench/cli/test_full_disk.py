"""A full disk below each verb that writes: the file is named, nothing new stays, the next try works."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from tests.for_each import for_each
from tests.workbench.project.builders import make_project
from workbench import cli, files
from workbench.errors import SYSTEM_REMEDIES
from workbench.project import store

PROGRAM = Path(__file__).parents[2] / "data" / "programs" / "integer" / "u55" / "program.pte"
SILICON = "silicon add --measured-ms 3 --source me --id mine --network net --placement sram"
# A verb, and the code of its problem; "OUT" is a folder, "PROJECT" a project.
VERBS = (
    ("new OUT/new.qwb --recipe keyword_spotting", "folder-not-writable"),
    ("new OUT/new.qwb --recipe llm_decoder_text", "folder-not-writable"),
    ("new OUT/new.qwb --model ../model.py:net --target ethos-u55-128", "project-not-saved"),
    ("samples digits --to OUT", "sample-not-copied"),
    ("decoders fcos OUT/fcos.py", "file-not-writable"),
    (f"firmware new {PROGRAM} --out OUT", "file-not-writable"),
    (f"simulate {PROGRAM} --out OUT/y.npz", "file-not-writable"),
    ("rules PROJECT add --kind global --config a8w8", "project-not-saved"),
    ("settings PROJECT notes=other", "project-not-saved"),
    ("target PROJECT etrecord=false", "project-not-saved"),
    ("board set --port /dev/ttyACM0", "file-not-writable"),
    ("fvp set --timeout 7", "file-not-writable"),
    (f"{SILICON} --board corstone-300 --device ethos-u55-128", "silicon-not-writable"),
)


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


class Disk:
    """A disk that takes some files, and is full then."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.room = 0
        patch.setattr(files.os, "fsync", self._take(os.fsync))
        patch.setattr(shutil, "copyfile", self._take(shutil.copyfile))

    def _take(self, stock):
        def write(*arguments):
            self.room -= 1
            if self.room < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a file")
            return stock(*arguments)

        return write


@for_each("verb, code", VERBS)
def test_that_a_verb_on_a_full_disk_names_the_file_leaves_nothing_and_works_later(
    verb, code, tmp_path, codes, capsys
):
    (tmp_path / "out").mkdir()
    (tmp_path / "model.py").write_text("def net(): ...\n")
    store.save(make_project(), tmp_path / "net.qwb")
    words = [
        w.replace("OUT", f"{tmp_path}/out").replace("PROJECT", f"{tmp_path}/net.qwb") for w in verb.split()
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUANTIZATION_WORKBENCH_CONFIG", str(tmp_path / "config"))
        before, disk = content(tmp_path), Disk(patch)
        for room in (0, 1, 2):
            disk.room = room
            if cli.main(words) == 0:
                break
            assert codes[-1:] == [code], room
            told = capsys.readouterr().err
            assert SYSTEM_REMEDIES[errno.ENOSPC] in told, told
            assert content(tmp_path) == before, room
        assert room > 0
        disk.room = 1000
        assert content(tmp_path) != before or cli.main(words) == 0
    assert content(tmp_path) != before
