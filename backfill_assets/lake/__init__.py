"""Lake: snapshots, staging and the swap of Delta tables. No other room writes Delta."""
