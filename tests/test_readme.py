"""What the README says holds: drawings, figures, JSON, code and settings."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from graphs import human_in_the_loop, react, subagents
from graphs.building import Agent
from graphs.demo_model import CAPABILITIES
from graphs.nodes import MAX_AGENT_STEPS
from graphs.review import build_request, read_answer, read_policies
from scripts.dev_server import AGENT_VARIABLES
from tests.agents import PROMPT, rounds_within
from tests.standins.scripted_model import ScriptedModel, call
from tools.mail import send_email

PROJECT = Path(__file__).parent.parent
REACT = Path(react.__file__).read_text("utf-8")
README = (PROJECT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    """The README's code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def section(title: str) -> str:
    """The text from a heading to the next one."""
    match = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#)", README, re.DOTALL | re.MULTILINE)
    assert match, f"the README has no section {title!r}"
    return match[1]


@pytest.mark.parametrize(
    ("title", "graph"),
    [
        ("`react`", react.graph),
        ("`human_in_the_loop`", human_in_the_loop.graph),
        ("`subagents`", subagents.graph),
    ],
)
def test_the_drawings_are_the_compiled_graphs(title: str, graph: Agent) -> None:
    drawn = graph.get_graph().draw_mermaid(with_styles=False).strip()
    assert f"```mermaid\n{drawn}\n```" in section(title), f"draw it anew:\n{drawn}"


def test_the_budgets_table() -> None:
    rows = re.findall(
        r"^\| (\d+) \| (\d+) .* \| (\d+) .* \| (\d+) ", section("The step budget"), re.M
    )
    assert [int(row[0]) for row in rows] == [6, 7, 25, 100]
    for limit, in_react, in_review, in_subagent in [[int(cell) for cell in row] for row in rows]:
        assert in_react == rounds_within(min(limit, MAX_AGENT_STEPS), "react")
        assert in_review == rounds_within(min(limit, MAX_AGENT_STEPS), "human_in_the_loop")
        assert in_subagent == rounds_within(subagents.MAX_SUBAGENT_STEPS, "react")


def test_the_request_and_the_answer_are_as_shown() -> None:
    shown, approval, answer = [json.loads(block) for block in blocks("json")]
    policies = read_policies({"send_email": True}, [send_email])
    args = shown["action_requests"][0]["args"]
    calls = [call("send_email", args, f"call_{n}").tool_calls[0] for n in (1, 2, 3, 4)]
    request = build_request(calls[:1], policies)
    assert request["action_requests"][0].keys() == shown["action_requests"][0].keys()
    assert request["action_requests"][0]["args"] == args
    start = shown["action_requests"][0]["description"].removesuffix("...")
    assert request["action_requests"][0]["description"].startswith(start)
    config, shown_config = request["review_configs"][0], shown["review_configs"][0]
    assert config.keys() == shown_config.keys()
    assert config["allowed_decisions"] == shown_config["allowed_decisions"]
    assert list(read_answer(approval, calls[:1], policies)) == ["call_1"]
    decisions = read_answer(answer, calls, policies)
    assert [d["type"] for d in decisions.values()] == config["allowed_decisions"]


async def test_the_code_that_makes_it_yours_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each snippet is put where it says: the tool into a module, the others at a file's end."""
    tool, agent, supervisor = blocks("python")[1:4]
    currency = ModuleType("tools.currency")
    exec(tool, vars(currency))
    monkeypatch.setitem(sys.modules, "tools.currency", currency)
    assert "94500" in await vars(currency)["convert_money"].ainvoke(
        {"amount": 5, "source": "EUR", "target": "IDR"}
    )
    for module, snippet in ((react, agent), (subagents, supervisor)):
        names: dict[str, Any] = {"__name__": "changed"}
        monkeypatch.setitem(sys.modules, "changed", ModuleType("changed"))
        exec(Path(str(module.__file__)).read_text("utf-8") + "\n" + snippet, names)  # noqa: ASYNC240
        result = await names["graph"].ainvoke({"messages": [HumanMessage("hello")]})
        assert "demo model" in result["messages"][-1].text


async def test_the_node_that_it_adds_works(capsys: pytest.CaptureFixture[str]) -> None:
    """Its code is built into a graph as build_react_agent would."""
    code = blocks("python")[4]
    assert "STEPS_PER_TOOL_ROUND = 3" in code
    changed = REACT.replace("STEPS_PER_TOOL_ROUND = 2", "STEPS_PER_TOOL_ROUND = 3")
    edge = '    builder.add_edge("tool_node", "llm_call")\n'
    assert edge in changed
    indented = "".join(f"    {line}\n" if line else "\n" for line in code.splitlines())
    names: dict[str, Any] = {"__name__": "react_with_a_node"}
    exec(changed.replace(edge, indented), names)
    model = ScriptedModel(script=[call("get_current_time", {"timezone": "UTC"}), "done"])
    built = names["build_react_agent"](model, [names["get_current_time"]], PROMPT)
    await built.ainvoke({"messages": [HumanMessage("go")]})
    assert "3 messages so far" in capsys.readouterr().out


def test_what_the_demo_model_understands() -> None:
    assert blocks("text") == [f"{CAPABILITIES}\n"]


def test_what_only_words_can_help_with_is_told() -> None:
    """Cases 60 and 68: updates by hand name their node; a reload that failed needs a restart."""
    told = section("Good to know")
    assert "`threads.update_state`) should name the node" in told
    assert "Mend the code and\n  start it again" in told


def test_every_setting_is_in_both_lists() -> None:
    table = [name for row in re.findall(r"^\| (`[A-Z].*?) \|", section("Settings"), re.M)
             for name in re.findall(r"`([A-Z_]+)`", row)]  # fmt: skip
    example = re.findall(r"^([A-Z_]+)=", (PROJECT / ".env.example").read_text("utf-8"), re.M)
    assert sorted(table) == sorted(example) == sorted(AGENT_VARIABLES)


def test_every_setting_that_the_code_reads_is_listed() -> None:
    sources = [*PROJECT.glob("graphs/*.py"), *PROJECT.glob("tools/*.py")]
    read = {
        name
        for source in sources
        for name in re.findall(r'"((?:[A-Z]+_)+[A-Z]+)"', source.read_text("utf-8"))
    }
    assert read, "the pattern finds nothing any more"
    assert read <= set(AGENT_VARIABLES)


def test_every_command_is_there() -> None:
    targets = re.findall(r"^([a-z]+):", (PROJECT / "Makefile").read_text("utf-8"), re.M)
    named = set(re.findall(r"make ([a-z]+)(?=`|\s{2,}|$)", README, re.M))
    assert named >= {"demo", "test", "dev", "lint"}
    assert named <= set(targets)


def test_every_link_to_a_file_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)h][^)]*)\)", README)
    assert links
    assert not [link for link in links if not (PROJECT / link).exists()]
