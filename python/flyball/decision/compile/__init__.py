"""From a decision as written to the deployment document that servers run, and everything checked on the way."""
