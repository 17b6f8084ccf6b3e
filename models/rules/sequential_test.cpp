// SPDX-License-Identifier: Apache-2.0
#include "models/rules/sequential.h"
