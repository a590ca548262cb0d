"""What listens to target speech, so that its words can be scored."""
