//! libmanx_preload.so: adaptive waiting for programs that cannot be changed.
