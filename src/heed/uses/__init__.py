"""What is done with a trained model, one file for each task: predict, score, look."""
