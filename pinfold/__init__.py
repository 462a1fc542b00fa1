"""pinfold keeps block groups of an LLM's KV cache: who owns each, where it is, who uses it, how it moves.

General layout: `pinfold.core` is the protocol, three deterministic machines without any I/O;
`pinfold.backends` is where things live (metadata stores, byte tiers); `pinfold.transport` is how machines
talk. What is in this package itself is the public face: the processes, the client library and the command
line. Importing it needs attrs and nothing else.
"""

from .client import Connection as Connection
from .client import connect as connect
from .client_async import AsyncConnection as AsyncConnection
from .client_async import connect_async as connect_async
from .client_loop import CallFailed as CallFailed
from .client_loop import ConnectionEnded as ConnectionEnded

__version__ = "0.1.0.dev0"
