"""What pods say of themselves on `/state`: asked for, remembered, and judged."""
