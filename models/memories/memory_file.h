// Includes that the file of a memory needs: Memory (models/memory.h), the parts, the engines and the algebra of gates. The file
// NAME.cpp holds a function `Memory NAME()` in namespace crosstalk::memories; the build finds it, and NAME_test.cpp with its
// oracle beside it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/parts/parts.h"
#include "models/parts/tokens.h"
