"""A method whose schedules are files: it answers with FOLDER/INSTANCE@BUDGET.json, the budget as rows name it (`net@0.5x.json`, not `net@50%.json`).

    [[methods]]
    id = "mine"
    command = ["python3", "instances/programs/from_files.py", "FOLDER"]

Both are seen from where bench is run: here the folder of the checkout. FOLDER is `schedules` where it is not given. docs/reference/formats.md, "A method of one's own", says
what a program reads and writes."""
import json
import sys
from pathlib import Path

question = json.load(sys.stdin)
folder = Path(sys.argv[1] if len(sys.argv) > 1 else "schedules")
if not folder.is_dir():
    sys.exit(f"there is no folder {folder.absolute()} with schedules")
for index, budget in enumerate(question["written"]):
    answer = {"kind": "answer", "index": index, "termination": "not_found"}
    file = folder / f"{question['instance']['name']}@{budget}.json"
    if file.is_file():
        answer.update(termination="feasible", schedule=json.loads(file.read_text()))
    else:
        answer.update(note=f"there is no {file}")
    print(json.dumps(answer), flush=True)
print('{"kind": "done"}')
