"""What tasks write to topics: routes, headers, and batches held until the commit."""
