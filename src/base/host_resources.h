// SPDX-License-Identifier: MIT
// These functions find what the operating system lets this process use of its machine: cores and memory. The physical
// machine is one limit of several; batch systems and containers set others, and a process that takes more is slowed
// down or killed.
#ifndef EQUI_HOST_RESOURCES_H
#define EQUI_HOST_RESOURCES_H

#include <string>
#include <vector>

namespace equi {

// The cores that this process may run on, a bit for each in the order of the operating system, as many bytes as that
// system gives. Empty where it gives none.
std::vector<unsigned char> affinity_mask();
int count_cores(const std::vector<unsigned char> &mask);

// The functions below read the files of the operating system under `root`: a test gives a folder of its own.

// Cores' worth of computing time that the control groups of this process grant, shared by all processes in them;
// infinity without a limit.
double core_quota(const std::string &root = "");

// Bytes that all processes of this machine, or of this process's control groups, may hold together: the least of both.
double shared_memory_limit(const std::string &root = "");

// Bytes that this process may still take before one of its resource limits (`ulimit -v`, `ulimit -d`) is met; infinity
// without a limit.
double own_memory_left(const std::string &root = "");

// Bytes of the second-level cache of the first core, shared with others or not; 0 where the operating system does not
// tell.
double second_level_cache(const std::string &root = "");

// The number of threads that a value of OMP_NUM_THREADS asks for: its first number, for a list is one per level of
// nesting. 0 for a null pointer and for a text that is not a list of positive numbers, which OpenMP ignores.
int parse_num_threads(const char *text);

// How many threads a process should start, and why.
struct ThreadPlan {
  int number = 1;
  int cores = 0;            // that this process may use, 0: not known
  bool is_asked = false;    // by OMP_NUM_THREADS
  std::string ignored;      // a value of OMP_NUM_THREADS without a meaning
};
// wish: the value of OMP_NUM_THREADS or null. node_cores: that `processes` processes of a node share; own_cores: those
// of this process.
ThreadPlan plan_threads(const char *wish, int node_cores, int own_cores, int processes);

// Counts the processes that use the GPU of this one. in_world: those of this LAMMPS that are known to use it. Processes
// of other partitions cannot be asked, so that the most that can use it are counted: `processes` take the `num_devices`
// that each sees in turn, or each is bound to some.
int processes_on_device(int in_world, int partitions, int processes, int num_devices);

// Tells a user who sees `running` threads why there are more or fewer than asked for, or more than cores. Empty if all
// is as planned.
std::string describe_threads(const ThreadPlan &plan, int running);

}    // namespace equi

#endif
