"""Pictures: decoding, places, sizing and augmentation."""
