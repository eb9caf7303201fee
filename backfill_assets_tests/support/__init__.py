"""What tests share: examples, servers, homes, oracles."""
