"""Octavo's engine in process, with the defaults that users get, for `bench serving`."""

from collections.abc import Sequence
from pathlib import Path

from bench.serving_measure import Generate, measured, since_process_start_s
from bench.serving_result import Result
from bench.workload import Request, mixed
from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.llm import LLM
from octavo_runtime.messages import AddRequest, Sampling


def in_process(model: Path, requests: int, repeats: int) -> Result:
    llm = LLM(ServeConfig(str(model)))
    ready_s = since_process_start_s()
    work = mixed(requests, vocab_size=llm.engine.info.vocab_size)
    return measured("octavo", ready_s, generating(llm), work, repeats)


def generating(llm: LLM) -> Generate:
    def generate(work: Sequence[Request], salt: str) -> int:
        requests = [
            AddRequest(
                f"{salt} {index}",
                prompt,
                Sampling(temperature=0.0),
                seed=0,
                max_tokens=output,
                tenant_salt=salt.encode(),
            )
            for index, (prompt, output) in enumerate(work)
        ]
        return sum(len(completion.token_ids) for completion in llm.generate(requests))

    return generate
