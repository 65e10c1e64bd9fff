# cython: language_level=3
"""Verification of keys and their positions, for tests: see `verify.pxd`."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from mdvpf._kernel.constants cimport BLOCK_CURRENT, NODE_UNITS, STRETCH, STRETCH_BITS
from mdvpf._kernel.labels cimport n_labels_of
from mdvpf._kernel.particles cimport block_of, group_at
from mdvpf._kernel.pool cimport class_at, class_of
from mdvpf._kernel.positions cimport address_of, position_at, state_of_key, stretches_of
from mdvpf._kernel.stretches cimport levels_for
from mdvpf._kernel.types cimport Positions, System
from mdvpf._kernel.verify cimport check, collect_tree


cdef inline void verify_keys(System* system) except *:
    """Check the addresses of keys, which are the same for all particles."""
    cdef const Positions* positions = &system.positions
    cdef uint32_t i
    if not positions.enabled:
        check(positions.n_numbers == 0 and positions.active == 0, "there are keys but no positions")
        return
    addresses = [address_of(system, i) - 1 for i in range(positions.n_numbers)
                 if address_of(system, i)]
    check(positions.active < positions.n_numbers, "the active key does not exist")
    check(len(addresses) == len(set(addresses)), "two keys have the same address")
    live = [0] * positions.n_stretches
    for address in addresses:
        check(address >> STRETCH_BITS < len(live), "an address is out of range")
        live[address >> STRETCH_BITS] += 1
    check(live == [(<uint8_t*>system.stored.stretch_live.data)[i] for i in range(len(live))],
          "the numbers of addresses in stretches are wrong")
    check(positions.open_live == sum([
        1 << (address & (STRETCH - 1)) for address in addresses
        if address >> STRETCH_BITS == positions.open
    ]), "the addresses of the open stretch are wrong")
    check(positions.open < positions.round_end <= len(live), "the open stretch is out of range")
    check(positions.levels == levels_for(positions.n_stretches), "trees have the wrong depth")


cdef inline void verify_positions(System* system, int64_t k, dict references) except *:
    """Check the tree of stretches of a particle, and the labels at the addresses of keys."""
    cdef uint32_t* block = block_of(system, k)
    cdef uint32_t number, address
    if not system.positions.enabled:
        return
    stretches = {}
    collect_tree(system, stretches_of(system, block)[0], system.positions.levels, 0, references,
                 stretches)
    for stretch, handle in stretches.items():
        check(stretch < system.positions.n_stretches, "a stretch is out of range")
        check(group_at(system, handle).shape == 0, "a stretch is not in a record of its shape")
        check(class_at(&system.pool, handle) == class_of(&system.pool, NODE_UNITS),
              "a stretch is in a record of the wrong size")
    for number in range(system.positions.n_numbers):
        address = address_of(system, number)
        if address:
            check((address - 1) >> STRETCH_BITS in (system.positions.open, *stretches),
                  "a particle has no position of a key")
            check(position_at(system, block, address - 1) <= n_labels_of(system, block),
                  "a position is a label that the particle does not have")
    check(block[BLOCK_CURRENT] == state_of_key(system, block, system.positions.active),
          "a particle is not in the state of the active key")
