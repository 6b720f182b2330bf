"""One adapter per backend, behind the contract of base.py."""
