"""What others test with: the conformance kits, the known-bad backends that show what the kits see, and the fakes.

A backend of your own passes the kit of its kind when a subclass of it, with the hooks given, is green under pytest.
"""

from __future__ import annotations

from .backends.memory import Fault as Fault
from .backends.memory import MemoryStore as MemoryStore
from .backends.memory_tier import MemoryTier as MemoryTier
from .backends.memory_tier import PhantomTier as PhantomTier
from .testing_bad_file_tiers import SsdTierKit as SsdTierKit
from .testing_bad_stores import BadStore as BadStore
from .testing_bad_stores import MemoryStoreKit as MemoryStoreKit
from .testing_bad_tiers import BAD_TIERS as BAD_TIERS
from .testing_bad_tiers import BadTier as BadTier
from .testing_bad_tiers import MemoryTierKit as MemoryTierKit
from .testing_disk import CrashImage as CrashImage
from .testing_disk import RecordingFiles as RecordingFiles
from .testing_disk import crash_images as crash_images
from .testing_file_tiers import FileTierConformance as FileTierConformance
from .testing_records import KIT_SCHEMA as KIT_SCHEMA
from .testing_samples import Sample as Sample
from .testing_samples import make_sample as make_sample
from .testing_stores import StoreConformance as StoreConformance
from .testing_stores import run_store_kit as run_store_kit
from .testing_tiers import TierConformance as TierConformance
from .testing_tiers import run_kit as run_kit
from .testing_worse_stores import BAD_STORES as BAD_STORES
