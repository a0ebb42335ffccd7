#!/usr/bin/env python3
"""Compares the field names, numbers and types that solvers/src/cp/ uses with those of the installed OR-Tools.

    pip install ortools    (with its needs, unlike scripts/setup.sh --ortools)
    python3 scripts/check-cp-proto.py

Reads `.with("name", number, Value::Kind` and expression fields from the Rust sources, and fails on the first
field that no message of cp_model.proto or sat_parameters.proto has under that number with that type.
"""

import pathlib
import re
import sys

from ortools.sat import cp_model_pb2, sat_parameters_pb2

# Types of descriptors: 1 double, 3 int64, 5 int32, 8 bool, 11 message, 14 enum.
KINDS = {"Integer": {3, 5, 14}, "Integers": {3, 5}, "Double": {1}, "Bool": {8}, "Message": {11}}


def known() -> dict:
    fields = {}
    messages = [message for file in (cp_model_pb2, sat_parameters_pb2) for message in file.DESCRIPTOR.message_types_by_name.values()]
    for message in messages:
        for field in message.fields:
            fields.setdefault((field.name, field.number), set()).add(field.type)
    return fields


def main() -> int:
    fields = known()
    sources = pathlib.Path(__file__).resolve().parent.parent / "solvers" / "src" / "cp"
    pattern = re.compile(r'\.with\(\s*"(\w+)",\s*(\d+),\s*(?:Value::(\w+)|(\w+))')
    used = 0
    for path in sorted(sources.rglob("*.rs")):
        for name, number, kind, _ in pattern.findall(path.read_text()):
            types = fields.get((name, int(number)))
            if types is None:
                print(f"{path.name}: no message has a field {name} = {number}")
                return 1
            if kind and not types & KINDS[kind]:
                print(f"{path.name}: {name} = {number} is not of type {kind}")
                return 1
            used += 1
    response = cp_model_pb2.CpSolverResponse.DESCRIPTOR.fields_by_name
    read = {"status": 1, "solution": 2, "best_objective_bound": 4, "num_conflicts": 11, "solve_log": 26}
    wrong = [name for name, number in read.items() if response[name].number != number]
    if wrong or used < 20:
        print(f"response fields {wrong} moved, or only {used} fields were found")
        return 1
    print(f"{used} fields agree with OR-Tools' descriptors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
