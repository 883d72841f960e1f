"""How long a property is tried: a while in `make test`, or SOAK_MINUTES in `make soak`."""

import os
import random
import time
from itertools import count

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

MINUTES = float(os.environ.get("SOAK_MINUTES") or 0)
PASSES = 4
PASS = settings(
    max_examples=15,
    stateful_step_count=16,
    deadline=None,
    database=None,
    print_blob=True,
    report_multiple_bugs=False,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


def hold(machine: type[RuleBasedStateMachine], seconds: float = 20.0) -> None:
    """Try the machine in passes, each with a seed of its own.

    Without SOAK_MINUTES the seeds are the same each time, and no pass starts after `seconds`.
    """
    start = random.randrange(2**32) if MINUTES else 0
    end = time.monotonic() + (MINUTES * 60 or seconds)
    for number in count() if MINUTES else range(PASSES):
        if time.monotonic() > end:
            break
        run_state_machine_as_test(seed(start + number)(machine), settings=PASS)
