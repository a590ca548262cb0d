"""From a configuration to a trained, exported model, exact to resume."""
