"""What LangSmith's pytest plugin asks for beside the ingest: datasets, examples and experiments.

As strict as the real one where it matters: an experiment names a dataset that is there, so does an
example, and neither can be made twice.
"""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from tests.standins.langsmith_ingest import API_KEY, UUID, Handler, LangSmithIngest, Refused

NOW = "2026-01-01T00:00:00+00:00"
Thing = dict[str, Any]


class Missing(Refused):
    """There is no such thing: the client asks before it makes one."""


class Conflict(Refused):
    """It is there already: of several workers, the others take what the first one made."""


class LangSmithExperiments(LangSmithIngest):
    """The server. What was made is in `datasets`, `examples` and `experiments`, by id."""

    def __init__(self) -> None:
        super().__init__(ExperimentsHandler)
        self.datasets: dict[str, Thing] = {}
        self.examples: dict[str, Thing] = {}
        self.experiments: dict[str, Thing] = {}

    def find_datasets(self, query: dict[str, list[str]], _: Thing) -> Any:
        return _named(self.datasets, query)

    def make_dataset(self, _: Any, given: Thing) -> Thing:
        return _keep(self.datasets, {"id": str(uuid4()), **given, "modified_at": NOW})

    def make_experiment(self, _: Any, given: Thing) -> Thing:
        if given["reference_dataset_id"] not in self.datasets:
            raise Refused("the experiment is of no dataset")
        return _keep(self.experiments, {**given, "tenant_id": str(uuid4()), "start_time": NOW})

    def find_experiments(self, query: dict[str, list[str]], _: Thing) -> Any:
        """Without a name the client takes any one, to learn the tenant's id."""
        return _named(self.experiments, query)[:1]

    def change_experiment(self, _: Any, given: Thing, id: str) -> Thing:
        known = _get(self.experiments, id)
        known["extra"] = {**known["extra"], **given["extra"]}
        return known

    def read_example(self, _: Any, __: Thing, id: str) -> Thing:
        return _get(self.examples, id)

    def make_example(self, _: Any, given: Thing) -> Thing:
        if given["dataset_id"] not in self.datasets or not given["inputs"]:
            raise Refused("the example is of no dataset, or has no inputs")
        return _keep(self.examples, {**given, "modified_at": NOW})

    def tag_dataset(self, _: Any, given: Thing, id: str) -> Thing:
        _get(self.datasets, id)
        if not {"as_of", "tag"} <= given.keys():
            raise Refused("a tag needs a time and a name")
        return {}


def _named(things: dict[str, Thing], query: dict[str, list[str]]) -> list[Thing]:
    names = query.get("name")
    return [one for one in list(things.values()) if not names or one["name"] in names]


def _keep(things: dict[str, Thing], new: Thing) -> Thing:
    known = list(things.values())
    if new["id"] in things or any(one.get("name") == new.get("name", "") for one in known):
        raise Conflict(f"{new.get('name', new['id'])} is there already")
    things[new["id"]] = {"created_at": NOW, **new}
    return things[new["id"]]


def _get(things: dict[str, Thing], id: str) -> Thing:
    if id not in things:
        raise Missing(f"there is no {id}")
    return things[id]


ROUTES: list[tuple[str, Callable[..., Any]]] = [
    ("GET /datasets", LangSmithExperiments.find_datasets),
    ("POST /datasets", LangSmithExperiments.make_dataset),
    (f"PUT /datasets/({UUID})/tags", LangSmithExperiments.tag_dataset),
    ("GET /sessions", LangSmithExperiments.find_experiments),
    ("POST /sessions", LangSmithExperiments.make_experiment),
    (f"PATCH /sessions/({UUID})", LangSmithExperiments.change_experiment),
    (f"GET /examples/({UUID})", LangSmithExperiments.read_example),
    ("POST /examples", LangSmithExperiments.make_example),
]


class ExperimentsHandler(Handler):
    def do_GET(self) -> None:
        self.route(super().do_GET)

    def do_POST(self) -> None:
        self.route(super().do_POST)

    def do_PATCH(self) -> None:
        self.route(self.refuse_unknown)

    do_PUT = do_PATCH

    def refuse_unknown(self) -> None:
        self.body()
        self.refuse(404, f"{self.command} {self.path}")

    def route(self, otherwise: Callable[[], None]) -> None:
        parts = urlsplit(self.path)
        for pattern, action in ROUTES:
            if match := re.fullmatch(pattern, f"{self.command} {parts.path}"):
                return self.act(action, parse_qs(parts.query), match.groups())
        return otherwise()

    def act(self, action: Callable[..., Any], query: Any, ids: tuple[str, ...]) -> None:
        given = self.json_body()
        if self.headers.get("x-api-key") != API_KEY:
            return self.refuse(403, "another key")
        try:
            with self.ingest.lock:
                made = action(self.ingest, query, given, *ids)
        except Missing as problem:
            return self.answer(404, {"detail": str(problem)})
        except Conflict as problem:
            return self.answer(409, {"detail": str(problem)})
        except (Refused, KeyError) as problem:
            return self.refuse(422, str(problem))
        return self.answer(200, made)
