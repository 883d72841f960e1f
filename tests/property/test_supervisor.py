"""Random conversations with the supervisor, whose clerk pauses for reviews."""

from tests.property.machine import SupervisedConversation
from tests.property.profile import hold


def test_random_conversations() -> None:
    hold(SupervisedConversation)
