"""The state machines that transcripts can play, by name."""

from .test_client_model import ClientModel
from .test_node_model import NodeAgainstDictionary
from .told import Told

MODELS: dict[str, type[Told]] = {each.NAME: each for each in (ClientModel, NodeAgainstDictionary)}
