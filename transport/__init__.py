"""How machines talk: the envelope, its encoding, and the wires that carry it.

General layout: `base` has the interface of a wire; `envelope` is what travels, and its type tag selects the
decoder; `codec` turns it into bytes and back, and refuses bad bytes with a typed error; `inproc` is a
deterministic wire with seeded loss, duplication, reordering and delay; `zmq` is the real one. Each heavy
library is imported in one module.
"""
