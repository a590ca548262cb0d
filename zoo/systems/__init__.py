"""What a config names: backbone, policy and history bound together, or a recorded log."""
