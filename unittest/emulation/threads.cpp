// SPDX-License-Identifier: MIT
// Threads of a kernel as fibers, and faults of a kernel. x86-64 with Linux.
//
// A fiber runs until it waits for others, at an exchange between lanes or at a barrier, or until it ends. Then the next
// fiber of its warp that can run continues, or else the scheduler, which resumes those whose wait is over.
#include "unittest/emulation/engine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

// Saves the registers that a function must keep and its stack pointer to *from, and continues where another fiber did
// so.
extern "C" void emulation_switch(void **from, void *to);
asm(R"(
.text
.type emulation_switch, @function
emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulation_switch, .-emulation_switch
)");

namespace emulation {

namespace {

constexpr std::size_t PAGE = 4096, STACK = std::size_t(256) << 10;
constexpr std::size_t SHARED_ROOM = std::size_t(256) << 10;    // more than a block can ask for
constexpr int POISON = 0xff;

enum class State { ready, at_exchange, at_barrier, ended };

struct Fiber {
  void *stack_pointer;
  State state;
  std::uint64_t bits, slot;
  unsigned lanes;
  int lane_mask, width;
  const std::type_info *type;
};

// State of the running kernel; there is one at a time.
struct Kernel {
  const Node *node = nullptr;
  const std::function<void(std::int64_t, int)> *body = nullptr;
  std::int64_t block = 0, num_blocks = 0;
  int first = 0, end = 0;        // of the running warp
  int count = 0, current = 0;    // threads of the block, and the running one
  bool is_forward = true;        // order of the lanes of a warp
  std::size_t shared_bytes = 0;
  std::string fault;            // ends the kernel
  void *scheduler = nullptr;    // stack pointers of those that wait for the fibers
  void *caller = nullptr;
  Fiber fibers[MAX_THREADS];
  Fiber main;    // runs the node's work
};
Kernel kernel;
thread_local bool in_kernel = false;

// Information of a signal, until the fiber is at a place where it can report it.
struct Signal {
  int number = 0, code = 0;
  void *address = nullptr;
} caught;

char *map_memory(std::size_t bytes, int protection) {
  void *const p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    std::perror("emulated device: no memory for threads");
    std::abort();
  }
  return static_cast<char *>(p);
}

// Stacks with an inaccessible page below. The last one is that of the node's work.
char *stack(int k) {
  static char *const stacks = [] {
    char *all = map_memory(STACK * (MAX_THREADS + 1), PROT_READ | PROT_WRITE);
    for (int n = 0; n <= MAX_THREADS; n++) mprotect(all + STACK * n, PAGE, PROT_NONE);
    return all;
  }();
  return stacks + STACK * k;
}
// Stacks begin at different places: those of a warp would otherwise share a few lines of the caches.
char *end_of_stack(int k) {
  constexpr int STEP = 5 * 64;
  return stack(k) + STACK - k % 64 * STEP;
}

// Shared memory ends at an inaccessible page.
char *end_of_shared_memory() {
  static char *const memory = [] {
    char *all = map_memory(SHARED_ROOM + PAGE, PROT_READ | PROT_WRITE);
    mprotect(all + SHARED_ROOM, PAGE, PROT_NONE);
    return all;
  }();
  return memory + SHARED_ROOM;
}

void begin_fiber(Fiber &fiber, char *end_of_stack, void (*function)()) {
  auto **top = reinterpret_cast<void **>(end_of_stack) - 2;
  *top = reinterpret_cast<void *>(function);
  fiber.stack_pointer = top - 6;    // the registers that emulation_switch loads from there
  fiber.state = State::ready;
}

// Lets the next thread of the warp that can run continue, or the scheduler, until this one can go on.
void wait(State state) {
  Fiber &mine = kernel.fibers[kernel.current];
  mine.state = state;
  const int step = kernel.is_forward ? 1 : -1;
  for (int k = kernel.current + step; k >= kernel.first && k < kernel.end; k += step)
    if (kernel.fibers[k].state == State::ready) {
      kernel.current = k;
      return emulation_switch(&mine.stack_pointer, kernel.fibers[k].stack_pointer);
    }
  emulation_switch(&mine.stack_pointer, kernel.scheduler);
}

void run_thread() {
  (*kernel.body)(kernel.block, kernel.current);
  wait(State::ended);
}

const char *words_for(State state) {
  switch (state) {
    case State::ready:
      return "go on";
    case State::at_exchange:
      return "are at an exchange";
    case State::at_barrier:
      return "are at a barrier";
    case State::ended:
      return "have ended";
  }
  return "";
}

// Ends the exchange of the lanes that thread `of` of the warp [first, end) names.
void end_exchange(int first, int end, int fiber) {
  Fiber *const warp = kernel.fibers + first;
  const unsigned lanes = kernel.fibers[fiber].lanes;
  const int lane_mask = kernel.fibers[fiber].lane_mask;
  char text[300];
  std::uint64_t bits[WARP];
  for (int lane = 0; lane < WARP; lane++) {
    if (!(lanes >> lane & 1)) continue;
    const State state = first + lane < end ? warp[lane].state : State::ended;
    if (state != State::at_exchange) {
      const auto waiting =
          std::count_if(warp, kernel.fibers + end, [](const Fiber &f) { return f.state == State::at_exchange; });
      std::snprintf(text, sizeof text,
                    "%td lanes of a warp are at an exchange of the lanes 0x%08x, of which others %s, lane %d first",
                    waiting, lanes, words_for(state), lane);
      abandon_launch(text);
    }
    const Fiber &one = kernel.fibers[fiber], &other = warp[lane];
    if (other.lanes != lanes || other.lane_mask != lane_mask || other.width != one.width || *other.type != *one.type) {
      std::snprintf(text, sizeof text,
                    "the lanes of a warp are at different exchanges: 0x%08x, xor %d and 0x%08x, xor %d", lanes,
                    lane_mask, other.lanes, other.lane_mask);
      abandon_launch(text);
    }
    bits[lane] = other.bits;
  }
  for (int lane = 0; lane < WARP; lane++) {
    if (!(lanes >> lane & 1)) continue;
    const int from = lane ^ lane_mask;
    if (!(lanes >> from & 1)) {
      std::snprintf(text, sizeof text, "lane %d reads lane %d, which takes no part in the exchange of 0x%08x", lane,
                    from, lanes);
      abandon_launch(text);
    }
    warp[lane].bits = bits[from];
    warp[lane].state = State::ready;
  }
}

// Runs the threads [first, end) of a warp until each is at a barrier or has ended.
void run_warp(int first, int end) {
  kernel.first = first;
  kernel.end = end;
  for (;;) {
    kernel.is_forward = random_bit();
    for (int n = first; n < end; n++) {
      const int k = kernel.is_forward ? n : end - 1 - (n - first);
      if (kernel.fibers[k].state != State::ready) continue;
      kernel.current = k;
      emulation_switch(&kernel.scheduler, kernel.fibers[k].stack_pointer);
    }
    bool is_going_on = false;
    for (int k = first; k < end; k++) {
      if (kernel.fibers[k].state == State::at_exchange) end_exchange(first, end, k);
      is_going_on = is_going_on || kernel.fibers[k].state == State::ready;
    }
    if (!is_going_on) return;
  }
}

// On the stack of the node's work.
void run_block() {
  const int count = kernel.count;
  const RandomOrder warps((count + WARP - 1) / WARP);
  for (;;) {
    for (int w = 0; w * WARP < count; w++) {
      const int first = static_cast<int>(warps[w]) * WARP;
      run_warp(first, std::min(count, first + WARP));
    }
    const auto num_ended =
        std::count_if(kernel.fibers, kernel.fibers + count, [](const Fiber &f) { return f.state == State::ended; });
    if (num_ended == count) return;
    if (num_ended > 0)
      abandon_launch(std::to_string(count - num_ended) + " threads are at a barrier, " + std::to_string(num_ended) +
                     " have ended");
    for (int k = 0; k < count; k++) kernel.fibers[k].state = State::ready;
  }
}

void run_work() {
  try {
    kernel.node->work();
  } catch (const std::exception &e) {
    abandon_launch(std::string("the exception '") + e.what() + "'");
  }
  kernel.main.state = State::ended;
  emulation_switch(&kernel.main.stack_pointer, kernel.caller);
}

std::string describe_signal() {
  const auto address = reinterpret_cast<std::uintptr_t>(caught.address);
  const char *end = end_of_shared_memory();
  char text[200];
  if (caught.number == SIGILL) return "an address that is not aligned, or an index outside of an array";
  if (caught.number == SIGFPE) return "a division of integers by zero";
  if (caught.number == SIGSEGV && caught.code == SI_KERNEL) return "a vector load from an address that is not aligned";
  const std::string memory = describe_memory(caught.address);
  if (!memory.empty()) return "it touches " + memory;
  if (caught.address >= end && caught.address < end + PAGE) {
    std::snprintf(text, sizeof text, "it touches shared memory %zu bytes behind the %zu that it asked for",
                  static_cast<std::size_t>(static_cast<char *>(caught.address) - end), kernel.shared_bytes);
    return text;
  }
  for (int k = 0; k <= MAX_THREADS; k++) {
    if (caught.address >= stack(k) && caught.address < stack(k) + PAGE) return "the stack of a thread is full";
  }
  std::snprintf(text, sizeof text, "it touches address 0x%zx", address);
  return text;
}

void abandon_after_signal() {
  abandon_launch(describe_signal());
}

void handle_signal(int number, siginfo_t *information, void *context) {
  if (!in_kernel) {
    const std::string memory = describe_memory(information->si_addr);
    if (!memory.empty()) std::fprintf(stderr, "emulated device: the host touches device memory: %s\n", memory.c_str());
    signal(number, SIG_DFL);    // returns at once
    return;
  }
  if (number == SIGSEGV && information->si_code != SI_KERNEL && open_memory_at(information->si_addr)) return;
  caught = {number, information->si_code, information->si_addr};
  // The fiber continues in abandon_after_signal(), on another stack: its own may be full.
  auto &registers = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
  static char *const end = map_memory(STACK, PROT_READ | PROT_WRITE) + STACK;
  registers[REG_RSP] = reinterpret_cast<greg_t>(end - 8);
  registers[REG_RIP] = reinterpret_cast<greg_t>(&abandon_after_signal);
}

}    // namespace

bool is_in_kernel() {
  return in_kernel;
}

int thread_rank() {
  return kernel.current;
}

char *shared_memory() {
  return end_of_shared_memory() - kernel.shared_bytes;
}

std::uint64_t &slot(int thread) {
  return kernel.fibers[thread].slot;
}

void barrier() {
  counts().barriers++;
  wait(State::at_barrier);
}

std::uint64_t exchange_xor(unsigned lanes, std::uint64_t bits, int lane_mask, int width, const std::type_info &type) {
  counts().shuffles++;
  if (!in_kernel || !kernel.body) report("an exchange between lanes outside of a team");
  if (!(lanes >> (kernel.current % WARP) & 1))
    report("lane %d is at an exchange of the lanes 0x%08x", kernel.current % WARP, lanes);
  if (lane_mask < 0 || lane_mask >= width || width > WARP)
    report("an exchange with xor %d in groups of %d lanes", lane_mask, width);
  Fiber &mine = kernel.fibers[kernel.current];
  mine.bits = bits;
  mine.lanes = lanes;
  mine.lane_mask = lane_mask;
  mine.width = width;
  mine.type = &type;
  wait(State::at_exchange);
  return mine.bits;
}

void run_blocks(std::int64_t num_blocks, int num_threads, std::size_t shared_bytes,
                const std::function<void(std::int64_t, int)> &body) {
  kernel.body = &body;
  kernel.num_blocks = num_blocks;
  kernel.count = num_threads;
  kernel.shared_bytes = (shared_bytes + 7) / 8 * 8;
  const RandomOrder blocks(num_blocks);
  for (std::int64_t n = 0; n < num_blocks; n++) {
    counts().blocks++;
    kernel.block = blocks[n];
    std::memset(shared_memory(), POISON, kernel.shared_bytes);
    for (int k = 0; k < num_threads; k++) begin_fiber(kernel.fibers[k], end_of_stack(k), run_thread);
    run_block();
  }
  kernel.body = nullptr;
}

void catch_signals() {
  static const bool is_installed = [] {
    struct sigaction action {};
    action.sa_sigaction = handle_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigaction(number, &action, nullptr);
    return true;
  }();
  (void)is_installed;
  thread_local bool has_stack = false;
  if (has_stack) return;
  constexpr std::size_t SIZE = 64 << 10;
  stack_t of_signals{};
  of_signals.ss_sp = map_memory(SIZE, PROT_READ | PROT_WRITE);
  of_signals.ss_size = SIZE;
  sigaltstack(&of_signals, nullptr);
  has_stack = true;
}

void run_kernel(const Node &node) {
  catch_signals();
  kernel.node = &node;
  kernel.body = nullptr;
  kernel.fault.clear();
  begin_fiber(kernel.main, end_of_stack(MAX_THREADS), run_work);
  in_kernel = true;
  emulation_switch(&kernel.caller, kernel.main.stack_pointer);
  in_kernel = false;
  if (kernel.fault.empty()) return;
  std::string where;
  if (kernel.body)
    where = ", block " + std::to_string(kernel.block) + " of " + std::to_string(kernel.num_blocks) + ", thread " +
            std::to_string(kernel.current) + " of " + std::to_string(kernel.count);
  note_report("kernel '" + node.label + "'" + where + ": " + kernel.fault);
}

// Fibers are abandoned: what they hold is not freed.
void abandon_launch(const std::string &text) {
  kernel.fault = text;
  void *unused;
  emulation_switch(&unused, kernel.caller);
  std::abort();
}

}    // namespace emulation
