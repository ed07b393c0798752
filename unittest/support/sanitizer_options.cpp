// SPDX-License-Identifier: MIT
// Options of sanitizers, and faults that they do not report: part of each test program, so none needs an environment.

// Sizes beyond any memory are refused with an exception, as without sanitizers.
extern "C" const char *__asan_default_options() {
  return "allocator_may_return_null=1:detect_stack_use_after_return=1:strict_string_checks=1";
}

extern "C" const char *__ubsan_default_options() {
  return "print_stacktrace=1";
}

// LLVM's OpenMP library is compiled without the sanitizer. Archer, which it loads automatically, reports what waits for
// what.
extern "C" const char *__tsan_default_options() {
  return "ignore_noninstrumented_modules=1:allocator_may_return_null=1";
}

// LibTorch keeps what it has registered until the process ends.
extern "C" const char *__lsan_default_suppressions() {
  return "leak:libtorch_cpu.so\nleak:libc10.so\n";
}
