# Stamps commit, compiler and flags into version.cpp (written at every build, only if changed).
