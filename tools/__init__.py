"""The agents' tools, one file a tool. They know nothing of graphs."""
