"""Lines of keys in TOML texts."""

from albireo.codec.topology.toml_lines import key_lines


def test_keys_tables_and_arrays_of_tables_are_found() -> None:
    text = """a = 1 # ] [
"b c" = '''
x = 2
'''
[log]
d.e = "x"
f = [
  "]", # [
  { g = 1 },
]
h = 1
[[node]]
  [[node.adapter]]
  i = 1
  [[node.adapter]]
  j = \"\"\"
\\\"\"\" k = 1
\"\"\"
  [node.log]
  l = 1
[[node]]
m = 1
  [[node.adapter]]
"""
    lines = key_lines(text)
    assert lines == {
        ("a",): 1,
        ("b c",): 2,
        ("log",): 5,
        ("log", "d"): 6,
        ("log", "d", "e"): 6,
        ("log", "f"): 7,
        ("log", "h"): 11,
        ("node",): 12,
        ("node", 0): 12,
        ("node", 0, "adapter"): 13,
        ("node", 0, "adapter", 0): 13,
        ("node", 0, "adapter", 0, "i"): 14,
        ("node", 0, "adapter", 1): 15,
        ("node", 0, "adapter", 1, "j"): 16,
        ("node", 0, "log"): 19,
        ("node", 0, "log", "l"): 20,
        ("node", 1): 21,
        ("node", 1, "m"): 22,
        ("node", 1, "adapter"): 23,
        ("node", 1, "adapter", 0): 23,
    }
