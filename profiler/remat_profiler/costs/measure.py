class Measured:
    pass
