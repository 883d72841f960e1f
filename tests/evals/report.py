"""The table of pass rates, as a pytest plugin: by case and by language."""

import os
from collections.abc import Iterable, Mapping, Sequence

import pytest

from graphs.models import EnvironmentModel

HARNESS_ONLY = "The demo model plays by rules: this tests the harness, not a model's quality."

Outcomes = Mapping[tuple[str, str], Sequence[bool]]
"""Whether each attempt passed, by case and language."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table in `make eval`, and a line in `make test`."""
    found = outcomes(
        report
        for kind in ("passed", "failed")
        for report in terminalreporter.stats.get(kind, [])
        if report.when == "call"
    )
    if not found:
        return
    terminalreporter.section("evals")
    for line in table(found) if os.environ.get("EVALS") else table(found)[-1:]:
        terminalreporter.write_line(line)
    model = EnvironmentModel().model_name
    terminalreporter.write_line(HARNESS_ONLY if model == "demo" else f"The model was {model}.")


def outcomes(reports: Iterable[pytest.TestReport]) -> Outcomes:
    """The outcomes of those of the reports that are of evals."""
    found: dict[tuple[str, str], list[bool]] = {}
    for report in reports:
        known = dict(report.user_properties)
        if "case" in known:
            key = str(known["case"]), str(known["language"])
            found.setdefault(key, []).append(report.passed)
    return found


def table(found: Outcomes) -> list[str]:
    """The table's lines, the last one of them for all cases."""
    cases = sorted({case for case, _ in found})
    languages = sorted({language for _, language in found})
    width = max(map(len, cases))

    def row(name: str, within: Iterable[str]) -> str:
        by_language = [
            [one for case in within for one in found.get((case, language), ())]
            for language in languages
        ]
        every = [one for some in by_language for one in some]
        cells = [f"{sum(some)}/{len(some)}" if some else "-" for some in by_language]
        rate = f"{100 * sum(every) / len(every):.0f} %"
        return "".join([name.ljust(width), *(cell.rjust(8) for cell in (*cells, rate))])

    head = "".join(["".ljust(width), *(name.rjust(8) for name in (*languages, "passed"))])
    return [head, *(row(case, [case]) for case in cases), row("all", cases)]
