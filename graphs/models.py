"""The agents' chat model: any OpenAI-compatible endpoint, or the demo model without a key."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, cast

import httpx
import openai
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    message_chunk_to_message,
)
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.messages.tool import invalid_tool_call, tool_call
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from graphs.demo_model import DemoChatModel
from graphs.history import rebuilt
from tools.http_client import per_event_loop, ssl_context

DEFAULT_MODEL = "gpt-5-mini"
OPENAI_URL = "https://api.openai.com/v1"
PATIENCE = 60.0
"""Seconds from the first attempt to the last, for an endpoint that is overloaded or silent."""
ATTEMPT = 40.0
"""Seconds that one attempt waits for the endpoint to begin its answer."""
FIRST_PAUSE = 0.5
"""Seconds before the second attempt; each further pause is twice as long."""
SILENCE = 60.0
"""Seconds that an answer that has begun may stand still."""
LONGEST_PAUSE = 8.0
"""Seconds of the longest pause, unless the endpoint asks for more by `Retry-After`."""

BoundModel = Runnable[LanguageModelInput, AIMessage]


class ChatModel(Protocol):
    """What an agent needs of a chat model. Every LangChain chat model has it."""

    def bind_tools(
        self, tools: Sequence[BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The model with tools that it may call."""

    def astream(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[AIMessage]:
        """The model's answer as it comes."""


class ModelError(RuntimeError):
    """The chat model cannot be called or did not answer; the message says what to do."""


class Settings(NamedTuple):
    """Where the chat model is."""

    name: str
    base_url: str
    api_key: str


class EnvironmentModel(Runnable[LanguageModelInput, AIMessage]):
    """The chat model that the environment names, or `model` of a call, looked up on every call.

    Nothing is built before the first call, so that a missing key never stops the server. The
    demo model answers where neither a key, an endpoint nor a model is named; it never stands in
    for a model that failed.

    Raises:
        ModelError: On a call, if the model cannot be called or did not answer.
    """

    @property
    def model_name(self) -> str:
        """The model of a call that names none."""
        with suppress(ModelError):
            settings = read_settings()
            return settings.name if settings else "demo"
        return "unknown, as OPENAI_API_KEY is not right"

    def bind_tools(
        self, tools: Sequence[BaseTool], **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The same, with tools."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def invoke(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AIMessage:
        """Not offered: the agents are async, as the server is."""
        raise NotImplementedError("The agents are async: use ainvoke or astream.")

    async def ainvoke(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AIMessage:
        """The model's answer."""
        return await whole_message(self.astream(input, config, **kwargs))

    async def astream(
        self, input: LanguageModelInput, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[AIMessage]:
        """The model's answer as it comes."""
        settings = read_settings(kwargs.pop("model", ""))
        model = chat_model(settings) if settings else DemoChatModel()
        try:
            async for chunk in model.astream(input, config, **kwargs):
                yield chunk
        except (openai.OpenAIError, httpx.HTTPError, TimeoutError, ValueError) as error:
            raise ModelError(explained(error, settings)) from error


def name_of(llm: ChatModel) -> str:
    """What a chat model is called in traces."""
    names = (getattr(llm, attribute, None) for attribute in ("model_name", "model"))
    return next((name for name in names if isinstance(name, str)), type(llm).__name__)


async def whole_message(stream: AsyncIterator[AIMessage]) -> AIMessage:
    """A message that comes in chunks, or at once.

    A call whose arguments are no JSON object becomes an invalid one: LangChain completes
    arguments that were cut off, and half an email would go out.
    """
    chunks = [chunk async for chunk in stream]
    if not isinstance(chunks[0], AIMessageChunk):
        return chunks[0]
    whole = add_ai_message_chunks(*cast(list[AIMessageChunk], chunks))
    message = cast(AIMessage, message_chunk_to_message(whole))
    problems = [_json_problem(chunk["args"]) for chunk in whole.tool_call_chunks]
    if not any(problems):
        return message
    calls, invalid = [], []
    for chunk, problem in zip(whole.tool_call_chunks, problems, strict=True):
        name, args, id_ = chunk["name"], chunk["args"] or "{}", chunk["id"]
        if problem:
            invalid.append(invalid_tool_call(name=name, args=args, id=id_, error=problem))
        else:
            calls.append(tool_call(name=name or "", args=json.loads(args), id=id_))
    return rebuilt(message, tool_calls=calls, invalid_tool_calls=invalid)


def _json_problem(args: str | None) -> str:
    """What is wrong with arguments as they were sent; empty if they are a JSON object."""
    try:
        return "" if isinstance(json.loads(args or "{}"), dict) else "not an object"
    except ValueError as error:
        return str(error)


def read_settings(model: str = "") -> Settings | None:
    """The endpoint that the environment names, or `None` for the demo model.

    Args:
        model: The model's name, in place of the environment's.

    Raises:
        ModelError: If a model or an endpoint is named without a key.
    """
    key, url, default = (
        os.environ.get(variable, "").strip()
        for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "AGENT_MODEL")
    )
    name = model.strip() or default
    if name == "demo" or not (key or url or name):
        return None
    if not key:
        source = "The model" if model.strip() else "AGENT_MODEL"
        named = f"{source} is {name!r}" if name else f"OPENAI_BASE_URL is {url!r}"
        raise ModelError(
            f"{named}, but OPENAI_API_KEY is not set. Set it (a server that asks for no key, such "
            "as Ollama or vLLM, takes any value), or unset both to use the demo model."
        )
    if not (key.isascii() and key.isprintable()):
        raise ModelError("OPENAI_API_KEY has characters that no key has. Copy it again.")
    return Settings(name.removeprefix("openai:") or DEFAULT_MODEL, url or OPENAI_URL, key)


class PatientClient(httpx.AsyncClient):
    """Asks again, with backoff, an endpoint that is overloaded (429), broken (5xx) or silent.

    Only until its answer begins: what is being streamed is not asked for twice.
    """

    async def send(self, request: httpx.Request, **kwargs: Any) -> httpx.Response:
        """Send the request, again and again if need be, for `PATIENCE` seconds at most."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + PATIENCE
        pause = FIRST_PAUSE
        while True:
            outcome = await self._attempt(request, min(deadline, clock() + ATTEMPT), kwargs)
            wait = max(pause, _retry_after(outcome))
            if not _is_passing(outcome) or clock() + wait >= deadline:
                break
            if isinstance(outcome, httpx.Response):
                await outcome.aclose()
            await asyncio.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)
        if isinstance(outcome, httpx.Response):
            return outcome if outcome.is_success else await _without_key(outcome)
        raise outcome

    async def _attempt(
        self, request: httpx.Request, until: float, kwargs: dict[str, Any]
    ) -> httpx.Response | httpx.TransportError:
        try:
            async with asyncio.timeout_at(until):
                return await super().send(request, **kwargs)
        except httpx.TransportError as error:
            return error
        except TimeoutError:
            return httpx.ReadTimeout("no answer", request=request)


async def _without_key(refusal: httpx.Response) -> httpx.Response:
    """An endpoint's error without the key, which many repeat in it: errors go into traces."""
    body = await refusal.aread()
    for key in filter(None, refusal.request.headers.get("authorization", "").split()[1:]):
        body = body.replace(key.encode(), b"***")
    headers = {"content-type": refusal.headers.get("content-type", "")}
    return httpx.Response(
        refusal.status_code, headers=headers, content=body, request=refusal.request
    )


def _is_passing(outcome: httpx.Response | httpx.TransportError) -> bool:
    """Whether asking again may help."""
    if isinstance(outcome, httpx.Response):
        return outcome.status_code == 429 or outcome.status_code >= 500
    return not isinstance(outcome, httpx.UnsupportedProtocol | httpx.LocalProtocolError)


def _retry_after(outcome: httpx.Response | httpx.TransportError) -> float:
    """The seconds that the endpoint asks to wait; 0 if it does not say, or gives a date."""
    if not isinstance(outcome, httpx.Response):
        return 0
    value = outcome.headers.get("retry-after", "")
    return float(value) if value.isdecimal() else 0


def explained(error: Exception, settings: Settings | None) -> str:
    """What went wrong with the chat model, in one line, without the key."""
    if settings is None:
        return f"The demo model failed: {error}"
    where = f"The chat model {settings.name!r} at {settings.base_url}"
    match error:
        case openai.APIStatusError():
            what = f"answered {error.status_code}: {error.message}"
        case openai.APITimeoutError() | httpx.TimeoutException() | TimeoutError():
            what = f"did not answer ({PATIENCE:.0f} seconds were waited)"
        case openai.APIConnectionError() | httpx.HTTPError():
            what = f"could not be reached: {error.__cause__ or error}"
        case ValueError():
            what = f"did not answer with the stream of a chat completion: {error}"
        case _:
            what = f"could not be called: {error}"
    line = " ".join(f"{where} {what}".split()).replace(settings.api_key, "***")[:500]
    return (
        f"{line}. Check OPENAI_BASE_URL, AGENT_MODEL and OPENAI_API_KEY, then send a new message."
    )


_client = per_event_loop(
    lambda: PatientClient(verify=ssl_context()),
    close=lambda client: client.aclose(),
)
_models: Callable[[], dict[Settings, BaseChatModel]] = per_event_loop(dict)


def chat_model(settings: Settings) -> BaseChatModel:
    """The chat model of the running event loop: its connections are bound to that loop."""
    models = _models()
    if settings not in models:
        models[settings] = ChatOpenAI(
            model=settings.name,
            base_url=settings.base_url,
            api_key=SecretStr(settings.api_key),
            # Streamed, the endpoint's answer begins at once, however long it gets.
            streaming=True,
            max_retries=0,
            timeout=httpx.Timeout(SILENCE, connect=10),
            http_async_client=_client(),
        )
    return models[settings]
