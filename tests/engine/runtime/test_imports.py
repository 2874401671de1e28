"""The quick imports give what the stock imports give, whatever the cache folder holds."""

from __future__ import annotations

import functools
import getpass
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from workbench import disk_cache
from workbench.engine.acceleration.operator_registry import known_composites, plain_kernels
from workbench.engine.runtime.imports import TOOLCHAIN
from workbench.engine.runtime.interpreter import run_with_big_stack

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engine

TABLE_DIGEST = """
import hashlib, json, sys
{importing}
from executorch.exir.dialects.edge._ops import _edge_dialect_info
print(hashlib.sha256(json.dumps(_edge_dialect_info, sort_keys=True).encode()).hexdigest())
"""
QUICK = """
from pathlib import Path
from workbench import disk_cache
disk_cache.folder = lambda: Path({folder!r})
from workbench.engine.runtime.imports import import_toolchain
import_toolchain()
"""


def digest_of_edge_table(importing: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", TABLE_DIGEST.format(importing=importing)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()[-1]


@pytest.fixture(scope="module")
def stock_digest() -> str:
    return digest_of_edge_table("import executorch.exir")


@pytest.mark.slow
def test_that_the_remembered_table_of_operators_equals_the_parsed_one(
    tmp_path: Path, stock_digest: str
) -> None:
    quick = QUICK.format(folder=str(tmp_path / "cache"))
    assert digest_of_edge_table(quick) == stock_digest
    assert len(list((tmp_path / "cache").iterdir())) == 1
    assert digest_of_edge_table(quick) == stock_digest


@pytest.mark.slow
def test_that_a_damaged_table_is_parsed_afresh(tmp_path: Path, stock_digest: str) -> None:
    quick = QUICK.format(folder=str(tmp_path))
    digest_of_edge_table(quick)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:-7])
    assert digest_of_edge_table(quick) == stock_digest


@pytest.mark.slow
def test_that_the_toolchain_is_imported_without_a_folder_to_write_to(
    tmp_path: Path, stock_digest: str
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    assert digest_of_edge_table(QUICK.format(folder=str(in_the_way))) == stock_digest


REGISTERED = """
import hashlib, json
{importing}
import torch
entries = torch._library.simple_registry.singleton._data
kept = {{name: [k.source for k in entry.fake_impl.kernels] for name, entry in entries.items()}}
text = json.dumps([kept, torch._C._dispatch_get_all_op_names()], sort_keys=True)
print(len(kept), hashlib.sha256(text.encode()).hexdigest())
"""
STOCK = "import " + ", ".join(TOOLCHAIN)
LATE = """
from workbench.engine.runtime.imports import import_toolchain
import_toolchain()
import sys, torch
late = ("torch._inductor.fx_passes.post_grad", "ethosu.vela.vela")
print([name in sys.modules for name in late])
from executorch.backends.arm import arm_vela
from torch.export import _remove_auto_functionalized_pass as user
graph = torch.fx.Graph()
graph.placeholder("x")
user.decompose_auto_functionalized(graph)
print([name in sys.modules for name in late])
graph.call_function(torch.ops.higher_order.auto_functionalized, (torch.ops.aten.add_.Tensor,))
try:
    user.decompose_auto_functionalized(graph)
except Exception:
    print([name in sys.modules for name in late])
from torch._inductor.fx_passes import post_grad
print(callable(post_grad.post_grad_passes), callable(arm_vela.vela.main))
"""


def printed(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.slow
def test_that_the_quick_imports_register_the_same_operators_from_the_same_places() -> None:
    quick = "from workbench.engine.runtime.imports import import_toolchain as f; f()"
    (ours,) = printed(REGISTERED.format(importing=quick))
    (stock,) = printed(REGISTERED.format(importing=STOCK))
    assert ours == stock
    assert int(ours.split()[0]) > 100


@pytest.mark.slow
def test_that_what_was_left_out_of_the_imports_comes_when_it_is_needed() -> None:
    before, after_a_plain_graph, after_a_wrapped_one, both = printed(LATE)
    assert before == after_a_plain_graph == "[False, False]"
    assert after_a_wrapped_one == "[True, False]"
    assert both == "True True"


def test_that_what_is_remembered_comes_back_and_damage_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "folder", lambda: tmp_path / "new")
    assert disk_cache.recall("thing") is None
    assert disk_cache.remember("thing", b"content")
    assert disk_cache.recall("thing") == b"content"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["thing"]
    (tmp_path / "new" / "thing").write_bytes(b"nonsense")
    assert disk_cache.recall("thing") is None


def test_that_composite_operators_are_the_same_and_keep_the_same_kernels() -> None:
    from torch._C import DispatchKey
    from torch._export import utils
    from torch.export import exported_program

    every = utils._collect_all_valid_cia_ops()
    assert len(every) > 500
    kept = []
    for patches in ((), (known_composites, plain_kernels)):
        with ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch())
            assert utils._collect_all_valid_cia_ops() == every
            rules = {operator: functools.partial(int, index) for index, operator in enumerate(every)}
            with exported_program._override_composite_implicit_decomp(rules):
                kept.append({each: list(each.py_kernels) for each in every})
                composite = DispatchKey.CompositeImplicitAutograd
                assert all(each.py_kernels[composite] is rule for each, rule in rules.items())
                with pytest.raises(RuntimeError, match="override"):
                    next(iter(every)).py_impl(composite)(int)
    assert kept[0] == kept[1]


def test_that_a_job_on_a_big_stack_returns_its_result_and_raises_its_error() -> None:
    assert run_with_big_stack(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        run_with_big_stack(divmod, 7, 0)


FORKED_JOB = """
import multiprocessing, sys

def job(pipe):
    ready = "executorch.exir" in sys.modules
    import torch
    torch.set_num_threads(2)
    shape = torch.nn.Conv2d(8, 8, 3)(torch.ones(4, 8, 64, 64)).shape
    pipe.send((ready, list(shape)))

if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["workbench.engine.jobs.preload"])
    for _ in range(2):
        ours, theirs = context.Pipe()
        process = context.Process(target=job, args=(theirs,))
        process.start()
        print(ours.recv() if ours.poll(120) else "nothing came")
        process.join()
"""


@pytest.mark.slow
def test_that_a_preloaded_process_forks_into_engines_that_compute(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(FORKED_JOB)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["(True, [4, 8, 62, 62])"] * 2


ASKS_TORCH = """
from workbench.engine.runtime.imports import import_toolchain
import_toolchain()
from torch._inductor.compiler_bisector import CompilerBisector
print(CompilerBisector.get_backend())
"""


@pytest.mark.slow
@pytest.mark.parametrize("home", ["private", "open", "missing"])
def test_that_torch_takes_no_orders_from_a_folder_that_others_can_make(home, tmp_path):
    orders = tmp_path / f"torchinductor_{getpass.getuser()}" / "bisect"
    orders.mkdir(parents=True)
    (orders / "bisect_status.txt").write_text("backend=aot_eager_decomp_partition\nsubsystem=decomposition\n")
    cache = tmp_path / "cache" / "quantization-workbench"
    if home == "open":
        other = cache / "torch" / "bisect"
        other.mkdir(parents=True)
        shutil.copy(orders / "bisect_status.txt", other)
        cache.chmod(0o777)
    if home == "missing":
        (tmp_path / "cache").write_text("no folder")
    environment = {**os.environ, "TMPDIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("TORCHINDUCTOR_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", ASKS_TORCH], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["None"]
