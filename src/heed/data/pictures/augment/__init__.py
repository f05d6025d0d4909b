"""Random changes of training pictures, as functions of whole batches.

Pictures are arrays `(batch, height, width, channels)` from 0 to 255; each has its own strength.
"""
