"""Three agents for a LangGraph server, and the few pieces that they share."""
