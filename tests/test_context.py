"""What an assistant or a run sets wins over the agent's own, at once, and goes no further."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from graphs import human_in_the_loop, react, subagents
from graphs.building import Agent
from graphs.context import Context
from graphs.models import ModelError, read_settings
from graphs.state import Conversation
from graphs.subagents import SubagentSpec, build_subagent_tool, build_supervisor_agent
from tests.agents import PROMPT, Recorder, reviewed, thread
from tests.agents import react as react_agent
from tests.standins.scripted_model import ModelCall, Reply, ScriptedModel, call, calls
from tests.test_subagents import APPROVE


async def ask(agent: Agent, text: str, **context: Any) -> list[Any]:
    given = Conversation(messages=[HumanMessage(text)])
    result = await agent.ainvoke(given, thread(), context=Context(**context))
    return list(result["messages"])


@pytest.mark.parametrize("graph", [react.graph, human_in_the_loop.graph, subagents.graph])
def test_the_form_that_studio_shows(graph: Agent) -> None:
    form = graph.get_context_jsonschema()
    assert form is not None
    fields = form["properties"]
    assert list(fields) == ["model", "system_prompt", "parallel_tool_calls"]
    for field in fields.values():
        assert field["title"]
        assert field["description"]
        assert set(field["langgraph_nodes"]) <= set(graph.nodes)
    assert fields["system_prompt"]["langgraph_type"] == "prompt"
    assert "required" not in form


@pytest.mark.parametrize("build", [react_agent, reviewed])
@pytest.mark.parametrize("tools", [[], ["work"]])
async def test_it_holds_at_once_on_a_thread_that_is_under_way(build: Any, tools: list[str]) -> None:
    model = ScriptedModel(script=["one", "two", "three"])
    agent = build(model, [Recorder().tool(name) for name in tools])
    await ask(agent, "a")
    await ask(agent, "b", model="other", system_prompt="Be brief.")
    await ask(agent, "c")
    assert [made.messages[0].text for made in model.calls] == [PROMPT, "Be brief.", PROMPT]
    assert [made.kwargs.get("model") for made in model.calls] == [None, "other", None]


async def test_the_closing_answer_has_the_same_prompt_and_model() -> None:
    model = ScriptedModel(script=["so far"])
    given = Conversation(messages=[HumanMessage("go")])
    await react_agent(model, [Recorder().tool("work")]).ainvoke(
        given, thread(limit=2), context=Context(system_prompt="Be brief.", model="other")
    )
    assert model.calls[0].messages[0].text.startswith("Be brief.\n\n")
    assert model.calls[0].kwargs["model"] == "other"
    assert model.calls[0].tool_choice == "none"


async def test_a_subagent_has_the_supervisors_model_and_its_own_prompt() -> None:
    """Unless its spec brings a model."""

    def supervises(made: ModelCall) -> Reply:
        if made.messages[-1].type == "tool":
            return "done"
        return calls(("clerk", {"query": "x"}, "1"), ("expert", {"query": "x"}, "2"))

    model = ScriptedModel(script=lambda m: supervises(m) if "clerk" in m.tool_names else "ok")
    expert = ScriptedModel(script=["ok"])
    specs = [
        SubagentSpec("clerk", "Writes.", "You write.", []),
        SubagentSpec("expert", "Knows.", "You know.", [], llm=expert),
    ]
    await ask(build_supervisor_agent(model, specs), "go", model="other", system_prompt="Lead.")
    shown = {made.messages[0].text.split("\n")[0]: made for made in [*model.calls, *expert.calls]}
    assert shown.keys() == {"Lead.", "You write.", "You know."}
    assert shown["You write."].kwargs["model"] == "other"
    assert "model" not in shown["You know."].kwargs


async def test_one_delegation_at_a_time_where_the_run_says_so() -> None:
    """An answer without an interrupt id works through as many emails as there are."""
    recorder = Recorder()
    left = ["a", "b", "c"]

    def reply(made: ModelCall) -> Reply:
        last = made.messages[-1]
        if "clerk" in made.tool_names:
            done = [m.text for m in made.messages if m.type == "tool" and m.text == "Sent."]
            wanted = left[len(done) :]
            return calls(*[("clerk", {"query": q}, q) for q in wanted]) if wanted else "All sent."
        return "Sent." if last.type == "tool" else call("send", {"text": last.text})

    model = ScriptedModel(script=reply)
    clerk = SubagentSpec(
        "clerk", "Writes.", PROMPT, [recorder.tool("send")], interrupt_on={"send": True}
    )
    agent = build_supervisor_agent(model, [clerk], checkpointer=InMemorySaver())
    await ask(agent, "go", parallel_tool_calls=False)
    context = Context(parallel_tool_calls=False)
    for count in range(3):
        assert len(recorder.runs) == count
        state = await agent.aget_state(thread())
        assert sum(len(task.interrupts) for task in state.tasks) == 1
        await agent.ainvoke(Command(resume=APPROVE), thread(), context=context)
    assert [args["text"] for _, args in recorder.runs] == left
    assert model.calls[0].kwargs["parallel_tool_calls"] is False
    assert not (await agent.aget_state(thread())).next


async def test_one_call_at_a_time_holds_in_every_delegation_below() -> None:
    """A supervisor under a supervisor asks its model likewise."""
    model = ScriptedModel(
        script=lambda made: (
            "Done."
            if made.messages[-1].type == "tool" or not made.tool_names
            else call(made.tool_names[0], {"query": "go"})
        )
    )
    clerk = SubagentSpec("clerk", "Writes.", PROMPT, [])
    office = SubagentSpec("office", "Delegates.", PROMPT, [build_subagent_tool(clerk, model)])
    agent = build_supervisor_agent(model, [office])
    given = Conversation(messages=[HumanMessage("go")])
    await agent.ainvoke(given, thread(), context=Context(parallel_tool_calls=False))
    asked = {name: made.kwargs for made in model.calls for name in made.tool_names}
    assert [kwargs["parallel_tool_calls"] for kwargs in asked.values()] == [False, False]
    assert list(asked) == ["office", "clerk"]


async def test_what_is_typed_wrong_is_an_error() -> None:
    agent = react_agent(ScriptedModel(script=["hi"]), [])
    wrong: Any = {"parallel_tool_calls": "often"}
    with pytest.raises(ValueError, match="parallel_tool_calls"):
        await agent.ainvoke({"messages": [HumanMessage("a")]}, thread(), context=wrong)


@pytest.mark.parametrize(
    ("environment", "model", "expected"),
    [
        ("openai:one", "openai:two", "two"),
        ("demo", "two", "two"),
        ("one", " ", "one"),
        ("one", "demo", None),
    ],
)
def test_the_model_that_is_named_wins_over_the_environment(
    environment: str, model: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("AGENT_MODEL", environment)
    settings = read_settings(model)
    assert (settings and settings.name) == expected


def test_a_model_without_a_key_is_a_clear_error_and_never_the_demo_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelError, match="The model is 'two', but OPENAI_API_KEY is not set"):
        read_settings("two")
