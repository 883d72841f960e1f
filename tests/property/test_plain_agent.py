from tests.property.machine import PlainConversation
from tests.property.profile import hold


def test_reviews() -> None:
    hold(PlainConversation)
