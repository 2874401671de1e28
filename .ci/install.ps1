# Makes .venv with everything the workbench needs on Windows, and tries it. Untested: there is no such
# machine where this program is developed.
# Usage: powershell -ExecutionPolicy Bypass -File .ci\install.ps1
$ErrorActionPreference = "Stop"
Set-Location (Join-Path $PSScriptRoot "..")

function Invoke-Checked {
    & $args[0] $args[1..($args.Count - 1)]
    if ($LASTEXITCODE -ne 0) { throw "$($args -join ' ') ended with $LASTEXITCODE" }
}

if (-not (Test-Path .venv\Scripts\python.exe)) { Invoke-Checked py -3.11 -m venv .venv }
$python = ".venv\Scripts\python.exe"
Invoke-Checked $python -m pip install --quiet -c .ci\constraints.txt torch
Invoke-Checked $python -m pip install --quiet -c .ci\constraints.txt -e ".[dev]"
Invoke-Checked $python -m tests.smoke
