"""Requests to a Dask cluster, and checks of what workers answer.

Dask exchanges pickles, so its scheduler can run code in this process: callers ask for trust in the
address first. Answers are JSON text of limited size, and are checked like a file's content.
"""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, TypeVar

from workbench.errors import ErrorInfo, Place, WorkbenchError, failure, refused_by_system
from workbench.pipeline.stages import STAGES
from workbench.toolchains.versions import tool_versions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Request = dict[str, Any]
Answer = dict[str, Any]
_Value = TypeVar("_Value")

WHERE = Place(kind="option", id="scheduler")
# The code of the error of every request when no worker is left.
CLUSTER_LOST = "cluster-lost"
# The largest answer of a worker [characters]; the run of a network of 5,000 tensors takes 2 MB.
MAX_ANSWER = 16 << 20
# The most values in it: each wrong one takes 600 bytes until it is told.
_MAX_VALUES = 400_000
# The longest message that is taken from a worker [characters].
MAX_PROBLEM = 2000
# How long a cluster may take to connect, to describe its workers and to close [s].
_CONNECT_S, _DESCRIBE_S, _CLOSE_S = 10.0, 60.0, 10.0
# How often workers are counted, and how long there may be none [s].
_COUNT_S, _LOST_S = 2.0, 30.0


def answered(answer: Callable[[Request], Answer], request: Request) -> Answer:
    """Return the answer, or an error message as its problem."""
    try:
        return answer(request)
    except WorkbenchError as error:
        return {"problem": error.infos[0].message}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - Vela raises SystemExit
        if refused := refused_by_system(error):
            return {"problem": f"{refused.message} {refused.hint}"}
        return {"problem": f"{error} ({type(error).__name__})"}


def parsed(text: object) -> Answer:
    """Return the answer in a worker's text.

    Raises:
        WorkbenchError: it is no JSON object of at most ``MAX_ANSWER`` characters, or a problem.
    """
    return _without_problem(_document(text))


def _document(text: object) -> dict[str, Any]:
    if not isinstance(text, str):
        raise wrong_answer(f"it is not text but {type(text).__name__}")
    if len(text) > MAX_ANSWER:
        raise wrong_answer(f"it is larger than {MAX_ANSWER} characters")
    if text.count(",") > _MAX_VALUES:
        raise wrong_answer(f"it has more than {_MAX_VALUES} values")
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise wrong_answer(str(error)) from error
    if not isinstance(answer, dict):
        raise wrong_answer("it is no object")
    return answer


def _without_problem(answer: object) -> Answer:
    if not isinstance(answer, dict):
        raise wrong_answer("it is no object")
    if "problem" in answer:
        problem = printable(str(answer["problem"])) or "The worker gave no reason."
        raise WorkbenchError([ErrorInfo(message=problem, code="candidate-failed")])
    return answer


def wrong_answer(details: str) -> WorkbenchError:
    """Return the error for an answer that is not what was asked for."""
    return failure(
        "A worker sent an answer that cannot be used.",
        "See that the workers have the same version of the workbench.",
        details=printable(details),
        code="worker-answer-wrong",
    )


def printable(text: str) -> str:
    """Return the beginning of a foreign text, without control characters."""
    kept = "".join(c if c.isprintable() or c == "\n" else " " for c in text[:MAX_PROBLEM])
    return kept.strip()


class Cluster:
    """The workers of a Dask cluster.

    Every request ends: with an answer, or with an error when it fails, when the workers or the
    scheduler are gone, or when the cluster is closed.

    Raises:
        WorkbenchError: the scheduler is unreachable, or Dask is not installed.
    """

    def __init__(self, scheduler: str) -> None:
        self._client = _connected(scheduler)
        self._executor = self._client.get_executor(pure=False)
        self._lock = threading.Lock()
        self._waiting: set[Future[Answer]] = set()
        self._error: WorkbenchError | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._watch, daemon=True, name="cluster").start()

    def submit(self, function: Callable[[Request], Answer], request: Request) -> Future[Answer]:
        """Let a worker answer; the future raises ``WorkbenchError`` on failure."""
        ours: Future[Answer] = Future()
        with self._lock:
            if self._error is None:
                self._waiting.add(ours)
        if self._error is not None:
            ours.set_exception(self._error)
            return ours
        try:
            theirs = self._executor.submit(_text_of, function, request)
        except Exception as error:  # noqa: BLE001 - whatever Dask raises
            self._settle(ours, error=_ended(error))
        else:
            theirs.add_done_callback(lambda done: self._take(done, ours))
        return ours

    def scatter(self, data: bytes) -> Any:
        """Send data once; return what stands for it in requests.

        Raises:
            WorkbenchError: it cannot be sent.
        """
        return _within(_DESCRIBE_S, lambda: self._client.scatter(data, direct=False))

    def checked(self, folders: tuple[str, ...]) -> int:
        """Return the number of workers.

        Raises:
            WorkbenchError: there are none, or one cannot access the folders or has other versions.
        """
        try:
            texts = _within(_DESCRIBE_S, lambda: self._client.run(_standing, folders))
        except WorkbenchError:
            raise
        except Exception as error:  # Import errors of a worker are raised unchanged.
            raise failure(
                "A worker of the Dask cluster cannot import the workbench.",
                "Install the same version on it.",
                WHERE,
                printable(repr(error)),
                code="cluster-worker-without-workbench",
            ) from error
        if not texts:
            raise failure(
                "The Dask cluster has no workers.",
                "Start workers with `dask worker` where the workbench is installed.",
                WHERE,
                code="cluster-without-workers",
            )
        if not isinstance(texts, dict):
            raise wrong_answer("the list of workers is no dictionary")
        for worker, text in texts.items():
            _refuse_unusable(printable(str(worker)), parsed(text))
        return len(texts)

    def close(self) -> None:
        """Give up what waits, and disconnect; a cluster that does not answer is left."""
        self._closed.set()
        self._give_up(failure("The search has ended.", code="work-ended"))
        self._executor.shutdown(wait=False)
        try:
            _within(_CLOSE_S, self._client.close)
        except Exception:  # noqa: BLE001 - the results are here; the cluster may be gone
            return

    def _take(self, done: Future[Any], ours: Future[Answer]) -> None:
        try:
            self._settle(ours, _answer_of(done.result()))
        except WorkbenchError as error:
            self._settle(ours, error=error)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - whatever a cluster raises
            self._settle(ours, error=_ended(error))

    def _settle(
        self, ours: Future[Answer], answer: Answer | None = None, error: WorkbenchError | None = None
    ) -> None:
        """Set a result once; what comes later is ignored."""
        with self._lock:
            if ours not in self._waiting:
                return
            self._waiting.remove(ours)
        if error is not None:
            ours.set_exception(error)
        else:
            ours.set_result(answer or {})

    def _give_up(self, error: WorkbenchError) -> None:
        with self._lock:
            self._error = self._error or error
            waiting = list(self._waiting)
        for ours in waiting:
            self._settle(ours, error=error)

    def _watch(self) -> None:
        """Give up when there is no worker for a while."""
        without_s = 0.0
        while not self._closed.wait(_COUNT_S):
            without_s = 0.0 if self._has_workers() else without_s + _COUNT_S
            if without_s >= _LOST_S:
                self._give_up(
                    failure(
                        "The Dask cluster has no workers any more.",
                        "Start workers and run again: finished candidates are kept.",
                        WHERE,
                        code=CLUSTER_LOST,
                    )
                )
                return

    def _has_workers(self) -> bool:
        try:
            return bool(_within(_COUNT_S * 2, self._client.nthreads))
        except Exception:  # noqa: BLE001 - whatever Dask raises without a scheduler
            return False


def _connected(scheduler: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise failure(
            "Running on a cluster needs dask.distributed.",
            "pip install 'quantization-workbench[cluster]'",
            WHERE,
            code="cluster-package-missing",
        ) from error
    try:
        # A client that fails in its own loop would leave the next one without an answer.
        asyncio.run(asyncio.wait_for(_greeted(scheduler), 2 * _CONNECT_S))
        return _within(_DESCRIBE_S, lambda: Client(scheduler, timeout=_CONNECT_S, set_as_default=False))
    except WorkbenchError:
        raise
    except Exception as error:  # What answers there may be no scheduler.
        raise failure(
            f"No Dask scheduler at {printable(scheduler)}.",
            "Start one with `dask scheduler`, and workers that have the workbench installed.",
            WHERE,
            printable(str(error)) or "It takes the connection and does not answer.",
            code="cluster-unreachable",
        ) from error


async def _greeted(scheduler: str) -> None:
    """Connect as a client does, and hang up; raises what Dask raises where no scheduler answers."""
    from distributed.comm import connect
    from distributed.security import Security

    comm = await connect(scheduler, timeout=_CONNECT_S, **Security().get_connection_args("client"))
    comm.abort()


def _within(seconds: float, call: Callable[[], _Value]) -> _Value:
    """Return what a call returns, or raise what it raises.

    Raises:
        WorkbenchError: it takes longer; it goes on in a thread that ends with the program.
    """
    future: Future[_Value] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="cluster-call").start()
    try:
        return future.result(seconds)
    except TimeoutError as error:
        if future.done():
            raise
        raise failure(
            f"The Dask cluster did not answer within {seconds:g} s.",
            "See the logs of its scheduler and workers.",
            WHERE,
            code="cluster-silent",
        ) from error


def _ended(error: BaseException) -> WorkbenchError:
    text = "A worker process ended unexpectedly."
    return failure(text, details=printable(repr(error)), code="worker-ended")


def _refuse_unusable(worker: str, standing: Mapping[str, Any]) -> None:
    unseen, other = standing.get("unseen"), _other_versions(standing.get("tools"))
    if not isinstance(unseen, str) or other is None:
        raise wrong_answer(f"{worker} does not describe its versions")
    if unseen:
        raise failure(
            f"The worker {worker} cannot access {printable(unseen)}.",
            "Workers read the project and write results: share both folders.",
            WHERE,
            code="cluster-folder-not-shared",
        )
    if other:
        raise _versions_differ(f"The worker {worker}", other)


def _other_versions(tools: object) -> str | None:
    """Return the packages of a worker that differ from those here; None if it does not list them."""
    if not isinstance(tools, dict):
        return None
    here = _versions()
    other = [f"{n} {v}" for n, v in sorted(tools.items()) if here.get(n) != v]
    other += [f"no {n}" for n in sorted(here.keys() - tools.keys())]
    return printable(", ".join(other))


def _versions_differ(worker: str, other: str) -> WorkbenchError:
    return failure(
        f"{worker} has other package versions: {other}.",
        "Results of different versions cannot be compared: install the same versions on it.",
        WHERE,
        code="cluster-versions-differ",
    )


def _text_of(function: Callable[[Request], Answer], request: Request) -> str:
    """Return a worker's answer and its package versions as JSON text; runs in the worker."""
    return json.dumps({"answer": answered(function, request), "tools": _versions()})


def _answer_of(text: object) -> Answer:
    """Return the answer in a worker's text; a worker may have joined after the others were checked.

    Raises:
        WorkbenchError: it is no answer or a problem, or one of other package versions.
    """
    document = _document(text)
    if (other := _other_versions(document.get("tools"))) is None:
        raise wrong_answer("it does not say its versions")
    if other:
        raise _versions_differ("A worker of the Dask cluster", other)
    return _without_problem(document.get("answer"))


def _standing(folders: tuple[str, ...]) -> str:
    """Return the folders that a worker cannot access, and its package versions; runs there."""
    import os

    unseen = next((path for path in folders if not os.path.isdir(path)), "")
    return json.dumps({"unseen": unseen, "tools": _versions()})


def _versions() -> dict[str, str]:
    """Return the versions of all packages that can change a result, and of this program's stages."""
    stages = ".".join(str(stage.version) for stage in STAGES)
    return {"quantization-workbench": f"with stages {stages}", **tool_versions()}
