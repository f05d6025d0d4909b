"""heed"""
