"""What follows from configuration and loaded model: limits of requests, policy, the cache's identity, what the engine tells."""

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.admission import Limits
from octavo_runtime.engine.kv_forms import kv_dtype_name
from octavo_runtime.engine.loading import LoadedModel
from octavo_runtime.engine.policy import Policy
from octavo_runtime.engine.prefix_index import CacheIdentity
from octavo_runtime.engine.pressure import Means
from octavo_runtime.engine.selective import LEAST_PAGES, least_tokens
from octavo_runtime.messages import EngineInfo


def limits(config: ServeConfig, loaded: LoadedModel, overflow_pages: int) -> Limits:
    """Raises ConfigError for what the model cannot do."""
    _check_whole_prompts_fit(config, loaded.max_model_len)
    found = Limits(
        max_model_len=loaded.max_model_len,
        pool_pages=loaded.pool.pages,
        page_size=loaded.block_size,
        vocab_size=loaded.decoder.config.vocab_size,
        max_num_seqs=min(config.wanted_num_seqs, loaded.pool.pages),
        max_queued=config.max_num_queued_reqs,
        max_queued_tokens=config.max_num_queued_tokens,
        kv_budget_tokens=config.kv_budget_tokens,
        kv_budget_refused=_lacks_for_budgets(config, loaded),
        overflow_pages=overflow_pages,
    )
    _check_kv_budget(found)
    return found


def policy(config: ServeConfig, delay_s: float, ladder: Means | None) -> Policy:
    return Policy(
        max_num_batched_tokens=config.max_num_batched_tokens,
        prefill_percent=config.prefill_percent,
        chunked_prefill=config.chunked_prefill,
        scheduler_delay_s=delay_s,
        halve_for_long_prompts=config.max_num_seqs is None,
        kv_guard_percent=config.kv_guard_percent,
        kv_guard_limit=config.kv_guard_limit,
        ladder=ladder,
    )


def identity(loaded: LoadedModel, ranks: int) -> CacheIdentity:
    model = loaded.decoder.config
    rope = f"{model.rope_theta}/{model.rope_scaling}/{model.max_position}"
    kv_format = loaded.backend.layout_id if ranks == 1 else f"{loaded.backend.layout_id} of {ranks} ranks"
    return CacheIdentity(loaded.fingerprint, kv_format, loaded.block_size, rope)


def info(config: ServeConfig, loaded: LoadedModel, max_num_seqs: int) -> EngineInfo:
    return EngineInfo(
        model=config.model_name,
        dtype=str(loaded.dtype).removeprefix("torch."),
        device=str(loaded.device),
        max_model_len=loaded.max_model_len,
        block_size=loaded.block_size,
        num_blocks=loaded.pool.pages,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        kv_cache_bytes=loaded.pool.total_bytes * config.tensor_parallel_size,
        attention_backend=loaded.backend.name,
        vocab_size=loaded.decoder.config.vocab_size,
        prefix_caching=config.prefix_caching,
        chunked_prefill=config.chunked_prefill,
        batch_invariant=config.batch_invariant,
        scheduler_delay_ms=config.scheduler_delay_ms,
        model_context=loaded.decoder.config.max_position,
        kv_cache_dtype=kv_dtype_name(loaded.forms[0], loaded.dtype),
        compute=loaded.decoder.computed_by,
    )


def _lacks_for_budgets(config: ServeConfig, loaded: LoadedModel) -> str | None:
    """Why no sequence can hold less than its history."""
    if loaded.decoder.config.window is not None:
        return "this model's layers have a sliding window, and only full attention tells which pages matter"
    if not loaded.backend.weighs:
        return f"the {loaded.backend.name} attention back end does not tell which pages matter"
    if not config.chunked_prefill:
        return "--no-chunked-prefill computes a prompt in one step, which holds all of it"
    return None


def _check_kv_budget(limits: Limits) -> None:
    """Raises ConfigError for a budget that cannot be."""
    tokens, least = limits.kv_budget_tokens, least_tokens(limits.page_size)
    if tokens is None:
        return
    if limits.kv_budget_refused is not None:
        raise ConfigError(f"--kv-budget-tokens: {limits.kv_budget_refused}: leave it out")
    if tokens < least:
        raise ConfigError(
            f"--kv-budget-tokens {tokens} is less than {LEAST_PAGES} blocks of {limits.page_size} tokens: give at least {least}"
        )


def _check_whole_prompts_fit(config: ServeConfig, max_model_len: int) -> None:
    if not config.chunked_prefill and config.max_num_batched_tokens < max_model_len:
        raise ConfigError(
            f"--no-chunked-prefill computes a prompt in one step, and --max-num-batched-tokens {config.max_num_batched_tokens} is "
            f"less than the context of {max_model_len} tokens: raise it or lower --max-model-len"
        )
