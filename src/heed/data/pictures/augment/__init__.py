"""Random changes of training pictures, as functions of whole batches.

Pictures are arrays `(batch, height, width, channels)` from 0 to 255; the strength may differ between pictures.
"""
