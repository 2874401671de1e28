"""Measure what quantizing each module of the digits sample costs, worst module first.

Run: python find_sensitive_modules.py digits.qwb
"""

import sys

import workbench.api as wb

net = wb.open(sys.argv[1])
result = wb.sensitivity(net, samples=8, trust=True)
for row in result.worst_first():
    quantized = row.only.sqnr_db
    print(f"{row.unit.name:30} {'equal' if quantized is None else f'{quantized:.2f} dB'}")
