"""The code of a project: what runs, what is read of it, and what is asked about."""

import errno
import hashlib
import os
import shutil
import socket
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.project.builders import make_project
from workbench.project import project_code
from workbench.project.model import DataSource, ModelSource, Project
from workbench.project.opened import OpenProject
from workbench.project.project_code import SAMPLES, code_used, is_bundled, read_code, read_folder
from workbench.project.trust import named_code, unread_files

PLAIN = Path(__file__).parents[2] / "data" / "programs" / "plain.pt2"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text("import layers\n")
    (tmp_path / "layers.py").write_text("X = 1\n")
    return tmp_path


def uses(project, folder):
    return {use.option: use for use in code_used(OpenProject(project, folder))}


def test_that_a_callable_is_code_with_the_files_that_it_imports(folder):
    (use,) = code_used(OpenProject(make_project(), folder))
    assert (use.option, use.why) == ("model.spec", "runs model.py, function net")
    assert [file.name for file in use.files] == ["model.py", "layers.py"]
    assert use.instead == ""


def test_that_a_program_is_code_only_where_it_may_run_some(folder):
    shutil.copy(PLAIN, folder / "plain.pt2")
    plain = make_project(model=ModelSource(spec="plain.pt2"))
    assert code_used(OpenProject(plain, folder)) == []
    assert read_code(OpenProject(plain, folder)).places == {}
    assert read_code(OpenProject(plain, folder)).digest == ""
    with zipfile.ZipFile(PLAIN) as old, zipfile.ZipFile(folder / "bad.pt2", "w") as new:
        for name in old.namelist():
            content = old.read(name).replace(b"torch.ops.aten.linear", b"torch.ops.evil.linear")
            new.writestr(name, content)
    bad = make_project(model=ModelSource(spec="bad.pt2"))
    (use,) = code_used(OpenProject(bad, folder))
    assert use.why.startswith("bad.pt2 calls torch.ops.evil.linear")
    code = read_code(OpenProject(bad, folder))
    digest = hashlib.sha256((folder / "bad.pt2").read_bytes()).hexdigest()
    assert code.places == {str(folder / "bad.pt2"): digest}
    assert code.files == (folder / "bad.pt2",)
    assert code.digest


def test_that_only_a_pickled_module_among_weights_is_code(folder):
    (folder / "w.safetensors").write_bytes(b"")
    project = make_project(model=ModelSource(spec="model.py:net", weights="w.safetensors"))
    assert set(uses(project, folder)) == {"model.spec"}


def test_that_every_reference_has_a_use_of_its_own(folder):
    (folder / "data.py").write_text("def data(): ...\n")
    project = make_project(calibration=DataSource(spec="data.py:data"))
    found = uses(project, folder)
    assert set(found) == {"model.spec", "calibration.spec"}
    assert found["calibration.spec"].files == (folder / "data.py",)
    code = read_code(OpenProject(project, folder))
    assert list(code.places) == [str(folder)]
    assert code.files[:3] == (folder / "model.py", folder / "layers.py", folder / "data.py")
    assert code.search == (folder,)


def test_that_code_elsewhere_is_read_with_its_folder(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "net.py").write_text("def net(): ...\n")
    (other / "beside.py").write_text("Y = 2\n")
    project = make_project(model=ModelSource(spec=f"{other / 'net.py'}:net"))
    code = read_code(OpenProject(project, folder))
    assert [read.path for read in code.folders] == [other]
    assert set(code.folders[0].files) == {"net.py", "beside.py"}
    assert set(code.places) == {str(other)}
    inner = folder / "inner"
    inner.mkdir()
    (inner / "net.py").write_text("def net(): ...\n")
    below = read_code(OpenProject(make_project(model=ModelSource(spec="inner/net.py:net")), folder))
    assert [read.path for read in below.folders] == [folder]
    assert below.search == (folder, inner)


def test_that_only_importable_files_outside_of_environments_are_read(folder):
    for name in ("__pycache__", "node_modules", "site-packages", ".hidden", "venv", "sub"):
        (folder / name).mkdir()
        (folder / name / "code.py").write_text("Z = 3\n")
    (folder / "venv" / "pyvenv.cfg").write_text("")
    (folder / "sub" / "notes.txt").write_text("")
    (folder / "sub" / "fast.abi3.so").write_bytes(b"library")
    (folder / "pyvenv.cfg").write_text("")
    found = read_folder(folder)
    assert list(found.files) == ["layers.py", "model.py", "sub/code.py", "sub/fast.abi3.so"]
    assert found.files["sub/code.py"] == b"Z = 3\n"
    library = hashlib.sha256(b"library").hexdigest()
    assert found.digests["sub/fast.abi3.so"] == library
    assert found.digests["layers.py"] == hashlib.sha256(b"X = 1\n").hexdigest()
    before = found.digest
    (folder / "sub" / "fast.abi3.so").write_bytes(b"other")
    assert read_folder(folder).digest != before


@for_each(("limit", "value"), [("MAX_FILES", 1), ("_MAX_ENTRIES", 1)])
def test_that_a_large_folder_gives_what_its_code_imports(folder, monkeypatch, limit, value):
    (folder / "third.py").write_text("")
    (folder / "model.py").write_text("import layers\n")
    assert set(read_folder(folder, [folder / "model.py"]).files) == {"layers.py", "model.py", "third.py"}
    monkeypatch.setattr(project_code, limit, value)
    found = read_folder(folder, [folder / "model.py"])
    assert list(found.files) == ["layers.py", "model.py"]
    assert read_folder(folder).files == {}


def test_that_a_folder_as_large_as_the_limits_is_read_whole(folder, monkeypatch):
    monkeypatch.setattr(project_code, "MAX_FILES", 2)
    monkeypatch.setattr(project_code, "_MAX_ENTRIES", 1)
    assert len(read_folder(folder).files) == 2
    # Other files do not count as code.
    for number in range(20):
        (folder / f"notes{number}.txt").write_text("")
    monkeypatch.setattr(project_code, "_MAX_ENTRIES", 21)
    assert len(read_folder(folder).files) == 2
    monkeypatch.setattr(project_code, "_MAX_ENTRIES", 20)
    assert read_folder(folder).files == {}


@pytest.mark.parametrize(
    ("limit", "name", "size"), [("_MAX_SOURCES_BYTES", "big.py", 99), ("_MAX_LIBRARIES_BYTES", "big.so", 99)]
)
def test_that_code_beyond_its_limit_is_not_read_and_refused_only_where_it_is_named(
    folder, monkeypatch, limit, name, size
):
    (folder / name).write_bytes(b"#" * size)
    others = 20 if name.endswith(".py") else 0
    monkeypatch.setattr(project_code, limit, size + others)
    assert name in read_folder(folder).files
    monkeypatch.setattr(project_code, limit, size + others - 1)
    assert list(read_folder(folder, [folder / "model.py"]).files) == ["layers.py", "model.py"]
    monkeypatch.setattr(project_code, limit, size - 1)
    with refused("code-folder-too-large"):
        read_folder(folder, [folder / name])


@for_each(
    "kind", ["link to its folder", "pipe", "socket", "broken link", "link to a device", "no permission"]
)
def test_that_a_file_that_cannot_be_read_hides_no_code_and_is_told(
    folder, monkeypatch, tmp_path_factory, kind
):
    path = folder / "x.py"
    make = {
        "link to its folder": lambda: path.symlink_to("."),
        "pipe": lambda: os.mkfifo(path),
        "socket": lambda: bound(path),
        "broken link": lambda: path.symlink_to("nowhere"),
        "link to a device": lambda: path.symlink_to("/dev/zero"),
        "no permission": lambda: forbidden(path, monkeypatch),
    }
    make[kind]()
    code = read_code(OpenProject(make_project(), folder))
    assert list(code.folders[0].files) == ["layers.py", "model.py"]
    assert list(code.folders[0].unread) == ["x.py"]
    assert list(code.places) == [str(folder)]
    (note,) = unread_files(code)
    assert (note.code, note.where.id) == ("code-unreadable", str(path))
    path.unlink()


def bound(path):
    """Make a socket at a path."""
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def forbidden(path, monkeypatch):
    """Make a file that cannot be read, also by root."""
    path.write_text("")
    real = project_code.read_limited

    def read(file, limit):
        if file == path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(file, limit)

    monkeypatch.setattr(project_code, "read_limited", read)


def test_that_a_file_that_is_gone_is_left_out(folder, monkeypatch):
    real = project_code.read_limited

    def vanish(path, limit):
        if path.name == "layers.py":
            path.unlink()
        return real(path, limit)

    monkeypatch.setattr(project_code, "read_limited", vanish)
    assert list(read_folder(folder).files) == ["model.py"]


def test_that_a_named_file_that_cannot_be_read_is_refused_before_the_question(folder):
    (folder / "model.py").unlink()
    os.mkfifo(folder / "model.py")
    with refused("file-unreadable") as caught:
        named_code(OpenProject(make_project(), folder))
    assert caught.value.infos[0].where.id == str(folder / "model.py")


@for_each(
    "change",
    [
        {"evaluation": {"metric": "no-callable"}},
        {"evaluation": {"data": {"spec": "nothing here"}}},
        {"evaluation": {"metric": f"{'a' * 300}/x.py:f"}},
        {"calibration": {"spec": "data.npz", "labels": "nothing here"}},
        {"training_function": "no-callable"},
        {"plugins": ["no plug-in"]},
    ],
)
def test_that_an_invalid_reference_hides_no_code(folder, change):
    raw = {**make_project().model_dump(mode="json"), "model": {"spec": "this:c"}, **change}
    code = read_code(OpenProject(Project.model_validate(raw), folder))
    assert list(code.places) == ["this:c"]
    assert code.callables == {"this:c"}


def test_that_folders_of_any_depth_are_read(folder):
    here = os.getcwd()
    os.chdir(folder)
    try:
        for _ in range(1200):
            os.mkdir("d")
            os.chdir("d")
        Path("deep.py").write_text("")
    finally:
        os.chdir(here)
    assert "d/" * 1200 + "deep.py" in read_folder(folder).files
    # Deeper than what Python removes.
    subprocess.run(["rm", "-r", folder / "d"], check=True)


def test_that_only_files_of_the_program_itself_are_bundled(folder):
    assert is_bundled(SAMPLES / "digits" / "model.py")
    assert is_bundled(SAMPLES.parent / "recipes")
    assert not is_bundled(SAMPLES.parent / "plugins" / "example.py")
    assert not is_bundled(folder / "model.py")
    sample = make_project(model=ModelSource(spec=f"{SAMPLES / 'digits' / 'model.py'}:digits_net"))
    assert code_used(OpenProject(sample, folder)) == []
    code = read_code(OpenProject(sample, folder))
    assert code.places == {}
    assert code.files == ()
    assert code.search == (SAMPLES / "digits",)


def test_that_a_link_below_the_programs_own_files_is_not_its_own(tmp_path, monkeypatch):
    own, other = tmp_path / "own", tmp_path / "other"
    (own / "digits").mkdir(parents=True)
    other.mkdir()
    for path in (own / "digits" / "model.py", other / "model.py"):
        path.write_text("")
    (own / "digits" / "link.py").symlink_to(other / "model.py")
    (own / "linked").symlink_to(other)
    (own / "digits" / "deep").symlink_to(other)
    monkeypatch.setattr(project_code, "_BUNDLED", (own,))
    assert is_bundled(own / "digits" / "model.py")
    for name in ("digits/link.py", "linked/model.py", "digits/deep/model.py"):
        assert not is_bundled(own / name), name
    # The program itself may be installed behind a link.
    (tmp_path / "installed").symlink_to(own)
    monkeypatch.setattr(project_code, "_BUNDLED", (tmp_path / "installed",))
    assert is_bundled(tmp_path / "installed" / "digits" / "model.py")


def test_that_a_message_about_a_folder_does_not_hold_its_code(folder):
    (folder / "layers.py").write_text("SECRET = 1\n")
    read = read_folder(folder)
    assert b"SECRET" in read.files["layers.py"]
    assert "SECRET" not in repr(read)


def test_that_a_linked_folder_is_not_walked(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "far.py").write_text("")
    (folder / "linked").symlink_to(other)
    assert set(read_folder(folder).files) == {"model.py", "layers.py"}


def test_that_arrays_are_no_code_whatever_is_in_them(folder):
    with zipfile.ZipFile(folder / "data.npz", "w") as archive:
        archive.writestr("x.npy", b"")
    project = make_project(calibration=DataSource(spec="data.npz"))
    assert set(uses(project, folder)) == {"model.spec"}


def test_that_a_package_is_asked_about_by_name_and_not_read(folder):
    code = read_code(OpenProject(make_project(model=ModelSource(spec="shutil:disk_usage")), folder))
    assert list(code.places) == ["shutil:disk_usage"]
    assert (code.folders, code.search) == ((), ())
    (use,) = code.uses
    assert use.why == "runs shutil, function disk_usage"


@for_each(("listed", "named"), [("model.py", "MODEL.py"), ("mode\u0300le.py", "mod\u00e8le.py")])
def test_that_a_file_is_read_as_the_project_spells_it_where_the_system_takes_both(listed, named, tmp_path):
    """As on file systems that ignore case or normalize names; a link has one file under two names here."""
    (tmp_path / listed).write_text("a = 1")
    before = read_folder(tmp_path, [tmp_path / listed])
    assert list(before.files) == [listed]
    # Not listed, but there: what such a file system does.
    (tmp_path / named).hardlink_to(tmp_path / listed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(project_code, "_names_below", lambda _: [listed])
        found = read_folder(tmp_path, [tmp_path / named])
        assert found.files == {listed: b"a = 1", named: b"a = 1"}
        (tmp_path / named).unlink()
        assert read_folder(tmp_path, [tmp_path / named]).files == before.files
        (tmp_path / named).write_text("another file")
        assert read_folder(tmp_path, [tmp_path / named]).files == before.files
