"""A chat model that plays a script, and is as strict about its history as a provider.

model = ScriptedModel(script=[call("get_weather", {"location": "Paris"}), "It is warm."])
model = ScriptedModel(script=always_tool("get_current_time", {"timezone": "UTC"}))
model.calls[0].messages   # what the model was shown
model.calls[-1].kwargs    # tools, tool_choice and the like
"""

import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    CallbackManagerForLLMRun,
)
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr

from tests.standins.provider_rules import check_langchain_history, check_tools

_fresh = itertools.count(1)


@dataclass(frozen=True)
class ModelCall:
    """One call of the model: the messages that it was shown, and the options."""

    messages: list[BaseMessage]
    kwargs: dict[str, Any]

    @property
    def tool_choice(self) -> Any:
        return self.kwargs.get("tool_choice")

    @property
    def tool_names(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.kwargs.get("tools") or ()]


Reply = str | AIMessage | Exception
Player = Callable[[ModelCall], Reply]
Script = Sequence[Reply | Player] | Player


def call(name: str, args: dict[str, Any] | None = None, id: str | None = None) -> AIMessage:
    """Return a message that asks for one tool call; without `id`, under a fresh one."""
    return calls((name, args or {}, id or f"call_{next(_fresh)}"))


def calls(*wanted: tuple[str, dict[str, Any], str]) -> AIMessage:
    """Return a message that asks for several tool calls, each given as (name, args, id)."""
    return AIMessage("", tool_calls=[ToolCall(name=n, args=a, id=i) for n, a, i in wanted])


def malformed_call(name: str, args: str, id: str) -> AIMessage:
    """Return a message whose tool call has arguments that are no JSON."""
    invalid = {"type": "invalid_tool_call", "name": name, "args": args, "id": id, "error": None}
    return AIMessage("", invalid_tool_calls=[invalid])


class HasToolChoice(Protocol):
    @property
    def tool_choice(self) -> Any: ...


def always_tool(
    name: str, args: dict[str, Any] | None = None, *, obeys: bool = True, answer: str = "Closing."
) -> Callable[[HasToolChoice], str | AIMessage]:
    """Ask for a tool at every call; with `obeys`, answer when told `tool_choice="none"`."""

    def play(made: HasToolChoice) -> str | AIMessage:
        return answer if obeys and made.tool_choice == "none" else call(name, args)

    return play


class ScriptedModel(BaseChatModel):
    """Plays `script`, records every call in `calls`, and refuses what a provider refuses.

    The script is a list of replies, one a call, or a function of the `ModelCall`. A reply is a
    text, a message, an exception to raise, or such a function. Where several agents share the
    model, which may run at the same time, give a function that looks at the messages.

    Raises:
        ProviderRefusal: the history or the options break a rule of the provider's protocol.
        AssertionError: there is no reply left in the list.
    """

    script: Any = Field(default_factory=list)
    _calls: list[ModelCall] = PrivateAttr(default_factory=list)
    _played: int = PrivateAttr(default=0)

    @property
    def calls(self) -> list[ModelCall]:
        return self._calls

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Keep the tools, and what is said about them, as options of every call."""
        given = {"tool_choice": tool_choice} if tool_choice is not None else {}
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **given, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages, kwargs))])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for piece in _pieces(self._reply(messages, kwargs)):
            chunk = ChatGenerationChunk(message=piece)
            if run_manager:
                await run_manager.on_llm_new_token(piece.text, chunk=chunk)
            yield chunk

    def _reply(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        made = ModelCall(list(messages), kwargs)
        self._calls.append(made)
        check_tools(kwargs)
        check_langchain_history(messages)
        reply = self._next(made)
        if isinstance(reply, Exception):
            raise reply
        return AIMessage(reply) if isinstance(reply, str) else reply.model_copy(deep=True)

    def _next(self, made: ModelCall) -> Reply:
        if callable(self.script):
            return _played(self.script, made)
        assert self._played < len(self.script), (
            f"The script has {len(self.script)} replies, and the model was called once more, "
            f"with: {made.messages[-1]!r}"
        )
        self._played += 1
        return _played(self.script[self._played - 1], made)


def wanted_calls(message: AIMessage) -> list[tuple[str, str, str]]:
    """Return (name, arguments as JSON or what was meant to be, id) of every call, good or not."""
    good = [(c["name"], json.dumps(c["args"]), c["id"] or "") for c in message.tool_calls]
    bad = [(c["name"] or "", c["args"] or "", c["id"] or "") for c in message.invalid_tool_calls]
    return good + bad


def _played(entry: Any, made: ModelCall) -> Reply:
    reply: Reply = entry(made) if callable(entry) else entry
    return reply


def _pieces(message: AIMessage) -> Iterator[AIMessageChunk]:
    """Cut a message as a stream does: text by words, each call's arguments in two pieces."""
    first, *words = message.text.split(" ") if isinstance(message.content, str) else [""]
    yield AIMessageChunk(
        content=first if isinstance(message.content, str) else message.content,
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        id=message.id,
    )
    for word in words:
        yield AIMessageChunk(content=f" {word}", id=message.id)
    for index, (name, args, id_) in enumerate(wanted_calls(message)):
        half = len(args) // 2
        for chunk in (
            tool_call_chunk(name=name, args=args[:half], id=id_, index=index),
            tool_call_chunk(name=None, args=args[half:], id=None, index=index),
        ):
            yield AIMessageChunk(content="", tool_call_chunks=[chunk], id=message.id)
