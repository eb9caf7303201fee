"""What happens when a process dies, is paused, or meets another one at the worst moment? See `make test-faults`."""
