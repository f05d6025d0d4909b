"""What is compared with a model's states: labels, numbers, tags. One file for each: module, truths, loss, answers."""
