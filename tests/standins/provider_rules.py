"""What providers of OpenAI-compatible chat models refuse, gathered in one strict place.

A rule is here if OpenAI, or one of the servers that speak its protocol (vLLM, Ollama, Mistral,
Anthropic's and Google's compatible endpoints), answers a request that breaks it with 400.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_openai.chat_models.base import _convert_message_to_dict

Message = Mapping[str, Any]

ROLES = ("system", "user", "assistant", "tool")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class ProviderRefusal(ValueError):
    """The request breaks a rule of the protocol. The message says which, and where."""


def check_request(request: Mapping[str, Any]) -> None:
    """Refuse a body of `POST /chat/completions` that a provider would refuse.

    Raises:
        ProviderRefusal: the first rule that the request breaks.
    """
    if not isinstance(request.get("model"), str):
        raise ProviderRefusal("model: a name is missing")
    if not isinstance(request.get("messages"), list):
        raise ProviderRefusal("messages: a list is missing")
    check_tools(request)
    check_history(request["messages"])


def check_tools(request: Mapping[str, Any]) -> None:
    """Refuse wrong `tools`, and options that have no meaning without them."""
    tools = request.get("tools")
    if tools is None:
        for option in ("tool_choice", "parallel_tool_calls"):
            if request.get(option) is not None:
                raise ProviderRefusal(f"{option}: only allowed when tools are given")
        return
    if not tools:
        raise ProviderRefusal("tools: an empty list; leave it out instead")
    names = [tool["function"]["name"] for tool in tools]
    for name in names:
        check_tool_name(name, "tools")
    if len(names) != len(set(names)):
        raise ProviderRefusal(f"tools: a name is there twice: {names}")


def check_langchain_history(messages: Sequence[BaseMessage]) -> None:
    """Refuse a history of LangChain messages that a provider would refuse.

    Raises:
        ProviderRefusal: the first rule that the history breaks.
    """
    check_history([_as_openai(message) for message in messages])


def check_history(messages: Sequence[Message]) -> None:
    """Refuse a history that a provider would refuse.

    Args:
        messages: message dictionaries as in the body of `POST /chat/completions`.

    Raises:
        ProviderRefusal: the first rule that the history breaks.
    """
    if not any(message.get("role") == "user" for message in messages):
        raise ProviderRefusal("messages: no user message")
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        check_role(message, index)
        check_content(message, where)
        if message["role"] == "assistant":
            check_calls(message, where)
    check_results(messages)


def check_role(message: Message, index: int) -> None:
    if message.get("role") not in ROLES:
        raise ProviderRefusal(f"messages[{index}]: unknown role {message.get('role')!r}")
    if message["role"] == "system" and index > 0:
        raise ProviderRefusal(f"messages[{index}]: a system message that is not the first message")


def check_content(message: Message, where: str) -> None:
    content = message.get("content")
    if message["role"] == "assistant" and content in (None, "", []):
        if not message.get("tool_calls"):
            raise ProviderRefusal(f"{where}: an assistant message without content or tool calls")
        return
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        raise ProviderRefusal(f"{where}: content is neither text nor a list of parts: {content!r}")
    for part in content:
        if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
            raise ProviderRefusal(f"{where}: not a content part: {part!r}")


def check_calls(message: Message, where: str) -> None:
    calls = message.get("tool_calls")
    if calls is not None and not calls:
        raise ProviderRefusal(f"{where}: tool_calls is an empty list; leave it out instead")
    ids = [call.get("id") for call in calls or ()]
    if not all(isinstance(id_, str) and id_ for id_ in ids):
        raise ProviderRefusal(f"{where}: a tool call without an id: {ids}")
    if len(ids) != len(set(ids)):
        raise ProviderRefusal(f"{where}: a tool call id is there twice: {ids}")
    for call in calls or ():
        function = call.get("function") or {}
        check_tool_name(function.get("name"), where)
        check_arguments(function.get("arguments"), where)


def check_tool_name(name: object, where: str) -> None:
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise ProviderRefusal(f"{where}: {name!r} is no tool name ({TOOL_NAME.pattern})")


def check_arguments(arguments: object, where: str) -> None:
    """Refuse arguments that are no JSON object, as vLLM and Ollama do, who parse them."""
    try:
        parsed = json.loads(arguments) if isinstance(arguments, str) else None
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise ProviderRefusal(f"{where}: arguments are not a JSON object: {arguments!r}")


def check_results(messages: Sequence[Message]) -> None:
    """Refuse calls that are not answered right after them, once each, and results of no call."""
    waiting: list[str] = []
    answered: set[str] = set()
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if message["role"] != "tool":
            _refuse_unanswered(waiting, where)
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
            answered = set()
            continue
        call_id = message.get("tool_call_id")
        if call_id in answered:
            raise ProviderRefusal(f"{where}: a second result for call {call_id!r}")
        if call_id not in waiting:
            raise ProviderRefusal(f"{where}: a result without a call before it: {call_id!r}")
        waiting.remove(call_id)
        answered.add(call_id)
    _refuse_unanswered(waiting, "the end")


def _refuse_unanswered(call_ids: Iterable[str], where: str) -> None:
    if missing := list(call_ids):
        raise ProviderRefusal(f"tool calls without a result before {where}: {missing}")


def _as_openai(message: BaseMessage) -> Message:
    """What `ChatOpenAI` would send of a message; its own function, which is not public."""
    return _convert_message_to_dict(message)
