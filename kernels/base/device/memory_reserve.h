// Memory to free when there is none: handlers of std::bad_alloc have destructors and messages that allocate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace crosstalk {

/// Lets the first allocation that fails from now on free the reserve before it throws std::bad_alloc. Call it
/// again, from any thread, to put a reserve back that was let go; costs nothing otherwise.
void keep_memory_reserve();

/// From now on std::bad_alloc that nothing can catch (in a destructor: that of a JSON object allocates) says
/// `message` on stderr and ends the process with `code`, as one that is caught does, in place of SIGABRT.
/// `message` must live on.
void end_where_memory_is_lost(const char* message, int code);

}  // namespace crosstalk
