"""The types of our JSON files are those of the schemas, and what is null is absent."""

import json
import typing
from pathlib import Path

import pytest

from remat_profiler import documents
from remat_profiler.replay import plan
from remat_profiler.replay.once import store_all

from .conftest import document_of

ROOT = Path(__file__).parents[2] / "instances"
needs_schemas = pytest.mark.skipif(not ROOT.is_dir(), reason="the schemas are not beside the package")
# Our class for each object of the schemas.
CLASSES = {
    "instance": {
        "": documents.Instance, "Device": documents.Device, "FixedBytes": documents.FixedBytes,
        "ImplementationDocument": documents.Implementation, "InPlaceDocument": documents.InPlace,
        "OperatorDocument": documents.Operator, "Provenance": documents.Provenance, "Software": documents.Software,
        "TensorDocument": documents.Tensor, "Units": documents.Units, "ViewDocument": documents.View,
    },
    "schedule": {"": documents.Schedule, "StepDocument": documents.Step, "TransferRates": documents.TransferRates},
}
WORDS = {
    "Phase": documents.Phase, "TensorKind": documents.TensorKind, "TimeUnit": documents.Unit, "MemoryUnit": documents.Unit,
}
SIMPLE = {"integer": int, "string": str, "boolean": bool, "number": float}


def schema_of(kind):
    return json.loads((ROOT / f"{kind}.schema.json").read_text())


def agrees(hint, said, kind):
    """Whether a type is what a property of a schema says, null left out."""
    if "anyOf" in said:
        (said,) = [one for one in said["anyOf"] if one != {"type": "null"}]
    if "$ref" in said:
        name = said["$ref"].rpartition("/")[2]
        if name == "Origin":
            return hint == documents.Origin
        return hint == (WORDS[name] if name in WORDS else CLASSES[kind][name])
    types = [one for one in (said["type"] if isinstance(said["type"], list) else [said["type"]]) if one != "null"]
    if types == ["array"]:
        return typing.get_origin(hint) is list and agrees(typing.get_args(hint)[0], said["items"], kind)
    if types == ["object"]:
        value = said["additionalProperties"]
        return typing.get_origin(hint) is dict and typing.get_args(hint) == (str, object if value is True else SIMPLE[value["type"]])
    return [hint] == [SIMPLE[one] for one in types]


def differences(cls, schema, kind):
    """What a class and a schema of an object do not agree on."""
    hints, properties = typing.get_type_hints(cls), schema["properties"]
    found = [f"{cls.__name__} and its schema have not the same fields: {set(hints) ^ set(properties)}"] * (set(hints) != set(properties))
    if cls.__required_keys__ != set(schema.get("required", [])):
        found.append(f"{cls.__name__}: {set(cls.__required_keys__) ^ set(schema.get('required', []))} is required in one of both")
    return found + [f"{cls.__name__}.{name} is {hints[name]}, not {properties[name]}" for name in hints
                    if name in properties and not agrees(hints[name], properties[name], kind)]


@needs_schemas
@pytest.mark.parametrize("kind", CLASSES)
def test_every_object_of_the_schemas_has_a_class_that_agrees_with_it(kind):
    schema = schema_of(kind)
    assert set(CLASSES[kind]) - {""} == set(schema["$defs"]) - {*WORDS, "Origin"}
    for name, cls in CLASSES[kind].items():
        assert differences(cls, schema["$defs"][name] if name else schema, kind) == []


@needs_schemas
def test_origins_and_words_are_those_of_the_schema():
    defined = schema_of("instance")["$defs"]
    assert len(documents.ORIGINS) == len(defined["Origin"]["oneOf"])
    for cls, said in zip(documents.ORIGINS, defined["Origin"]["oneOf"]):
        hints = typing.get_type_hints(cls)
        assert typing.get_args(hints["kind"]) == (said["properties"]["kind"]["const"],)
        assert set(hints) == set(said["properties"]) and cls.__required_keys__ == set(said["required"])
    for name in ("Phase", "TensorKind"):
        assert set(typing.get_args(WORDS[name])) == {one["const"] for one in defined[name]["oneOf"]}
    units = {one["const"] for name in ("TimeUnit", "MemoryUnit") for one in defined[name]["oneOf"]}
    assert set(typing.get_args(documents.Unit)) == units


@needs_schemas
def test_a_class_that_differs_from_its_schema_is_found():
    said = schema_of("instance")["$defs"]["InPlaceDocument"]
    more = said | {"properties": said["properties"] | {"input": {"type": "string"}}, "required": ["input"]}
    assert len(differences(documents.InPlace, more, "instance")) == 2


def fits(value, hint):
    """Whether a value of a file is of a type."""
    if typing.is_typeddict(hint):
        hints = typing.get_type_hints(hint)
        return set(value) <= set(hints) and hint.__required_keys__ <= set(value) and all(fits(value[key], hints[key]) for key in value)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return value in arguments
    if origin is list:
        return isinstance(value, list) and all(fits(item, arguments[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(item, arguments[1]) for item in value.values())
    if arguments:  # a union
        return any(fits(value, one) for one in arguments)
    return isinstance(value, (int, float)) if hint is float else isinstance(value, hint)


def test_what_the_tracer_and_the_planner_of_single_runs_make_fits_the_types(small):
    made = document_of(small)
    assert fits(made, documents.Instance)
    assert fits(store_all(made), documents.Schedule)
    assert not fits({**made, "order": ["0"]}, documents.Instance)
    assert not fits({key: value for key, value in made.items() if key != "order"}, documents.Instance)


def nulls(made):
    """The same file with null for everything that is absent."""
    optional = {"differentiates": None, "recomputable": None}
    operators = [{**optional, **op, "implementations": [{"inputs": None, "in_place": None, "origin": None, "spread": None, **i}
                                                        for i in op["implementations"]]} for op in made["operators"]]
    return {**made, "operators": operators, "provenance": {**made["provenance"], "dtype": None}}


def test_null_is_absent_in_instances_and_schedules(small):
    made = document_of(small)
    schedule = store_all(made)
    steps = [{"compute": None, "implementation": None, "free": None, "offload": None, "fetch": None, **step} for step in schedule["steps"]]
    said = {**schedule, "steps": steps, "transfer_rates": None, "method": None}
    expected, found = plan.plan(made, schedule), plan.plan(nulls(made), said)
    assert found.steps == expected.steps and plan.expectation(found) == plan.expectation(expected)
    assert "method" not in found.schedule
    offloaded = {**said, "steps": [*steps[:1], {"offload": made["operators"][0]["outputs"][0]}, *steps[1:]]}
    with pytest.raises(plan.ProfilerError, match="no transfer_rates"):
        plan.plan(made, offloaded)
