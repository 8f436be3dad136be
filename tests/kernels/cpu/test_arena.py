from octavo_kernels.cpu.arena import Arena


def test_parts_do_not_overlap_and_begin_at_a_cache_line() -> None:
    arena = Arena()
    parts = [arena.empty(size_bytes) for size_bytes in (1, 100, 64 << 20, 70 << 20, 64)]
    for number, part in enumerate(parts):
        part[0] = part[-1] = number
    assert [int(part[0]) for part in parts] == [int(part[-1]) for part in parts] == [0, 1, 2, 3, 4]
    assert all(part.data_ptr() % 64 == 0 for part in parts)
    assert [len(part) for part in parts] == [1, 100, 64 << 20, 70 << 20, 64]
