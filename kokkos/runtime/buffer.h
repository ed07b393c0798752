// SPDX-License-Identifier: MIT
// Aligned memory, and the buffers of an evaluation. Buffers grow and never shrink, so a warm evaluation allocates
// nothing.
#ifndef EQUI_BUFFER_H
#define EQUI_BUFFER_H

#include "kokkos/runtime/unwritten_memory.h"

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace equi {

constexpr std::size_t ALIGNMENT = 64;    // a cache line: registers that straddle two load at half the speed

template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U> &) {}
  T *allocate(std::size_t n) { return static_cast<T *>(::operator new(n * sizeof(T), std::align_val_t(ALIGNMENT))); }
  void deallocate(T *p, std::size_t) { ::operator delete(p, std::align_val_t(ALIGNMENT)); }
  template <class U>
  bool operator==(const AlignedAllocator<U> &) const {
    return true;
  }
  template <class U>
  bool operator!=(const AlignedAllocator<U> &) const {
    return false;
  }
};

template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

// Numbers in host memory, aligned. It is not a Kokkos View: threads grow their own buffers within parallel regions,
// where a View's allocation would wait for a fence.
template <class T>
class Buffer {
 public:
  // Returns memory for n numbers. Whether it grows or not, the content is lost: debug builds overwrite it.
  T *reserve(std::size_t n) {
    if (n > size_) {
      data_.reset();    // frees the old memory first
      size_ = 0;        // the size if the allocation fails
      data_.reset(static_cast<T *>(::operator new(capacity(n) * sizeof(T), std::align_val_t(ALIGNMENT))));
      size_ = capacity(n);
    }
    mark_unwritten(data_.get(), n * sizeof(T), bytes());
    return data_.get();
  }
  T *data() const { return data_.get(); }
  std::size_t bytes() const { return size_ * sizeof(T); }
  // Bytes that reserve(n) would add.
  std::size_t additional_bytes(std::size_t n) const { return n > size_ ? (capacity(n) - size_) * sizeof(T) : 0; }

 private:
  // Capacity with a reserve, so that fluctuating counts do not reallocate at every maximum. The reserve is an
  // eighth; for large sizes, which fluctuate less, it is a sixty-fourth.
  static std::size_t capacity(std::size_t n) {
    constexpr std::size_t LARGE = std::size_t(1) << 20;
    return n + (n < LARGE ? n / 8 : LARGE / 8 + (n - LARGE) / 64) + 16;
  }
  struct Delete {
    void operator()(T *p) const { ::operator delete(p, std::align_val_t(ALIGNMENT)); }
  };
  std::unique_ptr<T[], Delete> data_;
  std::size_t size_ = 0;
};

}    // namespace equi

#endif
