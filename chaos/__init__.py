"""How pinfold is broken on purpose: the explorer, which takes every order of events in small worlds of the real machines.

    check       the command: worlds, verdicts, exit codes          story       a counterexample as a transcript, JSONL, Mermaid
    explorer    breadth first; deadlock; can it come to rest?      mutants     seeded faults that the worlds must find
    world       how a world begins, and what must hold in it       world_file  worlds as data, `specs/worlds/*.toml`
    possible, heard, fields   what can happen next in it           topics      what a world has really gone through
    campaign, campaign_report   the deep run, kept and told
    directory_site, node_site, actor, memory                       the parties of a world: real machines, and a scripted client
    properties  what is checked of a step, and between parties     keys, pool  when two states are the same
    play        a world played by hand, a step a line              coverage    rows, guards, reasons, events gone through
    scenario    a counterexample for `tests/scenarios`             itf         a counterexample in the Informal Trace Format
    record      what clients ask and are told, written down        history     the file; history_check, history_search: can it be?
"""
