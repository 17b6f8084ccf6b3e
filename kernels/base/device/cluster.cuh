// Clusters: blocks that run at the same time and read each other's shared memory (sm_90 and newer). Code
// compiled for older GPUs gets clusters of one block.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/device/cuda_launch.cuh"

namespace crosstalk::device {

/// Shared memory of block `rank` of the cluster, at the place of `mine`.
template <class T>
CT_DEVICE T* shared_of([[maybe_unused]] int rank, T* mine) {
#if __CUDA_ARCH__ >= 900
  std::uint64_t theirs;
  asm("mapa.u64 %0, %1, %2;" : "=l"(theirs) : "l"(reinterpret_cast<std::uint64_t>(mine)), "r"(rank));
  return reinterpret_cast<T*>(theirs);
#else
  return mine;
#endif
}

/// A barrier over the cluster (of `blocks`), after which all see what was written to shared memory before.
CT_DEVICE void cluster_barrier([[maybe_unused]] int blocks) {
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    return;
  }
#endif
  __syncthreads();
}

/// Keeps a block from leaving, and from writing what others still read of its shared memory: their loads are
/// done before they arrive (release), and it goes on after that (acquire).
CT_DEVICE void cluster_leave([[maybe_unused]] int blocks) {
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  }
#endif
}

/// The sum of `mine`[i] of all blocks of a cluster, in their order; of use to rank 0. All threads must call.
template <class Real>
__device__ Real cluster_sum(Real* mine, int i, int cluster, int rank) {
  cluster_barrier(cluster);
  Real total = 0;
  if (rank == 0) {
    total = mine[i];
    for (int other = 1; other < cluster; ++other) total += *shared_of(other, mine + i);
  }
  cluster_leave(cluster);
  return total;
}

/// Tells whether the code of this kernel that runs on the calling thread's device was compiled for clusters. Asked
/// at every launch, never kept: a process may use GPUs of several kinds.
bool has_clusters(auto kernel) {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.binaryVersion >= 90 &&
         attributes.ptxVersion >= 90;
}

/// The same as launch(), of a grid whose blocks form clusters of `cluster` along x.
template <class... Parameters, class... Args>
void launch_clusters(int cluster, const Exec& exec, const char* op, void (*kernel)(Parameters...), dim3 grid,
                     int threads, std::size_t bytes, const Args&... args) {
  cudaLaunchAttribute attribute{};
  if (cluster > 1) attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  launch_with(attribute, exec, op, kernel, grid, threads, bytes, args...);
}

}  // namespace crosstalk::device
