"""Quantize the digits sample, compile it for an Ethos-U55 and print what it costs.

Run: python quantize_and_compile.py digits.qwb dist
"""

import sys

import workbench.api as wb

project_file, out = sys.argv[1:3]
net = wb.open(project_file)
for problem in wb.check(net).warnings:
    print("warning:", problem)
result = wb.run(net, out=out, trust=True).raise_for_errors()
estimate = result.lowered.vela[0]
print(f"SQNR       {result.evaluated.sqnr_db:.2f} dB")
print(f"cycles     {estimate.cycles_total:,} (estimated by Vela)")
print(f"max error  {result.verified.max_lsb} LSB on the TOSA reference model (computed)")
print(f"program    {out}/{result.packaged.files[0].name}")
