"""Claims about the protocol: clients that behave badly, gRPC's rate beside others', perf_analyzer's numbers."""
