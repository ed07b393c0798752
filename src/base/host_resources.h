// SPDX-License-Identifier: MIT
// These functions return the cores and the memory that the operating system lets this process use. The physical machine
// is only one limit: batch systems and containers set others. A process that uses more is slowed down or killed.
#ifndef EQUI_HOST_RESOURCES_H
#define EQUI_HOST_RESOURCES_H

#include <functional>
#include <string>
#include <vector>

namespace equi {

// The cores that this process may run on: one bit per core in the order of the operating system, with as many bytes as
// that system returns. Empty if it returns none.
std::vector<unsigned char> affinity_mask();
int count_cores(const std::vector<unsigned char> &mask);

// The functions below read the files of the operating system under `root`. Tests pass their own folder.

// Computing time, in cores, that the control groups of this process grant; all processes in them share it. Infinity
// without a limit.
double core_quota(const std::string &root = "");

// Bytes that all processes of this machine, or of this process's control groups, may use together: the smaller of both.
double shared_memory_limit(const std::string &root = "");

// Bytes that this process may still allocate before it reaches one of its resource limits (`ulimit -v`, `ulimit -d`).
// Infinity without a limit.
double own_memory_left(const std::string &root = "");

// Bytes of the second-level cache of the first core, shared or not. 0 if the operating system does not report it.
double second_level_cache(const std::string &root = "");

// The number of threads that a value of OMP_NUM_THREADS requests. A list has one number per level of nesting, and the
// first one counts. 0 for a null pointer and for a text that is not a list of positive numbers, which OpenMP ignores.
int parse_num_threads(const char *text);

// How many threads a process should start, and why.
struct ThreadPlan {
  int number = 1;
  int cores = 0;            // available to this process, 0: unknown
  bool is_asked = false;    // OMP_NUM_THREADS requests this number
  std::string ignored;      // a value of OMP_NUM_THREADS that has no meaning
};
// wish: the value of OMP_NUM_THREADS or null. node_cores: cores that the `processes` processes of a node share.
// own_cores: cores of this process.
ThreadPlan plan_threads(const char *wish, int node_cores, int own_cores, int processes);

// Counts the processes that use the GPU of this one. in_world: processes of this LAMMPS that are known to use it.
// Processes of other partitions cannot be asked, so the result is the largest possible number. Either the `processes`
// processes use the `num_devices` devices that each sees in turn, or each is bound to some of them.
int processes_on_device(int in_world, int partitions, int processes, int num_devices);

// The environment of a process: the value of a variable, or null.
using Environment = std::function<const char *(const char *)>;
// Processes that the launcher of MPICH, Open MPI or MVAPICH started on this node; 0 if no variable says it. Slurm's
// variables are not read: below `salloc` they describe the shell and not what another launcher started.
int launched_on_node(const Environment &variable);
// Processes of all partitions on this node, of which `in_world` belong to this one. Those of other partitions cannot be
// asked: without a launcher's number they are taken to be as many in each.
int processes_on_node(int in_world, int partitions, int launched);

// Explains to the user why `running` threads are more or fewer than requested, or more than the cores. Empty if their
// number is as planned.
std::string describe_threads(const ThreadPlan &plan, int running);

}    // namespace equi

#endif
