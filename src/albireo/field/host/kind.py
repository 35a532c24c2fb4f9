"""Declaration of the kind `host`."""

from typing import Final

from albireo.codec.topology.adapter_kind import AdapterKind

KIND: Final = AdapterKind(create="albireo.field.host.adapter:create", needs_url=False, needs_items=False)
