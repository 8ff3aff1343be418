"""Pure functions on arrays: bits, digests, ULP distances, summaries, signatures. numpy and xxhash only."""
