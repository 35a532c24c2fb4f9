"""The PLCs of the tunnel: real Modbus TCP servers over the physics."""
