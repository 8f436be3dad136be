"""A runner on paper: it does what plans say to pages that hold, in each slot, all the tokens that lead to it.

So it can check that a sequence reads exactly its own history whatever was shared, copied, evicted and reused, that nothing
shared is written, and that nobody else is given what a step in flight reads or writes. Its "model" draws a token that depends
on the history and the seed alone, so answers can be compared with those given alone."""

import collections
import dataclasses
import hashlib
import random
from collections.abc import Callable

from octavo_runtime.engine.admission import Limits, Queued, refusal
from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.plan import Drawn, NewSlot, StepPlan, StepResult
from octavo_runtime.engine.prefix_index import CacheIdentity
from octavo_runtime.engine.scheduler import Policy, Scheduler
from octavo_runtime.messages import AddRequest, Output, Sampling, Stats

VOCABULARY = 10
GREEDY = Sampling(temperature=0.0)
IDENTITY = CacheIdentity(b"weights", "paper", 4, "rope")
DEPTH = 0  # of a Paper that is not told another: see the fixture `each_depth`


def drawn_token(tokens: list[int], seed: int) -> int:
    """What the model draws after `tokens`."""
    return _number(tokens, seed) % VOCABULARY


def logprobs(tokens: list[int]) -> list[tuple[float, int]]:
    """(log-probability, token) of the whole vocabulary, likeliest first."""
    weights = [1 + _number([*tokens, token], 1) % 1000 for token in range(VOCABULARY)]
    total = sum(weights)
    return sorted(
        ((-((total / weight) ** 0.5), token) for token, weight in enumerate(weights)), key=lambda one: -one[0]
    )


def _number(tokens: list[int], seed: int) -> int:
    return int.from_bytes(hashlib.blake2b(bytes(tokens), digest_size=8, key=seed.to_bytes(8, "big")).digest(), "big")


@dataclasses.dataclass(eq=False)
class _Slot:
    entry: NewSlot
    tokens: list[int]
    pages: list[int]


Users = dict[int, set[_Slot | None]]  # of each page, who reads or writes it; None: a copy is made from it


class PaperRunner:
    """Keeps back what it draws until the step is collected."""

    def __init__(self, page_size: int, draw: Callable[[list[int], int], int]) -> None:
        self._page_size = page_size
        self._draw = draw
        self._slots: dict[int, _Slot] = {}
        self._held: dict[tuple[int, int], tuple[int, ...]] = {}  # (page, offset) → the tokens up to the one in it
        self._flying: collections.deque[tuple[StepResult, Users]] = collections.deque()

    def submit(self, plan: StepPlan) -> None:
        self._check_slots(plan)
        for slot in plan.dropped:
            del self._slots[slot]
        for entry in plan.new:
            self._slots[entry.slot] = _Slot(entry, list(entry.tokens), list(entry.pages))
        for slot, place, pages in plan.grown:
            table = self._slots[slot].pages
            assert place <= len(table), "pages were told with a gap"
            table[place : place + len(pages)] = pages
        self._check_that_nobody_else_uses_what_is_written(plan)
        users = self._users(plan)
        self._copy(plan.copies)
        written: set[tuple[int, int]] = set()
        for run in plan.run:
            self._compute(run.slot, run.start, run.count, written)
        drawn = [self._drawn(run.slot) for run in plan.run if self._at_end(run.slot, run.start + run.count)]
        self._flying.append((StepResult(plan.step, drawn), users))

    def collect(self, step: int) -> StepResult:
        result, _ = self._flying.popleft()
        assert result.step == step
        return result

    @property
    def pages_in_use(self) -> set[int]:
        """By steps that are submitted and not collected."""
        return {page for _, users in self._flying for page in users}

    def _users(self, plan: StepPlan) -> Users:
        users: Users = collections.defaultdict(set)
        for run in plan.run:
            slot = self._slots[run.slot]
            for page in slot.pages[: -(-(run.start + run.count) // self._page_size)]:
                users[page].add(slot)
        for source, target in plan.copies:
            users[source].add(None)
            users[target] |= {slot for slot in self._slots.values() if target in slot.pages}
        return users

    def _check_slots(self, plan: StepPlan) -> None:
        given = {*plan.dropped, *(entry.slot for entry in plan.new)}
        drawing = {drawn.slot for result, _ in self._flying for drawn in result.drawn}
        assert not given & drawing, f"slots {given & drawing} are given away while a step in flight draws for them"

    def _check_that_nobody_else_uses_what_is_written(self, plan: StepPlan) -> None:
        """In the steps in flight, that is."""
        for _, users in self._flying:
            for _, target in plan.copies:
                assert target not in users, f"page {target} is copied over while a step in flight uses it"
            for run in plan.run:
                slot = self._slots[run.slot]
                first, end = run.start // self._page_size, -(-(run.start + run.count) // self._page_size)
                for page in slot.pages[first:end]:
                    strangers = users.get(page, set()) - {slot}
                    assert not strangers, f"page {page} is written while a step in flight uses it for another"

    def _copy(self, copies: list[tuple[int, int]]) -> None:
        assert len({target for _, target in copies}) == len(copies), "two copies go to one page"
        read = [[self._held.get((source, offset)) for offset in range(self._page_size)] for source, _ in copies]
        for (_, target), contents in zip(copies, read, strict=True):
            for offset, content in enumerate(contents):
                self._held.pop((target, offset), None)
                if content is not None:
                    self._held[target, offset] = content

    def _compute(self, slot: int, start: int, count: int, written: set[tuple[int, int]]) -> None:
        tokens, pages = self._slots[slot].tokens, self._slots[slot].pages
        places = [(pages[at // self._page_size], at % self._page_size) for at in range(start + count)]
        assert len(places) <= len(tokens)
        for at in range(start, start + count):
            assert places[at] not in written, "a slot is written twice in a step"
            written.add(places[at])
            self._held[places[at]] = tuple(tokens[: at + 1])
        for at, place in enumerate(places):
            assert self._held.get(place) == tuple(tokens[: at + 1]), f"slot {slot} reads another history at {at}"

    def _at_end(self, slot: int, end: int) -> bool:
        return end == len(self._slots[slot].tokens)

    def _drawn(self, slot: int) -> Drawn:
        entry, tokens = self._slots[slot].entry, self._slots[slot].tokens
        if entry.top:
            best = logprobs(tokens)[: entry.top]
            return Drawn(slot, [token for _, token in best], [logprob for logprob, _ in best])
        choices = entry.choices if len(tokens) == len(entry.tokens) else 1
        drawn = [self._draw(tokens, (entry.seed + choice) % 2**64) for choice in range(choices)]
        tokens.append(drawn[0])
        return Drawn(slot, drawn)


class Paper:
    """A scheduler with a paper runner: requests in, finished sequences out, every step audited."""

    def __init__(
        self,
        pages: int = 64,
        page_size: int = 4,
        seqs: int = 8,
        budget: int = 16,
        context: int = 64,
        caching: bool = True,
        draw: Callable[[list[int], int], int] = drawn_token,
        depth: int | None = None,
        **policy: object,
    ) -> None:
        self.limits = Limits(context, pages, page_size, VOCABULARY, seqs, max_queued=1000)
        self.policy = Policy(budget, **policy)  # type: ignore[arg-type]  # a table of options
        self.now_s = 0.0
        identity = IDENTITY if caching else None
        self.depth = DEPTH if depth is None else depth
        pool = BlockPool(pages, page_size)
        self.scheduler = Scheduler(pool, self.limits, self.policy, identity, lambda: self.now_s, self.depth)
        self._runner = PaperRunner(page_size, draw)
        self.flying: collections.deque[StepPlan] = collections.deque()  # submitted and not collected
        self.finished: dict[str, Output] = {}  # "id", or "id/index" from the second choice on
        self.tokens: dict[str, list[int]] = {}
        self.cached: dict[str, int] = {}
        self.plans: list[StepPlan] = []
        self.stats = Stats(0, 0, pages, 0, 0, 0, 0, 0, 0, 0, 0.0, 0)

    def add(self, name: str, prompt: int | list[int], output: int | None = None, **fields: object) -> None:
        """`prompt`: ids, or how many; a number gives each request a prompt of its own."""
        ids = random.Random(name).choices(range(VOCABULARY), k=prompt) if isinstance(prompt, int) else prompt
        fields = {"sampling": GREEDY, "seed": 0, "max_tokens": output} | fields
        request = AddRequest(name, ids, **fields)  # type: ignore[arg-type]  # a table of fields
        assert refusal(request, self.limits, Queued(0, 0, 1)) is None
        self.scheduler.add(request)

    @property
    def running(self) -> list[str]:
        """Names of the sequences that run, in order of rank."""
        return [_name(one.request.asked.id, one.index) for one in self.scheduler._life.batch]

    @property
    def waiting(self) -> list[str]:
        return [_name(one.request.asked.id, one.index) for one in self.scheduler._life.waiting]

    def mislead(self, length: int = 1) -> None:
        """Let the forecast believe that outputs are so long, so that too many are admitted and pages run out."""
        for _ in range(100):
            self.scheduler._entrance.peak.lengths.record(length)

    @property
    def idle(self) -> bool:
        return not (self.scheduler.has_work or self.scheduler.has_ended)

    def step(self) -> StepPlan | None:
        """As the engine does it: submit what can be, then collect one step. Its plan; None when there was none."""
        while len(self.flying) <= self.depth and self.submit():
            pass
        plan = self.flying.popleft() if self.flying else None
        if plan is None:
            outputs, self.stats = self.scheduler.take_ended(0.0)
        else:
            self.plans.append(plan)
            outputs, self.stats = self.scheduler.commit(self._runner.collect(plan.step), 0.0)
        self.audit()
        for output in outputs:
            self._take(output)
        return plan

    def submit(self) -> bool:
        """Plan one more step; whether there was one."""
        plan = self.scheduler.plan()
        self.audit()
        if plan is not None:
            assert 0 < plan.tokens <= self.policy.max_num_batched_tokens
            assert len(plan.run) <= self.limits.max_num_seqs
            self._runner.submit(plan)
            self.flying.append(plan)
            self.audit()
        return plan is not None

    def settle(self) -> None:
        """Collect what is in flight and plan nothing more."""
        depth, self.depth = self.depth, -1
        while self.flying:
            self.step()
        self.depth = depth

    def audit(self) -> None:
        self.scheduler.audit()
        self.scheduler.pool.check_balance()
        # At depth 0 nothing is given away before the step is collected: the order of effect within a step is enough.
        in_use = self._runner.pages_in_use if self.depth else ()
        freed = [page for page in in_use if not self.scheduler.pool.references(page)]
        assert not freed, f"pages {freed} were given back while a step in flight uses them"

    def step_until(self, condition: Callable[[], bool], limit: int = 200) -> None:
        for _ in range(limit):
            if condition():
                return
            self.step()
        raise AssertionError("what was waited for does not come about")

    def run(self, limit: int = 3000) -> None:
        """To the end of all work."""
        for _ in range(limit):
            if self.idle:
                return
            self.step()
        raise AssertionError("the scheduler does not come to an end")

    def _take(self, output: Output) -> None:
        name = _name(output.id, output.index)
        assert name not in self.finished, "an output after the end"
        self.tokens.setdefault(name, []).extend(output.token_ids)
        self.cached[name] = self.cached.get(name, 0) + output.cached_tokens
        if output.finish_reason is not None:
            self.finished[name] = output


def _name(request: str, index: int) -> str:
    return f"{request}/{index}" if index else request


def counts(plan: StepPlan | None) -> list[int]:
    return [run.count for run in plan.run] if plan else []


def reasons(paper: Paper) -> dict[str, str | None]:
    return {name: output.finish_reason for name, output in paper.finished.items()}


def alone(
    name: str, prompt: int | list[int], output: int | None, context: int = 64, **fields: object
) -> dict[str, list[int]]:
    """The tokens of a request's sequences, by name, when it has an engine with memory enough to itself."""
    paper = Paper(pages=500, context=context, budget=64, depth=0)
    paper.add(name, prompt, output, **fields)
    paper.run()
    return paper.tokens
