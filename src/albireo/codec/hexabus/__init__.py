"""HX0D, the wire of Hexabus devices, as its last version has it: no checksum, all numbers big-endian.

Facts: repository `mysmartgrid/hexabus`, branch `development` of 2015. Three earlier wires have the same magic word
and exclude this one; nothing in a datagram tells them apart.
"""
