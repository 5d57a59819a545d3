"""Networks that answer questions about code: features, weights, training, proofs, policies."""
