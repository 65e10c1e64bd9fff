# The parts of the compiled core: all inline, all compiled into `mdvpf._core`.
