"""What trainings and evaluations share of Lightning: the Trainer and the DataModule."""
