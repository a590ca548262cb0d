"""What training optimises: the contract, and the objectives that serve several families."""
