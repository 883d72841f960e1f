from tests.property.machine import SupervisedConversation
from tests.property.profile import hold


def test_reviews() -> None:
    hold(SupervisedConversation)
