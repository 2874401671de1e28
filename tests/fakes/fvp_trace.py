"""What the double of a simulator records: the NPU's trace and the runtime's events."""

from __future__ import annotations

import os


class Trace:
    """What ``--pmu-trace`` writes; the file stands in the folder the simulator was started in."""

    def __init__(self, words, fail):
        name = words[words.index("--pmu-trace") + 1] if "--pmu-trace" in words else ""
        self.path = os.path.join(os.getcwd(), name) if name and fail != "no-trace" else None
        self.cut, self.events, self.now = fail == "cut-trace", [], 0

    def add(self, found, cycles):
        """Record one invocation of the only delegate of a program; see ``fvp.facts``."""
        if self.path is None:
            return
        operations = found["operations"]
        weight = sum(range(1, len(operations) + 1))
        self.tell("active", 1)
        for number, offset in enumerate(operations):
            self.tell("qread", offset // 4)
            self.now += round(cycles * (number + 1) / weight)
        self.tell("qread", found["last_command"] // 4 + 1)
        self.tell("active", 0)
        self.write()

    def tell(self, track, value):
        event = {"name": track, "pid": 1, "tid": track, "ph": "C", "ts": self.now}
        self.events.append(event | {"args": {track: value}})

    def write(self):
        import gzip
        import json

        text = json.dumps({"displayTimeUnit": "ns", "traceEvents": self.events}).encode()
        data = gzip.compress(text)
        with open(self.path, "wb") as file:
            file.write(data[: len(data) // 2] if self.cut else data)


ETDUMP = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "etdump.bin")


def leave_events(acted, files, fail):
    """Leave an ETDump that ExecuTorch's own runtime has made, if the runner records any."""
    if not acted["etdump"]:
        return
    with open(ETDUMP, "rb") as recorded:
        data = recorded.read()
    if fail == "cut-events":
        data = data[: len(data) // 3]
    if files:
        print("I [executorch:arm_executor_runner.cpp:123 main()] Writing etdump to file: etdump.bin")
        with open("etdump.bin", "wb") as file:
            file.write(data)
        return
    import base64

    print("#[RUN THIS]\n# Writing etdump.bin [base64]")
    print(f'echo "{base64.b64encode(data).decode()}" | base64 -d >etdump.bin')
    print("#[END]", flush=True)
