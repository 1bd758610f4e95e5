//! Finds busy-wait loops in machine code, and room beside them for a jump.
