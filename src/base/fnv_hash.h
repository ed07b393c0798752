// SPDX-License-Identifier: MIT
// The hash FNV-1a in 64 bits. It distinguishes texts and detects damage, but does not protect against forgery.
#ifndef EQUI_FNV_HASH_H
#define EQUI_FNV_HASH_H

#include <cstdint>
#include <cstdio>
#include <string>

namespace equi {

class FnvHash {
 public:
  void add(uint64_t number) { value_ = (value_ ^ number) * 1099511628211u; }
  void add(const std::string &text) {
    for (const char c : text) add(static_cast<unsigned char>(c));
  }
  // The hash as 16 hexadecimal digits.
  std::string hex() const {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value_));
    return digits;
  }

 private:
  uint64_t value_ = 1469598103934665603u;
};

}    // namespace equi

#endif
