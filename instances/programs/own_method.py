"""A method of one's own: the largest activations leave memory after the forward pass, and are made again where they are read.

The suite own-method runs it. docs/reference/formats.md, "A method of one's own", says what a program reads and writes."""
import json
import sys

question = json.load(sys.stdin)
instance, order = question["instance"], question["instance"]["order"]


def way(operator, again):
    """How an operator runs: in its first implementation, or, where it updates state and runs again, in one marked recompute."""
    offered = operator["implementations"]
    if again and operator.get("updates_state"):
        offered = [implementation for implementation in offered if implementation.get("recompute")]
    if not offered or again and not operator.get("recomputable", operator["phase"] != "backward"):
        return None  # it may not run again
    chosen = {"inputs": operator["inputs"], **offered[0]}
    return {**chosen, "makes": operator["outputs"] + chosen.get("saves", [])}


phase = {op["id"]: op["phase"] for op in instance["operators"]}
first = {op["id"]: way(op, again=False) for op in instance["operators"]}
again = {op["id"]: way(op, again=True) for op in instance["operators"]}
size = {tensor["id"]: tensor["bytes"] for tensor in instance["tensors"]}
producer = {tensor: i for i in order for tensor in first[i]["makes"]}
keep = {t["id"] for t in instance["tensors"] if t["kind"] in ("input", "param_gradient", "output")}
last, last_forward = {}, {}  # places in the order where a tensor is made or read for the last time: in all, in the forward pass
for place, i in enumerate(order):
    for uses in [last, last_forward] if phase[i] == "forward" else [last]:
        uses.update(dict.fromkeys(first[i]["inputs"] + first[i]["makes"], place))


def schedule(dropped):
    """Steps and peak where some tensors leave memory after their last use in the forward pass; None where that cannot be."""
    steps, resident, peak, has_run = [], keep - producer.keys(), 0, set()

    def run(i):
        nonlocal peak
        way = (again if i in has_run else first)[i]
        if way is None or not all(tensor in resident or run(producer[tensor]) for tensor in way["inputs"]):
            return False
        has_run.add(i)
        resident.update(way["makes"])
        steps.append({"compute": i, "implementation": way["name"]})
        peak = max(peak, sum(size[tensor] for tensor in resident) + way.get("workspace_bytes", 0))
        return True

    for place, i in enumerate(order):
        if not run(i):
            return None
        gone = [t for t in resident - keep if place >= (last_forward if t in dropped else last).get(t, -1)]
        resident.difference_update(gone)
        steps += [{"free": tensor} for tensor in gone]
    return steps, peak + sum(instance.get("fixed_bytes", {}).values())


candidates = [t for t, i in producer.items() if last[t] > last_forward.get(t, len(order)) and again[i] and not again[i].get("recompute")]
candidates.sort(key=size.get, reverse=True)
for index, budget in enumerate(question["budgets"]):
    answer = {"kind": "answer", "index": index, "termination": "not_found"}
    for tenths in range(11):
        found = schedule(set(candidates[: len(candidates) * tenths // 10]))
        if found and (budget is None or found[1] <= budget):
            document = {"format": "remat-schedule", "version": 1, "instance": instance["name"], "steps": found[0]}
            answer.update(termination="feasible", schedule=document, claimed_peak_bytes=found[1])
            break
    print(json.dumps(answer), flush=True)
print('{"kind": "done"}')
