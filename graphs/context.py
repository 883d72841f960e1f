"""What an assistant, a run or Studio's form may set: it holds at once, on threads under way too."""

from langgraph.runtime import Runtime, get_runtime
from pydantic import BaseModel, Field


class Context(BaseModel):
    """Settings of an assistant. What is left empty is the agent's own."""

    model: str = Field(
        default="",
        title="Model",
        description="The chat model: `openai:<name>` or the bare name, `demo` for the demo model. "
        "Empty: the one that AGENT_MODEL names.",
        json_schema_extra={"langgraph_nodes": ["llm_call"]},
    )
    system_prompt: str = Field(
        default="",
        title="System prompt",
        description="What the agent is told before the conversation; for `subagents`, the "
        "supervisor alone. Empty: the agent's own prompt.",
        json_schema_extra={"langgraph_nodes": ["llm_call"], "langgraph_type": "prompt"},
    )
    parallel_tool_calls: bool = Field(
        default=True,
        title="Parallel tool calls",
        description="Off: one call at a time, and one delegation, for clients that cannot answer "
        "several reviews that wait at once.",
        json_schema_extra={"langgraph_nodes": ["llm_call", "tool_node"]},
    )


def current() -> Context:
    """The context of the run that this is called in; an empty one outside of a graph."""
    runtime: Runtime[Context] | None = get_runtime(Context)
    return (runtime and runtime.context) or Context()
