"""What was agreed and what happened? Manifests, states, hash-chained events, partition versions."""
