"""A scheduler with a runner on paper (`paper_runner.py`), and requests for it."""

import collections
import random
from collections.abc import Callable

from octavo_runtime.engine.admission import Limits, Queued, refusal
from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.plan import StepPlan
from octavo_runtime.engine.policy import Policy
from octavo_runtime.engine.prefix_index import CacheIdentity
from octavo_runtime.engine.scheduler import Scheduler
from octavo_runtime.messages import AddRequest, Output, Sampling, Stats
from tests.runtime.engine.paper_runner import VOCABULARY, PaperRunner, drawn_token
from tests.runtime.engine.paper_store import PaperStore

GREEDY = Sampling(temperature=0.0)
IDENTITY = CacheIdentity(b"weights", "paper", 4, "rope")
DEPTH = 0  # of a Paper that is not told another: see the fixture `each_depth`


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
        store: PaperStore | None = None,
        **policy: object,
    ) -> None:
        self.limits = Limits(context, pages, page_size, VOCABULARY, seqs, max_queued=1000)
        self.policy = Policy(budget, **policy)  # type: ignore[arg-type]  # a table of options
        self.now_s = 0.0
        identity = IDENTITY if caching else None
        self.depth = DEPTH if depth is None else depth
        pool = BlockPool(pages, page_size)
        self.scheduler = Scheduler(pool, self.limits, self.policy, identity, self.clock_s, self.depth, store)
        self._runner = PaperRunner(page_size, draw)
        if store is not None:
            store.runner = self._runner
        self.flying: collections.deque[StepPlan] = collections.deque()  # submitted and not collected
        self.finished: dict[str, Output] = {}  # "id", or "id/index" from the second choice on
        self.tokens: dict[str, list[int]] = {}
        self.cached: dict[str, int] = {}
        self.plans: list[StepPlan] = []
        self.stats = Stats(0, 0, pages, 0, 0, 0, 0, 0, 0, 0, 0.0, 0)

    def clock_s(self) -> float:
        return self.now_s

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
