"""What several families of backbones use. Imports no family."""
