"""What people do in a browser, driven in Chromium against Dagster and the desk: `make test-ui`."""
