"""Measure what quantizing each module of the digits sample costs, worst module first.

Run: python find_sensitive_modules.py digits.qwb
"""

import sys

import workbench.api as wb
from workbench.studies.sensitivity import SensitivityResult

net = wb.open(sys.argv[1])
found, ended = wb.study(net, "sensitivity", SensitivityResult, {"samples": 8}, trust=True)
if found is None:
    raise wb.WorkbenchError(ended.errors)
for row in found.worst_first():
    quantized = row.only.sqnr_db
    print(f"{row.unit.name:30} {'equal' if quantized is None else f'{quantized:.2f} dB'}")
