"""The claim that the tests would notice: twelve faults put into the code on purpose, each of which a test must catch."""
