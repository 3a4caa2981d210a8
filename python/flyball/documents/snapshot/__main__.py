"""`python -m flyball.documents.snapshot > docs/reference/snapshot-v5.schema.json` writes the schema anew."""

import sys

from flyball.documents.snapshot.schema import schema_text

sys.stdout.write(schema_text())
