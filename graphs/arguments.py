"""Do these arguments fit this tool?"""

import json
from typing import Any

import jsonschema
from langchain_core.tools import BaseTool
from langgraph.prebuilt.tool_node import ToolInvocationError
from pydantic import BaseModel, ValidationError


def schema_of(tool: BaseTool) -> dict[str, Any]:
    """The JSON schema of the arguments that a model or a human may set."""
    schema = tool.tool_call_schema
    if isinstance(schema, dict):
        return schema
    return schema.model_json_schema() if issubclass(schema, BaseModel) else schema.schema()


def _model_of(tool: BaseTool) -> type[BaseModel] | None:
    """The pydantic model of the arguments; tools from elsewhere (MCP) have a JSON schema only."""
    schema = tool.tool_call_schema
    return schema if isinstance(schema, type) and issubclass(schema, BaseModel) else None


def misfit(tool: BaseTool, args: dict[str, Any]) -> str:
    """Why the tool node would refuse the arguments, in its words; empty if it would not."""
    model = _model_of(tool)
    if model is None:
        return ""
    try:
        model.model_validate(args)
    except ValidationError as error:
        return ToolInvocationError(tool.name, error, args).message
    return ""


def fitted(tool: BaseTool, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments in the types that the tool's schema asks for: a form's "3" becomes 3.

    Raises:
        ValueError: If they do not fit; the message says which and why.
    """
    model = _model_of(tool)
    if model is None:
        return _fitted_to_json_schema(schema_of(tool), args)
    unknown = sorted(args.keys() - model.model_fields.keys())
    if unknown:
        known = ", ".join(model.model_fields)
        raise ValueError(f"{tool.name} has no argument {', '.join(unknown)}; it has {known}")
    try:
        return model.model_validate(args).model_dump(mode="json", include=set(args))
    except ValidationError as error:
        problems = (f"{_path(e['loc'])}: {e['msg']}" for e in error.errors())
        raise ValueError("; ".join(problems)) from None


def _fitted_to_json_schema(schema: dict[str, Any], args: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    typed = {name: _typed(value, properties.get(name, {})) for name, value in args.items()}
    errors = jsonschema.Draft202012Validator(schema).iter_errors(typed)
    problems = [f"{_path(error.path)}: {error.message}" for error in errors]
    if problems:
        raise ValueError("; ".join(problems))
    return typed


def _typed(value: Any, schema: dict[str, Any]) -> Any:
    """A text where the schema wants something else: what the text says as JSON, if it does."""
    if not isinstance(value, str) or "string" in schema.get("type", "string"):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _path(parts: Any) -> str:
    return ".".join(str(part) for part in parts) or "arguments"
