// What NAME_test.cpp of a memory takes: sequences, reads, and how gates start.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/testing/gate_laws.h"
#include "models/testing/gate_starts.h"
#include "models/testing/random_sequence.h"
