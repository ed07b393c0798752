// SPDX-License-Identifier: MIT
// Symbols that newer versions of the C library have, for binaries that run with glibc 2.28. They are hidden in the binary.
#include <stddef.h>
#include <sys/stat.h>

// glibc 2.32. Code that reads it then uses atomic operations, which is always right.
char __libc_single_threaded = 0;

// glibc 2.33 has these as functions; before they were these calls.
int __xstat(int version, const char *path, struct stat *result);
int __lxstat(int version, const char *path, struct stat *result);
int __fxstat(int version, int file, struct stat *result);
int __fxstatat(int version, int folder, const char *path, struct stat *result, int flags);

#define STAT_VERSION 1
int stat(const char *path, struct stat *result) {
  return __xstat(STAT_VERSION, path, result);
}
int lstat(const char *path, struct stat *result) {
  return __lxstat(STAT_VERSION, path, result);
}
int fstat(int file, struct stat *result) {
  return __fxstat(STAT_VERSION, file, result);
}
int fstatat(int folder, const char *path, struct stat *result, int flags) {
  return __fxstatat(STAT_VERSION, folder, path, result, flags);
}
