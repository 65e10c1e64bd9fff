"""Next-symbol prediction: `auto` and its peers on the same streams, in one run.

``python -m benchmarks.predict`` prints the tables; `__main__` lists what can be run alone.

sets       the streams, each with a choosing and a reporting split
methods    the predictors that are compared
runs       runs of a method on the streams of a set, kept on disk
report     tables made of kept runs
costs      time and memory
gaps       distance to the automata of PAutomaC
targets    what `auto` is to reach, and whether it does
"""
