"""Executes notebooks from the first cell to the last and fails where a cell fails; nothing is written.

    python notebooks/execute.py                 # all of them
    python notebooks/execute.py notebooks/tour.ipynb

A notebook with outputs fails too: what is committed is what people wrote.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

FOLDER = Path(__file__).resolve().parent
SECONDS = 600


def stripped(notebook) -> bool:
    """Whether no cell has an output or a count of executions."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return not any(cell.outputs or cell.execution_count for cell in cells)


def main(arguments: list[str]) -> int:
    paths = [Path(argument) for argument in arguments] or sorted(FOLDER.glob("*.ipynb"))
    failed = 0
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        if not stripped(notebook):
            print(f"error: {path}: has outputs; clear them before it is committed", file=sys.stderr)
            failed += 1
        try:
            NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(FOLDER)}}).execute()
            print(f"{path.name}: {sum(cell.cell_type == 'code' for cell in notebook.cells)} cells ran")
        except CellExecutionError as error:
            print(f"error: {path}: {error}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
