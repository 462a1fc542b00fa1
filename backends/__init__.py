"""Where things live: metadata stores and byte tiers.

General layout: `base` has the interfaces: a metadata store (commit with one of three outcomes, load) and a
tier (reserve, write, verify, read, free, all by copy id). Each other module is one implementation, and the
only place that imports its library, so that a missing extra is one sentence. The exceptions of those
libraries end here: they leave as outcomes that the machines in `pinfold.core` have events for.
"""
