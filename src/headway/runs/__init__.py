"""The `worker` process under the name that job scripts use."""
