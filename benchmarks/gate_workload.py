"""Workload of the gate: four filters on the opening of a book, each in one call of the core."""

from __future__ import annotations

import sys

import mdvpf

TEXT = (
    "alice was beginning to get very tired of sitting by her sister on the bank and of having "
    "nothing to do once or twice she had peeped into the book her sister was reading but it had "
    "no pictures or conversations in it and what is the use of a book thought alice without "
    "pictures or conversations so she was considering in her own mind as well as she could for "
    "the hot day made her feel very sleepy and stupid whether the pleasure of making a daisy chain"
)
SYMBOLS = ["abcdefghijklmnopqrstuvwxyz ".index(character) for character in TEXT]

ALGORITHMS = {
    "VPA": mdvpf.VPA(),
    "MD-VPA": mdvpf.MDVPA(),
    "SMC": mdvpf.SMC(),
    "OptimalResampling": mdvpf.OptimalResampling(),
}


def main(names: list[str]) -> None:
    model = mdvpf.InfiniteHMM(27, beta=0.01)
    for name in names:
        mdvpf.ParticleFilter(model, ALGORITHMS[name], n_particles=200, rng=0).run(SYMBOLS)


if __name__ == "__main__":
    main(sys.argv[1:])
