"""The protocol, and nothing else.

General layout: the vocabulary comes first. `ids` has identities and the small closed sets of words;
`commands`, `requests`, `orders`, `reports` and `answers` are what travels; `events` lists all that a
machine can be told, and `effects` all that it can ask for. `errors` names every refusal. The records are in
`state`, and the legal moves of a group are one `table` of data. Each machine, `directory`, `node` and
`client`, has one door, `step(event, now) -> Ready`, and is deterministic: time, ids and randomness come in
as arguments, and nothing here opens a file, a socket or a thread. `driver` runs a `Ready`, in order, over
ports that are handed in; `invariants` says what is true after every step. Imports: a few modules of the
standard library, attrs, and this package, which the tests enforce.
"""
