"""How machines talk: the envelope, its encoding, and the wires that carry it.

General layout: `base` has the interface of a wire, its limits and errors; `envelope` is what travels, and its type tag
selects the decoder; `codec` turns it into bytes and back, and refuses bad bytes with a typed error; `inproc` is a
deterministic wire with seeded loss, duplication, reordering and delay; `zmq` is the real one. Behind it: `sockets` has
ZeroMQ itself, `links` the states of a connection, `queues` the bounded tables, `polled` the owner thread and its doors
for others, `landing` the way of received frames into memory that is already there. Each heavy library is imported in one
module.
"""
