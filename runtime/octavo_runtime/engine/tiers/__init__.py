"""Where pages go when the pool needs their place: memory, then disk, behind `block_store.BlockStore`."""
