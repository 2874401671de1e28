"""Forged ``.pt2`` files: none runs code unless the user has trusted exactly its bytes."""

import contextlib
import io
import json
import os
import pickle
import random
import zipfile

import pytest
import torch

from tests.engine import networks
from tests.engine.in_process import project
from workbench.engine.loading.models import load_model
from workbench.engine.loading.pt2 import load_strictly, load_trusted
from workbench.errors import WorkbenchError
from workbench.project import pt2
from workbench.project.model import ModelSource
from workbench.project.opened import OpenProject

MODEL = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"
SAMPLES = "data/sample_inputs/model.pt"


@pytest.fixture(scope="module")
def saved():
    """The bytes of a harmless program."""
    model, inputs = networks.small()
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(model, inputs), buffer)
    return buffer.getvalue()


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """A file that harmful code creates; it must not exist at the end."""
    canary = tmp_path / "ran"
    monkeypatch.setenv("CANARY", str(canary))
    return canary


class Harmful:
    def __reduce__(self):
        return exec, ("import os; open(os.environ['CANARY'], 'a').write('x')",)


def harmful_pickle(protocol=2):
    return pickle.dumps(Harmful(), protocol)


def harmful_torch_file(name="data.pkl", protocol=2):
    """Return a file of torch.save whose pickle runs code."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"archive/{name}", harmful_pickle(protocol))
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
    return buffer.getvalue()


def memo_pickle():
    """Return a pickle that names a function through the memo, which a list of strings misses."""
    return (
        b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x8c\x0btorch._utils\x8c\x12_rebuild_tensor_v2"
        b"00h\x00h\x01\x93\x8c\x12touch $CANARY.touch\x85R."
    )


def rebuilt(data, changes=None, added=None, root="archive", **entry):
    """Return the archive with other contents of some records, and further ones."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            inside = name.partition("/")[2]
            content = old.read(name)
            if inside in (changes or {}):
                content = changes[inside](content)
            if content is not None:
                new.writestr(f"{root}/{inside}", content, **entry)
        for name, content in (added or {}).items():
            new.writestr(f"{root}/{name}", content, **entry)
    return buffer.getvalue()


def graph(change):
    """Return a change of the graph's description."""

    def apply(content):
        document = json.loads(content)
        change(document)
        return json.dumps(document).encode()

    return apply


def set_at(*path, value):
    def change(document):
        place = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return graph(change)


NODE = ("graph_module", "graph", "nodes", 0)
EVAL = "__import__('os').system('touch $CANARY')"


def forge(data):
    """Return forged archives by name; each tries another way to run code."""
    document = json.loads(zipfile.ZipFile(io.BytesIO(data)).read(f"archive/{MODEL}"))
    first_size = (
        "graph_module",
        "graph",
        "tensor_values",
        next(iter(document["graph_module"]["graph"]["tensor_values"])),
        "sizes",
        0,
    )
    expression = {"as_expr": {"expr_str": EVAL, "hint": None}}
    enum = json.dumps(
        [
            1,
            {
                "type": "builtins.dict",
                "context": json.dumps([{"__enum__": True, "fqn": "os:x"}]),
                "children_spec": [],
            },
        ]
    )

    def opaque(kind):
        def change(config):
            config["config"]["x"] = {
                "path_name": kind,
                "is_param": False,
                "use_pickle": True,
                "tensor_meta": None,
            }

        return graph(change)

    def pickled(config):
        entry = next(iter(config["config"].values()))
        entry["use_pickle"], entry["path_name"] = True, "weight_0"

    signature = ("graph_module", "module_call_graph", 0, "signature")
    return {
        "target": rebuilt(data, {MODEL: set_at(*NODE, "target", value="torch.os.system")}),
        "operator argument": rebuilt(
            data, {MODEL: set_at(*NODE, "inputs", 0, "arg", value={"as_operator": "torch.os.system"})}
        ),
        "file operator": rebuilt(
            data, {MODEL: set_at(*NODE, "target", value="torch.ops.aten.from_file.default")}
        ),
        "extension operator": rebuilt(data, {MODEL: set_at(*NODE, "target", value="#os:system")}),
        "size": rebuilt(data, {MODEL: set_at(*first_size, value=expression)}),
        "endless size": rebuilt(
            data, {MODEL: set_at(*first_size, value={"as_expr": {"expr_str": "Pow(9,Pow(9,9))"}})}
        ),
        "node name": rebuilt(data, {MODEL: set_at(*NODE, "name", value=f"x = {EVAL} #")}),
        "argument name": rebuilt(data, {MODEL: set_at(*NODE, "inputs", 0, "name", value=f"a={EVAL},b")}),
        "forward argument": rebuilt(
            data, {MODEL: set_at(*signature, "forward_arg_names", value=[f"x={EVAL}"])}
        ),
        "structure": rebuilt(data, {MODEL: set_at(*signature, "in_spec", value=enum)}),
        "verifier": rebuilt(data, {MODEL: set_at("verifiers", value=["os.system"])}),
        "sample inputs": rebuilt(data, {SAMPLES: lambda _: harmful_torch_file()}),
        "sample inputs in another case": rebuilt(data, {SAMPLES: lambda _: harmful_torch_file("DATA.PKL")}),
        "sample inputs of another protocol": rebuilt(
            data, {SAMPLES: lambda _: harmful_torch_file(protocol=4)}
        ),
        "sample inputs without an archive": rebuilt(data, {SAMPLES: lambda _: harmful_pickle()}),
        "sample inputs through the memo": rebuilt(data, {SAMPLES: lambda _: memo_pickle()}),
        "sample inputs that are both": rebuilt(data, {SAMPLES: lambda content: harmful_pickle() + content}),
        "opaque object": rebuilt(
            data, {CONSTANTS: opaque("opaque_obj_0")}, {"data/constants/opaque_obj_0": harmful_pickle()}
        ),
        "script object": rebuilt(
            data, {CONSTANTS: opaque("custom_obj_0")}, {"data/constants/custom_obj_0": harmful_pickle()}
        ),
        "pickled weight": rebuilt(
            data, {WEIGHTS: graph(pickled), "data/weights/weight_0": lambda _: harmful_torch_file()}
        ),
        "old weights": rebuilt(data, {}, {"data/weights/model.pt": harmful_torch_file()}),
        "old constants": rebuilt(data, {}, {"data/constants/model.pt": harmful_torch_file()}),
        "second model": rebuilt(data, {}, {"models/a.json": b"{}"}),
        "model of another suffix": rebuilt(data, {MODEL: lambda _: None}, {"models/model.jsom": b"{}"}),
        "model in a folder": rebuilt(data, {}, {"models/a/model.json": b"{}"}),
        "record in another case": rebuilt(data, {}, {"MODELS/MODEL.JSON": b"{}"}),
        "broken description": rebuilt(data, {WEIGHTS: lambda content: content[:-1]}),
        "field twice": rebuilt(data, {MODEL: lambda content: b'{"verifiers": ["x"], ' + content[1:]}),
        "compiled code": rebuilt(data, {}, {"data/aotinductor/model/a.so": b"\x7fELF"}),
        "old format": rebuilt(
            data,
            {"archive_format": lambda _: b"zip"},
            {"version": b"8.0", "serialized_example_inputs.pt": harmful_torch_file()},
        ),
        "compressed": rebuilt(data, compress_type=zipfile.ZIP_DEFLATED),
        "huge tensor": rebuilt(data, {MODEL: set_at(*first_size, value={"as_int": 1 << 40})}),
    }


def test_that_a_harmless_program_loads_as_torch_loads_it(saved):
    strictly, stock = load_strictly(saved), load_trusted(saved)
    assert str(strictly.graph) == str(stock.graph)
    assert str(strictly.graph_signature) == str(stock.graph_signature)
    for name, tensor in stock.state_dict.items():
        assert torch.equal(strictly.state_dict[name], tensor)
    inputs = stock.example_inputs[0]
    assert torch.equal(strictly.module()(*inputs), stock.module()(*inputs))


def test_that_every_forged_program_is_asked_for_and_refused_unasked(saved, tmp_path, ran):
    forged = forge(saved)
    for name, data in forged.items():
        path = tmp_path / "forged.pt2"
        path.write_bytes(data)
        assert pt2.risks(path), name
        with pytest.raises(WorkbenchError) as caught:
            load_model(ModelSource(spec="forged.pt2"), tmp_path)
        assert caught.value.codes == ("code-not-trusted",), name
    assert not list(tmp_path.glob("ran*"))


@pytest.mark.slow
def test_that_forgeries_do_run_code_when_torch_loads_them(saved, ran):
    """The attacks are real: without the strict reader some of them succeed."""
    succeeded = []
    for name, data in forge(saved).items():
        if name in {"endless size", "huge tensor"}:
            continue
        with contextlib.suppress(Exception):
            load_trusted(data)
        left = [path for path in ran.parent.iterdir() if path.name.startswith("ran")]
        for path in left:
            path.unlink()
        if left:
            succeeded.append(name)
    assert {"sample inputs", "old weights", "opaque object", "size"} <= set(succeeded), succeeded


def test_that_an_old_format_is_not_read_unasked(saved, tmp_path, ran):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("version", "8.20")
        archive.writestr("serialized_exported_program.json", b"{}")
        for name in ("state_dict", "constants", "example_inputs"):
            archive.writestr(f"serialized_{name}.pt", harmful_torch_file())
    (tmp_path / "old.pt2").write_bytes(buffer.getvalue())
    assert pt2.risks(tmp_path / "old.pt2")
    with pytest.raises(WorkbenchError):
        load_model(ModelSource(spec="old.pt2"), tmp_path)
    assert not ran.exists()


def mutated(data, seed, count):
    """Yield copies of some bytes with one byte changed."""
    source = random.Random(seed)
    for _ in range(count):
        changed = bytearray(data)
        changed[source.randrange(len(data))] ^= 1 << source.randrange(8)
        yield bytes(changed)


def fuzz(saved, count, seed=17):
    """Load mutated harmful archives unasked; return how many loaded and how many ran code."""
    canary = os.environ["CANARY"]
    forged = [d for n, d in forge(saved).items() if n not in {"endless size", "huge tensor"}]
    loaded = executed = 0
    each = -(-count // len(forged))
    for data in (m for d in forged for m in mutated(d, seed + len(d), each)):
        with contextlib.suppress(Exception):
            load_strictly(data)
            loaded += 1
        if os.path.exists(canary) or os.path.exists(f"{canary}.touch"):
            executed += 1
            os.unlink(canary)
    return loaded, executed


def test_that_no_mutation_of_a_harmful_program_runs_code(saved, ran):
    assert fuzz(saved, 120)[1] == 0


@pytest.mark.slow
def test_that_none_of_thousands_of_mutations_runs_code(saved, ran):
    assert fuzz(saved, 6000)[1] == 0


def test_that_a_doubtful_program_is_asked_for_in_words(engine, saved):
    (engine.folder / "forged.pt2").write_bytes(forge(saved)["target"])
    made = project("small").model_copy(update={"model": ModelSource(spec="forged.pt2")})
    from workbench.project.project_code import code_used

    (use,) = code_used(OpenProject(made, engine.folder))
    assert use.option == "model.spec"
    assert "torch.os.system" in use.why
