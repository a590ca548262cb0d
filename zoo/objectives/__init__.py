"""What training optimises: batches from stretches of talks, losses from a forward pass."""
