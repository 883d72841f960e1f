"""Reviews of the human-in-the-loop agent, whatever a model, a client and the network do."""

from tests.property.machine import PlainConversation
from tests.property.profile import hold


def test_random_conversations() -> None:
    hold(PlainConversation)
