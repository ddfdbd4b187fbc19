"""The topics in which an app keeps its own affairs: control, status, manifests and slot orders."""
