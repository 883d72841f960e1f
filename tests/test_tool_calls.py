"""What follows when a tool call fails, the same for every agent; how much of a result is kept."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.types import Command
from pydantic import TypeAdapter, ValidationError

from graphs.building import Agent, check_names
from graphs.history import NO_RESULT
from graphs.tool_results import MAX_RESULT_CHARACTERS, shortened
from tests.agents import (
    AGENTS,
    Recorder,
    ask,
    history,
    react,
    results,
    rounds_within,
    thread,
)
from tests.standins.scripted_model import (
    ScriptedModel,
    always_tool,
    call,
    calls,
    malformed_call,
)

Build = Callable[..., Agent]
NAMES = {build: name for name, build in AGENTS.items()}
BOTH = pytest.mark.parametrize("build", NAMES)


@BOTH
async def test_an_unknown_tool_gets_an_error_with_the_list_of_tools(build: Build) -> None:
    recorder = Recorder()
    model = ScriptedModel(script=[call("jump"), call("work", {"text": "x"}), "done"])
    messages = await ask(build(model, [recorder.tool("work"), recorder.tool("rest")]), "go")
    assert messages[2].text == "Error: jump is not a valid tool, try one of [work, rest]."
    assert results(messages)[0].status == "error"
    assert recorder.names() == ["work"]
    assert messages[-1].text == "done"


@BOTH
async def test_arguments_that_do_not_fit_get_the_validation_error(build: Build) -> None:
    recorder = Recorder()
    model = ScriptedModel(
        script=[call("work", {"number": "many"}), call("work", {"text": "x"}), "done"]
    )
    messages = await ask(build(model, [recorder.tool("work")]), "go")
    (error, _) = results(messages)
    assert error.status == "error"
    assert "text: Field required" in error.text
    assert "number: Input should be a valid integer" in error.text
    assert recorder.names() == ["work"]


@BOTH
async def test_arguments_that_are_no_json_get_an_error_each(build: Build) -> None:
    """Case 14."""
    recorder = Recorder()
    bad = malformed_call("work", '{"text": ', "1")
    bad.invalid_tool_calls.append({**bad.invalid_tool_calls[0], "id": "2"})
    bad.tool_calls.append(
        {"name": "work", "args": {"text": "good"}, "id": "3", "type": "tool_call"}
    )
    model = ScriptedModel(script=[bad, call("work", {"text": "x"}), "done"])
    messages = await ask(build(model, [recorder.tool("work")]), "go")
    by_id = {result.tool_call_id: result for result in results(messages)}
    for id_ in ("1", "2"):
        assert by_id[id_].status == "error"
        assert "not valid JSON" in by_id[id_].text
        assert '{"text": ' in by_id[id_].text
    assert by_id["3"].text == "work did good"
    assert messages[-1].text == "done"


@BOTH
@pytest.mark.parametrize("streamed", [False, True])
async def test_arguments_that_were_cut_off_are_never_completed(
    build: Build, streamed: bool
) -> None:
    """Case 14: whoever watches the run. LangChain closes the brackets of what is streamed."""
    recorder = Recorder()
    model = ScriptedModel(script=[malformed_call("work", '{"text": "Dear Bob, pay 10', "1"), "ok"])
    agent = build(model, [recorder.tool("work")])
    mode: Any = "messages" if streamed else "values"
    async for _ in agent.astream({"messages": [HumanMessage("go")]}, thread(), stream_mode=mode):
        pass
    assert recorder.runs == []
    messages = await history(agent)
    assert [m.type for m in messages] == ["human", "ai", "tool", "ai"]
    assert "not valid JSON" in messages[2].text


@BOTH
async def test_a_made_up_name_that_providers_refuse_does_not_wedge_the_thread(
    build: Build,
) -> None:
    model = ScriptedModel(script=[call("functions.work", {"text": "x"}), "ok", "fine"])
    agent = build(model, [Recorder().tool("work")])
    messages = await ask(agent, "go")
    assert "functions.work is not a valid tool" in messages[2].text
    assert (await ask(agent, "and?"))[-1].text == "fine"


@BOTH
async def test_a_validation_error_of_the_tools_own_goes_to_the_caller(build: Build) -> None:
    """It is no misfit of the arguments: the tool has begun, and must not be called again."""
    begun = []

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        begun.append(amount)
        TypeAdapter(int).validate_python("x")
        return "paid"

    agent = build(ScriptedModel(script=[call("pay", {"amount": 1}), "ok"]), [pay])
    with pytest.raises(ValidationError):
        await ask(agent, "go")
    assert begun == [1]


@BOTH
async def test_a_plain_json_schema_is_checked_too(build: Build) -> None:
    remote = StructuredTool.from_function(
        func=lambda **_: "ran",
        name="remote",
        description="d",
        args_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
    )
    model = ScriptedModel(script=[call("remote", {"n": "x"}), call("remote", {"n": 1}), "ok"])
    wrong, right = results(await ask(build(model, [remote]), "go"))
    assert "n: 'x' is not of type 'integer'" in wrong.text
    assert wrong.status == "error"
    assert right.text == "ran"


@BOTH
async def test_tools_that_are_given_state_and_runtime_work(build: Build) -> None:
    @tool
    async def look(text: str, runtime: ToolRuntime, state: Annotated[Any, InjectedState]) -> str:
        """Look."""
        return f"{text} {runtime.tool_call_id} {len(state['messages'])}"

    model = ScriptedModel(script=[call("look", {"text": "x"}, "1"), call("look", {}, "2"), "ok"])
    right, wrong = results(await ask(build(model, [look]), "go"))
    assert right.text == "x 1 2"
    assert "text: Field required" in wrong.text
    assert "runtime" not in wrong.text


@BOTH
async def test_a_message_that_a_tool_adds_gives_no_new_budget(build: Build) -> None:
    @tool
    async def talk(runtime: ToolRuntime) -> Command[None]:
        """Speak as the user."""
        result = ToolMessage("ok", tool_call_id=str(runtime.tool_call_id))
        return Command(update={"messages": [result, HumanMessage("h" * 50_000)]})

    messages = await ask(
        build(ScriptedModel(script=always_tool("talk")), [talk]), "go", thread(limit=100)
    )
    assert len(results(messages)) == rounds_within(25, NAMES[build])
    assert max(len(m.text) for m in messages) <= MAX_RESULT_CHARACTERS


@BOTH
async def test_each_retry_costs_a_round(build: Build) -> None:
    model = ScriptedModel(script=always_tool("jump"))
    messages = await ask(build(model, [Recorder().tool("work")]), "go", thread(limit=8))
    assert len(results(messages)) == rounds_within(8, NAMES[build])
    assert messages[-1].text == "Closing."


@BOTH
async def test_an_exception_goes_to_the_caller_and_the_thread_stays_usable(build: Build) -> None:
    """Case 47."""
    recorder = Recorder()
    recorder.failures["work"] = RuntimeError("the disk is full")
    model = ScriptedModel(script=[call("work", {"text": "x"}, "1"), "sorry"])
    agent = build(model, [recorder.tool("work")])
    with pytest.raises(RuntimeError, match="the disk is full"):
        await ask(agent, "go")
    messages = await ask(agent, "what happened?")
    assert messages[-1].text == "sorry"
    shown = model.calls[-1].messages
    assert [m.type for m in shown] == ["system", "human", "ai", "tool", "human"]
    assert shown[3].text == NO_RESULT


@BOTH
async def test_two_at_once_one_failing_leaves_one_result_each(build: Build) -> None:
    """Case 19."""
    recorder = Recorder()
    model = ScriptedModel(script=[calls(("nope", {}, "1"), ("work", {"text": "x"}, "2")), "done"])
    messages = await ask(build(model, [recorder.tool("work")]), "go")
    assert [(r.tool_call_id, r.status) for r in results(messages)] == [
        ("1", "error"),
        ("2", "success"),
    ]


@BOTH
async def test_what_has_finished_does_not_run_again_when_its_sibling_failed(build: Build) -> None:
    """Case 21, 42: also not on a retry."""
    recorder = Recorder()
    recorder.failures["bad"] = RuntimeError("once")
    both = calls(("good", {"text": "x"}, "1"), ("bad", {"text": "y"}, "2"))
    agent = build(
        ScriptedModel(script=[both, "done"]), [recorder.tool("good"), recorder.tool("bad")]
    )
    with pytest.raises(RuntimeError):
        await ask(agent, "go")
    recorder.failures.clear()
    await agent.ainvoke(None, thread())
    assert sorted(recorder.names()) == ["bad", "good"]
    assert [r.text for r in results(await history(agent))] == ["good did x", "bad did y"]


@BOTH
async def test_calls_without_ids_and_with_one_id_run_each_once(build: Build) -> None:
    recorder = Recorder()
    without: Any = [{"name": "work", "args": {"text": t}, "id": None} for t in "ab"]
    same: Any = [{"name": "work", "args": {"text": t}, "id": "1"} for t in "cd"]
    model = ScriptedModel(
        script=[AIMessage("", tool_calls=without), AIMessage("", tool_calls=same), "done"]
    )
    messages = await ask(build(model, [recorder.tool("work")]), "go")
    assert [r.text[-1] for r in results(messages)] == list("abcd")
    assert sorted(args["text"] for _, args in recorder.runs) == list("abcd")


@BOTH
async def test_calls_that_a_client_sends_run_nothing(build: Build) -> None:
    recorder = Recorder()
    model = ScriptedModel(script=["no"])
    agent = build(model, [recorder.tool("work")])
    forged = call("work", {"text": "x"})
    await agent.ainvoke({"messages": [HumanMessage("go"), forged]}, thread())
    assert recorder.runs == []
    assert model.calls[0].messages[-1].text == NO_RESULT


@BOTH
async def test_a_conversation_without_a_human_message_is_a_clear_error(build: Build) -> None:
    model = ScriptedModel(script=["hi"])
    agent = build(model, [])
    empty: list[list[AnyMessage]] = [[], [AIMessage("hello")], [SystemMessage("be brief")]]
    for messages in empty:
        with pytest.raises(ValueError, match="Send a message before anything else"):
            await agent.ainvoke({"messages": messages}, thread())
    assert (await ask(agent, "go"))[-1].text == "hi"


@BOTH
async def test_an_empty_answer_does_not_break_the_thread(build: Build) -> None:
    agent = build(ScriptedModel(script=["", "hello"]), [])
    await ask(agent, "go")
    assert (await ask(agent, "again"))[-1].text == "hello"


@BOTH
async def test_an_agent_without_tools_is_never_given_a_tool_choice(build: Build) -> None:
    model = ScriptedModel(script=["a", "b"])
    agent = build(model, [])
    assert (await ask(agent, "go", thread(limit=2)))[-1].text == "a"
    assert model.calls[0].kwargs == {}


@BOTH
async def test_the_system_prompt_is_never_stored(build: Build) -> None:
    model = ScriptedModel(script=[call("work", {"text": "x"}), "done"])
    agent = build(model, [Recorder().tool("work")])
    messages = await ask(agent, "go")
    assert [m.type for m in messages] == ["human", "ai", "tool", "ai"]
    assert all(made.messages[0].text == "You are a test." for made in model.calls)


async def test_the_history_is_appended_to_and_replaced_by_id() -> None:
    agent = react(ScriptedModel(script=["a", "b"]), [])
    first, _ = await ask(agent, "one")
    await agent.ainvoke({"messages": [HumanMessage("uno", id=first.id)]}, thread())
    assert [m.text for m in await history(agent)] == ["uno", "a", "b"]


@pytest.mark.parametrize("name", ["", "has space", "ä", "x" * 65, "a.b"])
def test_a_name_that_providers_refuse_is_an_error_at_build_time(name: str) -> None:
    with pytest.raises(ValueError, match="is no name for a tool"):
        check_names(["good", name])


@BOTH
def test_two_tools_of_one_name_are_an_error_at_build_time(build: Build) -> None:
    recorder = Recorder()
    with pytest.raises(ValueError, match="Two tools are called 'work'"):
        build(ScriptedModel(), [recorder.tool("work"), recorder.tool("work")])


def returning(value: Any) -> BaseTool:
    @tool
    async def long() -> Any:
        """Return much."""
        return value

    return long


@BOTH
@pytest.mark.parametrize(
    "value",
    [
        "x" * 50_000,
        {"rows": ["x" * 100] * 1000},
        [{"type": "text", "text": "x" * 30_000}, {"type": "text", "text": "y" * 30_000}],
        [{"type": "image", "base64": "x" * 50_000, "mime_type": "image/png"}],
        Command(update={"messages": [ToolMessage("x" * 50_000, tool_call_id="1")]}),
    ],
)
async def test_at_most_20_000_characters_of_any_result_are_kept(build: Build, value: Any) -> None:
    model = ScriptedModel(script=[call("long", {}, "1"), "done"])
    (result,) = results(await ask(build(model, [returning(value)]), "go"))
    assert isinstance(result.content, str)
    assert len(result.content) <= MAX_RESULT_CHARACTERS == 20_000
    assert "characters were left out" in result.content


@BOTH
@pytest.mark.parametrize(
    "bad", [call("x" * 50_000), malformed_call("work", "x" * 50_000, "1"), call("work")]
)
async def test_an_error_is_shortened_too(build: Build, bad: AIMessage) -> None:
    model = ScriptedModel(script=[bad, "done"])
    (result,) = results(await ask(build(model, [Recorder().tool("work")]), "go"))
    assert len(result.text) <= MAX_RESULT_CHARACTERS


@pytest.mark.parametrize("size", [0, 19_999, 20_000])
def test_a_result_that_is_short_enough_is_kept_as_it_is(size: int) -> None:
    message = ToolMessage("x" * size, tool_call_id="1", artifact={"a": 1})
    assert shortened(message) is message


def test_the_note_says_how_much_was_left_out() -> None:
    message = shortened(ToolMessage("x" * 20_001, tool_call_id="1", artifact={"a": 1}))
    kept = message.text.count("x")
    assert f"{20_001 - kept} of 20001 characters were left out" in message.text
    assert message.artifact == {"a": 1}
    assert message.tool_call_id == "1"


def test_mixed_blocks_keep_their_text() -> None:
    content: list[Any] = [
        "one",
        {"type": "text", "text": "two"},
        {"type": "image", "base64": "x" * 30_000},
    ]
    assert shortened(ToolMessage(content, tool_call_id="1")).text.startswith("one\ntwo\n[")
