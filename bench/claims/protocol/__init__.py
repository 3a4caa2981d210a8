"""Protocol claims: misbehaving clients, gRPC's rate against other servers, perf_analyzer's numbers."""
