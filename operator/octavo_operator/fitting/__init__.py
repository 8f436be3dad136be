"""Whether a service's model fits before any pod of it exists: what an inspection told, the arithmetic, and what waits for it."""
