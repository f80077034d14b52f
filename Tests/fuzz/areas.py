"""Every area of what the program reads, and how often it is mutated."""

from cases import (answers, bombs, composed, compressed_manifest, configuration, index_values, manifest_bytes,
                   manifest_values, own_files, packs, parts, planted, store, trust)
from publisher import publishing

AREAS = [(manifest_values, 30), (manifest_bytes, 14), (compressed_manifest, 2), (parts, 8), (packs, 12), (answers, 5),
         (own_files, 12), (index_values, 6), (planted, 22), (composed, 5), (bombs, 4), (configuration, 10), (store, 14),
         (trust, 20), ("control", 30), (publishing, 45)]
