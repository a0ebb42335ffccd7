"""A method of one's own: the largest activations leave memory after the forward pass, and are made again where they are read.

The suite own-method runs it. docs/reference/formats.md, "A method of one's own", says what a program reads and writes."""
import json
import sys

question = json.load(sys.stdin)
instance, order = question["instance"], question["instance"]["order"]
operators = {op["id"]: {**op, **op["implementations"][0], "name": op["name"]} for op in instance["operators"]}
size = {tensor["id"]: tensor["bytes"] for tensor in instance["tensors"]}
makes = {i: op["outputs"] + op.get("saves", []) for i, op in operators.items()}
producer = {tensor: i for i in order for tensor in makes[i]}
keep = {t["id"] for t in instance["tensors"] if t["kind"] in ("input", "param_gradient", "output")}
last, last_forward = {}, {}  # places in the order where a tensor is made or read for the last time: in all, in the forward pass
for place, i in enumerate(order):
    for uses in [last, last_forward] if operators[i]["phase"] == "forward" else [last]:
        uses.update(dict.fromkeys(operators[i]["inputs"] + makes[i], place))


def schedule(dropped):
    """Steps and peak where some tensors leave memory after their last use in the forward pass."""
    steps, resident, peak = [], keep - producer.keys(), 0

    def run(i):
        nonlocal peak
        for tensor in operators[i]["inputs"]:
            if tensor not in resident:
                run(producer[tensor])
        resident.update(makes[i])
        steps.append({"compute": i})
        peak = max(peak, sum(size[tensor] for tensor in resident) + operators[i].get("workspace_bytes", 0))

    for place, i in enumerate(order):
        run(i)
        gone = [t for t in resident - keep if place >= (last_forward if t in dropped else last)[t]]
        resident.difference_update(gone)
        steps += [{"free": tensor} for tensor in gone]
    return steps, peak + sum(instance.get("fixed_bytes", {}).values())


again = [t for t, i in producer.items() if last[t] > last_forward.get(t, len(order)) and not operators[i].get("updates_state")]
again.sort(key=size.get, reverse=True)
for index, budget in enumerate(question["budgets"]):
    answer = {"kind": "answer", "index": index, "termination": "not_found"}
    for tenths in range(11):
        steps, peak = schedule(set(again[: len(again) * tenths // 10]))
        if budget is None or peak <= budget:
            document = {"format": "remat-schedule", "version": 1, "instance": instance["name"], "steps": steps}
            answer.update(termination="feasible", schedule=document, claimed_peak_bytes=peak)
            break
    print(json.dumps(answer), flush=True)
print('{"kind": "done"}')
