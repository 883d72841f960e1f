"""Do these arguments fit this tool? Asked before a call is shown to a human, and before it runs."""

import json
from collections.abc import Mapping
from typing import Any

import jsonschema
from langchain_core.tools import BaseTool
from pydantic import BaseModel, ValidationError


def schema_of(tool: BaseTool) -> dict[str, Any]:
    """The JSON schema of the arguments that a model or a human may set."""
    schema = tool.tool_call_schema
    if isinstance(schema, dict):
        return schema
    return schema.model_json_schema() if issubclass(schema, BaseModel) else schema.schema()


def misfit(tool: BaseTool, args: Mapping[str, Any]) -> str:
    """Why the arguments do not fit, for the model to correct them; empty if they do."""
    problems = _problems(tool, args)
    if not problems:
        return ""
    return f"Error: these arguments do not fit {tool.name}. {_listed(problems)}. Correct them."


def fitted(tool: BaseTool, args: Mapping[str, Any]) -> dict[str, Any]:
    """A human's arguments in the types that the tool's schema asks for: a form's "3" becomes 3.

    Raises:
        ValueError: If they do not fit; the message says which and why.
    """
    schema = schema_of(tool)
    known = schema.get("properties", {})
    unknown = ", ".join(sorted(args.keys() - known.keys()))
    if unknown and known and not schema.get("additionalProperties"):
        raise ValueError(f"{tool.name} has no argument {unknown}; it has {', '.join(known)}")
    wrong = {path.partition(".")[0] for path in _problems(tool, args)}
    typed = {name: _read(value) if name in wrong else value for name, value in args.items()}
    if problems := _problems(tool, typed):
        raise ValueError(_listed(problems))
    return _coerced(tool, typed)


def _problems(tool: BaseTool, args: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong, by the path of the argument."""
    schema = tool.args_schema
    if isinstance(schema, dict):
        return _json_schema_problems(schema, args)
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        return {}
    injected = schema.model_fields.keys() - tool.args.keys()
    try:
        schema.model_validate(args)
    except ValidationError as error:
        found = [(_path(e["loc"]), e["msg"]) for e in error.errors()]
        return {path: text for path, text in found if path.partition(".")[0] not in injected}
    except Exception as error:  # noqa: BLE001 (a validator of the tool's own may raise anything)
        return {"arguments": f"{type(error).__name__}: {error}"}
    return {}


def _json_schema_problems(schema: dict[str, Any], args: Mapping[str, Any]) -> dict[str, str]:
    """The same for tools that come from elsewhere, over MCP for one, with a plain JSON schema."""
    try:
        errors = list(jsonschema.Draft202012Validator(schema).iter_errors(args))
    except Exception:  # noqa: BLE001 (a schema that cannot be checked here is the server's to check)
        return {}
    return {_path(error.path): error.message for error in errors}


def _coerced(tool: BaseTool, args: dict[str, Any]) -> dict[str, Any]:
    schema = tool.tool_call_schema
    if isinstance(schema, dict) or not issubclass(schema, BaseModel):
        return args
    try:
        return schema.model_validate(args).model_dump(mode="json", include=set(args))
    except ValueError:
        return args  # They fit by their aliases, which this schema leaves out.


def _read(value: Any) -> Any:
    """What a text says as JSON, if it says anything."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _listed(problems: Mapping[str, str]) -> str:
    return "; ".join(f"{path}: {text}" for path, text in problems.items())


def _path(parts: Any) -> str:
    return ".".join(str(part) for part in parts) or "arguments"
